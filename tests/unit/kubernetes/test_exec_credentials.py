"""Rules of when a plugin is run again, with a clock that is moved and a plugin that counts."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from tests.unit.kubernetes.clock import Clock, Recorder
from watchcache_server.kubernetes import exec_credentials
from watchcache_server.kubernetes.errors import ExecPluginFailedError
from watchcache_server.kubernetes.exec_credentials import ExecCredentials
from watchcache_server.kubernetes.exec_plugin import ExecPlugin, ExecStatus

WALL = dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()


class Plugin:
    """Stands in for running a program; gives t1, t2, ... or fails."""

    def __init__(self, clock: Clock) -> None:
        self.runs = 0
        self.life_seconds: float | None = 3600.0
        self.error: ExecPluginFailedError | None = None
        self.certificate: str | None = None
        self.has_token = True
        self._clock = clock

    async def __call__(
        self, plugin: ExecPlugin, *, cluster: str, limit_seconds: float
    ) -> ExecStatus:
        self.runs += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        expires = None
        if self.life_seconds is not None:
            moment = WALL + self._clock.now - 1000.0 + self.life_seconds
            expires = dt.datetime.fromtimestamp(moment, dt.UTC)
        return ExecStatus(
            token=f"t{self.runs}" if self.has_token else None,
            certificate=self.certificate,
            key="key" if self.certificate else None,
            expires=expires,
        )


@pytest.fixture
def clock() -> Clock:
    """Give the time."""
    return Clock()


@pytest.fixture
def plugin(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    """Give the plugin that is run."""
    plugin = Plugin(clock)
    monkeypatch.setattr(exec_credentials, "run_plugin", plugin)
    return plugin


@pytest.fixture
def shown() -> list[tuple[bytes, bytes]]:
    """Give the certificates that were taken."""
    return []


@pytest.fixture
def recorder() -> Recorder:
    """Give a reporter."""
    return Recorder()


@pytest.fixture
def credentials(
    clock: Clock, plugin: Plugin, shown: list[tuple[bytes, bytes]], recorder: Recorder
) -> ExecCredentials:
    """Give the credentials under test."""
    return ExecCredentials(
        ExecPlugin(command="p"),
        cluster="dev",
        take_certificate=lambda certificate, key: shown.append((certificate, key)),
        clock=clock,
        wall_clock=lambda: WALL + clock.now - 1000.0,
        reporter=recorder,
    )


async def test_the_plugin_is_run_once_for_all_who_ask(
    credentials: ExecCredentials, plugin: Plugin
) -> None:
    """A login takes its time; nobody starts a second one meanwhile."""
    headers = await asyncio.gather(*(credentials.authorization() for _ in range(10)))
    assert headers == ["Bearer t1"] * 10
    assert plugin.runs == 1


async def test_the_plugin_is_run_again_shortly_before_the_end(
    credentials: ExecCredentials, plugin: Plugin, clock: Clock
) -> None:
    """A minute before, so that a request on its way does not come too late."""
    await credentials.authorization()
    clock.advance(3539)
    assert await credentials.authorization() == "Bearer t1"
    clock.advance(1)
    assert await credentials.authorization() == "Bearer t2"


async def test_a_very_short_life_is_used_by_half(
    credentials: ExecCredentials, plugin: Plugin, clock: Clock
) -> None:
    """A plugin that gives 40 seconds is not run for every request."""
    plugin.life_seconds = 40
    await credentials.authorization()
    clock.advance(19)
    assert await credentials.authorization() == "Bearer t1"
    clock.advance(1)
    assert await credentials.authorization() == "Bearer t2"


async def test_without_a_stated_end_only_a_401_runs_it_again(
    credentials: ExecCredentials, plugin: Plugin, clock: Clock
) -> None:
    """The plugin said nothing, so the API server does."""
    plugin.life_seconds = None
    await credentials.authorization()
    clock.advance(1e6)
    assert await credentials.authorization() == "Bearer t1"
    await credentials.refresh("Bearer t1")
    assert await credentials.authorization() == "Bearer t2"


async def test_a_401_for_an_older_token_changes_nothing(
    credentials: ExecCredentials, plugin: Plugin, clock: Clock
) -> None:
    """Somebody else has refreshed meanwhile."""
    await credentials.authorization()
    clock.advance(60)
    await credentials.refresh("Bearer t0")
    assert plugin.runs == 1


async def test_a_flood_of_401s_does_not_run_it_in_a_loop(
    credentials: ExecCredentials, plugin: Plugin, clock: Clock
) -> None:
    """Ten seconds lie between two runs at least."""
    header = await credentials.authorization()
    for _ in range(5):
        clock.advance(1)
        await credentials.refresh(header)
    assert plugin.runs == 1


async def test_what_it_gave_before_serves_while_it_fails(
    credentials: ExecCredentials, plugin: Plugin, clock: Clock, recorder: Recorder
) -> None:
    """Credentials are good to their end; after that the failure shows."""
    await credentials.authorization()
    plugin.error = ExecPluginFailedError("no login")
    clock.advance(3540)
    assert await credentials.authorization() == "Bearer t1"
    clock.advance(60)
    with pytest.raises(ExecPluginFailedError, match="no login"):
        await credentials.authorization()
    assert recorder.heard == [
        ("exec_plugin", "ok"),
        ("exec_plugin", "EXEC_PLUGIN_FAILED"),
        ("exec_plugin", "EXEC_PLUGIN_FAILED"),
    ]
    plugin.error = None
    clock.advance(10)
    assert await credentials.authorization() == "Bearer t4"


async def test_a_failing_plugin_is_not_run_for_each_request(
    credentials: ExecCredentials, plugin: Plugin, clock: Clock
) -> None:
    """Its failure is remembered for ten seconds."""
    plugin.error = ExecPluginFailedError("no login")
    for _ in range(5):
        with pytest.raises(ExecPluginFailedError):
            await credentials.authorization()
        clock.advance(1)
    assert plugin.runs == 1


async def test_a_certificate_is_handed_on(
    credentials: ExecCredentials, plugin: Plugin, shown: list[tuple[bytes, bytes]]
) -> None:
    """It is shown on the connections; a token beside it is sent as well."""
    plugin.certificate = "cert"
    assert await credentials.authorization() == "Bearer t1"
    plugin.has_token = False
    await credentials.refresh("Bearer t1")
    assert shown == [(b"cert", b"key")]


async def test_a_certificate_alone_sends_no_header(
    credentials: ExecCredentials, plugin: Plugin, clock: Clock
) -> None:
    """And is renewed after a 401 like a token."""
    plugin.certificate, plugin.has_token = "cert", False
    assert await credentials.authorization() is None
    clock.advance(60)
    await credentials.refresh(None)
    assert plugin.runs == 2


async def test_credentials_that_are_over_already_are_refused(
    credentials: ExecCredentials, plugin: Plugin
) -> None:
    """A clock that is off, or a plugin that caches badly."""
    plugin.life_seconds = -1
    with pytest.raises(ExecPluginFailedError, match="over already"):
        await credentials.authorization()


def refuse(certificate: bytes, key: bytes) -> None:
    """Stand in for TLS that cannot use what it is given."""
    raise ValueError("not PEM")


@pytest.mark.parametrize(
    ("take", "text"), [(None, "an http server cannot see"), (refuse, "cannot be used: not PEM")]
)
async def test_a_certificate_that_is_no_use_is_a_failure(
    plugin: Plugin, clock: Clock, take: None, text: str
) -> None:
    """Without TLS, or not PEM: it says so instead of going on as nobody."""
    plugin.certificate = "cert"
    credentials = ExecCredentials(
        ExecPlugin(command="p"),
        cluster="dev",
        take_certificate=take,
        clock=clock,
        wall_clock=lambda: WALL,
    )
    with pytest.raises(ExecPluginFailedError, match=text):
        await credentials.authorization()
    assert repr(credentials) == "ExecCredentials('p')"
