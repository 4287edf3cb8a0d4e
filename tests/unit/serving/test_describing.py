"""Rules of how extensions, informers and clusters are described."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.items import item, source_spec
from tests.unit.extensions.test_informer import WALL, World
from tests.unit.extensions.world import spec_of
from tests.unit.serving.registered import Clusters
from watchcache.v1alpha1 import extension_pb2
from watchcache_server.informer.audit import Finding
from watchcache_server.kubernetes.checking import Checked
from watchcache_server.kubernetes.errors import TokenRequestFailedError
from watchcache_server.model.states import CheckOutcome, ExtensionState, Projection, SourceState
from watchcache_server.serving.describing import (
    cluster_messages,
    extension_message,
    source_message,
)
from watchcache_server.settings import Settings


class Described(World):
    """An extension, and the tokens that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.extension.registered_spec = extension_pb2.ExtensionSpec(service_account="shop")
        self.tokens: dict[str, Any] = {}

    def credentials_of(self, _: Any) -> dict[str, Any]:
        return {name: SimpleNamespace(account=token) for name, token in self.tokens.items()}

    def message(self) -> extension_pb2.Extension:
        """Describe the extension."""
        registry: Any = self
        return extension_message(self.extension, registry)


@pytest.fixture
async def world() -> Described:
    """Give an extension."""
    return Described()


@pytest.mark.parametrize("state", SourceState)
def test_every_state_has_a_word_of_the_contract(world: Described, state: SourceState) -> None:
    """And a reason, unless all is well."""
    informer = world.informer()
    informer.set_state(state, "WHY", "because")
    message = source_message(informer)
    assert extension_pb2.SourceState.Name(message.state) == f"SOURCE_STATE_{state.name}"
    is_well = state is SourceState.LIVE
    assert (message.reason, message.message) == (("", "") if is_well else ("WHY", "because"))


@pytest.mark.parametrize("projection", Projection)
def test_every_projection_has_a_word_of_the_contract(
    world: Described, projection: Projection
) -> None:
    """The one in use, never the one that means not set."""
    informer = world.extension.add_informer(source_spec(projection=projection.value))
    found = extension_pb2.Projection.Name(source_message(informer).projection)
    assert found == f"PROJECTION_{projection.name}"


def test_an_informer_is_described_by_what_it_watches_and_holds(world: Described) -> None:
    """Where it is, how it does, and how much it holds, in whole KiB of memory."""
    informer = world.informer(label_selector="app=web", field_selector="spec.nodeName=a")
    before = source_message(informer)
    assert not before.HasField("last_contact_time")
    assert not before.HasField("sync_duration")
    world.time.advance(2.0)
    informer.stage([item("web"), item("api")])
    informer.commit(world.time(), "10")
    informer.contact()
    informer.set_state(SourceState.STALE, "NO_CONTACT", "silent", next_attempt_seconds=5.0)
    message = source_message(informer)
    assert (message.cluster, message.version, message.resource, message.kind) == (
        "hub",
        "v1",
        "pods",
        "Pod",
    )
    assert (message.namespace, message.label_selector, message.field_selector) == (
        "team-a",
        "app=web",
        "spec.nodeName=a",
    )
    assert message.object_count == 2
    assert message.raw_bytes == informer.source.raw_bytes > 0
    assert message.stored_bytes == 1024
    assert message.last_contact_time.seconds == message.state_time.seconds == WALL + 2.0
    assert message.next_attempt_time.seconds == WALL + 7.0
    assert message.sync_duration.seconds == 2
    assert not message.HasField("missing_access")


@pytest.mark.parametrize("outcome", CheckOutcome)
def test_a_check_is_described_with_what_it_has_found(
    world: Described, outcome: CheckOutcome
) -> None:
    """Once there was one; what was found before it stays counted."""
    informer = world.informer()
    assert not source_message(informer).HasField("consistency_check")
    lost = Checked(
        outcome=CheckOutcome.MISMATCH, finding=Finding("20", held=2, listed=1, surplus=1)
    )
    informer.checked(lost, is_mended=True)
    world.time.advance(5.0)
    checked = lost if outcome is CheckOutcome.MISMATCH else Checked(outcome=outcome, problem="")
    informer.checked(checked, is_mended=False)
    check = source_message(informer).consistency_check
    name = extension_pb2.ConsistencyOutcome.Name(check.outcome)
    assert name == f"CONSISTENCY_OUTCOME_{outcome.name}"
    is_lost = outcome is CheckOutcome.MISMATCH
    assert check.mismatch_count == (2 if is_lost else 1)
    assert check.check_time.seconds == WALL + 5.0
    assert check.mismatch_time.seconds == WALL + (5.0 if is_lost else 0.0)
    assert bool(check.message) is (outcome in (CheckOutcome.MISMATCH, CheckOutcome.UNCLEAR))


