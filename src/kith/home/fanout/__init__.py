"""Fan-out writes timelines: new posts in, pushes out. It consumes the event log, which `log.runner` brings to it.

`consumer` says what each event does: a post is pushed, or begun as a delivery; a follow, an unfollow or a bulk load
drops timelines; a reader without one has it built from the outboxes. One of two pure policies says who gets a post
pushed: `plan`, by how many follow the author (the plan of one post; the command `kith plan`, which sizes a deployment,
is another thing), or `rates`, by how often the author posts and each follower reads. `deliveries` are pushes to many
followers, made in chunks with checkpoints. `state` is the port behind what it tells homes: how far it is, and whose
outboxes they have to read beside a timeline.
"""
