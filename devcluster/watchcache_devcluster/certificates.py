"""Throwaway certificates: an authority for one cluster, its serving certificate, client ones.

Everything is made in memory when a cluster is made and is worthless once it stops.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "Credential"]

_LIFE = dt.timedelta(days=365)
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its key, both as PEM."""

    certificate_pem: bytes
    key_pem: bytes


class Authority:
    """A certificate authority of its own for each cluster."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name}-ca")])
        builder = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
        self.pem = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def serving(self, host: str) -> Credential:
        """Make the certificate that the server shows."""
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
        addresses = {"127.0.0.1", "::1"}
        try:
            addresses.add(str(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(addresses)]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._leaf(
            subject, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names)
        )

    def client(self, user: str, groups: tuple[str, ...] = ()) -> Credential:
        """Make the certificate of a user, whose groups are its organizations."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._leaf(x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def server_context(self, host: str) -> ssl.SSLContext:
        """Return a context that serves, and asks for client certificates of this authority."""
        credential = self.serving(host)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.pem.decode())
        with tempfile.TemporaryDirectory(prefix="devcluster-") as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_bytes(credential.certificate_pem)
            key.touch(mode=0o600)
            key.write_bytes(credential.key_pem)
            context.load_cert_chain(certificate, key)
        return context

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + _LIFE)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
                critical=False,
            )
        )

    def _leaf(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> Credential:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        ).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Credential(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
