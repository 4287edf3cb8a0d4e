"""What the command shows: tables, ages and sizes, grants, and the specs that it reads."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.unit.client.fake_service import event, source_status
from watchcache import AccessRule, Cluster, Event, ExtensionStatus, Resource
from watchcache.cli import main
from watchcache.cli.grants import grant_commands
from watchcache.cli.object_view import Output, event_json, event_line, object_row, view_for
from watchcache.cli.spec_file import SpecFileError, read_spec
from watchcache.cli.status_view import (
    cluster_lines,
    exit_code,
    extension_lines,
    overview_lines,
)
from watchcache.cli.terminal import age_text, aligned, size_text, span_text
from watchcache.objects import decode_json
from watchcache.v1alpha1 import extension_pb2


def _ago(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(datetime.now(UTC) - timedelta(seconds=seconds))
    return stamp


def _status(state: str = "DEGRADED", **fields: Any) -> ExtensionStatus:
    message = extension_pb2.Extension(
        namespace="team-a",
        name="shop",
        generation=4,
        state=extension_pb2.ExtensionState.Value(f"EXTENSION_STATE_{state}"),
        **fields,
    )
    return ExtensionStatus.from_message(message)


def _shop() -> ExtensionStatus:
    return _status(
        spec={"service_account": "shop"},
        create_time=_ago(4 * 3600 + 5),
        subscription_count=2,
        sources=[
            source_status(
                "deployments.apps",
                namespace="team-a",
                state_time=_ago(3 * 3600 + 5),
                last_contact_time=_ago(4.2),
                object_count=41,
                stored_bytes=22 * 1024,
            ),
            source_status(
                "configmaps",
                "STALE",
                cluster="edge",
                label_selector="app=web",
                state_time=_ago(130.2),
                last_contact_time=_ago(140.2),
                object_count=118,
                stored_bytes=31 * 1024,
                message="no route to host",
            ),
            source_status(
                "secrets",
                "FORBIDDEN",
                namespace="team-a",
                state_time=_ago(150.2),
                message="needs list and watch on secrets in namespace team-a",
                next_attempt_time=_ago(-11.9),
                missing_access=extension_pb2.AccessRule(
                    verbs=["list", "watch"], resource="secrets", namespace="team-a", cluster="hub"
                ),
            ),
        ],
    )


def _plain(lines: Any) -> list[str]:
    return [line.plain for line in lines]


def test_status_shows_every_informer_and_what_to_do() -> None:
    """The table, then for each informer that is not live why, and the commands that grant."""
    assert _plain(extension_lines(_shop(), default_cluster="hub")) == [
        "team-a/shop  serviceaccount shop  generation 4  DEGRADED: 1 of 3 live",
        "RESOURCE          CLUSTER  SCOPE      STATE      FOR  OBJECTS  MEMORY  CONTACT",
        "deployments.apps  hub      team-a     LIVE       3h   41       22 KiB  4s",
        "configmaps        edge     * app=web  STALE      2m   118      31 KiB  2m",
        "secrets           hub      team-a     FORBIDDEN  2m   -        -       -",
        "configmaps on edge: no route to host.",
        (
            "secrets: needs list and watch on secrets in namespace team-a; next check in 12s. "
            "To grant (review first):"
        ),
        "  kubectl -n team-a create role shop-secrets --verb=list,watch --resource=secrets",
        (
            "  kubectl -n team-a create rolebinding shop-secrets --role=shop-secrets "
            "--serviceaccount=team-a:shop"
        ),
    ]


def test_status_shows_sets_of_namespaces_and_says_once_what_they_miss() -> None:
    """However many resources are watched in one set, it is one set."""
    rule = extension_pb2.AccessRule(verbs=["list", "watch"], resource="namespaces", cluster="hub")
    fields = {
        "namespace_selector": "tier=gold",
        "missing_access": rule,
        "message": "serviceaccount team-a/shop needs list and watch on namespaces",
    }
    status = _status(
        spec={"service_account": "shop"},
        sources=[
            source_status("pods", "FORBIDDEN", **fields),
            source_status("secrets", "FORBIDDEN", **fields),
            source_status("jobs.batch", namespace_selector="a", namespace_count=2),
        ],
    )
    lines = _plain(extension_lines(status, default_cluster="hub"))
    assert "0 namespaces tier=gold" in lines[2]
    assert "2 namespaces a" in lines[4]
    assert lines[5].startswith("namespaces tier=gold: serviceaccount team-a/shop needs list")
    assert lines[6:] == [
        (
            "  kubectl create clusterrole team-a-shop-namespaces --verb=list,watch "
            "--resource=namespaces"
        ),
        (
            "  kubectl create clusterrolebinding team-a-shop-namespaces "
            "--clusterrole=team-a-shop-namespaces --serviceaccount=team-a:shop"
        ),
    ]


def test_status_tells_of_tokens_and_of_the_end_of_a_ttl() -> None:
    """And of an extension that watches nothing."""
    status = _status(
        "LIVE",
        expire_time=_ago(-90.5),
        credentials=[
            extension_pb2.CredentialStatus(cluster="hub", message="no such ServiceAccount"),
            extension_pb2.CredentialStatus(cluster="edge"),
        ],
    )
    assert _plain(extension_lines(status, default_cluster="hub")) == [
        "team-a/shop  identity of the service  generation 4  LIVE",
        "It watches nothing.",
        "token on hub: no such ServiceAccount",
        "Nobody watches it: its ttl frees it in 91s.",
    ]


def _checked(outcome: str, count: int = 0, **fields: Any) -> extension_pb2.ConsistencyCheck:
    return extension_pb2.ConsistencyCheck(
        outcome=extension_pb2.ConsistencyOutcome.Value(f"CONSISTENCY_OUTCOME_{outcome}"),
        check_time=_ago(10.2),
        mismatch_count=count,
        mismatch_time=_ago(125.2) if count else None,
        **fields,
    )


def test_status_tells_of_an_informer_that_differed_from_its_api_server() -> None:
    """What is wrong now in full, what was mended in short, and nothing where all was well."""
    checks = {
        "pods": _checked("MISMATCH", 1, message="held: 2, listed: 1"),
        "services": _checked("CONSISTENT", 1),
        "secrets": _checked("FAILED", 3, message="no route"),
        "configmaps": _checked("FAILED", message="no route"),
        "endpoints": None,
    }
    sources = [source_status(name, consistency_check=check) for name, check in checks.items()]
    lines = _plain(extension_lines(_status("LIVE", sources=sources), default_cluster="hub"))
    assert lines[-3:] == [
        "pods: differed from its API server 2m ago: held: 2, listed: 1.",
        "services: differed from its API server once, the last time 2m ago.",
        "secrets: differed from its API server 3 times, the last time 2m ago.",
    ]
    assert len(lines) == 2 + len(checks) + 3


def test_status_tells_once_of_a_set_that_differed() -> None:
    """However many resources are watched in its namespaces."""
    check = _checked("CONSISTENT", 1)
    sources = [
        source_status(name, namespace_selector="tier=gold", consistency_check=check)
        for name in ("pods", "services")
    ]
    lines = _plain(extension_lines(_status("LIVE", sources=sources), default_cluster="hub"))
    told = "namespaces tier=gold: differed from its API server once, the last time 2m ago."
    assert lines[4:] == [told]


def test_a_kind_is_shown_until_its_plural_is_known() -> None:
    """A CRD that does not exist yet has no plural here."""
    gone = source_status(".example.com", "GONE", kind="Widget", reason="KIND_NOT_SERVED")
    lines = _plain(extension_lines(_status(sources=[gone]), default_cluster="hub"))
    assert lines[2].startswith("Widget.example.com")
    assert lines[3] == "Widget.example.com: KIND_NOT_SERVED."


def test_an_overview_has_a_line_for_each_extension() -> None:
    """With sums over its informers."""
    assert _plain(overview_lines([_shop()])) == [
        "EXTENSION    SERVICEACCOUNT  STATE     LIVE  OBJECTS  MEMORY  WATCHES  AGE",
        "team-a/shop  shop            DEGRADED  1/3   159      53 KiB  2        4h",
    ]


def test_clusters_are_shown_with_what_is_wrong() -> None:
    """Below the table, for those that are not reachable."""
    hub = extension_pb2.Cluster(
        name="hub",
        server="https://hub",
        is_default=True,
        is_reachable=True,
        kubernetes_version="v1.36.0",
        informer_count=3,
        last_contact_time=_ago(7.2),
    )
    edge = extension_pb2.Cluster(
        name="edge", server="https://edge", message="no route", tls_problem="no CA in /ca.crt"
    )
    assert _plain(cluster_lines(map(Cluster.from_message, (hub, edge)))) == [
        "CLUSTER        SERVER        REACHABLE  VERSION  INFORMERS  CONTACT",
        "hub (default)  https://hub   yes        v1.36.0  3          7s",
        "edge           https://edge  no         -        0          -",
        "edge: no route",
        "edge: no CA in /ca.crt; those before stay in use",
    ]


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([], 0),
        (["LIVE"], 0),
        (["DEGRADED"], 3),
        (["FAILED"], 4),
        (["SYNCING"], 5),
        (["UNSPECIFIED"], 1),
        (["LIVE", "SYNCING"], 5),
        (["SYNCING", "DEGRADED", "LIVE"], 3),
        (["DEGRADED", "FAILED"], 4),
    ],
)
def test_the_exit_code_is_that_of_the_worst(states: list[str], code: int) -> None:
    """Scripts branch on it."""
    assert exit_code([_status(state) for state in states]) == code


def _grant(rule: AccessRule) -> list[str]:
    return grant_commands(rule, namespace="team-a", service_account="shop", default_cluster="hub")


def test_a_right_in_a_namespace_is_granted_there() -> None:
    """By a Role of that namespace, to the ServiceAccount of the extension's own."""
    role, binding = _grant(AccessRule(("list", "watch"), "apps", "deployments", "other", "hub"))
    assert role == (
        "kubectl -n other create role shop-deployments.apps --verb=list,watch "
        "--resource=deployments.apps"
    )
    assert binding == (
        "kubectl -n other create rolebinding shop-deployments.apps --role=shop-deployments.apps "
        "--serviceaccount=team-a:shop"
    )


