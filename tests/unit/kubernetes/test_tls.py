"""Rules of trust and of client certificates."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from tests.controlplane.credentials import Credentials
from tests.unit.kubernetes.api_double import serve
from tests.unit.kubernetes.clock import Clock
from watchcache_server.kubernetes.requests import get_request
from watchcache_server.kubernetes.tls import TlsMaterial, TlsMaterialError, TlsSource
from watchcache_server.kubernetes.transport import Endpoint, Transport


@pytest.fixture
def client(pki: Credentials) -> tuple[Path, Path]:
    """Give a client certificate with its key, for jane."""
    return pki.client_certificate("jane")


async def shown_to_the_server(pki: Credentials, source: TlsSource) -> str | None:
    """Return the common name of the client certificate that the server sees."""
    async with serve(pki, wants_certificate=True) as api:
        seen: list[str | None] = []

        async def look(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            certificate = request.transport.get_extra_info("peercert")
            subject = dict(pair[0] for pair in certificate["subject"]) if certificate else {}
            seen.append(subject.get("commonName"))
            return web.json_response({})

        api.routes["/ping"] = look
        transport = Transport(Endpoint("dev", api.url), source)
        async with await transport.open(get_request("/ping"), None):
            pass
        await transport.close()
        return seen[0]


@pytest.mark.parametrize("form", ["files", "data"])
async def test_a_client_certificate_is_shown(
    pki: Credentials, client: tuple[Path, Path], form: str
) -> None:
    """As files or as data, the server sees who we are; data never touches a disk of ours."""
    certificate, key = client
    if form == "files":
        material = TlsMaterial(ca_file=pki.ca_file, certificate_file=certificate, key_file=key)
    else:
        material = TlsMaterial(
            ca_data=pki.ca_file.read_bytes(),
            certificate_data=certificate.read_bytes(),
            key_data=key.read_bytes(),
        )
    source = TlsSource(material)
    assert await shown_to_the_server(pki, source) == "jane"


async def test_the_bare_source_shows_no_certificate(
    pki: Credentials, client: tuple[Path, Path]
) -> None:
    """What carries ServiceAccounts' tokens has the same trust and no identity of its own."""
    material = TlsMaterial(ca_file=pki.ca_file, certificate_file=client[0], key_file=client[1])
    source = TlsSource(material.without_certificate())
    assert await shown_to_the_server(pki, source) is None


async def test_a_replaced_certificate_is_shown_on_new_connections(
    pki: Credentials, client: tuple[Path, Path]
) -> None:
    """A plugin may give a certificate at any time."""
    source = TlsSource(TlsMaterial(ca_file=pki.ca_file))
    source.replace_certificate(client[0].read_bytes(), client[1].read_bytes())
    context = source.context()
    assert await shown_to_the_server(pki, source) == "jane"
    source.replace_certificate(client[0].read_bytes(), client[1].read_bytes())
    assert source.context() is context


def test_a_rotated_file_is_taken_up(pki: Credentials, tmp_path: Path) -> None:
    """A new CA counts for new connections, looked for at most every ten seconds."""
    clock = Clock()
    ca = tmp_path / "ca.crt"
    shutil.copy(pki.ca_file, ca)
    source = TlsSource(TlsMaterial(ca_file=ca), clock=clock)
    first = source.context()
    ca.write_bytes(Credentials(tmp_path / "other").ca_file.read_bytes())
    clock.advance(9)
    assert source.context() is first
    clock.advance(1)
    second = source.context()
    assert second is not first
    assert second.get_ca_certs() != first.get_ca_certs()
    clock.advance(10)
    assert source.context() is second


def test_a_half_rotated_pair_keeps_the_last_good_one(
    pki: Credentials, client: tuple[Path, Path], tmp_path: Path
) -> None:
    """Certificate and key are replaced one after the other; between, the old pair serves."""
    clock = Clock()
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    shutil.copy(client[0], certificate)
    shutil.copy(client[1], key)
    source = TlsSource(
        TlsMaterial(ca_file=pki.ca_file, certificate_file=certificate, key_file=key), clock=clock
    )
    first = source.context()
    new_certificate, new_key = pki.client_certificate("john")
    shutil.copy(new_certificate, certificate)
    clock.advance(10)
    assert source.context() is first
    assert str(certificate) in source.problem
    shutil.copy(new_key, key)
    clock.advance(10)
    assert source.context() is not first
    assert source.problem == ""


