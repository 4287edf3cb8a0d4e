"""The service with short waits: the program itself, impatient enough for a storm.

What an operator can set is set by flags (`service_settings`). The waits after failures are no
settings: with their usual length an informer in a storm would do little but wait, and the storm
would strike nothing. No rule is changed but how long things take.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from watchcache_server import cli
from watchcache_server.informer.backoff import BackoffSettings
from watchcache_server.informer.reflector_settings import ReflectorSettings

__all__ = ["FORGETFUL", "SERVICE_SETTINGS"]

SERVICE_SETTINGS: dict[str, Any] = {
    "watch_timeout_seconds": 5,
    "initial_events_seconds": 2,
    "connect_seconds": 2,
    "response_seconds": 3,
    "forbidden_grace_seconds": 1.5,
    "drain_seconds": 1,
    "list_page_size": 7,
}
#: So little history that those who were away for seconds have to catch up or to begin anew.
FORGETFUL: dict[str, Any] = {"history_changes": 80, "history_ends": 200}

_WAITS: dict[str, Any] = {
    "backoff": BackoffSettings(first_seconds=0.02, longest_seconds=0.5, reset_seconds=2.0),
    "inactivity_margin_seconds": 1.0,
    "initial_watch_seconds": 20,
    "remember_list_seconds": 8.0,
    "internal_error_seconds": 1.0,
    "relist_spacing_seconds": 0.2,
    "probe_seconds": 0.5,
    "vanished_seconds": 1.0,
    "unauthenticated_seconds": 0.5,
    "bad_request_seconds": 0.5,
    "rewind_probe_seconds": 10.0,
}


def _impatient(**given: Any) -> ReflectorSettings:
    """Take these waits in the place of those that were given."""
    return ReflectorSettings(**{**given, **_WAITS})


_REPLACED = {
    "watchcache_server.extensions.host.ReflectorSettings": _impatient,
    "watchcache_server.kubernetes.token_schedule._YOUNG_SECONDS": 0.5,
    "watchcache_server.kubernetes.token_schedule._FIRST_BACKOFF_SECONDS": 0.05,
    "watchcache_server.kubernetes.token_schedule._MAX_BACKOFF_SECONDS": 0.5,
}


def main() -> None:
    """Run the command with these waits."""
    for name, replacement in _REPLACED.items():
        mock.patch(name, replacement).start()
    cli.main()


if __name__ == "__main__":
    main()