def test_a_right_in_a_cluster_is_granted_there() -> None:
    """By a ClusterRole, whose name has to be unique in the cluster; and it says in which."""
    note, role, binding = _grant(AccessRule(("list",), "", "nodes", "", "edge"))
    assert note == "# on cluster edge:"
    assert role == "kubectl create clusterrole team-a-shop-nodes --verb=list --resource=nodes"
    assert binding == (
        "kubectl create clusterrolebinding team-a-shop-nodes --clusterrole=team-a-shop-nodes "
        "--serviceaccount=team-a:shop"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (45, "45s"),
        (119, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (9e5, "10d"),
    ],
)
def test_a_span_is_shown_in_one_unit(seconds: float, text: str) -> None:
    """As kubectl does, with the smaller unit where the larger says too little."""
    assert span_text(seconds) == text
    assert age_text(datetime.now(UTC) - timedelta(seconds=seconds + 0.2)) == text
    assert age_text(None) == "-"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (5 << 20, "5 MiB"), (3 << 29, "1.5 GiB")],
)
def test_a_size_is_shown_in_the_largest_unit(size: int, text: str) -> None:
    """Binary units, as memory has."""
    assert size_text(size) == text


def test_columns_are_as_wide_as_their_cells() -> None:
    """Nothing is cut off, and lines have no blanks at their end."""
    assert _plain(aligned([("A", "LONG", ""), ("word", "b", "")])) == ["A     LONG", "word  b"]


