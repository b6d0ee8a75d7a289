"""Addresses that may be called: public unicast ones, and those of allowed networks."""

from __future__ import annotations

import pytest

from kith.core.errors import BadRequest
from kith.outbound.addresses import may_call, networks_of


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "2a00:1450:4001::200e"])
def test_public_addresses_may_be_called(address: str) -> None:
    assert may_call(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254",
        "169.254.0.1", "224.0.0.1", "224.0.1.1", "239.1.2.3", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1",
        "192.0.0.192", "192.0.0.9", "168.63.129.16", "100.100.100.200", "192.88.99.1", "203.0.113.9",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1", "fec0::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:1.1.1.1", "64:ff9b::7f00:1", "64:ff9b::101:101", "64:ff9b:1::1",
        "2002:7f00:1::", "2002:c0a8:101::1", "2001:0:7f00:1::1", "2001:db8::1", "3fff::1", "100::1", "4000::1",
    ],
)  # fmt: skip
def test_other_addresses_may_not_be_called(address: str) -> None:
    assert not may_call(address)


def test_addresses_of_an_allowed_network_may_be_called_and_no_others() -> None:
    allowed = networks_of(["10.1.0.0/16", "fd00::/64"])
    assert may_call("10.1.2.3", allowed)
    assert may_call("fd00::5", allowed)
    assert not may_call("10.2.0.1", allowed)
    assert not may_call("::ffff:10.1.2.3", allowed)
    assert not may_call("127.0.0.1", allowed)


@pytest.mark.parametrize("name", ["", "10.0.0.1/8", "intranet", "10.0.0.0/33"])
def test_text_that_is_no_network_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="not a network"):
        networks_of([name])
