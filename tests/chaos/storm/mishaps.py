"""What the gateway says in the API server's place: refusals, and garbage of every sort."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.chaos.storm.exchange import Exchange
from tests.chaos.storm.messages import Head, answer, status_body
from tests.chaos.storm.schedule import Fault, FaultKind

__all__ = ["answer_instead", "is_of_stream", "strike_stream"]

_HTML = b"<html><body><h1>It works!</h1></body></html>"
_REASONS = {
    400: "BadRequest",
    422: "Invalid",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def is_of_stream(fault: Fault) -> bool:
    """Tell whether a fault strikes a watch that is open, rather than a request that comes."""
    is_garbage = fault.kind is FaultKind.GARBAGE and fault.variant in ("line", "chunk", "type")
    return is_garbage or fault.variant.startswith("event")


def strike_stream(exchange: Exchange, fault: Fault, struck: Callable[[Fault], None]) -> None:
    """Say something in an open watch that the API server has not said."""

    def strikes() -> None:
        struck(fault)

    if fault.variant == "chunk":
        exchange.break_framing(strikes)
    elif fault.variant == "line":
        exchange.say(b'{"type":"ADDED","object":{"kind":\n', ends=False, struck=strikes)
    elif fault.variant == "type":
        exchange.say(b'{"type":"SURPRISE","object":{}}\n', ends=False, struck=strikes)
    else:
        body = status_body(_code(fault), _REASONS[_code(fault)])
        line = b'{"type":"ERROR","object":' + body + b"}\n"
        exchange.say(line, ends=True, struck=strikes)


def answer_instead(fault: Fault, head: Head, writer: asyncio.StreamWriter) -> None:
    """Answer a request in the server's place."""
    if fault.kind is FaultKind.GARBAGE:
        writer.write(_garbage(fault.variant, head))
        if fault.variant == "noise":
            writer.close()
        return
    code = _code(fault)
    body = status_body(code, _REASONS[code])
    if fault.variant == "502":
        writer.write(answer(code, _HTML, "text/html"))
    elif fault.variant == "retry-after":
        writer.write(answer(code, body, Retry_After="1"))
    else:
        writer.write(answer(code, body))


def _garbage(variant: str, head: Head) -> bytes:
    if variant == "html":
        return answer(200, _HTML, "text/html")
    if variant == "empty":
        return answer(200, b"")
    if variant == "noise":
        return b"\x16\x03\x01\x02\x00" * 20
    return answer(200, b'{"kind":"List","apiVersion":"v1","items":[{"metadata":{"na')


def _code(fault: Fault) -> int:
    fixed = {FaultKind.EXPIRED: 410, FaultKind.THROTTLED: 429}
    return fixed.get(fault.kind) or int(fault.variant.split(" ")[-1])
