"""Structured logs: one line for each event, JSON or for people, on one stream.

`configure` is called once, before anything is logged. Lines of the standard library's logging (of
grpc, aiohttp and asyncio, and Python's warnings) come out in the same form. No token ever does:
parts are not given any to log, and what looks like one is blotted out as the last step all the
same, in tracebacks too, which show no local variables.
"""

from __future__ import annotations

import logging
import re
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

import structlog

from watchcache_server.settings import Settings

__all__ = ["configure"]

_HIDDEN: Final = "[hidden]"
_SECRET_NAMES: Final = re.compile(
    r"authorization|password|secret_data|(^|_|-)(token|credential|private_key)$", re.IGNORECASE
)
_SECRETS: Final = re.compile(
    # JSON Web Tokens, which are what ServiceAccounts have; what follows Bearer or Basic; PEM keys.
    r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
    r"|(?<=Bearer )\S+|(?<=Basic )\S+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# These say at INFO and below what only their own developers want to know.
_CHATTY: Final = ("aiohttp", "asyncio", "grpc", "kubernetes_asyncio")
# Where gRPC logs, with a traceback, that an answer could not be sent, which is so only once its
# caller has gone.
_GRPC_CORE: Final = "grpc._cython.cygrpc"
_NOT_SENT: Final = "ExecuteBatchError raised in core"

_Event = MutableMapping[str, Any]


def configure(settings: Settings, stream: TextIO) -> None:
    """Log to `stream`, in the form and from the level that the settings name.

    May be called again; the last call counts.
    """
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    is_json = settings.log_format == "json" or (
        settings.log_format == "auto" and not stream.isatty()
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _hide_secrets,
                *(_json() if is_json else _console(has_colours=stream.isatty())),
            ],
        )
    )
    root = logging.getLogger()
    for old in [each for each in root.handlers if _is_ours(each)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    logging.getLogger(_GRPC_CORE).addFilter(_is_no_leaving)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _is_no_leaving(record: logging.LogRecord) -> bool:
    """Let everything through but that somebody left before the answer came."""
    return not record.getMessage().startswith(_NOT_SENT)


def _is_ours(handler: logging.Handler) -> bool:
    return isinstance(handler.formatter, structlog.stdlib.ProcessorFormatter)


def _json() -> list[structlog.typing.Processor]:
    return [
        structlog.processors.EventRenamer("msg"),
        _lead,
        structlog.processors.JSONRenderer(sort_keys=False, ensure_ascii=False),
    ]


def _lead(_logger: Any, _method: str, event: _Event) -> _Event:
    """Put what every line has in front."""
    first = {name: event.pop(name) for name in ("time", "level", "logger", "msg") if name in event}
    return {**first, **event}


def _console(*, has_colours: bool) -> list[structlog.typing.Processor]:
    return [
        structlog.dev.ConsoleRenderer(
            colors=has_colours,
            timestamp_key="time",
            pad_event_to=0,
            sort_keys=False,
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]


def _hide_secrets(_logger: Any, _method: str, event: _Event) -> _Event:
    """Blot out whatever is, or looks like, a secret."""
    return {
        name: _HIDDEN if _SECRET_NAMES.search(name) else _without_secrets(value)
        for name, value in event.items()
    }


def _without_secrets(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case list() | tuple():
            return [_without_secrets(each) for each in value]
        case _:
            return _SECRETS.sub(_HIDDEN, str(value))
