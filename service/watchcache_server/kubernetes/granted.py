"""What an API server granted: the answer to a TokenRequest, read.

Pure. The lifetime is what the server granted, however it says so: the smallest of what its answer
states, what the token itself states, and what is left until the stated end by the server's own
clock.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import email.utils
from dataclasses import dataclass, field
from typing import Final

import msgspec

from watchcache_server.kubernetes.json_reading import JsonError, read_json

__all__ = ["GrantedToken", "TokenAnswerError", "clock_skew_seconds", "read_token_answer"]


# The most that an API server grants.
_LONGEST_SECONDS: Final = float(2**32)


class TokenAnswerError(ValueError):
    """The answer to a TokenRequest holds no usable token. Its text never holds a part of one."""


@dataclass(frozen=True, slots=True)
class GrantedToken:
    """A token with its lifetime and the uid of its ServiceAccount (empty when not told)."""

    token: str = field(repr=False)
    lifetime_seconds: float
    uid: str


class _Spec(msgspec.Struct):
    expiration_seconds: float | None = msgspec.field(default=None, name="expirationSeconds")


class _Status(msgspec.Struct):
    token: str
    expires: dt.datetime | None = msgspec.field(default=None, name="expirationTimestamp")


class _Answer(msgspec.Struct):
    status: _Status
    spec: _Spec | None = None


class _Account(msgspec.Struct):
    uid: str = ""


class _Binding(msgspec.Struct):
    account: _Account | None = msgspec.field(default=None, name="serviceaccount")


class _Claims(msgspec.Struct):
    expires: float | None = msgspec.field(default=None, name="exp")
    issued: float | None = msgspec.field(default=None, name="iat")
    binding: _Binding | None = msgspec.field(default=None, name="kubernetes.io")


def read_token_answer(body: bytes, date: str | None) -> GrantedToken:
    """Read the answer; `date` is its Date header. Raises TokenAnswerError."""
    try:
        answer = read_json(body, _Answer)
    except JsonError as error:
        raise TokenAnswerError("the API server's answer to a TokenRequest is malformed") from error
    token = answer.status.token
    if not token or not token.isascii() or not token.isprintable():
        raise TokenAnswerError("the API server's answer to a TokenRequest holds no token")
    claims = _claims(token)
    lifetimes: list[float] = []
    if answer.spec is not None and answer.spec.expiration_seconds is not None:
        lifetimes.append(answer.spec.expiration_seconds)
    if claims.expires is not None and claims.issued is not None:
        lifetimes.append(claims.expires - claims.issued)
    server_time = _parse_date(date)
    if answer.status.expires is not None and server_time is not None:
        lifetimes.append(_seconds(answer.status.expires) - server_time)
    if not lifetimes or min(lifetimes) <= 0:
        raise TokenAnswerError("the API server granted a token that is over already")
    account = claims.binding.account if claims.binding else None
    lifetime_seconds = min(*lifetimes, _LONGEST_SECONDS)
    return GrantedToken(token, lifetime_seconds, account.uid if account else "")


def clock_skew_seconds(date: str | None, wall_time: float) -> float | None:
    """Return the server's clock less ours by its Date header; None when that says nothing.

    The header has whole seconds, so less than a second behind it is no skew.
    """
    server_time = _parse_date(date)
    if server_time is None:
        return None
    return max(server_time - wall_time, 0.0) or min(server_time + 1 - wall_time, 0.0)


def _parse_date(date: str | None) -> float | None:
    """Return a Date header as seconds since 1970; None when there is none or it is malformed."""
    if date is None:
        return None
    try:
        return _seconds(email.utils.parsedate_to_datetime(date))
    except (ValueError, OverflowError):
        return None


def _seconds(moment: dt.datetime) -> float:
    """Return a moment as seconds since 1970; without a time zone it is in UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()


def _claims(token: str) -> _Claims:
    """Read the claims of a JWT, unverified: it came from the API server itself over TLS."""
    parts = token.split(".")
    if len(parts) != 3:
        return _Claims()
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return read_json(payload, _Claims)
    except (binascii.Error, JsonError):
        return _Claims()
