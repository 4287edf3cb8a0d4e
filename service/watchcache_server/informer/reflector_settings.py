"""The figures of a reflector, each with the reason for its default."""

from __future__ import annotations

import msgspec

from watchcache_server.informer.backoff import BackoffSettings

__all__ = ["ReflectorSettings"]


class ReflectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and waits, in seconds unless the name says otherwise."""

    backoff: BackoffSettings = BackoffSettings()
    # Rights are checked when a watch is opened, and only then.
    watch_seconds: int = 60
    # The server sends a bookmark two seconds before the end, if there is as much time.
    brief_watch_seconds: int = 3
    # A watch that begins with the present state may take long to send it.
    initial_watch_seconds: int = 300
    # The server's own close may never arrive, so the client waits a little longer than the server.
    inactivity_margin_seconds: float = 10.0
    # Servers and proxies that do not know initial events never end them.
    initial_idle_seconds: float = 30.0
    remember_list_seconds: float = 6 * 3600.0
    # A watch that lives so long, or sends an event, works.
    settle_seconds: float = 1.0
    quick_end_limit: int = 5
    unknown_error_limit: int = 3
    undecodable_limit: int = 3
    initial_failure_limit: int = 3
    # The API server's own reflector goes on at the same version for as long.
    internal_error_seconds: float = 30.0
    # A first sync that has failed for so long is waited for by nobody; it goes on being tried.
    first_sync_patience_seconds: float = 15.0
    page_items: int = 500
    least_page_items: int = 50
    # Two relists closer together than this are a sign of trouble, and the second one waits.
    relist_spacing_seconds: float = 10.0
    forbidden_grace_seconds: float = 60.0
    # FORBIDDEN and GONE end so soon after their cause, jitter included.
    probe_seconds: float = 15.0
    # Several API servers do not learn of a kind at the same time.
    vanished_seconds: float = 10.0
    unauthenticated_seconds: float = 60.0
    bad_request_seconds: float = 300.0
    # A server whose storage was set back accepts a watch from the future and stays silent.
    rewind_probe_seconds: float = 300.0
