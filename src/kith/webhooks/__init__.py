"""Sends changes to URLs of the app: signed, at least once. Each webhook has its own place in the log.

Files: `webhook` (what is kept of one) · `webhooks` (making, finding, ending them; dead letters) · `signature` ·
`next_step` (what follows from the outcome of a try: pure) · `delivering` (one webhook from its place on) ·
`worker` (all of them, one process each)
"""
