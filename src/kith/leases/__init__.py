"""Leases: each lets one process among all machines do work that only one may do at a time.

`store`: the port that engines implement. `holding`: acquires, renews and releases leases, and notices a loss.
`background`: jobs that must survive the process that runs them. `node_numbers`: the node number of a process, which
makes its ids unique.
"""
