"""Contract: kubectl, as people use it, works and says the same on both servers."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import Api, eventually
from tests.contract.definitions import new_kind
from tests.controlplane.build import ensure_binaries

# The devcluster's half needs the program too.
pytestmark = pytest.mark.controlplane

_LIMIT_SECONDS = 30.0

MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  color: {color}
"""


class Kubectl:
    """The built kubectl, as the administrator, in the test's namespace."""

    def __init__(self, kubeconfig: Path, namespace: str, cache: Path) -> None:
        self._base = [
            str(ensure_binaries(lambda text: None).kubectl),
            f"--kubeconfig={kubeconfig}",
            f"--namespace={namespace}",
            f"--cache-dir={cache}",
        ]

    async def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run it, which must succeed, and return what it printed."""
        answer = await self.run(*arguments, stdin=stdin)
        assert answer.returncode == 0, f"kubectl {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout

    async def run(
        self, *arguments: str, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it and return the outcome, whatever it is."""
        return await asyncio.to_thread(
            subprocess.run,
            [*self._base, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=False,
        )

    async def read(self, *arguments: str) -> Any:
        """Return what a command prints with `-o json`."""
        return json.loads(await self(*arguments, "-o", "json"))


@pytest.fixture
def kubectl(api: Api, namespace: str, tmp_path: Path) -> Kubectl:
    """Give kubectl for the server under test."""
    return Kubectl(api.endpoint.kubeconfig, namespace, tmp_path / "cache")


async def test_get_prints_a_table(kubectl: Kubectl) -> None:
    """Columns come from the server; without objects kubectl says so."""
    empty = await kubectl.run("get", "configmaps")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert empty.stderr.startswith("No resources found in ")
    await kubectl("create", "configmap", "a", "--from-literal=k=v", "--from-literal=l=w")
    head, row = (await kubectl("get", "cm")).splitlines()
    assert head.split() == ["NAME", "DATA", "AGE"]
    assert row.split()[:2] == ["a", "2"]


async def test_get_prints_objects(kubectl: Kubectl) -> None:
    """One object, several kinds, names, or all namespaces, in the form that is asked for."""
    await kubectl("create", "configmap", "a", "--from-literal=k=v")
    await kubectl("create", "serviceaccount", "b")
    one = await kubectl.read("get", "configmap", "a")
    assert (one["kind"], one["apiVersion"], one["data"]) == ("ConfigMap", "v1", {"k": "v"})
    both = await kubectl.read("get", "configmaps,serviceaccounts")
    kinds = {(item["kind"], item["metadata"]["name"]) for item in both["items"]}
    assert {("ConfigMap", "a"), ("ServiceAccount", "b")} <= kinds
    assert await kubectl("get", "cm/a", "-o", "name") == "configmap/a\n"
    assert await kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}") == "v"
    assert "kind: ConfigMap" in await kubectl("get", "cm", "a", "-o", "yaml")
    assert (await kubectl("get", "cm", "-A")).splitlines()[0].split()[0] == "NAMESPACE"


async def test_what_is_not_there_is_an_error(kubectl: Kubectl) -> None:
    """A missing object and a missing kind are told as kubectl always tells them."""
    absent = await kubectl.run("get", "configmap", "absent")
    assert absent.returncode == 1
    assert absent.stderr == ('Error from server (NotFound): configmaps "absent" not found\n')
    unknown = await kubectl.run("get", "nonesuches")
    assert unknown.stderr == 'error: the server doesn\'t have a resource type "nonesuches"\n'
    await kubectl("create", "configmap", "a")
    taken = await kubectl.run("create", "configmap", "a")
    assert taken.stderr == ('error: failed to create configmap: configmaps "a" already exists\n')


async def test_create_takes_manifests(kubectl: Kubectl) -> None:
    """A manifest on standard input becomes an object, once."""
    made = await kubectl("create", "-f", "-", stdin=MANIFEST.format(color="red"))
    assert made == "configmap/settings created\n"
    again = await kubectl.run("create", "-f", "-", stdin=MANIFEST.format(color="red"))
    assert "AlreadyExists" in again.stderr


