"""Fixtures of the tests of clusters/."""

from __future__ import annotations

import pytest

from tests.controlplane.credentials import Credentials


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    """Give a CA with a serving certificate for the loopback."""
    return Credentials(tmp_path_factory.mktemp("pki"))
