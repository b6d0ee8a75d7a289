"""`kith demo`: a living community on a running server. A client of the API; nothing here is used by the service.

Files: `command` · `runner` (loads, serves, shows, stops) · `people` (chooses the cast around the most followed user) ·
`presence` (which followers count as recently online) · `script` (decides purely what the cast does) · `words` and
`pictures` (texts and images from seeds) · `filler` (plays the script over HTTP) · `questions` (asks the twelve
questions) · `activity` (activity afterwards, until Ctrl-C) · `demo_client` (sends one request).
"""
