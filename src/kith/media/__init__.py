"""Pictures and videos: upload, checks, rewriting into safe files, descriptions, deletion.

Files: `library` (upload, describe, delete, sweep) · `media` (the record, and the names of the files; pure) · `images`,
`videos` (check and rewrite a file) · `samples` (where those of an MP4 are; pure) · `trailing_data`
(where an image ends) · `blobs` (the port of file stores).
"""
