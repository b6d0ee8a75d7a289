"""Notifications: who is told of what others did.

Files: `inbox` (the port that keeps who is told of what).
"""
