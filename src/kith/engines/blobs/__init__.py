"""Files in a local folder or in S3: `blob_store` implements the BlobStore of media, `archives` what backups lie in;
`bucket` opens the latter.

Caveats: README.md.
"""
