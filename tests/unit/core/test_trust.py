"""An https address is checked against the usual certificates, however its scheme is written."""

from __future__ import annotations

import pytest

from kith.core.trust import tls_verify


@pytest.mark.parametrize(("url", "is_checked"), [("https://x", True), ("HTTPS://x", True), ("http://x", False)])
def test_the_usual_certificates_are_trusted_for_https_in_any_case(url: str, is_checked: bool) -> None:
    assert (tls_verify(url) is True) is is_checked
