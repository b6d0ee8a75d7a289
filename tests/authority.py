"""A certificate authority for tests."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_USES = [
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
]
_signs = x509.KeyUsage(**{use: use == "key_cert_sign" for use in _USES})
_serves = x509.KeyUsage(**{use: use == "digital_signature" for use in _USES})


class Authority:
    """A root certificate with its key, and TLS contexts for clients and servers that use it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
        self.root = self._signed(self._name, self._key, [], ca=True)

    def _signed(self, name: x509.Name, key: Any, hosts: Sequence[str], *, ca: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        names = [x509.IPAddress(ipaddress.ip_address(h)) if h[0].isdigit() else x509.DNSName(h) for h in hosts]
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_signs if ca else _serves, critical=True)
        )
        if not ca:  # Python 3.13 and browsers require these extensions
            by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(by, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not list(name))
        return builder.sign(self._key, hashes.SHA256())

    def trusted(self) -> ssl.SSLContext:
        """A context for clients that trust this authority only."""
        pem = self.root.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=pem)

    def serving(self, host: str) -> ssl.SSLContext:
        """A context for a server with this host name."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = self._signed(x509.Name([]), key, [host], ca=False)
        file = self._folder / f"{host}.pem"
        plain = serialization.NoEncryption()
        pem = serialization.Encoding.PEM
        file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + signed.public_bytes(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context
