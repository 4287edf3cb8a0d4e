"""Rules of the command: its flags, its texts and its exit codes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.unit.serving.test_probe import NOT_SERVING, serving
from watchcache_server import cli, process
from watchcache_server.clusters.errors import KubeconfigMissingError, UnknownClusterError
from watchcache_server.model.errors import SettingsError
from watchcache_server.settings import Settings
from watchcache_server.settings_reading import flag_name, setting_rows


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the environment of the test run out, and give help enough room."""
    for name in [each for each in os.environ if each.startswith("WATCHCACHE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")


def run(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    """Call the command."""
    return CliRunner().invoke(cli.app, list(arguments), env=environment)


class Served(list[Settings]):
    """Takes the place of serving."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        super().__init__()
        self._error = error
        monkeypatch.setattr(process, "run", self)

    def __call__(self, settings: Settings) -> None:
        self.append(settings)
        if self._error is not None:
            raise self._error


def test_without_flags_it_serves_by_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has to be set."""
    served = Served(monkeypatch)
    assert run("serve").exit_code == 0
    assert served == [Settings()]


def test_every_setting_has_a_flag_that_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags are made from the settings, so none is forgotten."""
    served = Served(monkeypatch)
    changed = {
        bool: lambda row: (f"--no-{flag_name(row.name)[2:]}", False),
        int: lambda row: (str(int(row.default) + 1), int(row.default) + 1),
        float: lambda row: (str(float(row.default) + 1), float(row.default) + 1),
    }
    words = {"identity": "caller", "log_level": "debug", "log_format": "json"}
    arguments, wanted = [], {}
    for row in setting_rows():
        if row.kind is bool:
            flag, wanted[row.name] = changed[bool](row)
            arguments.append(flag)
        elif row.kind in (int, float):
            text, wanted[row.name] = changed[row.kind](row)  # type: ignore[index]
            arguments += [flag_name(row.name), text]
        elif row.kind is str:
            wanted[row.name] = words.get(row.name, "x")
            arguments += [flag_name(row.name), wanted[row.name]]
        else:
            wanted[row.name] = ("a", "b")
            arguments += [flag_name(row.name), "a", flag_name(row.name), "b"]
    result = run("serve", *arguments)
    assert result.exit_code == 0, result.output
    [settings] = served
    assert {name: getattr(settings, name) for name in wanted} == wanted


def test_help_tells_of_each_setting_its_flag_variable_and_default() -> None:
    """Brackets of the syntax are shown as they are."""
    page = run("serve", "--help").output
    for row in setting_rows():
        assert flag_name(row.name) in page
        assert f"WATCHCACHE_{row.name.upper()}" in page
        assert row.section in page
    assert "[NAME=]PATH[#CONTEXT]" in page
    assert "default: 127.0.0.1:7443" in page


def test_the_environment_and_a_file_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A flag goes before both."""
    served = Served(monkeypatch)
    file = tmp_path / "watchcache.toml"
    file.write_text("max_sources = 5\nmax_extensions = 5\n")
    environment = {"WATCHCACHE_CONFIG": str(file), "WATCHCACHE_MAX_EXTENSIONS": "6"}
    run("serve", "--list-page-size", "7", environment=environment)
    [settings] = served
    assert (settings.max_sources, settings.max_extensions, settings.list_page_size) == (5, 6, 7)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(SettingsError("address 'x' cannot be bound:\nin use"), id="a setting"),
        pytest.param(KubeconfigMissingError(Path("/nowhere")), id="a kubeconfig"),
        pytest.param(UnknownClusterError("edge", ["hub"]), id="an unknown default cluster"),
    ],
)
def test_a_start_that_fails_is_one_line_and_exit_code_2(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a traceback."""
    Served(monkeypatch, error)
    result = run("serve")
    assert result.exit_code == 2
    [line] = result.stderr.splitlines()
    assert line == f"error: {' '.join(str(error).split())}"


def test_a_flag_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is what it may be; nothing is started."""
    served = Served(monkeypatch)
    result = run("serve", "--max-extensions", "many")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: --max-extensions: 'many' is no value for max_extensions; use a whole number\n"
    )
    assert served == []


