"""The command: serve a cluster, give a running one trouble."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from watchcache_devcluster import DevCluster
from watchcache_devcluster.cli import app
from watchcache_devcluster.remote import Remote, RemoteError, find_kubeconfig

MANIFEST = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"


@pytest.fixture
def kubeconfig(devcluster: DevCluster, tmp_path: Path) -> Path:
    """Give the kubeconfig of a running cluster."""
    return devcluster.write_kubeconfig(tmp_path / "kubeconfig")


async def run(*arguments: str) -> Result:
    """Run the command beside the cluster's event loop."""
    return await asyncio.to_thread(CliRunner().invoke, app, list(arguments))


async def fault(kubeconfig: Path, *arguments: str) -> Result:
    """Run `fault` on a cluster."""
    return await run("fault", *arguments, "--kubeconfig", str(kubeconfig))


class TestFault:
    """`fault NAME`."""

    async def test_a_fault_is_made_of_its_options(
        self, devcluster: DevCluster, kubeconfig: Path
    ) -> None:
        """Every option arrives; a code alone stands for a status."""
        answer = await fault(
            kubeconfig,
            *("429", "--resource", "pods", "--verb", "list", "-n", "shop", "--percent", "50"),
            *("--times", "3", "--retry-after", "2", "--message", "later"),
        )
        assert (answer.exit_code, answer.output) == (
            0,
            "fault 1 status: in force until cleared or used up\n",
        )
        (active,) = devcluster.faults.active()
        assert active == {
            "number": 1,
            "struck": 0,
            "kind": "status",
            "resource": "pods",
            "verb": "list",
            "namespace": "shop",
            "percent": 50.0,
            "times": 3,
            "code": 429,
            "message": "later",
            "retry_after_seconds": 2,
            "seconds": 1.0,
        }
        listed = await fault(kubeconfig, "list")
        assert "list pods shop 50%" in listed.output

    async def test_a_fault_on_streams_may_be_over_at_once(self, kubeconfig: Path) -> None:
        """It strikes what runs, and nothing is left in force."""
        answer = await fault(kubeconfig, "reset")
        assert answer.output == "fault 1 reset: struck running streams\n"
        assert (await fault(kubeconfig, "list")).output == "no faults in force\n"

    async def test_faults_are_removed_and_cleared(
        self, devcluster: DevCluster, kubeconfig: Path
    ) -> None:
        """One by its number, or all."""
        answer = await fault(kubeconfig, "delay", "--seconds", "0.5", "-o", "json")
        assert json.loads(answer.output) == {"number": 1, "stays": True}
        await fault(kubeconfig, "cut", "--lasting", "--clean")
        assert (await fault(kubeconfig, "remove", "--number", "1")).output == "removed fault 1\n"
        assert (await fault(kubeconfig, "clear")).output == "cleared 1 fault\n"
        assert devcluster.faults.active() == []
        gone = await fault(kubeconfig, "remove", "--number", "1")
        assert gone.exit_code == 1
        assert 'faults.devcluster "1" not found' in gone.output

    async def test_the_other_actions(self, devcluster: DevCluster, kubeconfig: Path) -> None:
        """Compaction, the end of tokens, a restart."""
        version = devcluster.storage.resource_version
        answer = await fault(kubeconfig, "compact")
        assert answer.output == f"compacted: versions before {version} are gone\n"
        answer = await fault(kubeconfig, "expire-tokens", "--serviceaccount", "default/robot")
        assert answer.output == "expired the tokens of default/robot\n"
        answer = await fault(kubeconfig, "restart", "--seconds", "0.01")
        assert answer.output == "restarting\n"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["bogus"], "choose one of"),
            (["expire-tokens"], "NAMESPACE/NAME"),
            (["list", "-o", "xml"], "choose json or table"),
            (["remove"], "say which"),
            (["reset", "--percent", "0"], "percent is 0"),
            (["status", "--code", "200"], "code is 200"),
            (["error", "--times", "0"], "times is 0"),
            (["delay", "--seconds", "-1"], "--seconds"),
        ],
    )
    async def test_a_wrong_call_is_2(self, arguments: list[str], message: str) -> None:
        """The message says what would be right, whether or not a cluster runs."""
        answer = await fault(Path("/nonexistent"), *arguments)
        assert answer.exit_code == 2
        assert message in answer.output

    async def test_a_refusal_is_1(self, kubeconfig: Path) -> None:
        """What the cluster refuses is said in its words."""
        answer = await fault(kubeconfig, "remove", "--number", "7")
        assert answer.exit_code == 1
        assert "7" in answer.output

    async def test_no_cluster_is_1(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a kubeconfig the message says how to get one."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("KUBECONFIG", raising=False)
        answer = await run("fault", "list")
        assert answer.exit_code == 1
        assert "watchcache-devcluster serve" in answer.output


class TestRemote:
    """Finding and calling a running cluster."""

    def test_a_kubeconfig_is_looked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The one that is named, then $KUBECONFIG, then the usual folders."""
        monkeypatch.chdir(tmp_path)
        with pytest.raises(RemoteError, match="no kubeconfig at absent"):
            find_kubeconfig(Path("absent"))
        usual = Path(".devcluster/kubeconfig")
        usual.parent.mkdir()
        usual.touch()
        assert find_kubeconfig(None, {}) == usual
        named = tmp_path / "named"
        named.touch()
        assert find_kubeconfig(None, {"KUBECONFIG": str(named)}) == named
        assert find_kubeconfig(None, {"KUBECONFIG": f"{named}{os.pathsep}{usual}"}) == named
        assert find_kubeconfig(usual, {"KUBECONFIG": str(named)}) == usual

    @pytest.mark.parametrize("place", ["absent", f"absent{os.pathsep}.devcluster/kubeconfig"])
    def test_a_kubeconfig_that_is_gone_is_not_replaced_by_another(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        """Trouble meant for a cluster that was stopped strikes no other one."""
        monkeypatch.chdir(tmp_path)
        for folder in (".demo", ".devcluster"):
            Path(folder).mkdir()
            Path(folder, "kubeconfig").touch()
        with pytest.raises(RemoteError, match="KUBECONFIG names absent, and there is no such file"):
            find_kubeconfig(None, {"KUBECONFIG": place})

    @pytest.mark.parametrize("text", ["", "a: [", "users: []", "current-context: x"])
    def test_another_kubeconfig_is_refused(self, tmp_path: Path, text: str) -> None:
        """Only one that a dev cluster wrote holds what is needed."""
        path = tmp_path / "kubeconfig"
        path.write_text(text)
        with pytest.raises(RemoteError, match="not a kubeconfig that a dev cluster wrote"):
            Remote.from_kubeconfig(path)

    async def test_a_cluster_that_is_gone_is_said_so(self, tmp_path: Path) -> None:
        """The address is named."""
        async with DevCluster() as cluster:
            remote = Remote.from_kubeconfig(cluster.write_kubeconfig(tmp_path / "kubeconfig"))
        with pytest.raises(RemoteError, match="does not answer"):
            remote.request("GET", "faults")

    async def test_an_api_server_is_no_dev_cluster(
        self, devcluster: DevCluster, kubeconfig: Path
    ) -> None:
        """An answer that is not JSON comes from something else."""
        remote = Remote.from_kubeconfig(kubeconfig)
        with pytest.raises(RemoteError, match="not a dev cluster"):
            await asyncio.to_thread(remote.request, "GET", "nonesuch")


async def serve(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    """Start the command as a process."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "watchcache_devcluster.cli", "serve", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
    )


