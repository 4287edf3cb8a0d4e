"""Makes the faults of a round happen, each at its time, and undoes those that last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tests.chaos.storm.hasty_service import FORGETFUL
from tests.chaos.storm.schedule import Fault, FaultKind, Round
from tests.chaos.storm.stage import Stage
from tests.chaos.storm.subscribers import Subscriber
from tests.controlplane.server import ControlPlaneError

__all__ = ["Troublemaker"]

_ATTEMPTS = 3
# What takes everything down with it: most of the time nothing else happens before it is back,
# since a fault upon what is not there strikes nothing.
_GRAVE = frozenset(
    {
        FaultKind.SERVER_STOP,
        FaultKind.SERVER_KILL,
        FaultKind.ETCD_STOP,
        FaultKind.ETCD_KILL,
        FaultKind.SERVICE_KILL,
        FaultKind.SERVICE_RESTART,
        FaultKind.SERVICE_STOP,
    }
)
_OVERLAPPING = 0.4
# The part of the restarts after which the service keeps little history.
_FORGETFUL = 0.5
_RETURN_SECONDS = 4.0
_POLL_SECONDS = 0.05
_CUT_ATTEMPTS = 60


class Troublemaker:
    """Does to the stage what the schedule says.

    Faults of one kind of thing follow each other (one process cannot be killed twice at once);
    those of different kinds overlap. When `make` returns, all that lasted is over.
    """

    def __init__(
        self, stage: Stage, subscribers: Sequence[Subscriber], struck: Callable[[Fault], None]
    ) -> None:
        self._stage = stage
        self._subscribers = subscribers
        self._struck = struck
        self._server = asyncio.Lock()
        self._service = asyncio.Lock()
        self._clients = asyncio.Lock()
        self._rights = asyncio.Lock()
        self._definition = asyncio.Lock()

    async def make(self, todo: Round) -> None:
        """Make all faults of a round; return when the last is over."""
        async with asyncio.TaskGroup() as group:
            for fault in todo.faults:
                await asyncio.sleep(fault.pause_seconds)
                made = group.create_task(self._make(fault))
                if fault.kind in _GRAVE and fault.lot > _OVERLAPPING:
                    await made
                    await self._wait_for_return()

    async def _wait_for_return(self) -> None:
        """Wait a while for requests that can be struck."""
        deadline = asyncio.get_running_loop().time() + _RETURN_SECONDS
        while self._stage.gateway.open_watches < self._stage.informers // 2:
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _make(self, fault: Fault) -> None:
        stage = self._stage
        match fault.kind:
            case FaultKind.SERVER_STOP:
                async with self._server:
                    await self._stop(fault, "kube-apiserver")
            case FaultKind.ETCD_STOP:
                async with self._server:
                    await self._stop(fault, "etcd")
            case FaultKind.SERVER_KILL:
                async with self._server:
                    await self._kill_server(fault)
            case FaultKind.ETCD_KILL:
                async with self._server:
                    await asyncio.to_thread(stage.control_plane.kill_etcd)
                    self._struck(fault)
                    await asyncio.sleep(fault.seconds)
                    await asyncio.to_thread(stage.control_plane.start_etcd)
            case FaultKind.COMPACTION:
                async with self._server:
                    if await stage.truth.compact():
                        self._struck(fault)
            case FaultKind.RIGHTS:
                async with self._rights:
                    plural, namespace = fault.variant.split(" ")
                    await stage.revoke(plural, namespace)
                    self._struck(fault)
                    await asyncio.sleep(fault.seconds)
                    await stage.grant(plural, namespace)
            case FaultKind.DEFINITION:
                async with self._definition:
                    await stage.undefine()
                    self._struck(fault)
                    await asyncio.sleep(fault.seconds)
                    await stage.define()
            case FaultKind.SERVICE_KILL | FaultKind.SERVICE_RESTART | FaultKind.SERVICE_STOP:
                async with self._service:
                    await self._trouble_service(fault)
            case FaultKind.CLIENTS_CUT | FaultKind.CLIENTS_SHUT | FaultKind.CLIENTS_FROZEN:
                async with self._clients:
                    await self._trouble_clients(fault)
            case FaultKind.CLIENT_KILL:
                chosen = self._subscribers[int(fault.lot * len(self._subscribers))]
                chosen.kill(fault.seconds)
                self._struck(fault)
            case _:
                await stage.gateway.strike(fault)

    async def _stop(self, fault: Fault, program: str) -> None:
        self._stage.control_plane.pause(program)
        self._struck(fault)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            self._stage.control_plane.resume(program)

    async def _kill_server(self, fault: Fault) -> None:
        if fault.variant == "compacted":
            # Only a new process has no window of its own over what etcd has forgotten.
            await self._stage.truth.compact()
        await asyncio.to_thread(self._stage.control_plane.kill)
        self._struck(fault)
        for attempt in range(_ATTEMPTS):
            try:
                await asyncio.to_thread(self._stage.control_plane.start_apiserver)
            except ControlPlaneError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    async def _trouble_service(self, fault: Fault) -> None:
        service = self._stage.service
        if fault.kind is FaultKind.SERVICE_STOP:
            service.pause()
            self._struck(fault)
            try:
                await asyncio.sleep(fault.seconds)
            finally:
                service.resume()
            return
        is_kill = fault.kind is FaultKind.SERVICE_KILL
        await asyncio.to_thread(service.kill if is_kill else service.stop)
        self._struck(fault)
        await asyncio.sleep(fault.seconds)
        service.more_settings = FORGETFUL if fault.lot < _FORGETFUL else {}
        await asyncio.to_thread(service.start)

    async def _trouble_clients(self, fault: Fault) -> None:
        network = self._stage.clients
        if fault.kind is FaultKind.CLIENTS_CUT:
            for _ in range(_CUT_ATTEMPTS):
                if network.cut():
                    self._struck(fault)
                    return
                await asyncio.sleep(_POLL_SECONDS)
            return
        self._struck(fault)
        try:
            if fault.kind is FaultKind.CLIENTS_SHUT:
                network.shut()
            else:
                network.freeze()
            await asyncio.sleep(fault.seconds)
        finally:
            network.open()
            network.thaw()
