"""Fan-out pushes new posts into timelines. It consumes the event log through `log.runner`.

`consumer` maps each event to its effect: a post is pushed, or begun as a delivery; a follow, an unfollow or a bulk load
drops timelines; a reader without a timeline gets one built from the outboxes. One of two pure policies decides which
followers get a post pushed: `plan`, by the author's number of followers, or `rates`, by how often the author posts and
each follower reads. (The command `kith plan`, which sizes a deployment, is unrelated.) `deliveries` are pushes to many
followers, made in chunks with checkpoints. `state` is the port through which fan-out tells home its progress, and which
outboxes home has to read beside a timeline.
"""
