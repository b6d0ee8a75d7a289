"""The files of media in a local folder or in S3: `store`. Caveats: README.md."""
