"""The story of the demo: what it lets happen on the dev cluster, and what a client sees of it.

`Story.tell` writes it to a console. Told once, it ends when everything of `WANTED` was seen, so
that the demo checks itself; otherwise it goes on and says what to try.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from datetime import datetime
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

import watchcache
from tools.demo_breaks import Breaks
from watchcache_devcluster import ApiError, DevCluster, Fault

__all__ = ["MANIFESTS", "PODS", "TOKEN_SECONDS", "DemoError", "Story", "pod"]

TOKEN_SECONDS: Final = 600
LIFE_SECONDS: Final = 4.0
PODS: Final = ("web-7f", "web-8d")

DEPLOYMENT: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: demo, labels: {app: web, tier: silver}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.example/web:1"}]}
"""
MANIFESTS: Final = """
apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: shop, namespace: demo}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: shop-reads, namespace: demo}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [list, watch]}
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: shop-reads, namespace: demo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: shop-reads}
subjects: [{kind: ServiceAccount, name: shop, namespace: demo}]
---
apiVersion: v1
kind: Secret
metadata: {name: shop-password, namespace: demo}
stringData: {password: not-for-you}
---
""" + DEPLOYMENT.lstrip()

SIGNS: Final = {
    watchcache.EventType.ADDED: "[green]+[/]",
    watchcache.EventType.MODIFIED: "[yellow]~[/]",
    watchcache.EventType.DELETED: "[red]-[/]",
    watchcache.EventType.LEFT: "[magenta]<[/]",
}
SNAPSHOT: Final = "the snapshot of one deployment and two pods"
FORBIDDEN: Final = "secrets shown as forbidden, with the missing verbs"
RESUMED: Final = "watches that broke and went on where they stood"
CHANGED_AFTER: Final = "a change after the break"
CHANGES: Final = {
    (watchcache.EventType.MODIFIED, "web"): "the change of deployment web",
    (watchcache.EventType.DELETED, "web-7f"): "the end of pod web-7f",
    (watchcache.EventType.ADDED, "web-9c"): "the start of pod web-9c",
}
SECRETS: Final = ("secrets", watchcache.SourceState.FORBIDDEN, {"list", "watch"})
WANTED: Final = (FORBIDDEN, SNAPSHOT, *CHANGES.values(), RESUMED, CHANGED_AFTER)


class DemoError(Exception):
    """The story did not go as it should."""


