"""Rules of which informers an extension is to run, by the namespaces that match."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.items import source_spec
from watchcache_server.model.source_plan import Bounds, SourcePlan, plan_sources
from watchcache_server.model.specs import Choice, NamespaceSet, SourceSpec

GOLD = NamespaceSet("hub", "tier=gold")
OLD = NamespaceSet("hub", "age=old")
PODS = Choice(source_spec("pods"), GOLD)
MAPS = Choice(source_spec("configmaps"), GOLD)
OLD_PODS = Choice(source_spec("pods"), OLD)
WIDE = Bounds(100, 1000)


def pods(*namespaces: str) -> list[SourceSpec]:
    """Return the sources of pods in these namespaces."""
    return [PODS.source_in(namespace) for namespace in namespaces]


def plan(
    *choices: Choice,
    named: Iterable[SourceSpec] = (),
    gold: Iterable[str] | None = (),
    old: Iterable[str] | None = (),
    running: Iterable[SourceSpec] = (),
    bounds: Bounds = WIDE,
) -> SourcePlan:
    """Say what is to run."""
    members = {
        GOLD: None if gold is None else list(gold),
        OLD: None if old is None else list(old),
    }
    return plan_sources(list(named), choices, members, list(running), bounds)


def test_each_namespace_that_matches_has_each_resource() -> None:
    """In the order of the namespaces, so that one is whole before the next."""
    found = plan(PODS, MAPS, gold=["b", "a"])
    assert [(each.namespace, each.resource) for each in found.wanted] == [
        ("a", "configmaps"),
        ("a", "pods"),
        ("b", "configmaps"),
        ("b", "pods"),
    ]
    assert not found.leaving
    assert not found.crowded_out


def test_an_empty_set_has_no_source() -> None:
    """It is known, and nothing matches."""
    assert plan(PODS) == SourcePlan((), frozenset(), {})


def test_what_ceases_to_match_leaves() -> None:
    """It is to end with care, and what stays is wanted as before."""
    found = plan(PODS, gold=["a"], running=pods("a", "b"))
    assert found.wanted == tuple(pods("a"))
    assert found.leaving == set(pods("b"))


def test_what_no_entry_asks_for_is_neither_wanted_nor_leaving() -> None:
    """It is the spec that has changed."""
    found = plan(MAPS, gold=["a"], running=pods("a"))
    assert pods("a")[0] not in found.wanted
    assert not found.leaving


def test_what_runs_stays_while_a_set_is_not_known() -> None:
    """A set that was never read says nothing about any namespace."""
    found = plan(PODS, gold=None, running=pods("a", "b"))
    assert set(found.wanted) == set(pods("a", "b"))
    assert not found.leaving


def test_two_sets_of_one_resource_are_joined() -> None:
    """A namespace that matches both is watched once, and leaves when neither has it."""
    found = plan(PODS, OLD_PODS, gold=["a", "b"], old=["b", "c"], running=pods("b", "d"))
    assert sorted(found.wanted) == pods("a", "b", "c")
    assert found.leaving == set(pods("d"))


def test_what_is_named_is_watched_whatever_the_labels_are() -> None:
    """A namespace that is named and matches has one source, which stays when it matches no more."""
    for gold in (["a"], [], None):
        found = plan(PODS, named=pods("a"), gold=gold, running=pods("a"))
        assert found == SourcePlan(tuple(pods("a")), frozenset(), {})


def test_named_first_then_running_then_by_name() -> None:
    """Beyond the bound further namespaces wait, and those that run go on."""
    found = plan(
        PODS,
        named=[source_spec("secrets", namespace="x")],
        gold=["a", "b", "z"],
        running=pods("z"),
        bounds=Bounds(4, 1000),
    )
    assert [each.namespace for each in found.wanted] == ["x", "z", "a"]
    assert found.crowded_out == {GOLD: 1}


def test_what_leaves_takes_room_until_it_has_left() -> None:
    """Else there would be more than the bound for a while."""
    found = plan(PODS, gold=["b"], running=pods("a"), bounds=Bounds(2, 1000))
    assert (found.wanted, found.leaving) == ((), frozenset(pods("a")))
    assert found.crowded_out == {GOLD: 1}


def test_text_is_bounded_too() -> None:
    """Each informer is described with its selectors, in every answer."""
    choice = Choice(source_spec("pods", label_selector="x" * 40), GOLD)
    bounds = Bounds(100, 100 + len(GOLD.selector))
    found = plan(choice, gold=["a", "b", "c"], bounds=bounds)
    assert [each.namespace for each in found.wanted] == ["a", "b"]
    assert found.crowded_out == {GOLD: 1}


_NAMES = st.sets(st.sampled_from("abcdef"))
_CHOICES = st.sets(st.sampled_from([PODS, MAPS, OLD_PODS]))
_SOURCES = st.sets(
    st.builds(
        lambda choice, namespace: choice.source_in(namespace),
        st.sampled_from([PODS, MAPS]),
        st.sampled_from("abcdef"),
    )
)


@given(
    choices=_CHOICES,
    named=_SOURCES,
    gold=st.none() | _NAMES,
    old=st.none() | _NAMES,
    running=_SOURCES,
    room=st.integers(1, 12),
)
def test_invariants(
    choices: set[Choice],
    named: set[SourceSpec],
    gold: set[str] | None,
    old: set[str] | None,
    running: set[SourceSpec],
    room: int,
) -> None:
    """Whatever comes: nothing twice, the bound holds, nothing named is missing, all is accounted.

    To plan again with the plan carried out changes nothing.
    """
    bounds = Bounds(room, 1000)
    arguments = {"named": sorted(named), "gold": gold, "old": old, "bounds": bounds}
    found = plan(*choices, running=running, **arguments)  # type: ignore[arg-type]
    wanted = set(found.wanted)
    assert len(wanted) == len(found.wanted)
    assert named <= wanted
    assert not wanted & found.leaving
    assert found.leaving <= running
    sets = {choice.namespaces for choice in choices}
    count = len(wanted) + len(found.leaving) + len(sets)
    fixed = len(named) + len(found.leaving) + len(sets)
    assert count <= max(room, fixed)
    members = {GOLD: gold, OLD: old}
    for choice in choices:
        names = members[choice.namespaces]
        missing = {choice.source_in(name) for name in names or ()} - wanted
        # A source that leaves is none that is chosen.
        assert not missing & found.leaving
        assert bool(missing) <= (choice.namespaces in found.crowded_out)
    again = plan(*choices, running=wanted | found.leaving, **arguments)  # type: ignore[arg-type]
    assert set(again.wanted) == wanted
    assert again.leaving == found.leaving


def test_sources_in_namespaces_differ_in_nothing_else() -> None:
    """So a source is the same whether its namespace is named or chosen."""
    source = PODS.source_in("a")
    assert msgspec.structs.replace(source, namespace="") == PODS.scope == source.wide
