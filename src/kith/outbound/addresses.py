"""Which addresses may be called on behalf of users: public ones, and those of networks that a setting allows.

Otherwise a user could name an address that only this machine reaches: its own ports, the intranet, a cloud's metadata
(SSRF). So every address that is not clearly public unicast is refused, and so are IPv6 addresses that embed an IPv4
address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import inet_aton, inet_ntoa
from typing import TypeAlias

from kith.core.errors import BadRequest

IpNetwork: TypeAlias = IPv4Network | IPv6Network
_UNICAST = IPv6Network("2000::/3")
"""All public unicast of IPv6. Outside it: loopback, private, link-local, multicast, IPv4-mapped, NAT64."""
_REFUSED: tuple[IpNetwork, ...] = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments, including a cloud's metadata
    IPv4Network("168.63.129.16/32"),  # a cloud's metadata, at a public address
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv6Network("2001::/32"),  # Teredo: embeds an IPv4 address
    IPv6Network("2002::/16"),  # 6to4: embeds an IPv4 address
    IPv6Network("3fff::/20"),  # documentation
)


def networks_of(names: Iterable[str]) -> tuple[IpNetwork, ...]:
    """Parse networks such as `10.0.0.0/8`; BadRequest for an invalid one."""
    try:
        return tuple(map(ip_network, names))
    except ValueError as error:
        raise BadRequest(f"not a network: {error}; name one such as 10.0.0.0/8") from None


def refuse_private(host: str, allowed: Sequence[IpNetwork] = ()) -> None:
    """Raise BadRequest if a host is an address that may not be called. Names are checked when they are called."""
    address = host
    with contextlib.suppress(OSError):
        address = inet_ntoa(inet_aton(host.rstrip(".")))  # 127.1 and 2130706433 are 127.0.0.1 to a resolver
    with contextlib.suppress(ValueError):
        if not may_call(address, allowed):
            raise BadRequest(f"{host} is no public address; allow its network in the setting `outbound_networks`")


def may_call(address: str, allowed: Sequence[IpNetwork] = ()) -> bool:
    """Whether an address, as a resolver returns it, may be called."""
    ip = ip_address(address)
    if any(ip in network for network in allowed):
        return True
    if ip.is_multicast or not ip.is_global or any(ip in network for network in _REFUSED):
        return False
    return not isinstance(ip, IPv6Address) or ip in _UNICAST
