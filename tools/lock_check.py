"""Checks that the lock files are what the pyproject files ask for, hashed, and free of addresses.

It reads files only, so that it finds without a network what a change of a dependency left behind.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.lock import DISTRIBUTIONS, LOCKS, OURS, ROOT

__all__ = ["faults", "main"]

ADDRESS: Final = re.compile(r"://|^\s*-|\bfile:| @ ", re.MULTILINE)
PIN: Final = re.compile(r"(?P<name>[a-z0-9._-]+)==(?P<version>[^\s;]+)(?P<rest>.*)", re.IGNORECASE)
# What the image holds; requirements/runtime.lock is for it.
SHIPPED: Final = ("pyproject.toml", "clients/python/pyproject.toml")
# The groups that have a lock of their own; every other requirement is in the development lock.
OWN_LOCKS: Final = ("build", "go", "proto")


def faults() -> list[str]:
    """Return what is wrong with the locks, a sentence each."""
    found: list[str] = []
    pins: dict[str, dict[str, str]] = {}
    for path in sorted((ROOT / LOCKS).glob("*.lock")):
        text = path.read_text(encoding="utf-8")
        without_hashes = re.sub(r"\s*--hash=sha256:[0-9a-f]{64}", "", text)
        if ADDRESS.search(without_hashes):
            found.append(f"{path.name} holds an address or an option; a lock holds only pins")
        pins[path.stem] = {}
        for logical in text.replace("\\\n", " ").splitlines():
            if logical.strip() and not logical.startswith("#"):
                _read_pin(logical, path.name, pins[path.stem], found)
    for lock, requirement in _declared():
        version = pins.get(lock, {}).get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            held = "does not have it" if version is None else f"has {version}"
            found.append(f"{requirement} is declared, but {lock}.lock {held}")
    return found


def _read_pin(line: str, file: str, pins: dict[str, str], found: list[str]) -> None:
    pin = PIN.match(line)
    if pin is None:
        found.append(f"{file} has a line that pins nothing: {line.strip()[:80]}")
        return
    if "--hash=sha256:" not in pin["rest"]:
        found.append(f"{file} has no hash of {pin['name']}")
    pins[canonicalize_name(pin["name"])] = pin["version"]


def _declared() -> Iterator[tuple[str, Requirement]]:
    """Yield each requirement of the pyproject files with the lock that must hold it."""
    for path in DISTRIBUTIONS:
        declared: dict[str, Any] = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))
        project = declared["project"]
        in_dev = [*project["dependencies"], *declared["build-system"]["requires"]]
        for extra in project.get("optional-dependencies", {}).values():
            in_dev += extra
        for group, members in declared.get("dependency-groups", {}).items():
            named = [member for member in members if isinstance(member, str)]
            if group in OWN_LOCKS:
                yield from ((group, Requirement(name)) for name in named)
            else:
                in_dev += named
        named_by_lock = {
            "dev": in_dev,
            "runtime": project["dependencies"] if path in SHIPPED else [],
        }
        for lock, names in named_by_lock.items():
            for requirement in map(Requirement, names):
                if canonicalize_name(requirement.name) not in OURS:
                    yield lock, requirement


def main() -> int:
    """Print what is wrong and how to mend it; return 1 if anything is."""
    found = faults()
    for fault in found:
        print(fault, file=sys.stderr)
    if found:
        print("Run `make lock` and commit requirements/.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
