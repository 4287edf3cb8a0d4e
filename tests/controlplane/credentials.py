"""Keys, certificates and tokens of one control plane, made afresh for each.

A certificate authority signs the API server's serving certificate and any client certificates
that a test asks for; a key signs ServiceAccount tokens; one static token is the administrator's.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Credentials"]

_VALIDITY = dt.timedelta(days=7)
_CLOCK_SKEW = dt.timedelta(hours=1)


class Credentials:
    """The files that kube-apiserver and its clients are given; all in one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca_key = ec.generate_private_key(ec.SECP256R1())
        self._ca = _authority(self._ca_key)
        self.admin_token = secrets.token_urlsafe(24)
        self.ca_file = folder / "ca.crt"
        self.ca_file.write_bytes(self._ca.public_bytes(serialization.Encoding.PEM))
        self.serving_certificate, self.serving_key = self._issue(
            "server", _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH
        )
        self.service_account_key = folder / "service-accounts.key"
        _write_secret(
            self.service_account_key, rsa.generate_private_key(public_exponent=65537, key_size=2048)
        )
        self.token_file = folder / "tokens.csv"
        self.token_file.write_text(f'{self.admin_token},admin,admin-uid,"system:masters"\n')
        self.token_file.chmod(0o600)

    def client_certificate(self, user: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """Issue a client certificate for `user` in `groups`; return its file and its key's file."""
        return self._issue(
            f"client-{secrets.token_hex(4)}", _name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH
        )

    def write_kubeconfig(self, path: Path, url: str) -> Path:
        """Write the administrator's kubeconfig for the server at `url` to `path`; return `path`."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "control-plane",
                    "cluster": {"server": url, "certificate-authority": str(self.ca_file)},
                }
            ],
            "users": [{"name": "admin", "user": {"token": self.admin_token}}],
            "contexts": [
                {
                    "name": "control-plane",
                    "context": {"cluster": "control-plane", "user": "admin"},
                }
            ],
            "current-context": "control-plane",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=2))
        return path

    def _issue(
        self, stem: str, subject: x509.Name, usage: x509.ObjectIdentifier
    ) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        loopback = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
        certificate = (
            _builder(subject, self._ca.subject)
            .public_key(key.public_key())
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([loopback, x509.DNSName("localhost")]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._ca_key.public_key()),
                critical=False,
            )
            .sign(self._ca_key, hashes.SHA256())
        )
        certificate_file = self._folder / f"{stem}.crt"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file = self._folder / f"{stem}.key"
        _write_secret(key_file, key)
        return certificate_file, key_file


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    subject = _name("control-plane-ca")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(subject, subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _builder(subject: x509.Name, issuer: x509.Name) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
    )


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _write_secret(path: Path, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
