"""The client's wheel, in an environment that holds nothing but what the wheel asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
IMPORT_ALL = """
import importlib, pkgutil, sys, watchcache
for each in pkgutil.walk_packages(watchcache.__path__, "watchcache.", onerror=lambda name: None):
    if not each.name.startswith(tuple(sys.argv[1:])):
        importlib.import_module(each.name)
        print(each.name)
"""


def _run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    return subprocess.run(
        words,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _done(*words: str | Path, **environment: str) -> str:
    done = _run(*words, **environment)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the client's wheel."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps")
    _done(
        *pip, "--no-build-isolation", "--no-index", "--wheel-dir", folder, ROOT / "clients/python"
    )
    [made] = folder.glob("*.whl")
    return made


class Environment:
    """A virtual environment with the wheel, and links to what it asks for, with these extras."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        self.bin = folder / "bin"
        _done(sys.executable, "-m", "venv", "--without-pip", folder)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
        _done(*pip, "--python", self.bin / "python", "install", "--no-deps", "--no-index", wheel)
        [packages] = (folder / "lib").glob("python3*/site-packages")
        [metadata] = packages.glob("watchcache-*.dist-info")
        self.linked: set[str] = set()
        self._link_needs(Distribution.at(metadata), set(extras), packages)

    def _link_needs(self, of: Distribution, extras: set[str], packages: Path) -> None:
        for text in of.requires or []:
            need = Requirement(text)
            name = canonicalize_name(need.name)
            wanted = [{"extra": extra} for extra in ("", *extras)]
            if name in self.linked or not (
                need.marker is None or any(need.marker.evaluate(each) for each in wanted)
            ):
                continue
            self.linked.add(name)
            found = distribution(name)
            for file in found.files or []:
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    place = packages / file
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.symlink_to(file.locate())
            self._link_needs(found, need.extras, packages)

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs, which finds nothing from outside."""
        return _run(self.bin / program, *words, PYTHONPATH="", PYTHONNOUSERSITE="1")


def _modules() -> set[str]:
    below = ROOT / "clients/python"
    paths = (path.relative_to(below) for path in (below / "watchcache").rglob("*.py"))
    names = (".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths)
    return set(names) - {"watchcache"}


@pytest.mark.timeout(180)
def test_every_module_but_the_command_needs_grpcio_and_protobuf_only(
    wheel: Path, tmp_path: Path
) -> None:
    """What those two need themselves is there, and nothing else that this checkout installs."""
    environment = Environment(tmp_path / "venv", wheel)
    assert environment.linked == {"grpcio", "protobuf", "typing-extensions"}
    done = environment.run("python", "-c", IMPORT_ALL, "watchcache.cli.")
    assert done.returncode == 0, done.stderr
    apart = {name for name in _modules() if name.startswith("watchcache.cli.")}
    assert set(done.stdout.split()) == _modules() - apart
    assert apart, "the command has modules of its own"


@pytest.mark.timeout(180)
def test_the_command_without_its_extra_says_what_to_install(wheel: Path, tmp_path: Path) -> None:
    """One line on standard error, and no traceback."""
    done = Environment(tmp_path / "venv", wheel).run("watchcache", "--help")
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert re.match(r"error: No module named '\w+'; .*pip install .*\[cli\]'", line)


@pytest.mark.timeout(180)
def test_with_the_extra_the_command_works(wheel: Path, tmp_path: Path) -> None:
    """The extra names everything that the command needs."""
    environment = Environment(tmp_path / "venv", wheel, "cli")
    done = environment.run("python", "-c", IMPORT_ALL, "none.")
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == _modules()
    assert environment.run("watchcache", "--help").returncode == 0
