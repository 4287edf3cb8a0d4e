"""Rules of credential plugins: real programs, run as a kubeconfig says."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from watchcache_server.kubernetes.errors import ExecPluginFailedError
from watchcache_server.kubernetes.exec_plugin import API_VERSIONS, ExecPlugin, run_plugin

V1, V1BETA1 = API_VERSIONS


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Give a maker of plugins: a Python program with this body."""

    def make(body: str) -> Path:
        path = tmp_path / "plugin"
        path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
        path.chmod(0o755)
        return path

    return make


def credential(api_version: str = V1, **status: Any) -> str:
    """Return the statement that prints an ExecCredential."""
    text = json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status})
    return f"print({text!r})"


async def run(path: Path | str, **settings: Any) -> Any:
    """Run a plugin with a limit that only a hanging one reaches."""
    limit_seconds = settings.pop("limit_seconds", 20.0)
    plugin = ExecPlugin(command=str(path), **settings)
    return await run_plugin(plugin, cluster="dev", limit_seconds=limit_seconds)


async def test_a_plugin_gives_a_token(program: Callable[[str], Path]) -> None:
    """What it prints is read; the token is not shown."""
    status = await run(
        program(credential(token="secret", expirationTimestamp="2030-01-01T00:00:00Z"))
    )
    assert status.token == "secret"
    assert status.expires is not None
    assert status.expires.year == 2030
    assert "secret" not in repr(status)


async def test_a_plugin_gets_arguments_environment_and_what_it_should_know(
    program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It inherits the environment, with additions, and is told the protocol and the cluster."""
    monkeypatch.setenv("INHERITED", "yes")
    body = """
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = "/".join([*sys.argv[1:], os.environ["INHERITED"], os.environ["ADDED"],
                  info["apiVersion"], str(info["spec"]["interactive"]),
                  info["spec"]["cluster"]["server"], repr(sys.stdin.read())])
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential",
                  "status": {"token": token}}))
"""
    status = await run(
        program(body),
        arguments=("a", "b c"),
        environment={"ADDED": "too"},
        api_version=V1BETA1,
        cluster_info={"server": "https://x"},
    )
    assert status.token == f"a/b c/yes/too/{V1BETA1}/False/https://x/''"


async def test_a_command_with_a_slash_is_relative_to_the_kubeconfig(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    """Not to wherever the service was started."""
    program(credential(token="t"))
    assert (await run("./plugin", folder=tmp_path)).token == "t"
    assert ExecPlugin(command="/bin/p", folder=tmp_path).program == "/bin/p"
    assert ExecPlugin(command="p", folder=tmp_path).program == "p"


async def test_much_noise_on_standard_error_does_not_block(program: Callable[[str], Path]) -> None:
    """Both streams are read at once: neither fills its pipe."""
    noisy = 'sys.stderr.write("x" * 500_000); sys.stderr.flush()\n' + credential(token="t")
    assert (await run(program(noisy))).token == "t"


FAILURES = {
    "it fails": ("sys.exit('no login')", "ended with 1: no login"),
    "it fails without a word": ("sys.exit(3)", "ended with 3: it gave no reason"),
    "it prints something else": ("print('hello')", "did not print an ExecCredential as JSON"),
    "it prints another version": (
        credential(V1BETA1, token="t"),
        f"printed ExecCredential of {V1BETA1}; expected ExecCredential of {V1}",
    ),
    "it prints another kind": (
        f"print({json.dumps(json.dumps({'apiVersion': V1, 'kind': 'Pod'}))})",
        "printed Pod",
    ),
    "it prints no credentials": (credential(), "neither token nor certificate"),
    "it prints a certificate without key": (
        credential(clientCertificateData="c"),
        "one of clientCertificateData and clientKeyData only",
    ),
    "it prints a token that would split a header": (
        credential(token="a\r\nX: y"),
        "characters that no token has",
    ),
    "it prints without end": ("while True: print('x' * 100_000)", "printed more than"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_failing_plugin_is_named_with_what_it_did(
    program: Callable[[str], Path], case: str
) -> None:
    """The error names cluster, plugin and fault."""
    body, text = FAILURES[case]
    path = program(body)
    with pytest.raises(ExecPluginFailedError) as caught:
        await run(path)
    assert f"cluster dev: the credential plugin {path} " in str(caught.value)
    assert text in str(caught.value)


async def test_a_missing_plugin_comes_with_its_hint() -> None:
    """The kubeconfig's own advice on where to get it is passed on."""
    with pytest.raises(
        ExecPluginFailedError, match=r"cannot be started.*; get it from example\.com"
    ):
        await run("no-such-plugin-anywhere", install_hint="get it from example.com")


def is_running(pid: int) -> bool:
    """Say whether a process exists and is no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must come about soon."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.02)


HANGING = """
import subprocess
child = subprocess.Popen(["sleep", "600"])
with open({pids!r}, "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}} ")
child.wait()
"""


def pids_in(path: Path) -> list[int]:
    """Return the ids that the plugin wrote, once it wrote both."""
    text = path.read_text() if path.exists() else ""
    return [int(pid) for pid in text.split()] if text.endswith(" ") else []


async def test_a_hanging_plugin_is_ended_with_its_children(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    """At the limit nothing of it stays behind."""
    pids = tmp_path / "pids"
    with pytest.raises(ExecPluginFailedError, match=r"gave no answer within 1\.5 s"):
        await run(program(HANGING.format(pids=str(pids))), limit_seconds=1.5)
    found = pids_in(pids)
    assert len(found) == 2
    await until(lambda: not any(map(is_running, found)))


async def test_leaving_ends_the_plugin(program: Callable[[str], Path], tmp_path: Path) -> None:
    """A service that shuts down waits for no plugin."""
    pids = tmp_path / "pids"
    running = asyncio.create_task(run(program(HANGING.format(pids=str(pids)))))
    await until(lambda: bool(pids_in(pids)))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    found = pids_in(pids)
    await until(lambda: not any(map(is_running, found)))


async def test_leaving_while_the_plugin_starts_ends_it_too(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    """There is no moment at which it is nobody's."""
    pids = tmp_path / "pids"
    path = program(HANGING.format(pids=str(pids)))
    running = asyncio.create_task(run(path))
    await asyncio.sleep(0)  # it has begun to start the program
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 20)
    await until(lambda: not any(map(is_running, pids_in(pids))))


def test_the_environment_of_a_plugin_is_not_shown() -> None:
    """It often holds secrets."""
    assert "hush" not in repr(ExecPlugin(command="p", environment={"PASSWORD": "hush"}))
