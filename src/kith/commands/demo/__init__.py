"""`kith demo`: a living community on a running server. `stage` runs it; nothing here is used by the service.

Rooms: `stage` (load, serve, show, stop) · `people` (who is near the most followed user) · `script` (what they do,
decided purely) · `words` and `pictures` (what they say and show, from seeds) · `filling` (the script, over HTTP) ·
`questions` (asked and answered) · `living` (what goes on while it serves) · `asking` (one request).
"""

from kith.commands.demo.stage import run

__all__ = ["run"]