async def test_unknown_fields_in_a_manifest_are_refused(kubectl: Kubectl) -> None:
    """What kubectl creates is checked strictly, so that a typing error is found."""
    wrong = MANIFEST.format(color="red") + "nonsense: 1\n"
    refused = await kubectl.run("create", "-f", "-", stdin=wrong)
    assert refused.returncode == 1
    assert 'unknown field "nonsense"' in refused.stderr


async def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    """The first apply creates, a changed one configures, the same one changes nothing."""
    for color, outcome in (
        ("red", "created"),
        ("blue", "configured"),
        ("blue", "unchanged"),
    ):
        said = await kubectl("apply", "-f", "-", stdin=MANIFEST.format(color=color))
        assert said == f"configmap/settings {outcome}\n"
    found = await kubectl.read("get", "configmap", "settings")
    assert found["data"] == {"color": "blue"}
    assert "kubectl.kubernetes.io/last-applied-configuration" in found["metadata"]["annotations"]


async def test_apply_on_the_server(kubectl: Kubectl) -> None:
    """Server-side apply creates, changes, and finds conflicts with others' fields."""
    for color in ("red", "blue"):
        said = await kubectl(
            "apply", "--server-side", "-f", "-", stdin=MANIFEST.format(color=color)
        )
        assert said == "configmap/settings serverside-applied\n"
    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    conflict = await kubectl.run(*other, stdin=MANIFEST.format(color="green"))
    assert conflict.returncode == 1
    assert 'conflict with "kubectl": .data.color' in conflict.stderr
    await kubectl(*other, "--force-conflicts", stdin=MANIFEST.format(color="green"))
    assert (await kubectl.read("get", "cm", "settings"))["data"] == {"color": "green"}


async def test_label_and_annotate(kubectl: Kubectl) -> None:
    """Labels and annotations are set, kept from being overwritten by accident, and removed."""
    await kubectl("create", "configmap", "a")
    assert await kubectl("label", "cm", "a", "tier=gold") == "configmap/a labeled\n"
    refused = await kubectl.run("label", "cm", "a", "tier=silver")
    assert "already has a value (gold)" in refused.stderr
    await kubectl("label", "cm", "a", "tier=silver", "--overwrite")
    assert await kubectl("annotate", "cm", "a", "note=1") == "configmap/a annotated\n"
    metadata = (await kubectl.read("get", "cm", "a"))["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"tier": "silver"}, {"note": "1"})
    assert "configmap/a" in await kubectl("get", "cm", "-l", "tier=silver", "-o", "name")
    assert await kubectl("label", "cm", "a", "tier-") == "configmap/a unlabeled\n"
    assert "labels" not in (await kubectl.read("get", "cm", "a"))["metadata"]


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", '{"data":{"k":"new"}}'),
        ("strategic", '{"data":{"k":"new"}}'),
        ("json", '[{"op":"replace","path":"/data/k","value":"new"}]'),
    ],
)
async def test_patch(kubectl: Kubectl, kind: str, patch: str) -> None:
    """Each kind of patch is applied, and a second time changes nothing."""
    await kubectl("create", "configmap", "a", "--from-literal=k=v")
    command = ("patch", "configmap", "a", f"--type={kind}", "-p", patch)
    assert await kubectl(*command) == "configmap/a patched\n"
    assert await kubectl(*command) == "configmap/a patched (no change)\n"
    assert (await kubectl.read("get", "configmap", "a"))["data"] == {"k": "new"}


async def test_delete(kubectl: Kubectl, namespace: str) -> None:
    """Objects are deleted by name, by label, or all of a kind, and waited for."""
    for name in ("a", "b", "c", "d"):
        await kubectl("create", "configmap", name)
    await kubectl("label", "cm", "b", "c", "gone=yes")
    said = await kubectl("delete", "configmap", "a")
    assert said == f'configmap "a" deleted from {namespace} namespace\n'
    await kubectl("delete", "configmaps", "-l", "gone=yes")
    assert await kubectl("get", "cm", "-o", "name") == "configmap/d\n"
    await kubectl("delete", "configmaps", "--all")
    assert await kubectl("get", "cm", "-o", "name") == ""
    absent = await kubectl.run("delete", "configmap", "a")
    assert absent.returncode == 1
    await kubectl("delete", "configmap", "a", "--ignore-not-found")


