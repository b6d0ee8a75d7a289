"""Leases: work that only one process may do at a time, among all processes of all machines.

Files: `store` (the port that engines implement) · `holding` (acquire, renew, notice a loss, release) · `background`
(jobs that a stopped process must not lose) · `numbers` (the node number of a process, by which its ids differ from all
others).
"""
