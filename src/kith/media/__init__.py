"""Pictures and videos: upload, checks, rewriting into safe files, descriptions, deletion.

Files: `library` (upload, describe, delete, sweep) · `media` (the record, and the names of the files; pure) · `images`,
`videos` (check and rewrite a file) · `trailing_data` (where an image ends) · `blobs` (the port of file stores).
"""
