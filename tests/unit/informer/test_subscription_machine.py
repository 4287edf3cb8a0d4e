"""Many readers of one store, slow and fast, against a simulated API server that knows the truth.

Informers read the server late and list anew at bad moments; specs change while they do; readers
have tiny limits and stop anywhere. At the present each must hold what passes its filter and nothing
else, by events that were each possible where they came.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.items import served, source_spec
from tests.unit.informer.cluster import Cluster, SimulatedInformer
from tests.unit.informer.reader import Key, Known, Reader, content, key_of
from watchcache_server.informer import held as held_already
from watchcache_server.informer.cursors import Advance, Cursor, Limits
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.held import KnownGroup, Past, object_id, version_id
from watchcache_server.informer.objects import Item
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import begin_snapshot
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import EventKind, LeftReason

NAMESPACES = ("a", "b")
NAMES = ("x", "y")
# What an extension may want of the pods; it changes its mind from one to another.
WISHES: tuple[tuple[SourceSpec, ...], ...] = (
    (source_spec(),),
    (source_spec(namespace="a"), source_spec(namespace="b")),
    (source_spec(namespace="a"),),
    (source_spec(label_selector="keep=yes"),),
    (source_spec(namespace="a", label_selector="keep=yes"), source_spec(namespace="b")),
    (source_spec(projection="metadata"),),
    (),
)
# Beside the pods there is a resource of which only the kind was given.
DEPLOYMENTS = source_spec("", group="apps", kind="Deployment")
FILTERS = (
    EVERYTHING,
    Filter(resources=(("apps", "deployments"),)),
    Filter(clusters=("hub",), namespaces=("a",)),
    Filter(label_selector="tier=1"),
    Filter(resources=(("", "pods"),), namespaces=("b",), label_selector="keep=yes"),
    Filter(clusters=("elsewhere",)),
)


class Change(NamedTuple):
    """One change at the API server: labels for the object, or its end."""

    namespace: str
    name: str
    labels: dict[str, str] | None
    is_pod: bool


labels = st.fixed_dictionaries(
    {"keep": st.sampled_from(("yes", "no")), "tier": st.sampled_from(("1", "2"))}
)
changes = st.lists(
    st.builds(
        Change,
        st.sampled_from(NAMESPACES),
        st.sampled_from(NAMES),
        st.one_of(labels, labels, st.none()),
        st.sampled_from((True, True, True, False)),
    ),
    max_size=4,
)
limits = st.builds(
    Limits,
    events=st.integers(1, 3),
    raw_bytes=st.sampled_from((1, 200, 1_000_000)),
    scanned=st.integers(1, 4),
)
which = st.integers(0, 20)


def known_of(held: dict[Key, Known]) -> held_already.Known:
    """Say what is held, as a client does."""
    known = held_already.Known()
    for key, thing in held.items():
        group = KnownGroup(*key[:4], "v1", thing.body.split()[0].decode())
        known.add(group, object_id(thing.uid) + version_id(thing.resource_version))
    return known


def is_newer_or_other_form(before: Known, after: Known) -> bool:
    """Tell whether a change goes forward; another projection may have been read earlier."""
    is_newer = int(before.resource_version) <= int(after.resource_version)
    return is_newer or before.body.split()[0] != after.body.split()[0]


class SubscriptionMachine(RuleBasedStateMachine):
    """An API server, informers, and readers that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.pods = Cluster("pod")
        self.deployments = Cluster("deployment")
        self.active: list[SimulatedInformer] = []
        self.retired: list[SimulatedInformer] = []
        self.others: list[SimulatedInformer] = []
        self.readers: list[Reader] = []
        self.earlier: list[Reader] = []
        self.answers: dict[tuple[Filter, Cursor], Advance] = {}

    @initialize(
        max_changes=st.sampled_from((1, 3, 12, 10_000)),
        max_ends=st.sampled_from((1, 4, 10_000, 10_000)),
        wish=st.sampled_from(WISHES),
    )
    def begin(self, max_changes: int, max_ends: int, wish: tuple[SourceSpec, ...]) -> None:
        self.store = Store(
            b"epoch-01", max_changes=max_changes, max_history_bytes=1 << 20, max_ends=max_ends
        )
        self.others.append(SimulatedInformer(self.deployments, self.store, DEPLOYMENTS))
        self.add_reader(EVERYTHING, Limits(events=2, scanned=3))
        self.wish(wish)
        self.change([Change("a", "x", {"keep": "yes", "tier": "1"}, is_pod=True)])
        for i in range(len(wish)):
            self.sync(i, 0)

    def is_deleted(self, uid: str) -> bool:
        return self.pods.is_deleted(uid) and self.deployments.is_deleted(uid)

    @property
    def informers(self) -> list[SimulatedInformer]:
        return [*self.active, *self.retired, *self.others]

    # The API server

    def change(self, wanted: list[Change]) -> None:
        for namespace, name, labels, is_pod in wanted:
            cluster = self.pods if is_pod else self.deployments
            if labels is None:
                cluster.delete(namespace, name)
            else:
                cluster.put(namespace, name, labels)

    @rule(wanted=changes)
    def change_unseen(self, wanted: list[Change]) -> None:
        self.change(wanted)

    @rule(wanted=changes)
    def change_live(self, wanted: list[Change]) -> None:
        self.change(wanted)
        for informer in self.informers:
            informer.follow(100)

    @rule(
        namespace=st.sampled_from(NAMESPACES),
        name=st.sampled_from(NAMES),
        labels=labels,
        is_followed=st.booleans(),
    )
    def recreate(
        self, namespace: str, name: str, labels: dict[str, str], is_followed: bool
    ) -> None:
        self.change([Change(namespace, name, None, True), Change(namespace, name, labels, True)])
        if is_followed:
            self.change_live([])

    # The informers

    def bind(self, informer: SimulatedInformer) -> None:
        found = served()
        if informer.cluster is self.deployments:
            found = served("deployments", "Deployment", group="apps")
        assert informer.store.bind(informer.source, found) is None

    @rule(i=which, lag=st.integers(0, 4))
    def begin_list(self, i: int, lag: int) -> None:
        informer = self.informers[i % len(self.informers)]
        self.bind(informer)
        informer.list(lag)

    @rule(wish=st.sampled_from(WISHES), lag=st.integers(0, 3), before=changes, after=changes)
    def hand_over(
        self, wish: tuple[SourceSpec, ...], lag: int, before: list[Change], after: list[Change]
    ) -> None:
        """Change the spec; the old informers go on while the new ones list."""
        self.change_live(before)
        self.wish(wish)
        new = [informer for informer in self.active if not informer.source.is_synced]
        for informer in new:
            informer.list(lag)
        self.change_live(after)
        for informer in new:
            informer.commit()

    @precondition(lambda self: any(i.is_listing for i in self.informers))
    @rule(i=which)
    def commit(self, i: int) -> None:
        listing = [informer for informer in self.informers if informer.is_listing]
        listing[i % len(listing)].commit()

    @rule(i=which, lag=st.integers(0, 4))
    def sync(self, i: int, lag: int) -> None:
        self.begin_list(i, lag)
        self.informers[i % len(self.informers)].commit()

    @rule(i=which, limit=st.integers(1, 5), replayed=st.sampled_from((0, 0, 3)))
    def follow(self, i: int, limit: int, replayed: int) -> None:
        self.informers[i % len(self.informers)].follow(limit, replayed)

    @precondition(lambda self: any(i.source.unverified for i in self.informers))
    @rule(i=which)
    def ask(self, i: int) -> None:
        asking = [informer for informer in self.informers if informer.source.unverified]
        asking[i % len(asking)].ask()

    @precondition(lambda self: any(i.is_waiting for i in self.informers))
    @rule(i=which)
    def answer(self, i: int) -> None:
        waiting = [informer for informer in self.informers if informer.is_waiting]
        waiting[i % len(waiting)].answer()

    @rule(i=which, reason=st.sampled_from((LeftReason.RIGHTS_REVOKED, LeftReason.KIND_GONE)))
    def purge(self, i: int, reason: LeftReason) -> None:
        self.informers[i % len(self.informers)].purge(reason)

    @rule(wish=st.sampled_from(WISHES))
    def wish(self, wish: tuple[SourceSpec, ...]) -> None:
        """Change the spec: the new informers start beside the old ones."""
        for informer in list(self.active):
            if informer.source.spec not in wish:
                informer.source.is_retiring = True
                self.active.remove(informer)
                self.retired.append(informer)
        specs = {informer.source.spec for informer in self.active}
        for spec in wish:
            if spec not in specs:
                informer = SimulatedInformer(self.pods, self.store, spec)
                self.bind(informer)
                self.active.append(informer)

    @precondition(lambda self: bool(self.retired))
    @rule(i=which, is_hasty=st.sampled_from((False, False, True)))
    def retire(self, i: int, is_hasty: bool) -> None:
        """Stop an informer that retires, in good order or too early."""
        if not is_hasty and not all(a.source.is_synced for a in self.active):
            return
        informer = self.retired.pop(i % len(self.retired))
        self.store.remove_source(informer.source, LeftReason.SCOPE, 0.0)

    # The readers

    @rule(wanted=st.sampled_from(FILTERS), limits=limits)
    def add_reader(self, wanted: Filter, limits: Limits) -> None:
        reader = Reader(self.store, wanted, limits, self.answers)
        reader.is_deleted = self.is_deleted
        reader.may_come_back = False
        reader.may_follow = is_newer_or_other_form
        self.readers.append(reader)

    @rule(i=which, steps=st.integers(1, 3))
    def read(self, i: int, steps: int) -> None:
        reader = self.readers[i % len(self.readers)]
        for _ in range(steps):
            reader.step()

    @rule(i=which, steps=st.integers(1, 4))
    def follow_another(self, i: int, steps: int) -> None:
        """Read what others were told at the same place, as a cache of messages gives it."""
        reader = self.readers[i % len(self.readers)]
        for _ in range(steps):
            reader.step_with_another()

    @rule(i=which)
    def lose(self, i: int) -> None:
        """Cut the stream of a reader, which comes back with its newest token."""
        self.readers[i % len(self.readers)].lose()

    @rule(i=which, j=which, steps=st.integers(1, 4), before=changes, after=changes)
    def lose_midway(
        self, i: int, j: int, steps: int, before: list[Change], after: list[Change]
    ) -> None:
        """Cut the stream of a reader within the walk of a source that synced late."""
        reader = self.readers[i % len(self.readers)]
        self.purge(j, LeftReason.KIND_GONE)
        reader.catch_up()
        self.change(before)
        self.sync(j, 0)
        limits, reader.limits = reader.limits, Limits(events=1, scanned=1)
        for _ in range(steps):
            reader.step()
        reader.limits = limits
        self.change_live(after)
        reader.lose()

    @precondition(lambda self: bool(self.earlier))
    @rule(i=which, steps=st.integers(1, 6))
    def come_back_with_another(self, i: int, steps: int) -> None:
        """Go on from an earlier place by old answers, then by new ones."""
        reader = self.earlier[i % len(self.earlier)].copy()
        for _ in range(steps):
            reader.step_with_another()
        reader.catch_up()

    @rule(i=which)
    def catch_up(self, i: int) -> None:
        self.readers[i % len(self.readers)].catch_up()

    @rule(i=which)
    def remember(self, i: int) -> None:
        """Keep a place to which a reader may come back, in a walk or at the present."""
        self.earlier.append(self.readers[i % len(self.readers)].copy())

    @precondition(lambda self: bool(self.earlier))
    @rule(i=which)
    def come_back(self, i: int) -> None:
        """Go on from an earlier place: with what was held there, it leads to the same end."""
        reader = self.earlier[i % len(self.earlier)].copy()
        revision = reader.cursor.revision
        is_lasting = self.store.covers(revision) and not any(
            # Objects that move between sources are more than a walk or catching up survives.
            change is not None and change.entry is None and change.kind is EventKind.MODIFIED
            for _, change in self.store.latest_since(revision)
        )
        reader.catch_up()
        assert reader.reset_count == 0 or not is_lasting

    @rule(i=which, limits=limits, after=changes)
    def come_back_with_what_it_holds(self, i: int, limits: Limits, after: list[Change]) -> None:
        """Say what is held, be told the difference while things change, and be right at the end."""
        reader = self.readers[i % len(self.readers)].copy()
        if reader.token is None:
            return
        known = known_of(reader.held)
        reader.begin_with(known, begin_snapshot(self.store, reader.wanted, self.store.revision))
        reader.limits = limits
        reader.step()
        self.change_live(after)
        reader.catch_up()
        if reader.difference is None:
            # Objects have moved between sources: it began anew.
            return
        for group in known.groups:
            gone = known.take(group)
            for key, held in list(reader.held.items()):
                if key[:4] == group[:4] and object_id(held.uid) in gone:
                    del reader.held[key]
        reader.end_difference()

    @rule(
        i=which,
        limits=limits,
        before=changes,
        after=changes,
        purged=st.none() | which,
        is_back=st.booleans(),
    )
    def come_back_after_a_restart(
        self,
        i: int,
        limits: Limits,
        before: list[Change],
        after: list[Change],
        purged: int | None,
        is_back: bool,
    ) -> None:
        """Go on at another store, which has gone on too, by the upstream versions of a token.

        Meanwhile the rights of one of its informers may have been revoked, and granted again.
        """
        reader = self.readers[i % len(self.readers)].copy()
        if reader.token is None or reader.token[1] is not None:
            return
        positions = self.store.positions(reader.wanted, reader.token[0])
        if positions is None:
            return
        self.change(before)
        store = Store(b"epoch-02", max_changes=1000, max_history_bytes=1 << 20)
        versions: dict[Source, str] = {}
        ends: list[tuple[Source, Item, bool]] = []
        informers: list[SimulatedInformer] = []
        for informer in [*self.active, *self.others]:
            again = SimulatedInformer(informer.cluster, store, informer.source.spec)
            self.bind(again)
            informers.append(again)
            again.list(0)
            again.commit()
            position = positions.pop(again.source.identity, None)
            if position is not None:
                versions[again.source] = position
                ends += ((again.source, *end) for end in again.ended(int(position)))
        if positions:
            # What it watched is watched no longer: it begins anew.
            return
        revision = store.revision
        self.change(after)
        for again in informers:
            again.follow(100)
            again.ask()
            while again.answer():
                pass
        if purged is not None and informers:
            again = informers[purged % len(informers)]
            again.purge(LeftReason.RIGHTS_REVOKED)
            if is_back:
                again.list(0)
                again.commit()
        reader.store, reader.limits = store, limits
        reader.begin_with(Past(versions), begin_snapshot(store, reader.wanted, revision))
        for source, thing, is_deleted in ends:
            reader.end(key_of(source, thing.namespace, thing.name), thing.uid, is_deleted)
        reader.catch_up()
        reader.end_difference()

    def teardown(self) -> None:
        """When all is quiet, all that was read late has arrived, everywhere."""
        if not hasattr(self, "store"):
            return
        for i, informer in enumerate(self.informers):
            if informer.is_listing or not informer.source.is_synced:
                self.sync(i, 0)
        while self.retired:
            self.retire(0, is_hasty=False)
        for informer in self.informers:
            informer.follow(1_000_000)
            for _ in range(2):
                informer.ask()
                while informer.answer():
                    pass
        wanted = {}
        for informer in self.informers:
            for (namespace, name), thing in informer.cluster.now.items():
                if informer.selects(thing):
                    source = informer.source
                    wanted[Key("hub", source.group, source.resource, namespace, name)] = thing.uid
        held = {key: known.uid for key, known in content(self.store, EVERYTHING).items()}
        assert held == wanted
        for reader in self.readers:
            reader.catch_up()


@pytest.mark.timeout(300)
def test_readers_hold_what_passes_their_filter() -> None:
    """However slow, filtered or interrupted, a reader at the present holds what it should."""
    run_state_machine_as_test(
        SubscriptionMachine,
        settings=settings(max_examples=2 * settings().max_examples, stateful_step_count=40),
    )
