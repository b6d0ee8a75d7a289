"""Several machines with one primary, over data folders of their own.

`machine` (the role of this machine, for an API process) · `standby` (starts and promotes a standby), `following`
(replicates from the primary), `standby_lag` (the standby's lag), `primary` (client of the primary's routes) · `peers`
(detects other primaries), `fencing` (notifies a replaced primary).
"""