def test_changes_are_shown_with_a_sign() -> None:
    """Deleted and left look different, and JSON leaves out what is empty."""
    lines = [
        event_line(Event(each, decode_json)).plain.split()
        for each in (
            event("ADDED", "a"),
            event("MODIFIED", "a", rv=2),
            event("DELETED", "a", rv=3),
            event("LEFT", "a", rv=4, left="SCOPE"),
        )
    ]
    assert [line[0] for line in lines] == ["+", "~", "-", "<"]
    assert [line[3:] for line in lines] == [
        ["rv", "1"],
        ["rv", "2"],
        ["DELETED"],
        ["LEFT", "(SCOPE)"],
    ]
    assert event_json(Event(event("DELETED", "a", rv=3, body=b'{"n": 1}'), decode_json)) == (
        '{"type": "DELETED", "resource": "pods", "cluster": "hub", "namespace": "team-a", '
        '"name": "a", "uid": "uid-a", "resourceVersion": "3", "revision": 3, "object": {"n": 1}}'
    )


def test_each_format_asks_for_what_it_shows() -> None:
    """A table needs no specs, and names need no objects."""
    assert [view_for(output).value for output in Output] == ["METADATA", "FULL", "FULL", "KEY"]


def test_a_row_survives_an_object_without_a_time() -> None:
    """Nothing is sure about what a cluster holds."""
    assert object_row(Event(event("ADDED", "a"), decode_json))[-1] == "-"


def _write(folder: Path, text: str) -> str:
    path = folder / "spec.yaml"
    path.write_text(text)
    return str(path)


