"""The files of media in a local folder or in S3: `blob_store` implements the BlobStore. Caveats: README.md."""
