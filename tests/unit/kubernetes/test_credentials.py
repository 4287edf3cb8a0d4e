"""Rules of the simple credentials: none, a token, a file that somebody else rotates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.kubernetes.clock import Clock, Recorder
from watchcache_server.kubernetes.credentials import Anonymous, StaticToken, TokenFile
from watchcache_server.kubernetes.errors import TokenFileUnreadableError


def put(path: Path, content: str | bytes | None) -> None:
    """Replace what the file holds; None removes it."""
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a token file."""
    path = tmp_path / "token"
    path.write_text("t1\n")
    return path


@pytest.fixture
def clock() -> Clock:
    """Give the time."""
    return Clock()


async def test_nobody_sends_nothing() -> None:
    """Without credentials there is no header, before and after a 401."""
    nobody = Anonymous()
    await nobody.refresh(None)
    assert await nobody.authorization() is None


async def test_a_static_token_stays_what_it_is() -> None:
    """It is sent as it stands, and not shown."""
    token = StaticToken("secret")
    await token.refresh("Bearer secret")
    assert await token.authorization() == "Bearer secret"
    assert "secret" not in repr(token)


async def test_the_token_in_a_file_is_stripped(path: Path, clock: Clock) -> None:
    """A newline at the end would be no header."""
    assert await TokenFile(path, cluster="dev", clock=clock).authorization() == "Bearer t1"


async def test_a_rotated_file_is_taken_up_within_ten_seconds(path: Path, clock: Clock) -> None:
    """The file is not read for every request, and never later than that."""
    token = TokenFile(path, cluster="dev", clock=clock)
    await token.authorization()
    put(path, "t2")
    clock.advance(9)
    assert await token.authorization() == "Bearer t1"
    clock.advance(1)
    assert await token.authorization() == "Bearer t2"


async def test_a_401_reads_the_file_at_once(path: Path, clock: Clock) -> None:
    """The rejected token has been rotated away; one already replaced is not read again."""
    recorder = Recorder()
    token = TokenFile(path, cluster="dev", clock=clock, reporter=recorder)
    await token.authorization()
    put(path, "t2")
    await token.refresh("Bearer t0")
    assert await token.authorization() == "Bearer t1"
    await token.refresh("Bearer t1")
    assert await token.authorization() == "Bearer t2"
    assert recorder.heard == [("token_file", "ok")] * 2


DAMAGE = {"empty": " \n", "missing": None, "not text": b"\xff\xfe"}


@pytest.mark.parametrize("case", DAMAGE)
async def test_half_of_a_rotation_keeps_the_old_token(path: Path, clock: Clock, case: str) -> None:
    """An empty, absent or garbled file for a moment is no loss of identity."""
    recorder = Recorder()
    token = TokenFile(path, cluster="dev", clock=clock, reporter=recorder)
    await token.authorization()
    put(path, DAMAGE[case])
    clock.advance(10)
    assert await token.authorization() == "Bearer t1"
    assert ("token_file", "TOKEN_FILE_UNREADABLE") in recorder.heard
    put(path, "t2")
    assert await token.authorization() == "Bearer t2"


@pytest.mark.parametrize(
    ("content", "text"), [(None, "cannot be read"), (b"", "is empty"), (b"\xff", "not text")]
)
async def test_without_any_token_the_file_is_named(
    tmp_path: Path, clock: Clock, content: bytes | None, text: str
) -> None:
    """The error names the cluster, the file and the rule."""
    path = tmp_path / "absent"
    if content is not None:
        put(path, content)
    token = TokenFile(path, cluster="dev", clock=clock)
    with pytest.raises(TokenFileUnreadableError, match=text) as caught:
        await token.authorization()
    assert str(path) in str(caught.value)
    assert "cluster dev" in str(caught.value)


async def test_the_token_beside_a_file_serves_until_the_file_does(
    tmp_path: Path, clock: Clock
) -> None:
    """A kubeconfig with both: the file wins as soon as it can be read."""
    path = tmp_path / "token"
    token = TokenFile(path, cluster="dev", fallback="t0", clock=clock)
    assert await token.authorization() == "Bearer t0"
    put(path, "t1")
    assert await token.authorization() == "Bearer t1"
    assert "t1" not in repr(token)
