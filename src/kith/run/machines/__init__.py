"""Several machines with one primary, over data folders of their own.

`machine` (what an API process knows of it) · `standby` (begins, takes over), `following` (a moment behind the primary),
`behind` (how old it is), `primary` (as a standby sees it) · `peers`, `fencing` (there is one primary, and the old one
learns of it).
"""
