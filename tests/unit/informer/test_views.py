"""Views: what a subscriber is sent of a body."""

from __future__ import annotations

import pytest

from watchcache_server.informer.views import metadata_of

CASES = {
    "whole": (
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"n":1e400,"managedFields":[{}]},"spec":{}}',
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"n":1e400}}',
    ),
    "without managedFields the metadata stay as they are": (
        b'{"kind":"Pod","metadata": {"name" : "\\u0061"},"spec":{}}',
        b'{"kind":"Pod","metadata":{"name" : "\\u0061"}}',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_metadata_is_what_is_left(name: str) -> None:
    """apiVersion, kind and metadata without managedFields, every other byte as it was."""
    body, expected = CASES[name]
    assert metadata_of(body) == expected


def test_nesting_is_no_obstacle() -> None:
    """What could be read when it came can be shown, however deep in a call that is done."""
    metadata = b'{"name":"a","managedFields":[],"uid":"u"}'
    body = b'{"kind":"K","spec":%s,"metadata":%s}' % (b"[" * 20_000 + b"]" * 20_000, metadata)
    assert metadata_of(body) == b'{"kind":"K","metadata":{"name":"a","uid":"u"}}'
