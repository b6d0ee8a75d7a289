"""Sends notices to the devices of users, by Web Push, APNs and FCM.

- `push`: the consumer of the log. Start here
- `due`: which notices ring now, by the rules and the user's preferences
- `pending`: messages that a provider did not take, stored until it does
- `message`: what a notice says on a screen, bounded in bytes (pure)
- `device`: what is stored of a device, and its checks (pure); `devices` registers, finds and removes devices
- `provider`: the port of a push provider, and what its answers mean; `webpush` (with the key of `vapid`), `apns` and
  `fcm` implement it
"""
