"""Sends changes to URLs of the app: signed, at least once. Each webhook has its own checkpoint in the log.

Files: `webhook` (the stored state of a webhook) · `webhooks` (create, list, delete; dead letters) · `signature` ·
`next_step` (what to do after an attempt: pure) · `delivery` (delivers one webhook from its checkpoint on) ·
`worker` (delivers all webhooks, each in one process)
"""
