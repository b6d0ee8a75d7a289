"""What only one process may do at a time, among all processes of all machines.

Files: `store` (the port that engines implement) · `holding` (acquire, renew, notice a loss, release) · `numbers` (the
node number of a process, by which its ids differ from all others).
"""
