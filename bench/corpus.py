"""What the API server holds while it is measured: pods, the objects of the idle informers, rights.

Pods come from `tests.realistic`, but are created the way a cluster creates them: one manager writes
the object, a second one its status. So the API server itself makes the managedFields, uids, times
and versions, and what is measured has the size that a cluster really sends.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from tests.realistic import pod_fields

__all__ = [
    "ACCOUNT",
    "CROWD_NAMESPACE",
    "FILLER_COUNT",
    "FILLER_NAMESPACE",
    "NAMESPACE",
    "POD_NAMESPACES",
    "TICK_COUNT",
    "TICK_NAMESPACE",
    "PodRequests",
    "fixtures",
    "pod_requests",
]

POD_NAMESPACES: Final = 20
# Where the extensions and their ServiceAccount live.
NAMESPACE: Final = "bench"
ACCOUNT: Final = "reader"
# Where the small changes happen whose latency is measured.
TICK_NAMESPACE: Final = "ticks"
TICK_COUNT: Final = 16
# What each of a crowd reads: so little that opening is what it costs.
CROWD_NAMESPACE: Final = "crowd"
_CROWD_COUNT: Final = 10
# What an informer reads that is idle afterwards: so much that its buffers have grown, and so little
# once compressed that it does not matter.
FILLER_NAMESPACE: Final = "filler"
FILLER_COUNT: Final = 6
_FILLER_BYTES: Final = 950_000
_FROM_SERVER: Final = ("managedFields", "uid", "resourceVersion", "creationTimestamp")


class PodRequests(NamedTuple):
    """The bodies of the two requests that make one pod."""

    namespace: str
    name: str
    create: bytes
    update_status: bytes


def pod_requests(number: int) -> PodRequests:
    """Return what makes pod `number`."""
    fields = pod_fields(number, POD_NAMESPACES)
    status = fields.pop("status")
    metadata = fields["metadata"]
    for key in _FROM_SERVER:
        del metadata[key]
    return PodRequests(
        namespace=metadata["namespace"],
        name=metadata["name"],
        create=_json(fields),
        update_status=_json(fields | {"status": status}),
    )


def fixtures() -> list[tuple[str, bytes]]:
    """Return the path and body of every other object, in the order of creation."""
    names = [f"team-{number:03d}" for number in range(POD_NAMESPACES)]
    names += [NAMESPACE, TICK_NAMESPACE, CROWD_NAMESPACE, FILLER_NAMESPACE]
    role_group = "rbac.authorization.k8s.io"
    objects: list[tuple[str, dict[str, Any]]] = [
        ("/api/v1/namespaces", {"metadata": {"name": name}}) for name in names
    ]
    objects += [
        (f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": ACCOUNT}}),
        (
            f"/apis/{role_group}/v1/clusterroles",
            {
                "metadata": {"name": "bench-reader"},
                "rules": [
                    {
                        "apiGroups": [""],
                        "resources": ["pods", "configmaps"],
                        "verbs": ["get", "list", "watch"],
                    }
                ],
            },
        ),
        (
            f"/apis/{role_group}/v1/clusterrolebindings",
            {
                "metadata": {"name": "bench-reader"},
                "roleRef": {"apiGroup": role_group, "kind": "ClusterRole", "name": "bench-reader"},
                "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
            },
        ),
    ]
    objects += [
        (
            f"/api/v1/namespaces/{TICK_NAMESPACE}/configmaps",
            {"metadata": {"name": f"tick-{number}"}, "data": {"written_at": "0"}},
        )
        for number in range(TICK_COUNT)
    ]
    objects += [
        (
            f"/api/v1/namespaces/{CROWD_NAMESPACE}/configmaps",
            {"metadata": {"name": f"crowd-{number}"}, "data": {"text": "watchcache " * 100}},
        )
        for number in range(_CROWD_COUNT)
    ]
    objects += [
        (
            f"/api/v1/namespaces/{FILLER_NAMESPACE}/configmaps",
            {
                "metadata": {"name": f"filler-{n}"},
                "data": {"text": "watchcache " * (_FILLER_BYTES // 11)},
            },
        )
        for n in range(FILLER_COUNT)
    ]
    return [(path, _json(fields)) for path, fields in objects]


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
