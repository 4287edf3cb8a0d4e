"""The history of etcd, by which a storm is judged, is read as it is."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.chaos.storm.tally import Harm, Tally, harm_of
from tests.chaos.storm.truth import State, Truth, key_of
from tests.history_checker import Rule
from tests.history_records import Change, Key, Kind

RESOURCES = ("configmaps", "widgets.example.com")
UID, OTHER = "0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"
KEY = Key("hub", "", "configmaps", "left", "one")


def event(path: str, revision: int, uid: str = "") -> dict[str, Any]:
    """Make an event as etcd sends it; without a uid the object ends."""
    kv = {"key": base64.b64encode(path.encode()).decode(), "mod_revision": str(revision)}
    if uid:
        kv["value"] = base64.b64encode(b"k8s\x00\x0a\x03one\x2a\x24" + uid.encode()).decode()
    return {"kv": kv} if uid else {"type": "DELETE", "kv": kv}


def truth_of(*events: dict[str, Any]) -> Truth:
    """Return what is known after some events."""
    truth = Truth("http://127.0.0.1:1", RESOURCES, ("left",))
    for each in events:
        truth._take({"events": [each]})
    return truth


@pytest.mark.parametrize(
    ("path", "key"),
    [
        pytest.param("/registry/configmaps/left/one", KEY, id="core"),
        pytest.param(
            "/registry/example.com/widgets/left/w",
            Key("hub", "example.com", "widgets", "left", "w"),
            id="custom",
        ),
        pytest.param("/registry/secrets/left/one", None, id="another resource"),
        pytest.param("/registry/namespaces/left", None, id="cluster-scoped"),
        pytest.param("storm-mark", None, id="no object"),
    ],
)
def test_a_key_of_etcd_names_an_object(path: str, key: Key | None) -> None:
    """Where an API server keeps an object tells which one it is."""
    assert key_of(path, RESOURCES) == key


def test_every_state_and_every_end_is_kept() -> None:
    """An object that is made anew is another one; what is elsewhere does not count."""
    path = "/registry/configmaps/left/one"
    truth = truth_of(
        event(path, 5, UID),
        event(path, 7),
        event(path, 8, OTHER),
        event("/registry/configmaps/far/one", 9, UID),
    )
    assert truth.states == {
        KEY: [
            State(5, UID, is_end=False),
            State(7, UID, is_end=True),
            State(8, OTHER, is_end=False),
        ]
    }
    assert truth.deleted_uids == {UID}
    assert truth.content() == {KEY: (OTHER, "8")}
    assert sorted(truth.since(5)) == [
        (KEY, State(7, UID, is_end=True)),
        (KEY, State(8, OTHER, is_end=False)),
    ]
    assert truth.revision == 9


@pytest.mark.parametrize(
    ("kind", "uid", "version", "is_doubted"),
    [
        pytest.param(Kind.ADDED, UID, "5", False, id="a state"),
        pytest.param(Kind.DELETED, UID, "7", False, id="its end"),
        pytest.param(Kind.DELETED, UID, "5", False, id="its end, learned of later"),
        pytest.param(Kind.MODIFIED, UID, "6", True, id="a version that never was"),
        pytest.param(Kind.MODIFIED, OTHER, "5", True, id="another's version"),
        pytest.param(Kind.DELETED, OTHER, "8", True, id="the end of one that lives"),
    ],
)
def test_what_never_was_is_doubted(kind: Kind, uid: str, version: str, is_doubted: bool) -> None:
    """Only a state that etcd held, or an end that happened, may be told."""
    path = "/registry/configmaps/left/one"
    truth = truth_of(event(path, 5, UID), event(path, 7), event(path, 8, OTHER))
    assert bool(truth.doubt(Change(kind, KEY, uid, version, 1))) == is_doubted


def test_a_gap_in_the_history_is_an_error() -> None:
    """Where etcd has forgotten what was not yet read, nothing can be judged."""
    with pytest.raises(AssertionError, match="forgotten"):
        truth_of()._take({"compact_revision": "9", "canceled": True})


def test_every_rule_has_a_harm() -> None:
    """Whatever the history checker finds counts in the account, and makes it unclean."""
    for rule in Rule:
        tally = Tally()
        assert tally.is_clean
        tally.blame(harm_of(rule), "something")
        assert not tally.is_clean
        last = list(tally.lines())[-1]
        assert f"{harm_of(rule).value} 1" in last
    assert {harm_of(Rule.UNIQUE), harm_of(Rule.ORDERED), harm_of(Rule.NO_GAP)} == {
        Harm.DOUBLED,
        Harm.MISORDERED,
        Harm.LOST,
    }
