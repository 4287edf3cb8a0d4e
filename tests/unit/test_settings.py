"""Rules of the settings: where they come from, what they may be, and what is written about them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from watchcache_server.cli import settings_page
from watchcache_server.model.errors import SettingsError
from watchcache_server.settings import Settings
from watchcache_server.settings_reading import (
    environment_name,
    flag_name,
    load_settings,
    setting_rows,
    setting_text,
    trace_settings,
    unknown_variables,
)

NAMES = [each.name for each in dataclasses.fields(Settings)]


def load(
    flags: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Load settings without the environment of the test run."""
    return load_settings(flags or {}, environment or {}, file)


def written(tmp_path: Path, text: str) -> Path:
    """Write a settings file."""
    path = tmp_path / "watchcache.toml"
    path.write_text(text)
    return path


def test_without_anything_the_defaults_hold() -> None:
    """Every default is within its own bounds."""
    assert load() == Settings()


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    """Who stands closest to the process decides; the origin of each value is told."""
    file = written(tmp_path, "max_extensions = 1\nmax_sources = 1\nlist_page_size = 1\n")
    environment = {"WATCHCACHE_MAX_EXTENSIONS": "2", "WATCHCACHE_MAX_SOURCES": "2"}
    settings, origins = trace_settings({"max_extensions": "3"}, environment, file)
    assert (settings.max_extensions, settings.max_sources, settings.list_page_size) == (3, 2, 1)
    assert origins == {
        "max_extensions": "--max-extensions",
        "max_sources": "WATCHCACHE_MAX_SOURCES",
        "list_page_size": str(file),
    }


def test_a_flag_that_was_not_given_decides_nothing() -> None:
    """None is the absence of a flag."""
    settings = load({"max_extensions": None}, {"WATCHCACHE_MAX_EXTENSIONS": "2"})
    assert settings.max_extensions == 2


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        pytest.param("max_extensions", "12", 12, id="a whole number"),
        pytest.param("drain_seconds", "2.5", 2.5, id="a number"),
        pytest.param("drain_seconds", "3", 3.0, id="a whole number where any is good"),
        pytest.param("reflection", "false", False, id="false"),
        pytest.param("reflection", "No", False, id="no"),
        pytest.param("reflection", "1", True, id="one"),
        pytest.param("http_listen", "", "", id="an empty text"),
        pytest.param("kubeconfig", "a=/x, b=/y ,", ("a=/x", "b=/y"), id="a list"),
        pytest.param("kubeconfig", "", (), id="an empty list"),
    ],
)
def test_the_environment_is_read_by_the_kind_of_the_setting(
    name: str, text: str, value: object
) -> None:
    """Text becomes what the setting is."""
    assert getattr(load(environment={environment_name(name): text}), name) == value


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        pytest.param('listen = ["127.0.0.1:1", "unix:/x"]', "listen", ("127.0.0.1:1", "unix:/x")),
        pytest.param('listen = "127.0.0.1:1"', "listen", ("127.0.0.1:1",)),
        pytest.param("reflection = false", "reflection", False),
        pytest.param("max_sources = 7", "max_sources", 7),
        pytest.param("max_sources = 7.0", "max_sources", 7),
        pytest.param("drain_seconds = 7", "drain_seconds", 7.0),
    ],
)
def test_a_file_is_read_as_toml(line: str, name: str, value: object, tmp_path: Path) -> None:
    """Values have the types of TOML."""
    assert getattr(load(file=written(tmp_path, line)), name) == value


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param("max_sources = true", "use a whole number", id="true is no number"),
        pytest.param("max_sources = 7.5", "use a whole number", id="a fraction"),
        pytest.param('max_sources = "many"', "use a whole number", id="a word"),
        pytest.param("drain_seconds = nan", "use a number", id="not a number"),
        pytest.param("drain_seconds = inf", "use a number", id="no end"),
        pytest.param("drain_seconds = []", "use a number", id="a list for a number"),
        pytest.param("reflection = 1", "use true or false", id="a number for a choice"),
        pytest.param('reflection = "maybe"', "use true or false", id="neither"),
        pytest.param("log_level = 3", "use text", id="a number for a text"),
        pytest.param("listen = 3", "use a list", id="a number for a list"),
        pytest.param("listen = [3]", "use a list", id="a list of numbers"),
        pytest.param("max_extension = 3", "no setting 'max_extension'", id="an unknown name"),
        pytest.param("max_sources", "not TOML", id="a line that is none"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_mend(line: str, told: str, tmp_path: Path) -> None:
    """Nothing is skipped in silence."""
    file = written(tmp_path, line)
    with pytest.raises(SettingsError) as caught:
        load(file=file)
    assert told in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda folder: folder / "missing.toml", id="no such file"),
        pytest.param(lambda folder: folder, id="a folder"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(make: Any, tmp_path: Path) -> None:
    """A path that was given is meant."""
    with pytest.raises(SettingsError, match="check the path"):
        load(file=make(tmp_path))


def test_bytes_that_are_no_text_are_no_toml(tmp_path: Path) -> None:
    """The reason is told instead of a traceback."""
    path = tmp_path / "watchcache.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not TOML"):
        load(file=path)


