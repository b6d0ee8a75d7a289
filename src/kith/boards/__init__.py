"""Boards of pins, and who follows which: the interest graph (Pinterest's follower model).

Files: `board` (what is stored, and its checks) · `boards` (make, change, move, merge, delete, read) ·
`visibility` (who sees which) · `following` (follow users, follow and unfollow boards; checks, lists, counts: plain
edges, read as set programs) · `settling` (what a change of one edge means for others, user by user) · `upkeep` (the
same for whole boards in the background, and for every change that the log tells) · `collaborators` (who pins on boards
of others) · `pins` (posts on boards). docs/decisions/0024-boards.md says why.
"""
