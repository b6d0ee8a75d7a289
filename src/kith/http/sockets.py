"""Listening sockets for every door of Kith. If one cannot be opened, the error says what to do."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket

from kith.core.errors import Unavailable

BACKLOG = 4096
_FOREIGN_ADDRESS_ERRORS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL})
"""Errors of the system for an address that does not belong to this machine or to any."""
_BROADCAST = ipaddress.ip_address("255.255.255.255")


def listen_on(host: str, port: int, *, name_host: str = "set `host` to", port_option: str = "--port") -> socket.socket:
    """A socket that listens at this address. Unavailable if that fails, for example because another program uses it.

    `name_host`, `port_option`: how the error tells the user to choose another address or port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with contextlib.ExitStack() as opened:
            listening = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            _refuse_many_machines(listening.getsockname()[0])
            listening.listen(BACKLOG)
            opened.pop_all()
            return listening
    except (OSError, TypeError, ValueError) as error:  # the last two: not a valid host name
        why = error.strerror if isinstance(error, OSError) else "this is no name of a host"
        raise Unavailable(
            f"cannot listen on {host}:{port} ({why}); {_advice(error, name_host, port_option)}"
        ) from error


def _refuse_many_machines(host: str) -> None:
    """OSError for an address that Linux accepts for listening but nobody can connect to."""
    address = ipaddress.ip_address(host)
    if address.is_multicast or address == _BROADCAST:
        raise OSError(errno.EADDRNOTAVAIL, "it is a multicast or broadcast address")


def _advice(error: Exception, name_host: str, port_option: str) -> str:
    """What the user can do, by the system's error."""
    if not isinstance(error, OSError) or isinstance(error, socket.gaierror) or error.errno in _FOREIGN_ADDRESS_ERRORS:
        return f"{name_host} an address of this machine"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"name a port of 1024 or more with {port_option}"
    return f"stop what listens there, or name another with {port_option}"
