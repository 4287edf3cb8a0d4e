"""Where the service listens: only where this machine alone can reach it."""

from __future__ import annotations

import socket
from pathlib import Path

import grpc
import pytest

from watchcache_server.model.errors import SettingsError
from watchcache_server.serving.server import GrpcServer, check_address
from watchcache_server.settings import Settings


class _Service:
    """Serves nothing."""

    def handler(self) -> grpc.GenericRpcHandler:
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler("none", {})
        return handler


def serve(*listen: str) -> GrpcServer:
    """Make a server."""
    return GrpcServer(_Service(), Settings(listen=listen))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "address", ["127.0.0.1:0", "127.9.9.9:7443", "localhost:7443", "[::1]:7443", "unix:/a/b"]
)
def test_what_only_this_machine_reaches_is_taken(address: str) -> None:
    """Loopback addresses and Unix sockets."""
    assert check_address(address) == address


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("0.0.0.0:7443", "other machines"),
        ("10.0.0.1:7443", "other machines"),
        ("[::]:7443", "other machines"),
        ("example.org:7443", "other machines"),
        ("127.0.0.1", "HOST:PORT"),
        ("127.0.0.1:x", "HOST:PORT"),
        ("127.0.0.1:70000", "HOST:PORT"),
        ("::1:7443", "HOST:PORT"),
        ("unix:", "path of the socket is missing"),
    ],
)
def test_anything_else_is_refused(address: str, words: str) -> None:
    """The error names the address, the rule and the mend."""
    with pytest.raises(SettingsError, match=words) as caught:
        check_address(address)
    assert address in str(caught.value)


async def test_it_binds_what_is_free_and_nothing_else(tmp_path: Path) -> None:
    """A port in use, and a socket that somebody listens on, are refused; a stale one is not."""
    first = serve("127.0.0.1:0", f"unix:{tmp_path}/socket")
    await first.start()
    assert first.is_serving
    port, path = first.addresses
    for taken in (port, path):
        second = serve(taken)
        with pytest.raises(SettingsError, match="cannot be bound"):
            await second.start()
        await second.stop(0)
    await first.not_serving()
    assert not first.is_serving
    await first.stop(0)

    stale = tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale))
    third = serve(f"unix:{stale}")
    await third.start()
    await third.stop(0)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        pytest.param("unix:{folder}/none/socket", "No such file.*; make the folder", id="folder"),
        pytest.param("unix:{folder}/file/socket", "Not a directory; choose another", id="file"),
        pytest.param("unix:{folder}/" + "x" * 120, "too long; choose another", id="long"),
        pytest.param("unix:{folder}/file", "in use; stop what uses it", id="no socket"),
    ],
)
async def test_why_an_address_cannot_be_bound_is_told(
    tmp_path: Path, address: str, words: str
) -> None:
    """In the words of the operating system, with the mend."""
    (tmp_path / "file").touch()
    server = serve(address.format(folder=tmp_path))
    with pytest.raises(SettingsError, match=words):
        await server.start()
    await server.stop(0)


class _Stuck:
    """A health service with a watcher that takes nothing."""

    async def set(self, name: str, status: object) -> None:
        raise TimeoutError


async def test_a_stuck_health_watcher_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Start and stop go on without it."""
    made = serve("127.0.0.1:0")
    await made.start()
    monkeypatch.setattr(made, "_health", _Stuck())
    await made.not_serving()
    await made.stop(0)
