"""The command as a test calls it: in this process, in the loop of the test."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from tests.unit.client.fake_service import FakeService
from watchcache.cli import commands
from watchcache.cli.running import finish

__all__ = ["Command", "Result"]


class Result(NamedTuple):
    """How a command ended."""

    code: int | None
    output: str
    errors: str


class Command:
    """Runs the command in this process, in the loop of the test."""

    def __init__(self, service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        self._service = service
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Result:
        works: list[Any] = []
        self._monkeypatch.setattr(commands, "run", works.append)
        self._monkeypatch.setenv("WATCHCACHE_ADDRESS", self._service.address)
        result = CliRunner().invoke(commands.app, arguments)
        if not works:
            return Result(result.exit_code, result.stdout, result.stderr)
        stream = SimpleNamespace(buffer=io.BytesIO(stdin))
        self._monkeypatch.setattr(sys, "stdin", stream)
        self._capsys.readouterr()
        code = await finish(works[0])
        written = self._capsys.readouterr()
        return Result(code, written.out, written.err)