def test_what_is_missing_is_described_as_a_rule(world: Described) -> None:
    """In the terms of RBAC."""
    informer = world.informer()
    informer.set_state(
        SourceState.FORBIDDEN, "VERBS_MISSING", "needs list", missing_verbs=("list", "watch")
    )
    missing = source_message(informer).missing_access
    assert (list(missing.verbs), missing.group, missing.resource) == (["list", "watch"], "", "pods")
    assert (missing.namespace, missing.cluster) == ("team-a", "hub")


def test_an_extension_is_described_with_its_informers(world: Described) -> None:
    """In their order, and only those that its spec asks for."""
    far, near = world.informer(namespace="team-b"), world.informer()
    retiring = world.informer(namespace="team-c")
    world.extension.retire_informer(retiring)
    for informer in (far, near):
        informer.set_state(SourceState.LIVE, "SYNCED", "")
    world.extension.subscribed()
    world.extension.generation = 3
    message = world.message()
    assert (message.namespace, message.name, message.uid) == (
        "team-a",
        "shop",
        world.extension.uid,
    )
    assert (message.generation, message.subscription_count) == (3, 1)
    assert message.spec.service_account == "shop"
    assert message.state == extension_pb2.EXTENSION_STATE_LIVE
    assert [each.namespace for each in message.sources] == ["team-a", "team-b"]
    assert message.create_time.seconds == WALL
    assert not message.HasField("expire_time")


def test_it_is_said_when_a_ttl_will_end_it(world: Described) -> None:
    """By the wall clock."""
    world.extension.spec = spec_of(ttl=60.0)
    world.time.advance(10.0)
    world.extension.used()
    world.time.advance(5.0)
    assert world.message().expire_time.seconds == WALL + 70.0


STATES = {
    ExtensionState.SYNCING: SourceState.SYNCING,
    ExtensionState.LIVE: SourceState.LIVE,
    ExtensionState.FAILED: SourceState.GONE,
}


@pytest.mark.parametrize("state", STATES)
def test_the_state_of_an_extension_has_a_word_of_the_contract(
    world: Described, state: ExtensionState
) -> None:
    """As its informers have."""
    world.informer().set_state(STATES[state], "", "")
    found = extension_pb2.ExtensionState.Name(world.message().state)
    assert found == f"EXTENSION_STATE_{state.name}"


def test_tokens_are_described_without_a_secret(world: Described) -> None:
    """When they end and are renewed, and what went wrong, by cluster."""
    world.tokens = {
        "hub": SimpleNamespace(expires_in_seconds=100.0, refresh_in_seconds=80.0, error=None),
        "edge": SimpleNamespace(
            expires_in_seconds=None,
            refresh_in_seconds=None,
            error=TokenRequestFailedError("edge", "team-a", "shop", "500"),
        ),
    }
    edge, hub = world.message().credentials
    assert (edge.cluster, hub.cluster) == ("edge", "hub")
    assert not edge.HasField("expire_time")
    assert "no token for serviceaccount team-a/shop: 500" in edge.message
    assert (hub.expire_time.seconds, hub.refresh_time.seconds) == (WALL + 100.0, WALL + 80.0)
    assert hub.message == ""


def test_clusters_are_described_with_their_informers(world: Described) -> None:
    """How they were last seen, and how many informers they serve."""
    world.informer()
    world.informer(cluster="edge")
    world.informer(cluster="edge", namespace="team-b")
    clusters: Any = Clusters(edge=None, hub=5.0)
    clusters.default = "hub"
    clusters.tls_problems["hub"] = "the CA in /ca.crt cannot be used: not PEM"
    registry: Any = [world.extension]
    edge, hub = cluster_messages(clusters, registry, WALL)
    assert (edge.name, edge.is_default, edge.is_reachable, edge.informer_count) == (
        "edge",
        False,
        False,
        2,
    )
    assert not edge.HasField("last_contact_time")
    assert edge.message == "connection refused"
    assert (hub.name, hub.is_default, hub.is_reachable, hub.informer_count) == (
        "hub",
        True,
        True,
        1,
    )
    assert hub.last_contact_time.seconds == WALL - 5.0
    assert hub.kubernetes_version == "v1.36.3"
    assert (edge.tls_problem, hub.tls_problem) == ("", clusters.tls_problems["hub"])


def test_a_description_is_taken_by_every_client(world: Described) -> None:
    """At the default limits, and with the longest names, it is below gRPC's default of 4 MiB."""
    settings = Settings()
    spec_bytes, count = settings.max_spec_bytes, settings.max_sources
    world.extension.registered_spec = extension_pb2.ExtensionSpec(
        content=extension_pb2.ContentWatchSet(manifests=b"x" * spec_bytes)
    )
    label, name = "x" * 63, "x" * 253
    for number in range(count):
        informer = world.extension.add_informer(
            source_spec(
                cluster=name,
                group=name,
                resource=f"{number:04}{name[4:]}",
                namespace=label,
                label_selector="x" * (spec_bytes // count),
            )
        )
        informer.set_state(
            SourceState.FORBIDDEN, "VERBS_MISSING", "x" * 1024, missing_verbs=("list", "watch")
        )
    assert world.message().ByteSize() < 4 * 1024 * 1024
