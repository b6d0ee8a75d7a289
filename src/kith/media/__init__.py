"""Pictures and videos: `library` (upload, describe, delete, sweep) · `media` (the record) · `images`, `videos`,
`endings` (checked and rewritten, pure) · `blobs` (the port of their files)."""