@pytest.mark.parametrize("name", [row.name for row in setting_rows() if row.kind in (int, float)])
def test_a_number_out_of_its_bounds_is_refused_by_name(name: str) -> None:
    """The text says what is allowed."""
    [each] = [each for each in dataclasses.fields(Settings) if each.name == name]
    low, high = each.metadata["low"], each.metadata["high"]
    assert low is not None, "a number without a lower bound may be negative"
    for value in (low - 1, *(() if high is None else (high + 1,))):
        with pytest.raises(SettingsError, match=f"setting {name}: .* out of range; use ") as told:
            load({name: str(value)})
        assert str(low) in str(told.value)
    assert getattr(load({name: str(low)}), name) == low


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        pytest.param("identity", "service-account or caller", id="identity"),
        pytest.param("log_level", "debug or info or warning or error", id="level"),
        pytest.param("log_format", "auto or console or json", id="form"),
    ],
)
def test_a_word_that_is_none_of_those_allowed_is_refused(name: str, allowed: str) -> None:
    """The text lists them."""
    with pytest.raises(SettingsError, match=f"setting {name}: 'other' is unknown; use {allowed}"):
        load({name: "other"})


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """From the file, the environment and the flags, by kind and by rule."""
    file = written(tmp_path, 'max_extension = 3\nlog_level = "loud"\n')
    with pytest.raises(SettingsError) as caught:
        load(
            {"max_extensions": "0", "watch_timeout_seconds": "1"},
            {"WATCHCACHE_MAX_SOURCES": "many"},
            file,
        )
    assert [told.split(";")[0] for told in str(caught.value).split("; also ")] == [
        f"{file}: there is no setting 'max_extension'",
        "WATCHCACHE_MAX_SOURCES: 'many' is no value for max_sources",
        "setting watch_timeout_seconds: 1 is out of range",
        "setting max_extensions: 0 is out of range",
        "setting log_level: 'loud' is unknown",
    ]


def test_a_variable_that_is_no_setting_is_found_with_what_is_near() -> None:
    """None of those that other commands read, or that Kubernetes makes for a Service."""
    environment = {
        "WATCHCACHE_MAX_EXTENSION": "3",
        "WATCHCACHE_XYZZY": "1",
        "WATCHCACHE_MAX_SOURCES": "5",
        "WATCHCACHE_ADDRESS": "127.0.0.1:1",
        "WATCHCACHE_CONFIG": "x.toml",
        "WATCHCACHE_SERVICE_HOST": "10.0.0.1",
        "WATCHCACHE_SERVICE_PORT_GRPC": "7443",
        "WATCHCACHE_PORT": "tcp://10.0.0.1:7443",
        "WATCHCACHE_PORT_7443_TCP_ADDR": "10.0.0.1",
        "WATCHCACHE_METRICS_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "OTHER_MAX_EXTENSION": "3",
    }
    found = unknown_variables(environment)
    assert set(found) == {"WATCHCACHE_MAX_EXTENSION", "WATCHCACHE_XYZZY"}
    assert found["WATCHCACHE_MAX_EXTENSION"][0] == "WATCHCACHE_MAX_EXTENSIONS"
    assert found["WATCHCACHE_XYZZY"] == []


def test_there_is_always_an_address() -> None:
    """A service that listens nowhere serves nobody."""
    with pytest.raises(SettingsError, match="setting listen: no address"):
        load(environment={"WATCHCACHE_LISTEN": " , "})


@pytest.mark.parametrize("name", ["tls_certificate", "tls_key"])
def test_a_certificate_and_its_key_come_together(name: str) -> None:
    """Half of TLS is not served as none."""
    with pytest.raises(SettingsError, match="one is given without the other"):
        load({name: "/etc/tls/file.pem"})


def test_a_cluster_is_probed_more_often_than_it_has_to_be_heard() -> None:
    """Or the service would seem unready between two probes."""
    with pytest.raises(SettingsError, match="less than the second"):
        load({"cluster_probe_seconds": "60"})
    assert load({"cluster_probe_seconds": "60", "ready_contact_seconds": "61"})


def test_the_first_wait_is_not_the_longest() -> None:
    """A backoff grows."""
    with pytest.raises(SettingsError, match="first_backoff_seconds 3 and longest_backoff_seconds"):
        load({"first_backoff_seconds": "3", "longest_backoff_seconds": "2"})
    assert load({"first_backoff_seconds": "2", "longest_backoff_seconds": "2"})


def test_every_setting_has_a_flag_a_variable_a_section_and_a_sentence() -> None:
    """In the order of the class, none left out."""
    rows = setting_rows()
    assert [row.name for row in rows] == NAMES
    assert all(row.section for row in rows)
    assert all(re.fullmatch(r".+\.", row.help) for row in rows)
    assert environment_name("max_sources") == "WATCHCACHE_MAX_SOURCES"
    assert flag_name("max_sources") == "--max-sources"


def test_what_is_shown_of_a_value_can_be_given_back() -> None:
    """The text of each default, given in the environment, is the default."""
    environment = {environment_name(row.name): row.default for row in setting_rows()}
    assert load(environment=environment) == Settings()
    assert setting_text(("a", "b")) == "a,b"


def test_the_page_of_the_settings_is_fresh() -> None:
    """Made anew by: watchcache-server settings --markdown > docs/settings.md."""
    page = Path(__file__).parents[2] / "docs/settings.md"
    assert page.read_text(encoding="utf-8") == settings_page()
