"""Files in a local folder or in S3: `blob_store` implements the BlobStore of media, and `archives` stores backups.

`bucket` opens a bucket of S3 for both. README.md lists the caveats.
"""