def pod(name: str) -> dict[str, Any]:
    """Make a pod of the demo's deployment."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "demo", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
    }


class Story:
    """The story, told to a console."""

    def __init__(
        self, console: Console, cluster: DevCluster, metrics: str, hints: str, *, is_endless: bool
    ) -> None:
        """Tell it of a cluster; `metrics` is the service's page, `hints` what there is to try."""
        self._console = console
        self._cluster = cluster
        self._metrics = metrics
        self._hints = hints
        self._is_endless = is_endless
        self._written: dict[str, float] = {}
        self._states: dict[str, watchcache.SourceState] = {}
        self._snapshot: set[str] = set()
        self._seen: set[str] = set()
        self._is_told = False

    @property
    def missing(self) -> list[str]:
        """What has not been seen yet."""
        return [each for each in WANTED if each not in self._seen]

    async def tell(self, wc: watchcache.Connection) -> None:
        """Register, watch, and let things happen."""
        say = self._console.print
        ext = await wc.register(
            "demo/shop",
            service_account="shop",
            watch=["deployments.apps", "pods", "secrets"],
            namespaces=["demo"],
            ttl="10m",
            wait="10s",
        )
        status = await ext.refresh()
        rotates = _minutes(status.credentials[0].refresh_time)
        say(
            f"[bold]registered[/]   {ext}, serviceaccount shop; token {TOKEN_SECONDS // 60}m, "
            f"rotates in {rotates}m"
        )
        for source in ext.not_live:
            self._say_state(source)
        started = time.perf_counter()
        breaks = Breaks(
            self._metrics,
            self._cluster.faults,
            on_break=self._say_break,
            on_resumed=self._say_resumed,
        )
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(self._live_on()), group.create_task(breaks.follow())]
            try:
                async for message in ext.watch():
                    self._take(message, started)
                    if not self._is_endless and not self.missing:
                        return
            finally:
                for task in beside:
                    task.cancel()

    def _take(self, message: object, started: float) -> None:
        say = self._console.print
        match message:
            case watchcache.Batch(events=events, is_snapshot=is_snapshot):
                if is_snapshot:
                    taken = (time.perf_counter() - started) * 1000
                    say(f"[bold]SNAPSHOT[/]     {len(events)} objects in {taken:.0f} ms")
                for event in events:
                    say(self._line(event, is_snapshot=is_snapshot), highlight=False)
            case watchcache.Synced():
                self._say_live()
            case watchcache.SourceChanged(source=source):
                if self._states.get(source.resource, source.state) is not source.state:
                    self._say_state(source)
                self._states[source.resource] = source.state
            case watchcache.Disconnected(error=error, retry_seconds=retry):
                say(f"[dim]disconnected: {escape(str(error))}; again in {retry:.1f} s[/]")
            case watchcache.Started(mode=watchcache.StartMode.RESUMED):
                say("[dim]resumed where it was[/]")

    def _line(self, event: Any, *, is_snapshot: bool) -> str:
        key = event.key
        name = f"{key.namespace}/{key.name}"
        text = f"  {SIGNS[event.type]} {event.resource:<17}{escape(name):<17}"
        self._note_seen(event, is_snapshot=is_snapshot)
        written = self._written.pop(f"{key.name}@{event.resource_version}", None)
        if event.type in (watchcache.EventType.DELETED, watchcache.EventType.LEFT):
            text += f" {event.type}"
        else:
            text += f" rv {event.resource_version:<6}"
        if written is not None and not is_snapshot:
            text += f" [dim]{(time.perf_counter() - written) * 1000:.1f} ms[/]"
        return text

    def _note_seen(self, event: Any, *, is_snapshot: bool) -> None:
        if is_snapshot:
            self._snapshot.add(f"{event.resource}/{event.key.name}")
            return
        told = CHANGES.get((event.type, event.key.name))
        if told:
            self._seen.add(told)
        if event.type is watchcache.EventType.MODIFIED and RESUMED in self._seen:
            self._seen.add(CHANGED_AFTER)

    def _say_live(self) -> None:
        self._console.print("[bold]LIVE[/]")
        wanted = {"deployments.apps/web", *(f"pods/{name}" for name in PODS)}
        if not self._is_told and self._snapshot != wanted:
            found = ", ".join(sorted(self._snapshot)) or "nothing"
            raise DemoError(f"the snapshot holds {found}, not {', '.join(sorted(wanted))}")
        self._seen.add(SNAPSHOT)
        if self._is_endless and not self._is_told:
            self._console.print(self._hints, highlight=False)
        self._is_told = True

    def _say_state(self, source: watchcache.Source) -> None:
        colour = "green" if source.is_live else "red"
        text = escape(source.message) if source.message else f"{source.resource} again"
        self._console.print(f"[{colour}]{source.state:<13}[/]{text}", highlight=False)
        missing = source.missing_access
        verbs = set(missing.verbs) if missing is not None else set()
        if (source.resource, source.state, verbs) == SECRETS:
            self._seen.add(FORBIDDEN)

    def _say_break(self, broken: Counter[str]) -> None:
        count = broken.total()
        reasons = ", ".join(sorted(broken)).replace("_", " ")
        self._console.print(
            f"[red]  ! {count} watch{'es' if count > 1 else ''} of the service broke off[/]: "
            f"{escape(reasons)}",
            highlight=False,
        )

    def _say_resumed(self, seconds: float, is_read_anew: bool) -> None:
        if is_read_anew:
            told = "every object was read anew, and each difference told"
        else:
            told = "where they stood: nothing is lost or told twice"
            self._seen.add(RESUMED)
        self._console.print(
            f"[green]  = going on[/] after {seconds:.1f} s, {told}", highlight=False
        )

    async def _live_on(self) -> None:
        """Let things happen in the cluster."""
        await asyncio.sleep(1.0)
        for round_number in itertools.count(1):
            try:
                await self._change(round_number)
            except ApiError:
                await self._restore()
            await asyncio.sleep(self._pause)

    async def _change(self, round_number: int) -> None:
        cluster = self._cluster
        label = {"metadata": {"labels": {"round": str(round_number)}}}
        changed = await cluster.patch("deployments.apps", "web", label, "demo")
        self._note_written(changed)
        if round_number == 1:
            await asyncio.sleep(self._pause)
            await cluster.delete("pods", "web-7f", "demo", gracePeriodSeconds=0)
            self._note_written(await cluster.create("pods", pod("web-9c")))
            if not self._is_endless:
                cluster.faults.add(Fault("reset"))

    async def _restore(self) -> None:
        """Bring the deployment back: whoever tries things may have deleted it."""
        # Or its namespace; then only they make news.
        with contextlib.suppress(ApiError):
            for created in await self._cluster.load(DEPLOYMENT):
                self._note_written(created)

    @property
    def _pause(self) -> float:
        return LIFE_SECONDS if self._is_endless else 0.5

    def _note_written(self, written: dict[str, Any]) -> None:
        metadata = written["metadata"]
        self._written[f"{metadata['name']}@{metadata['resourceVersion']}"] = time.perf_counter()


def _minutes(moment: datetime | None) -> int:
    if moment is None:
        raise DemoError("the service has no token of the ServiceAccount")
    return round((moment.timestamp() - time.time()) / 60)
