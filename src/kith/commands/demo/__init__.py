"""`kith demo`: a living community on a running server. A client of the API; nothing here is used by the service.

Files: `command` · `stage` (load, serve, show, stop) · `people` (the cast, around the most followed user) · `presence`
(who was online lately) · `script` (what they do, decided purely) · `words` and `pictures` (what they say and show,
from seeds) · `filling` (the script, over HTTP) · `questions` (asked and answered) · `living` (what goes on while it
serves) · `asking` (one request).
"""
