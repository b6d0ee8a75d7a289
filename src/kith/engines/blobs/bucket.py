"""Opens a bucket of S3, or of a compatible store. Credentials and endpoint come from the usual AWS_* variables."""

from __future__ import annotations

from datetime import timedelta

from obstore.exceptions import BaseError
from obstore.store import S3Store

from kith.core.errors import BadRequest

TIMEOUT = timedelta(seconds=30)
RETRIES = 3


def open_bucket(url: str, name: str) -> S3Store:
    """The bucket at `s3://bucket/prefix`. `name`: what the user calls it, in the text of BadRequest."""
    try:
        return S3Store.from_url(
            url,
            client_options={
                "timeout": TIMEOUT,
                "connect_timeout": TIMEOUT,
                "allow_http": True,  # only where AWS_ENDPOINT_URL says http
            },
            retry_config={"max_retries": RETRIES, "retry_timeout": TIMEOUT},
        )
    except (BaseError, ValueError) as error:
        raise BadRequest(f"{name} cannot be used: {str(error).splitlines()[0]}") from None
