"""Rules of [NAME=]PATH[#CONTEXT]."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchcache_server.clusters.errors import SourceMalformedError
from watchcache_server.clusters.sources import KubeconfigSource, parse_source

GOOD = {
    "/etc/k": KubeconfigSource(Path("/etc/k")),
    "k.yaml": KubeconfigSource(Path("k.yaml")),
    "/etc/k#dev": KubeconfigSource(Path("/etc/k"), "dev"),
    "hub=/etc/k": KubeconfigSource(Path("/etc/k"), "", "hub"),
    "hub=/etc/k#dev": KubeconfigSource(Path("/etc/k"), "dev", "hub"),
    "hub=k": KubeconfigSource(Path("k"), "", "hub"),
    "/etc/a=b": KubeconfigSource(Path("/etc/a=b")),
    "./a=b": KubeconfigSource(Path("./a=b")),
    "/etc/k#a=b": KubeconfigSource(Path("/etc/k"), "a=b"),
    "hub=/etc/k#arn:aws:eks:cluster/x#y": KubeconfigSource(
        Path("/etc/k"), "arn:aws:eks:cluster/x#y", "hub"
    ),
    "~/k": KubeconfigSource(Path.home() / "k"),
    "hub=~/k": KubeconfigSource(Path.home() / "k", "", "hub"),
}


@pytest.mark.parametrize("text", GOOD)
def test_a_source_is_read_as_it_is_written(text: str) -> None:
    """Name and context are optional; the path may hold anything but '#'."""
    assert parse_source(text) == GOOD[text]


BAD = {
    "": "with the path of a kubeconfig",
    "hub=": "with the path of a kubeconfig",
    "#dev": "with the path of a kubeconfig",
    "/etc/k#": "with the path of a kubeconfig",
    "Hub=/etc/k": "no DNS subdomain",
    "my hub=/etc/k": "no DNS subdomain",
    "=/etc/k": "is required",
}


@pytest.mark.parametrize("text", BAD)
def test_a_malformed_source_is_refused_with_the_form(text: str) -> None:
    """The error shows what was given and what to write."""
    with pytest.raises(SourceMalformedError, match=BAD[text]) as caught:
        parse_source(text)
    assert repr(text) in str(caught.value)
    assert "PATH" in str(caught.value)


def test_a_source_reads_back_for_people() -> None:
    """As PATH#CONTEXT."""
    assert str(parse_source("hub=/etc/k#dev")) == "/etc/k#dev"
    assert str(parse_source("/etc/k")) == "/etc/k"
