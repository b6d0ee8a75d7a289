"""Pictures and videos: taken in, checked, made safe to show, described and deleted.

Files: `library` (upload, describe, delete, sweep) · `media` (their record, and the names of their files; pure) ·
`images`, `videos` (check and rewrite a file) · `endings` (where an image ends) · `blobs` (the port for their files).
"""
