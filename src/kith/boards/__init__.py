"""Boards of pins, and who follows which board: the interest graph (Pinterest's follower model).

Files: `board` (the stored record, and its checks) · `boards` (create, change, move, merge, delete, read) · `visibility`
(who may see which board) · `following` (follow and unfollow boards; checks, lists and counts, read as set programs over
plain edges) · `reconciler` (drops and restores follows after a change, user by user) · `consumer` (the same for whole
boards in the background, and for every event of the log) · `collaborators` (who may pin on boards of others) · `pins`
(posts on boards). docs/decisions/0024-boards.md has the reasons.
"""
