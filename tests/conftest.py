"""The plugins that every folder of tests may use."""

from __future__ import annotations

pytest_plugins = ["tests.controlplane.plugin"]
