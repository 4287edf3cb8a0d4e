"""Pods as a real cluster has them: what size, compression and speed are measured with.

`pod` is a pure function of its arguments. A pod has two containers with thirteen environment
variables each, a status, and managedFields of two field managers, which are half of its eleven
kilobytes. What differs from pod to pod (uids, addresses, hashes, times, node) differs here too, and
what repeats, repeats: twenty pods belong to a ReplicaSet, and nodes are as many as namespaces.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["pod", "pod_fields"]

_APPS = (
    "web",
    "api",
    "worker",
    "billing",
    "search",
    "mailer",
    "ledger",
    "gateway",
    "images",
    "auth",
)
_TEAMS = ("storefront", "payments", "platform", "growth")
_VARIABLES = (
    "DATABASE_HOST",
    "DATABASE_PORT",
    "DATABASE_NAME",
    "CACHE_HOST",
    "CACHE_PORT",
    "LOG_LEVEL",
    "LOG_FORMAT",
    "METRICS_PORT",
    "FEATURE_FLAGS",
    "REQUEST_TIMEOUT_SECONDS",
    "MAX_CONNECTIONS",
    "RELEASE_ID",
)
_START = datetime(2026, 3, 1, tzinfo=UTC)
_PODS_OF_A_SET = 20
_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)


def pod(i: int, namespaces: int = 20) -> bytes:
    """Return pod number `i` as compact JSON, the way an API server writes it."""
    return json.dumps(pod_fields(i, namespaces), separators=(",", ":")).encode()


def pod_fields(i: int, namespaces: int = 20) -> dict[str, Any]:
    """Return pod number `i` as a dict."""
    chance = random.Random(i)
    replica_set = i // _PODS_OF_A_SET
    of_set = random.Random(-1 - replica_set)
    app = _APPS[replica_set % len(_APPS)]
    template_hash = f"{of_set.getrandbits(40):010x}"
    set_uid = _uid(of_set)
    owner = f"{app}-{replica_set}-{template_hash}"
    created = _START + timedelta(seconds=i)
    ready = created + timedelta(seconds=chance.randint(2, 40))
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": f"{app}-{replica_set}",
        "app.kubernetes.io/version": f"1.{replica_set % 40}.{of_set.randint(0, 9)}",
        "pod-template-hash": template_hash,
        "team": _TEAMS[replica_set % len(_TEAMS)],
    }
    annotations = {
        "checksum/config": f"{of_set.getrandbits(256):064x}",
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "9090",
    }
    containers = [_container(name, app, replica_set, of_set) for name in ("app", "sidecar")]
    node = f"node-{chance.randrange(namespaces):03d}"
    address = f"10.{chance.randint(0, 255)}.{chance.randint(0, 255)}.{chance.randint(1, 254)}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{owner}-{chance.getrandbits(25):05x}{i % _PODS_OF_A_SET:02d}",
            "generateName": f"{owner}-",
            "namespace": f"team-{replica_set % namespaces:03d}",
            "uid": _uid(chance),
            "resourceVersion": str(100_000 + 3 * i),
            "creationTimestamp": _time(created),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": set_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": _time(created),
                    "fieldsType": "FieldsV1",
                    "fieldsV1": _fields_of_spec(labels, annotations, set_uid, containers),
                },
                {
                    "manager": "kubelet",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": _time(ready),
                    "fieldsType": "FieldsV1",
                    "fieldsV1": _fields_of_status(address),
                    "subresource": "status",
                },
            ],
        },
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
                {"name": f"kube-api-access-{chance.getrandbits(25):05x}", "emptyDir": {}},
            ],
            "containers": containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": app,
            "serviceAccount": app,
            "nodeName": node,
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{why}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for why in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {
                    "type": condition,
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": _time(ready),
                }
                for condition in _CONDITIONS
            ],
            "hostIP": f"192.168.{int(node[5:]) // 250}.{int(node[5:]) % 250 + 1}",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": _time(created),
            "containerStatuses": [
                {
                    "name": container["name"],
                    "state": {"running": {"startedAt": _time(ready)}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": chance.choice((0, 0, 0, 0, 1, 2)),
                    "image": container["image"],
                    "imageID": f"sha256:{of_set.getrandbits(256):064x}",
                    "containerID": f"containerd://{chance.getrandbits(256):064x}",
                    "started": True,
                }
                for container in containers
            ],
            "qosClass": "Burstable",
        },
    }


def _container(name: str, app: str, replica_set: int, chance: random.Random) -> dict[str, Any]:
    values = {variable: str(chance.randint(0, 99999)) for variable in _VARIABLES}
    environment: list[dict[str, Any]] = [{"name": n, "value": v} for n, v in values.items()]
    environment.append(
        {
            "name": "POD_NAME",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
        }
    )
    return {
        "name": name,
        "image": f"registry.example.com/{app}/{name}:1.{replica_set % 40}.0",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": environment,
        "resources": {
            "limits": {"memory": "512Mi"},
            "requests": {"cpu": f"{chance.randint(1, 8)}00m", "memory": "256Mi"},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": True}],
        "livenessProbe": _probe("/healthz"),
        "readinessProbe": _probe("/readyz"),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False},
    }


def _probe(path: str) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _owned(value: Any) -> dict[str, Any]:
    """Write the FieldsV1 of a value that one manager owns as a whole."""
    if isinstance(value, dict):
        return {".": {}} | {f"f:{key}": _owned(part) for key, part in value.items()}
    return {}


def _items(values: list[dict[str, Any]], *keys: str) -> dict[str, Any]:
    """Write the FieldsV1 of a list whose entries are known by keys."""
    fields: dict[str, Any] = {}
    for value in values:
        key = json.dumps({key: value[key] for key in keys}, separators=(",", ":"))
        fields[f"k:{key}"] = {".": {}} | {f"f:{name}": _owned(part) for name, part in value.items()}
    return fields


def _fields_of_spec(
    labels: dict[str, str],
    annotations: dict[str, str],
    set_uid: str,
    containers: list[dict[str, Any]],
) -> dict[str, Any]:
    fields_of_containers = _items(containers, "name")
    for container, fields in zip(containers, fields_of_containers.values(), strict=True):
        fields["f:env"] = {".": {}} | _items(container["env"], "name")
        fields["f:ports"] = {".": {}} | _items(container["ports"], "containerPort", "protocol")
        fields["f:volumeMounts"] = {".": {}} | _items(container["volumeMounts"], "mountPath")
    return {
        "f:metadata": {
            "f:annotations": _owned(annotations),
            "f:generateName": {},
            "f:labels": _owned(labels),
            "f:ownerReferences": {".": {}, f'k:{{"uid":"{set_uid}"}}': {}},
        },
        "f:spec": {
            "f:containers": fields_of_containers,
            "f:dnsPolicy": {},
            "f:enableServiceLinks": {},
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:securityContext": {},
            "f:serviceAccount": {},
            "f:serviceAccountName": {},
            "f:terminationGracePeriodSeconds": {},
            "f:volumes": {
                ".": {},
                'k:{"name":"config"}': {
                    ".": {},
                    "f:configMap": {".": {}, "f:defaultMode": {}, "f:name": {}},
                    "f:name": {},
                },
            },
        },
    }


def _fields_of_status(address: str) -> dict[str, Any]:
    condition: dict[str, Any] = {
        ".": {},
        "f:lastProbeTime": {},
        "f:lastTransitionTime": {},
        "f:status": {},
        "f:type": {},
    }
    return {
        "f:status": {
            "f:conditions": {f'k:{{"type":"{name}"}}': condition for name in _CONDITIONS},
            "f:containerStatuses": {},
            "f:hostIP": {},
            "f:phase": {},
            "f:podIP": {},
            "f:podIPs": {".": {}, f'k:{{"ip":"{address}"}}': {".": {}, "f:ip": {}}},
            "f:startTime": {},
        }
    }


def _uid(chance: random.Random) -> str:
    text = f"{chance.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
