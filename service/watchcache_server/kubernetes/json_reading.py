"""JSON from outside, read into the struct that is asked for.

Whatever is wrong with the text is one error: a server, a proxy or a plugin may send anything, and
nesting that goes on for ever is as malformed as a missing brace.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

__all__ = ["JsonError", "read_json"]

T = TypeVar("T")


class JsonError(ValueError):
    """The text is not JSON, or not of the form that was asked for."""


def read_json(text: bytes, model: type[T]) -> T:
    """Return the value in `text` as a `model`. Raises JsonError."""
    try:
        return msgspec.json.decode(text, type=model)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JsonError(str(error)) from error
    except RecursionError as error:
        raise JsonError("nested too deeply") from error
