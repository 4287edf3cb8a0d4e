"""What a container engine does with a Dockerfile, as far as ours needs it, without an engine.

`BuildContext` holds the files that .dockerignore lets through; `Stage` carries out the steps of one
stage in a folder that stands for the root of its file system. Steps that fetch packages are left
out: what they install comes from the test's own environment.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

__all__ = ["BuildContext", "Instruction", "Stage", "instructions"]

_SECONDS = 120


class Instruction(NamedTuple):
    """One instruction of a Dockerfile, its lines joined."""

    name: str
    text: str


def instructions(dockerfile: str) -> list[Instruction]:
    """Return the instructions of a Dockerfile."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [Instruction(name.upper(), text.strip()) for name, _, text in found]


class BuildContext:
    """The files that are sent to the engine."""

    def __init__(self, root: Path, ignored: str) -> None:
        self._root = root
        self._rules = [
            (_pattern(line.removeprefix("!")), line.startswith("!"))
            for line in map(str.strip, ignored.splitlines())
            if line and not line.startswith("#")
        ]

    def is_sent(self, path: PurePosixPath) -> bool:
        """Say whether a file is let through: the last rule that names it or a folder above it."""
        names = [str(path), *(str(parent) for parent in path.parents[:-1])]
        sent = True
        for pattern, lets_through in self._rules:
            if any(pattern.fullmatch(name) for name in names):
                sent = lets_through
        return sent

    def files(self, source: str) -> Iterator[tuple[Path, PurePosixPath]]:
        """Yield the files of a source of COPY, each with its place below the source."""
        start = self._root / source
        for path in [start] if start.is_file() else sorted(start.rglob("*")):
            if path.is_file() and self.is_sent(PurePosixPath(path.relative_to(self._root))):
                yield path, PurePosixPath(path.relative_to(start))


def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*)", text.strip("/"))
    made = {"**/": "(?:.*/)?", "*": "[^/]*"}
    return re.compile("".join(made.get(part, re.escape(part)) for part in parts))


class Stage:
    """One stage, whose file system begins at a folder."""

    def __init__(self, context: BuildContext, root: Path) -> None:
        self._context = context
        self._root = root
        self._folder = root

    def carry_out(self, each: Instruction) -> None:
        """Carry out an instruction; those that only describe the image change nothing here."""
        match each.name:
            case "WORKDIR":
                self._folder = self._inside(each.text)
                self._folder.mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(*shlex.split(each.text))
            case "RUN":
                for command in each.text.split("&&"):
                    if "--require-hashes" not in command:
                        self._run(shlex.split(command))

    def _inside(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _copy(self, *words: str) -> None:
        *sources, target = words
        for source in sources:
            files = list(self._context.files(source))
            assert files, f"COPY {source}: .dockerignore lets nothing of it through"
            place = self._folder / target
            for path, below in files:
                to = place / path.name if below == PurePosixPath() else place / below
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, to)

    def _run(self, words: list[str]) -> None:
        command: list[str] = []
        for word in words:
            if word == "python":
                command.append(sys.executable)
            elif "*" in word:
                found = self._inside(word)
                command += map(str, sorted(found.parent.glob(found.name)))
            else:
                command.append(str(self._inside(word)) if word.startswith("/") else word)
        done = subprocess.run(
            command,
            cwd=self._folder,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