def test_a_flag_that_does_not_exist_is_refused() -> None:
    """A misspelt limit is no limit."""
    assert run("serve", "--max-extension", "3").exit_code == 2


def test_version_is_that_of_the_distribution() -> None:
    """One line."""
    assert run("version").output == f"watchcache-server {version('watchcache-server')}\n"
    assert run("--version").output == run("version").output


def test_settings_are_shown_with_their_origin(tmp_path: Path) -> None:
    """What is in effect, and why."""
    file = tmp_path / "watchcache.toml"
    file.write_text("max_sources = 5\n")
    environment = {"WATCHCACHE_MAX_EXTENSIONS": "6"}
    page = run("settings", "--config", str(file), environment=environment).output
    rows = {line.split()[0]: line.split()[1:] for line in page.splitlines()}
    assert rows["max_sources"] == ["5", str(file)]
    assert rows["max_extensions"] == ["6", "WATCHCACHE_MAX_EXTENSIONS"]
    assert rows["list_page_size"] == ["500", "default"]
    assert rows["kubeconfig"] == ["-", "default"]
    assert set(rows) == {"SETTING"} | {row.name for row in setting_rows()}


def test_no_value_of_a_setting_is_cut_off(tmp_path: Path) -> None:
    """However long it is and wherever it is written to."""
    listen = ",".join(f"unix:{tmp_path}/{number}.sock" for number in range(10))
    shown = subprocess.run(
        [sys.executable, "-m", "watchcache_server.cli", "settings"],
        env={**os.environ, "WATCHCACHE_LISTEN": listen, "COLUMNS": "40"},
        capture_output=True,
        text=True,
        check=True,
    )
    [line] = [line for line in shown.stdout.splitlines() if line.startswith("listen ")]
    assert line.split() == ["listen", listen, "WATCHCACHE_LISTEN"]
    assert "\x1b" not in shown.stdout


def test_settings_that_are_wrong_are_one_line() -> None:
    """The same as at the start of the service."""
    result = run("settings", environment={"WATCHCACHE_MAX_SOURCES": "0"})
    assert result.exit_code == 2
    assert result.stderr.startswith("error: setting max_sources: 0 is out of range")


def test_the_page_of_the_settings_needs_no_good_settings() -> None:
    """It is about the defaults."""
    result = run("settings", "--markdown", environment={"WATCHCACHE_MAX_SOURCES": "0"})
    assert result.output == cli.settings_page()


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        pytest.param("serving", 0, "serving\n", id="it serves"),
        pytest.param("draining", 1, "says NOT_SERVING", id="it drains"),
        pytest.param("gone", 1, "error: no answer from", id="it is not there"),
    ],
)
def test_health_is_an_exit_code(status: str, code: int, text: str) -> None:
    """0 when it serves, 1 when not: what a container's health check reads."""

    async def ask() -> Result:
        given = () if status == "serving" else (NOT_SERVING,)
        async with serving(*given) as address:
            if status != "gone":
                return await asyncio.to_thread(run, "health", "--address", address)
        return await asyncio.to_thread(run, "health", "--address", address)

    result = asyncio.run(ask())
    assert result.exit_code == code
    assert text in result.output


def test_health_asks_where_the_settings_say() -> None:
    """The container's own environment names the address."""
    result = run("health", environment={"WATCHCACHE_LISTEN": "127.0.0.1:1"})
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr


def test_light_commands_load_nothing_heavy() -> None:
    """A health check runs every few seconds; it does not load what serving needs."""
    script = "import sys, watchcache_server.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not {"grpc", "aiohttp", "kubernetes_asyncio"} & set(loaded.stdout.split())


def test_main_runs_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The entry point of the distribution."""
    monkeypatch.setattr("sys.argv", ["watchcache-server", "version"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("watchcache-server ")
