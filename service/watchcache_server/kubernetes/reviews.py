"""What an identity may do, asked of the API server with that identity's own credentials.

A review by name (SubjectAccessReview) would still say yes for a deleted ServiceAccount; asking with
its own token (SelfSubjectAccessReview) cannot. Which verbs an informer needs is its own matter:
list and watch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.errors import ReviewMalformedError
from watchcache_server.kubernetes.json_reading import JsonError, read_json
from watchcache_server.kubernetes.requests import Request, resource_path

__all__ = ["Right", "is_allowed", "missing_rights"]

_ANSWER_SECONDS: Final = 10.0
_PATH: Final = resource_path("authorization.k8s.io", "v1", "selfsubjectaccessreviews")


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One verb on one resource; an empty namespace is the whole cluster.

    The selectors are those that the request would carry: an authorizer may allow no more than that.
    """

    verb: str
    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        return f"{self.verb} on {kind} {where}"


class _ReviewStatus(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _ReviewStatus


async def is_allowed(access: ApiAccess, right: Right) -> bool:
    """Ask whether the identity has a right. Raises an AccessError when it cannot be told."""
    attributes: dict[str, Any] = {
        "verb": right.verb,
        "group": right.group,
        "version": right.version,
        "resource": right.resource,
        "namespace": right.namespace,
        "name": right.name,
    }
    if right.label_selector:
        attributes["labelSelector"] = {"rawSelector": right.label_selector}
    if right.field_selector:
        attributes["fieldSelector"] = {"rawSelector": right.field_selector}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    answer = await access.call(
        Request(
            method="POST",
            path=_PATH,
            body=msgspec.json.encode(body),
            response_seconds=_ANSWER_SECONDS,
            idle_seconds=_ANSWER_SECONDS,
        )
    )
    if not answer.is_success:
        raise answer.error(access.cluster, f"reviewing whether {access.identity} may {right}")
    try:
        return read_json(answer.body, _Review).status.allowed
    except JsonError as error:
        raise ReviewMalformedError(
            f"cluster {access.cluster}: the answer to an access review is malformed"
        ) from error


async def missing_rights(access: ApiAccess, rights: Iterable[Right]) -> tuple[Right, ...]:
    """Return those of `rights` that the identity lacks. Raises an AccessError."""
    return tuple([right for right in rights if not await is_allowed(access, right)])