def test_an_absent_file_later_keeps_the_last_good_one(pki: Credentials, tmp_path: Path) -> None:
    """A volume that is remounted is no loss of trust."""
    clock = Clock()
    ca = tmp_path / "ca.crt"
    shutil.copy(pki.ca_file, ca)
    source = TlsSource(TlsMaterial(ca_file=ca), clock=clock)
    first = source.context()
    ca.unlink()
    clock.advance(10)
    assert source.context() is first
    assert "No such file" in source.problem


def test_a_problem_is_told_once_and_ends_when_the_files_are_as_before(
    pki: Credentials, tmp_path: Path
) -> None:
    """Each change is told; what is put back unchanged is no problem any more."""
    clock, told = Clock(), []
    ca, aside = tmp_path / "ca.crt", tmp_path / "aside.crt"
    shutil.copy(pki.ca_file, ca)
    source = TlsSource(
        TlsMaterial(ca_file=ca), clock=clock, changed=lambda: told.append(source.problem)
    )
    ca.rename(aside)
    for _ in range(3):
        clock.advance(10)
        source.context()
    ca.write_text("nonsense")
    clock.advance(10)
    source.context()
    aside.rename(ca)
    clock.advance(10)
    source.context()
    missing, malformed, mended = told
    assert "No such file" in missing
    assert "cannot be used" in malformed
    assert mended == ""


BAD = {
    "a CA that is not PEM": (TlsMaterial(ca_data=b"nonsense"), "certificate-authority-data"),
    "a CA that is not text": (TlsMaterial(ca_data=b"\xff"), "not PEM"),
    "a CA file that is missing": (TlsMaterial(ca_file=Path("/absent/ca.crt")), "/absent/ca.crt"),
    "a certificate without a key": (TlsMaterial(certificate_data=b"x"), "needs its key"),
    "a certificate that is not PEM": (
        TlsMaterial(certificate_data=b"nonsense", key_data=b"nonsense"),
        "client-certificate-data",
    ),
    "a certificate file that is missing": (
        TlsMaterial(certificate_file=Path("/absent/tls.crt"), key_file=Path("/absent/tls.key")),
        "/absent/tls.crt",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_unusable_material_is_named(case: str) -> None:
    """The error says which part cannot be used."""
    material, text = BAD[case]
    with pytest.raises(TlsMaterialError, match=text):
        TlsSource(material)


def test_verification_is_off_only_when_asked(pki: Credentials) -> None:
    """insecure-skip-tls-verify, and nothing else, turns it off."""
    safe = TlsMaterial(ca_file=pki.ca_file).build()
    assert (safe.verify_mode, safe.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(safe.get_ca_certs()) == 1
    unsafe = TlsMaterial(is_verifying=False).build()
    assert (unsafe.verify_mode, unsafe.check_hostname) == (ssl.CERT_NONE, False)


def test_without_a_ca_the_system_is_trusted() -> None:
    """A public certificate needs no CA in the kubeconfig."""
    assert TlsMaterial().build().verify_mode is ssl.CERT_REQUIRED


def test_keys_are_not_shown() -> None:
    """The repr of the material holds no key."""
    assert "hush" not in repr(TlsMaterial(key_data=b"hush"))


async def test_an_encrypted_key_is_refused_and_asks_nobody(
    pki: Credentials, client: tuple[Path, Path], tmp_path: Path
) -> None:
    """OpenSSL would ask at the terminal of the service."""
    key = serialization.load_pem_private_key(client[1].read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"hush"),
    )
    material = TlsMaterial(certificate_data=client[0].read_bytes(), key_data=locked)
    with pytest.raises(TlsMaterialError):
        await asyncio.wait_for(asyncio.to_thread(TlsSource, material), 10)
