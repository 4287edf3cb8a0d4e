"""The image: its steps, carried out on the files that .dockerignore lets through."""

from __future__ import annotations

import os
import shlex
import site
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests.packaging.build_context import BuildContext, Instruction, Stage, instructions

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))


def _stages() -> Iterator[list[Instruction]]:
    """Yield the instructions of each stage, FROM included."""
    starts = [number for number, each in enumerate(DOCKERFILE) if each.name == "FROM"]
    for start, end in zip(starts, [*starts[1:], len(DOCKERFILE)], strict=True):
        yield DOCKERFILE[start:end]


@pytest.fixture(scope="module")
def context() -> BuildContext:
    """Give the files that an engine would be sent."""
    return BuildContext(ROOT, (ROOT / ".dockerignore").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def image(context: BuildContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the root of the stage that builds, after its last step."""
    root = tmp_path_factory.mktemp("image")
    build, _ = _stages()
    stage = Stage(context, root)
    for each in build:
        stage.carry_out(each)
    return root


def _program(image: Path, *words: str) -> str:
    """Run a program of the image, with the packages of the test's environment for locked ones."""
    folder = image / "opt/watchcache/bin"
    done = subprocess.run(
        [folder / words[0], *words[1:]],
        # Folders named here are searched, but not asked for editable installs.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(site.getsitepackages())},
        cwd=image,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("path", "is_sent"),
    [
        pytest.param("README.md", True, id="named"),
        pytest.param("service/watchcache_server/app.py", True, id="in a folder that is named"),
        pytest.param("clients/python/README.md", True, id="in a folder that is not"),
        pytest.param("service/watchcache_server/__pycache__/app.pyc", False, id="bytecode"),
        pytest.param("requirements/dev.lock", False, id="beside one that is named"),
        pytest.param("tests/items.py", False, id="not named"),
        pytest.param(".git/config", False, id="hidden"),
    ],
)
def test_only_what_the_image_needs_is_sent(path: str, is_sent: bool, context: BuildContext) -> None:
    """Everything is left out but what is named."""
    assert context.is_sent(PurePosixPath(path)) is is_sent


@pytest.mark.timeout(300)
def test_the_steps_of_the_image_go_through(image: Path) -> None:
    """Both wheels are built from what is sent, and installed; the command is the service's own."""
    assert {path.name.partition("-")[0] for path in (image / "wheels").iterdir()} == {
        "watchcache",
        "watchcache_server",
    }
    told = _program(
        image,
        "python",
        "-c",
        "import watchcache as client, watchcache_server as service\n"
        "print(client.__file__, service.__file__)",
    )
    for file in told.split():
        assert Path(file).is_relative_to(image)
    assert _program(image, "watchcache-server", "version").startswith("watchcache-server ")


@pytest.mark.timeout(300)
def test_the_image_holds_every_module_of_the_service(image: Path) -> None:
    """No package is left out of a wheel."""
    [installed] = (image / "opt/watchcache/lib").glob("python3*/site-packages")
    for folder, package in [("service", "watchcache_server"), ("clients/python", "watchcache")]:
        below = ROOT / folder
        for path in sorted((below / package).rglob("*")):
            if path.is_file() and path.suffix in {".py", ".pyi", ".typed"}:
                assert (installed / path.relative_to(below)).is_file(), path


def test_every_command_of_the_image_is_there() -> None:
    """What it starts and what asks for its health are commands that the service's wheel brings."""
    *_, last = _stages()
    told = {each.name: each.text for each in last}
    checked = shlex.split(told["HEALTHCHECK"].partition("CMD ")[2].strip("[]").replace(",", " "))
    assert told["ENTRYPOINT"] == '["watchcache-server"]'
    assert told["CMD"] == '["serve"]'
    assert checked == ["watchcache-server", "health"]
    assert told["USER"].partition(":")[0].isdigit()
