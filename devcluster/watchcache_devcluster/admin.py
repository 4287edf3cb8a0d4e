"""The admin paths under `/devcluster/`: faults, compaction and restarts by HTTP.

The command uses them; a test in the same process uses the methods of `DevCluster` instead. They are
for administrators only, which the authorizer sees to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from watchcache_devcluster.errors import ApiError, bad_request, no_such_path, not_found
from watchcache_devcluster.faults import Fault, FaultSet

__all__ = ["ADMIN_PREFIX", "Admin"]

ADMIN_PREFIX = "/devcluster/"
_encode = msgspec.json.Encoder().encode


class Actions:
    """What the admin paths can do besides faults; filled in by the cluster."""

    def __init__(
        self,
        compact: Callable[[], int],
        restart: Callable[[float], None],
        expire_tokens: Callable[[str, str], None],
    ) -> None:
        self.compact = compact
        self.restart = restart
        self.expire_tokens = expire_tokens


class Admin:
    """Answers the admin paths."""

    def __init__(self, faults: FaultSet, actions: Actions) -> None:
        self._faults = faults
        self._actions = actions

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Carry out one admin request.

        Raises:
            ApiError: 400 for a fault that makes no sense, 404 for one that does not exist.
        """
        name = request.path.removeprefix(ADMIN_PREFIX).strip("/")
        parts = name.split("/")
        match request.method, *parts:
            case ["GET", "faults"]:
                return _answer({"faults": self._faults.active()})
            case ["POST", "faults"]:
                fault = _read_fault(await request.read())
                return _answer({"number": self._faults.add(fault), "stays": fault.stays})
            case ["DELETE", "faults"]:
                return _answer({"cleared": self._faults.clear()})
            case ["DELETE", "faults", number]:
                if not number.isdigit() or not self._faults.remove(int(number)):
                    raise not_found("devcluster", "faults", number)
                return _answer({"removed": int(number)})
            case ["POST", "compact"]:
                return _answer({"compacted": self._actions.compact()})
            case ["POST", "restart"]:
                wish = _read(await request.read())
                self._actions.restart(float(wish.get("downtime_seconds", 0)))
                return _answer({"restarting": True})
            case ["POST", "expire-tokens"]:
                wish = _read(await request.read())
                namespace, account = wish.get("namespace"), wish.get("serviceaccount")
                if not namespace or not account:
                    raise bad_request("expire-tokens needs `namespace` and `serviceaccount`")
                self._actions.expire_tokens(str(namespace), str(account))
                return _answer({"expired": f"{namespace}/{account}"})
        raise no_such_path()


def _read(data: bytes) -> dict[str, Any]:
    try:
        wish = msgspec.json.decode(data or b"{}")
    except msgspec.DecodeError as error:
        raise bad_request(f"the body is not JSON: {error}") from error
    if not isinstance(wish, dict):
        raise bad_request("the body must be a JSON object")
    return wish


def _read_fault(data: bytes) -> Fault:
    wish = _read(data)
    unknown = wish.keys() - set(Fault.__slots__)
    if unknown:
        raise bad_request(f"a fault has no field {', '.join(sorted(unknown))}")
    try:
        return Fault(**wish)
    except (TypeError, ValueError) as error:
        raise ApiError(400, "BadRequest", str(error)) from error


def _answer(body: dict[str, Any]) -> web.Response:
    return web.Response(body=_encode(body) + b"\n", content_type="application/json")
