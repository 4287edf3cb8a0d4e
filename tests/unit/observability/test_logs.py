"""Rules of the log: one form for all lines, and no secret in any."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from watchcache_server.observability import logs
from watchcache_server.observability.logs import configure
from watchcache_server.settings import Settings

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzaG9wIn0.c2lnbmF0dXJl"


class Terminal(io.StringIO):
    """Looks like a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave the log of the test run as it was."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in ("", *logs._CHATTY)}
    yield
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def logged(stream: io.StringIO) -> list[dict[str, Any]]:
    """Return the lines of a JSON log."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def log_to(stream: io.StringIO, **settings: Any) -> Any:
    """Configure the log and return a logger."""
    configure(Settings(**settings), stream)
    return structlog.get_logger("watchcache_server.test")


def test_a_json_line_is_one_object_with_time_level_and_words() -> None:
    """What every line has comes first, then what is particular to it."""
    stream = io.StringIO()
    log_to(stream, log_format="json").info("informer is live", extension="a/b", objects=[1, 2])
    [line] = logged(stream)
    assert list(line)[:4] == ["time", "level", "logger", "msg"]
    assert line["time"].endswith("Z")
    assert (line["level"], line["msg"]) == ("info", "informer is live")
    assert (line["extension"], line["objects"]) == ("a/b", [1, 2])


@pytest.mark.parametrize(
    ("form", "stream", "is_json"),
    [
        pytest.param("auto", io.StringIO(), True, id="auto, a file"),
        pytest.param("auto", Terminal(), False, id="auto, a terminal"),
        pytest.param("json", Terminal(), True, id="json, a terminal"),
        pytest.param("console", io.StringIO(), False, id="console, a file"),
    ],
)
def test_the_form_is_that_of_the_setting(form: str, stream: io.StringIO, is_json: bool) -> None:
    """Auto means lines for people on a terminal, and JSON elsewhere."""
    log_to(stream, log_format=form).info("hello")
    assert stream.getvalue().startswith("{") == is_json
    assert "hello" in stream.getvalue()


def test_colours_are_for_terminals() -> None:
    """A file with lines for people holds no control characters."""
    stream = io.StringIO()
    log_to(stream, log_format="console").warning("careful", resource="deployments.apps")
    assert "\x1b" not in stream.getvalue()
    assert "resource=deployments.apps" in stream.getvalue()


@pytest.mark.parametrize(
    ("level", "said"),
    [
        pytest.param("debug", ["debug", "info", "warning", "error"], id="debug"),
        pytest.param("info", ["info", "warning", "error"], id="info"),
        pytest.param("error", ["error"], id="error"),
    ],
)
def test_lines_below_the_level_are_not_written(level: str, said: list[str]) -> None:
    """The setting log_level is the least that is written."""
    stream = io.StringIO()
    log = log_to(stream, log_format="json", log_level=level)
    for each in ("debug", "info", "warning", "error"):
        getattr(log, each)("line")
    assert [line["level"] for line in logged(stream)] == said


def test_lines_of_other_packages_have_the_same_form() -> None:
    """The standard library's logging and Python's warnings come out as everything else does."""
    stream = io.StringIO()
    log_to(stream, log_format="json")
    logging.getLogger("grpc._cython").warning("about %s", "grpc", extra={"peer": "10.0.0.7"})
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old habits", DeprecationWarning, stacklevel=1)
    first, second = logged(stream)
    assert (first["logger"], first["msg"], first["peer"]) == (
        "grpc._cython",
        "about grpc",
        "10.0.0.7",
    )
    assert second["logger"] == "py.warnings"
    assert "old habits" in second["msg"]


def test_packages_that_chatter_are_heard_from_warning_on() -> None:
    """Even at debug the log is about this service."""
    stream = io.StringIO()
    log_to(stream, log_format="json", log_level="debug")
    for name in ("aiohttp.access", "asyncio", "grpc"):
        logging.getLogger(name).info("chatter")
        logging.getLogger(name).warning("trouble")
    assert {line["msg"] for line in logged(stream)} == {"trouble"}


def test_a_caller_that_leaves_before_its_answer_is_no_error() -> None:
    """Each would be told by gRPC with a traceback; its other errors are told."""
    stream = io.StringIO()
    log_to(stream, log_format="json")
    log_to(stream, log_format="json")
    core = logging.getLogger("grpc._cython.cygrpc")
    for what in ("ExecuteBatchError raised in core", "Unexpected [ValueError] raised"):
        try:
            raise ValueError(what)
        except ValueError:
            core.exception("%s by servicer method [%s]", what, "/watchcache/Register")
    (line,) = logged(stream)
    assert line["msg"] == "Unexpected [ValueError] raised by servicer method [/watchcache/Register]"
    assert len(core.filters) == 1


def test_the_last_call_counts() -> None:
    """Configured twice, a line is written once."""
    first, second = io.StringIO(), io.StringIO()
    log_to(first, log_format="json")
    log_to(second, log_format="json").info("hello")
    assert first.getvalue() == ""
    assert len(logged(second)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"text": f"refused {TOKEN}"}, id="a token in a text"),
        pytest.param({"header": "Authorization: Bearer opaque-token"}, id="a header"),
        pytest.param({"header": "Basic opaque-token"}, id="basic authentication"),
        pytest.param({"token": "opaque-token"}, id="a field named token"),
        pytest.param({"bearer_token": "opaque-token"}, id="a field that ends in token"),
        pytest.param({"Authorization": "opaque-token"}, id="a field named authorization"),
        pytest.param({"texts": [f"one {TOKEN}", "two"]}, id="a token in a list"),
        pytest.param({"thing": RuntimeError(f"no {TOKEN}")}, id="a token in an object"),
        pytest.param(
            {"pem": "-----BEGIN RSA PRIVATE KEY-----\nopaque-token\n-----END RSA PRIVATE KEY-----"},
            id="a private key",
        ),
        pytest.param(
            {"pem": "-----BEGIN PRIVATE KEY-----\nopaque-token"}, id="the half of a private key"
        ),
    ],
)
@pytest.mark.parametrize("form", ["json", "console"])
def test_what_looks_like_a_secret_is_hidden(form: str, fields: dict[str, Any]) -> None:
    """Nobody logs a token; if somebody does, it does not get out."""
    stream = io.StringIO()
    log_to(stream, log_format=form).error("it failed", **fields)
    assert TOKEN not in stream.getvalue()
    assert "opaque-token" not in stream.getvalue()
    assert "[hidden]" in stream.getvalue()


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"tokens_issued": 3}, id="a number of tokens"),
        pytest.param({"reason": "TOKEN_REQUEST_FORBIDDEN"}, id="a reason"),
        pytest.param({"seconds": 0.5, "is_live": True, "problem": None}, id="plain values"),
    ],
)
def test_what_is_no_secret_is_left_as_it_is(fields: dict[str, Any]) -> None:
    """A log that hides everything is no log."""
    stream = io.StringIO()
    log_to(stream, log_format="json").info("line", **fields)
    [line] = logged(stream)
    assert {name: line[name] for name in fields} == fields


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_shows_lines_but_no_variables(form: str) -> None:
    """Local variables are where tokens and objects are."""
    stream = io.StringIO()
    log = log_to(stream, log_format=form)

    def fail() -> None:
        secret_word = "swordfish"
        raise RuntimeError(f"broken after {len(secret_word)} letters, {TOKEN}")

    try:
        fail()
    except RuntimeError as error:
        log.exception("it failed", exc_info=error)
    assert "in fail" in stream.getvalue()
    assert "broken after 9 letters" in stream.getvalue()
    assert "'swordfish'" not in stream.getvalue().replace('secret_word = "swordfish"', "")
    assert TOKEN not in stream.getvalue()
