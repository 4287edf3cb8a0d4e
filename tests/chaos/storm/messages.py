"""HTTP/1.1 as far as a gateway in front of an API server needs it: heads, bodies, own answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

__all__ = ["END", "Head", "answer", "chunk", "pieces", "read_head", "status_body"]

#: The end of a chunked body.
END = b"0\r\n\r\n"

_PIECE_BYTES = 16 * 1024
_PHRASES = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 410: "Gone"}


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the headers of a message, names in lower case; `raw` as it came."""

    raw: bytes
    first_line: str
    headers: dict[str, str]

    @property
    def path(self) -> str:
        """The path that a request is for."""
        return urlsplit(self.first_line.split(" ")[1]).path

    @property
    def query(self) -> dict[str, list[str]]:
        """The query of a request."""
        return parse_qs(urlsplit(self.first_line.split(" ")[1]).query)

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    @property
    def length(self) -> int:
        """The length of a body that is not chunked."""
        return int(self.headers.get("content-length", "0"))

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.first_line.split(" ")[1])

    @property
    def sort(self) -> str:
        """What a request is about: watch, list, token or discovery."""
        if "true" in self.query.get("watch", ()):
            return "watch"
        if self.path.endswith("/token"):
            return "token"
        if "limit" in self.query or "resourceVersion" in self.query:
            return "list"
        return "discovery"

    @property
    def has_initial_events(self) -> bool:
        """Whether a watch is to begin with what there is."""
        return "true" in self.query.get("sendInitialEvents", ())


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a head; None when the connection ended in good order before it."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.split(":", 1) for line in lines)
    return Head(raw, first, {name.strip().lower(): value.strip() for name, value in pairs})


async def pieces(head: Head, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the body of an answer, without its framing, as it comes."""
    if not head.is_chunked:
        left = head.length
        while left:
            piece = await reader.read(min(left, _PIECE_BYTES))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece
        return
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        data = await reader.readexactly(size + 2)
        yield data[:-2]
    await reader.readuntil(b"\r\n")


def chunk(data: bytes) -> bytes:
    """Frame a piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def answer(
    status: int, body: bytes, content_type: str = "application/json", **headers: str
) -> bytes:
    """Make a whole answer."""
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Trouble')}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def status_body(code: int, reason: str) -> bytes:
    """Make the Status with which an API server says that something is wrong."""
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"{reason}: said by the gateway of the storm",
            "reason": reason,
            "code": code,
        }
    ).encode()
