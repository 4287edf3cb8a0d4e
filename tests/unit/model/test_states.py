"""The words for states and reasons, which proto, metrics and logs share."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from tests.items import served
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache_server.model.states import (
    EventKind,
    ExtensionState,
    LeftReason,
    Projection,
    SourceState,
    View,
)


@pytest.mark.parametrize("state", SourceState, ids=lambda state: state.value)
def test_only_waiting_and_syncing_are_not_settled(state: SourceState) -> None:
    """A source that has synced or cannot sync for now is nothing to wait for."""
    assert state.is_settled is (state not in {SourceState.PENDING, SourceState.SYNCING})


@pytest.mark.parametrize(
    ("words", "wire", "prefix"),
    [
        pytest.param(SourceState, extension_pb2.SourceState, "SOURCE_STATE_", id="sources"),
        pytest.param(
            ExtensionState, extension_pb2.ExtensionState, "EXTENSION_STATE_", id="extensions"
        ),
        pytest.param(Projection, extension_pb2.Projection, "PROJECTION_", id="projections"),
        pytest.param(EventKind, event_pb2.EventType, "EVENT_TYPE_", id="events"),
        pytest.param(LeftReason, event_pb2.LeftReason, "LEFT_REASON_", id="reasons"),
        pytest.param(View, event_pb2.View, "VIEW_", id="views"),
    ],
)
def test_contract_has_the_same_words(words: type[Enum], wire: Any, prefix: str) -> None:
    """Each word exists on the wire, each word of the wire exists here, and values follow names."""
    ours = {word.name for word in words}
    theirs = {name.removeprefix(prefix) for name, _ in wire.items()}
    assert ours == theirs - {"UNSPECIFIED"}
    assert all(word.value == word.name.lower() for word in words)


@pytest.mark.parametrize(
    ("group", "api_version", "name"),
    [
        pytest.param("", "v1", "deployments", id="core"),
        pytest.param("apps", "apps/v1", "deployments.apps", id="group"),
    ],
)
def test_resource_is_named_as_kubectl_does(group: str, api_version: str, name: str) -> None:
    """The core group has no name."""
    found = served("deployments", "Deployment", group=group)
    assert (found.api_version, found.name) == (api_version, name)
