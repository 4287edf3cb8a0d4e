"""Runs `go build` for a recipe and tells how far it is.

It promises that every program of the recipe is in the output folder, or raises. Where the output
goes and whether a build is needed at all is `cache`'s business.
"""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tests.controlplane.build.golang import go_environment
from tests.controlplane.build.recipe import Recipe

__all__ = ["CompileError", "compile_recipe"]

_REPORT_EVERY_SECONDS = 15.0
_KEPT_LINES = 40


class CompileError(Exception):
    """`go build` failed; the text holds its last lines."""


def compile_recipe(go: Path, recipe: Recipe, output: Path, say: Callable[[str], None]) -> None:
    """Build the programs of `recipe` into the folder `output`.

    Raises:
        CompileError: when `go build` fails or leaves a program out.
    """
    names = ", ".join(program.name for program in recipe.programs)
    say(f"building {names} {recipe.version} (a first build takes minutes)")
    began = time.monotonic()
    # One call for each program: `go build -o FOLDER` names an executable after the last part of
    # its package, which for etcd is not the program's name. The second call finds nearly all of
    # its packages compiled.
    for program in recipe.programs:
        command = [str(go), "build", "-v", "-mod=readonly", "-buildvcs=false", "-trimpath"]
        command += ["-ldflags", recipe.link_flags, "-o", str(output / program.name)]
        _run([*command, program.package], go, recipe, say)
        if not (output / program.name).is_file():
            raise CompileError(
                f"go build of {program.package} succeeded but left no {program.name}"
            )
    say(f"built {names} in {time.monotonic() - began:.0f} s")


def _run(command: list[str], go: Path, recipe: Recipe, say: Callable[[str], None]) -> None:
    last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
    compiled = downloaded = 0
    reported = began = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=recipe.folder,
        env=go_environment(go),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                last_lines.append(line.rstrip())
                if line.startswith("go: downloading"):
                    downloaded += 1
                else:
                    compiled += 1
                now = time.monotonic()
                if now - reported >= _REPORT_EVERY_SECONDS:
                    reported = now
                    say(f"  {now - began:.0f} s: {downloaded} modules, {compiled} packages")
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        tail = "\n".join(last_lines)
        raise CompileError(
            f"{' '.join(command)}\nin {recipe.folder} failed (exit {process.returncode}):\n{tail}\n"
            "Modules come from GOPROXY; check that it answers. Programs built elsewhere can be "
            "used with KUBEBUILDER_ASSETS."
        )