async def read_until(stream: Any, word: str) -> list[str]:
    """Return the lines up to the one that holds a word."""
    lines: list[str] = []
    while not lines or word not in lines[-1]:
        line = await asyncio.wait_for(stream.readline(), 30)
        assert line, f"ended before {word}: {lines}"
        lines.append(line.decode().rstrip())
    return lines


class TestServe:
    """`serve`."""

    async def test_it_serves_what_it_loads_until_it_is_stopped(self, tmp_path: Path) -> None:
        """It says where it is, takes the manifests, and removes its kubeconfig at the end."""
        (tmp_path / "shop.yaml").write_text(MANIFEST)
        process = await serve(tmp_path, "--dir", ".demo", "--load", "shop.yaml")
        try:
            lines = await read_until(process.stdout, "Ctrl-C")
            assert lines[0] == "loaded       1 object from shop.yaml"
            path = tmp_path / ".demo" / "kubeconfig"
            server = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"]
            assert f"dev cluster  {server} (simulated)" in lines
            remote = Remote.from_kubeconfig(path)
            assert await asyncio.to_thread(remote.request, "GET", "faults") == {"faults": []}
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")
        assert not path.exists()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("apiVersion: demo.test/v1\nkind: Widget\n", "must come first"),
            ("a: [", "shop.yaml: "),
            (MANIFEST.replace("shop", "NOT"), "is invalid: "),
            (None, "cannot read "),
        ],
        ids=["unknown kind", "no YAML", "invalid", "no file"],
    )
    async def test_what_cannot_be_loaded_ends_it(
        self, tmp_path: Path, text: str | None, message: str
    ) -> None:
        """The file is named, with what is wrong with it."""
        path = tmp_path / "shop.yaml"
        if text is not None:
            path.write_text(text)
        answer = await run("serve", "--dir", str(tmp_path / "d"), "--load", str(path))
        assert answer.exit_code == 2
        assert message in answer.output
        assert not (tmp_path / "d").exists()

    async def test_a_port_in_use_ends_it(self, devcluster: DevCluster, tmp_path: Path) -> None:
        """The message says how to take another one."""
        answer = await run("serve", "--dir", str(tmp_path), "--port", str(devcluster.port))
        assert answer.exit_code == 2
        assert "choose another with --port" in answer.output


async def test_the_version_is_printed() -> None:
    """It is that of the distribution."""
    answer = await run("--version")
    told = f"watchcache-devcluster {version('watchcache-devcluster')}\n"
    assert (answer.exit_code, answer.output) == (0, told)
