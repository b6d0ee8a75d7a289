"""Sends notices to the devices of users, by Web Push, APNs and FCM.

Files: `device` (what is kept of one, and what may be: pure) · `devices` (registering, finding, ending them) ·
`message` (what a notice says on a screen, bounded: pure) · `provider` (the port of a way to send, and what an answer
means) · `webpush` (with the key of `vapid`), `apns`, `fcm` (one each) · `due` (which messages ring now, by the rules
and the user's choice) · `owed` (what a provider did not take, kept until it does) · `push` (the consumer of the log)
"""