async def test_deployments(kubectl: Kubectl) -> None:
    """A Deployment is created, shown, scaled and removed."""
    said = await kubectl("create", "deployment", "web", "--image=example.test/web")
    assert said == "deployment.apps/web created\n"
    head, row = (await kubectl("get", "deploy")).splitlines()
    assert head.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:4] == ["web", "0/1", "0", "0"]
    said = await kubectl("scale", "deployment", "web", "--replicas=3")
    assert said == "deployment.apps/web scaled\n"
    assert await kubectl("get", "deploy/web", "-o", "jsonpath={.spec.replicas}") == "3"
    await kubectl("delete", "deployment", "web")


async def test_custom_kinds(api: Api, kubectl: Kubectl) -> None:
    """A definition is applied and waited for; its objects are found by short name."""
    kind = new_kind()
    definition = kind.definition()
    resource = f"customresourcedefinition.apiextensions.k8s.io/widgets.{kind.group}"
    assert await kubectl("apply", "-f", "-", stdin=json.dumps(definition)) == (
        f"{resource} created\n"
    )
    waited = await kubectl("wait", "--for=condition=Established", resource, "--timeout=20s")
    assert waited == f"{resource} condition met\n"

    async def is_served() -> bool:
        return (await api.call("GET", kind.everywhere)).status == 200

    await eventually(is_served, "the kind is served")
    await kubectl("apply", "-f", "-", stdin=json.dumps(kind.object("a", {"size": 7})))
    short = definition["spec"]["names"]["shortNames"][0]
    head, row = (await kubectl("get", short)).splitlines()
    assert (head.split(), row.split()) == (["NAME", "SIZE"], ["a", "7"])
    await kubectl("delete", resource)
    gone = await kubectl.run("get", f"widgets.{kind.group}")
    assert gone.returncode == 1


async def test_resources_are_listed(kubectl: Kubectl) -> None:
    """`kubectl api-resources` shows what discovery tells."""
    found = await kubectl("api-resources", "--no-headers", "--api-group=apps")
    rows = {line.split()[0]: line.split() for line in found.splitlines()}
    assert rows["deployments"] == ["deployments", "deploy", "apps/v1", "true", "Deployment"]
    version = await kubectl.read("version")
    assert version["serverVersion"]["major"] == "1"


async def test_tokens_and_rights(api: Api, kubectl: Kubectl, namespace: str) -> None:
    """An account, a role and a binding are made, a token minted, and its rights asked for."""
    await kubectl("create", "serviceaccount", "robot")
    await kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    await kubectl(
        "create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:robot"
    )
    token = (await kubectl("create", "token", "robot", "--duration=10m")).strip()
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    async def is_open() -> bool:
        return (await api.call("GET", path, token=token)).status == 200

    await eventually(is_open, "the role is in force")
    as_robot = (f"--token={token}", "auth", "can-i")
    assert await kubectl(*as_robot, "list", "configmaps") == "yes\n"
    denied = await kubectl.run(*as_robot, "delete", "configmaps")
    assert (denied.returncode, denied.stdout) == (1, "no\n")
    assert await kubectl("auth", "can-i", "delete", "configmaps") == "yes\n"


async def test_waiting_for_a_deletion(api: Api, kubectl: Kubectl, configmaps: str) -> None:
    """`kubectl wait` sees an object go that was held by a finalizer."""
    held = {"metadata": {"name": "a", "finalizers": ["example.test/hold"]}}
    await api.create(configmaps, held)
    await kubectl("delete", "configmap", "a", "--wait=false")
    waiting = asyncio.create_task(kubectl("wait", "--for=delete", "cm/a", "--timeout=20s"))
    await kubectl("patch", "cm", "a", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert await waiting in {"configmap/a condition met\n", ""}
