"""What a Kubernetes `Status` says, read from whatever shape it came in.

API servers send a Status object; aggregated API servers and proxies send part of one, a bare
string, or text. Nothing here fails: the less there is to read, the emptier the result.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["MESSAGE_LIMIT", "TOO_LARGE_CAUSE", "StatusFields", "read_status", "shorten"]

# Enough for any message of the API server, and little enough that nothing of an object travels in
# an error.
MESSAGE_LIMIT = 256

TOO_LARGE_CAUSE = "ResourceVersionTooLarge"

# The number in the reason is what HTTP would have said; only reasons that change what is done are
# listed.
_CODE_OF_REASON = {
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "NotAcceptable": 406,
    "Expired": 410,
    "Gone": 410,
    "RequestEntityTooLarge": 413,
    "UnsupportedMediaType": 415,
    "Invalid": 422,
    "TooManyRequests": 429,
    "InternalError": 500,
    "StorageReadError": 500,
    "ServiceUnavailable": 503,
    "Timeout": 504,
    "ServerTimeout": 500,
}

# Servers before 1.18.6 do not name the cause, and some proxies send only the text.
_TOO_LARGE_TEXT = "too large resource version"
_EXPIRED_TEXTS = (
    "too old resource version",
    "resourceversion is too old",
    "continue parameter is too old",
)


class StatusFields(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a Status that decide what happens next; zero or empty when absent."""

    code: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[str, ...] = ()
    retry_after_seconds: float | None = None

    @property
    def is_too_large(self) -> bool:
        """Whether the resourceVersion asked for is ahead of the server's (by cause or by text)."""
        return TOO_LARGE_CAUSE in self.causes or _TOO_LARGE_TEXT in self.message.lower()


def shorten(text: str) -> str:
    """Cut a text from outside to one printable line that is safe to log."""
    line = " ".join(text[: 4 * MESSAGE_LIMIT].split())
    printable = "".join(character if character.isprintable() else "?" for character in line)
    return printable if len(printable) <= MESSAGE_LIMIT else printable[: MESSAGE_LIMIT - 3] + "..."


def read_status(body: bytes, *, is_strict: bool = False) -> StatusFields:
    """Read a Status of any shape: an object, part of one, a JSON string, or plain text.

    If `is_strict`, whatever is no object of kind Status says nothing: for bodies that are nobody's
    business.
    """
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        tree = body.decode("utf-8", "replace")
    if is_strict and not (isinstance(tree, dict) and tree.get("kind") == "Status"):
        return StatusFields()
    if isinstance(tree, dict):
        return _from_object(tree)
    return _from_text(tree if isinstance(tree, str) else "")


def _from_object(tree: dict[str, Any]) -> StatusFields:
    reason = _text(tree.get("reason"))
    message = _text(tree.get("message"))
    details = tree.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    return StatusFields(
        code=_code(tree.get("code"), reason, message),
        reason=shorten(reason),
        message=shorten(message),
        causes=tuple(
            _text(cause.get("reason"))
            for cause in (causes if isinstance(causes, list) else ())
            if isinstance(cause, dict)
        ),
        retry_after_seconds=_seconds(details.get("retryAfterSeconds")),
    )


def _from_text(text: str) -> StatusFields:
    message = shorten(text)
    # A word alone, as some servers send it, is a reason.
    reason = message if message in _CODE_OF_REASON else ""
    return StatusFields(code=_code(0, reason, message), reason=reason, message=message)


def _code(code: object, reason: str, message: str) -> int:
    if isinstance(code, int) and not isinstance(code, bool) and code > 0:
        return code
    if reason in _CODE_OF_REASON:
        return _CODE_OF_REASON[reason]
    lowered = message.lower()
    if lowered == "gone" or any(text in lowered for text in _EXPIRED_TEXTS):
        return 410
    return 504 if _TOO_LARGE_TEXT in lowered else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return float(value)
