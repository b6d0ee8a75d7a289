"""Old names of what stands in `servers` and `cast`."""

# ruff: noqa: F401
from cast import People
from servers import (
    AGREED,
    API,
    COMMAND,
    FOLLOWS_MAX,
    JWT_SECRET,
    KEY,
    OTHER_KEY,
    Server,
    eventually,
    free_port,
    launch,
    printed_key,
    refused,
    serving,
    sign,
)