def test_a_spec_file_holds_the_parameters_of_register(tmp_path: Path) -> None:
    """Named as Kubernetes names things."""
    path = _write(
        tmp_path,
        """
        name: team-a/shop
        serviceAccount: shop
        clusters: [hub]
        ttl: 10m
        onlyTheseObjects: false
        watch:
        - deployments.apps
        - resource: configmaps
          namespaces: [team-a]
          labelSelector: app=shop
          projection: metadata
        - resource: pods
          namespaceSelector: tier=gold
        namespaceSelector: age=old
        """,
    )
    assert read_spec(path) == {
        "name": "team-a/shop",
        "service_account": "shop",
        "clusters": ["hub"],
        "ttl": "10m",
        "only_these_objects": False,
        "namespace_selector": "age=old",
        "watch": [
            "deployments.apps",
            Resource("configmaps", ["team-a"], label_selector="app=shop", projection="metadata"),
            Resource("pods", namespace_selector="tier=gold"),
        ],
    }


def test_a_spec_may_come_from_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash stands for it."""
    stream = SimpleNamespace(buffer=io.BytesIO(b"name: team-a/shop"))
    monkeypatch.setattr(sys, "stdin", stream)
    assert read_spec("-") == {"name": "team-a/shop"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: [", "no YAML"),
        ("- a", "has to be a mapping"),
        ("", "has to be a mapping"),
        ("nome: x", "'nome' has no meaning here; known are name, serviceAccount"),
        ("name: 2030-13-01", "no YAML: month must be in 1"),
        ("name: !!bool x", "no YAML"),
        ("name: !!timestamp x", "no YAML"),
        ("name: 5", "name has to be text, not 5; put it in quotes"),
        ("name:", "name has to be text, not nothing; write a value or leave the field out"),
        ("name: 2030-01-01", "name has to be text, not 2030-01-01; put it in quotes"),
        ("name: !!binary YQ==", "name has to be text, not binary data; put it in quotes"),
        ("serviceAccount: 5", "serviceAccount has to be text, not 5; put it in quotes"),
        ("serviceAccount: {a: b}", "has to be text, not a mapping; write one plain value"),
        ("projection: 5", "projection has to be text, not 5; put it in quotes"),
        ("content: 5", "content has to be text, not 5; put it in quotes"),
        ("clusters: [on]", r"clusters\[0\] has to be text, not true; put it in quotes"),
        ("namespaces: [a, 5]", r"namespaces\[1\] has to be text, not 5; put it in quotes"),
        ("namespaces: a", r"namespaces has to be a list, not a; write namespaces: \[...\]"),
        ("ttl: true", 'ttl has to be a length of time, not true; write it like "30s"'),
        ("ttl: [1]", 'ttl has to be a length of time, not a list; write it like "30s"'),
        ("onlyTheseObjects: maybe", "has to be true or false, not maybe; write one of them"),
        ("onlyTheseObjects: 1", "has to be true or false, not 1; write one of them"),
        ("watch: pods", "watch has to be a list, not pods"),
        ("watch: [1]", r"watch\[0\]: 1 is no resource; write a name such as deployments.apps"),
        ("watch: [{resource: 5}]", r"watch\[0\]: resource has to be text, not 5; put it in quotes"),
        ("watch: [{resource: pods, namespaces: [5]}]", r"namespaces\[0\] has to be text, not 5"),
        ("watch: [{resource: pods, labelSelector: 5}]", "labelSelector has to be text, not 5"),
        ("watch: [{namespaces: [a]}]", r"watch\[0\]: resource is missing"),
        ("watch: [{resource: pods, selector: a}]", "'selector' has no meaning here"),
    ],
)
def test_a_wrong_spec_file_is_named(tmp_path: Path, text: str, told: str) -> None:
    """With the file, the entry, the rule and the mend."""
    path = _write(tmp_path, text)
    with pytest.raises(SpecFileError, match=told) as caught:
        read_spec(path)
    assert caught.value.field_violations[0].field.startswith(path)


def test_a_spec_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The system's own reason is told."""
    with pytest.raises(SpecFileError, match="cannot be read: No such file"):
        read_spec(str(tmp_path / "none.yaml"))


def test_without_its_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client alone is installed without the packages of the command."""
    monkeypatch.setitem(sys.modules, "watchcache.cli.commands", None)
    with pytest.raises(SystemExit, match="pip install typer rich pyyaml, or in a checkout"):
        main()
