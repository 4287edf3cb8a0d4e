"""What the tests of the contract say about objects, lists and events over and over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.contract.api import Answer, Api

__all__ = [
    "END_OF_INITIAL_EVENTS",
    "PARTIAL",
    "PARTIAL_LIST",
    "TABLE",
    "WATCH_LIST",
    "assert_refused",
    "create",
    "deployment",
    "latest",
    "names",
    "summary",
    "version_of",
]

END_OF_INITIAL_EVENTS = {"k8s.io/initial-events-end": "true"}
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
WATCH_LIST: dict[str, str] = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def version_of(found: Mapping[str, Any]) -> int:
    """Return the resourceVersion of an object or a list as a number."""
    return int(found["metadata"]["resourceVersion"])


def names(found: dict[str, Any]) -> list[str]:
    """Return the names of a list's items, in order."""
    return [item["metadata"]["name"] for item in found["items"]]


def summary(event: dict[str, Any]) -> tuple[str, str]:
    """Return an event's type and the name of its object."""
    return event["type"], event["object"]["metadata"].get("name", "")


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    """Return the least Deployment that a real server takes."""
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.test/main"}]},
            },
            **spec,
        },
    }


async def create(api: Api, path: str, name: str, **metadata: Any) -> dict[str, Any]:
    """Create an object that has nothing but metadata."""
    made: dict[str, Any] = await api.create(path, {"metadata": {"name": name, **metadata}})
    return made


async def latest(api: Api, path: str) -> int:
    """Return the version of a list, from which a watch goes on."""
    return version_of(await api.get(path))


def assert_refused(answer: Answer, status: int, reason: str) -> None:
    """Check the parts that every failure Status has in common."""
    assert answer.status == status, answer.body
    assert {key: answer.body.get(key) for key in ("kind", "apiVersion", "status", "reason")} == {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
    }
    assert answer.body["code"] == status
