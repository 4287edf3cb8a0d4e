"""What happens by itself after a write: the small controllers of the cluster.

Establishing and removing CustomResourceDefinitions, emptying namespaces, removing what belonged to
a deleted owner, and finishing pods whose grace has passed. `Controllers` notes every change in the
middle of its commit and works on it afterwards, in one task, so that no write waits for another.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from watchcache_devcluster import definitions
from watchcache_devcluster.commits import timestamp
from watchcache_devcluster.definitions import CLEANUP_FINALIZER, CRD_TABLE
from watchcache_devcluster.resources import Catalog
from watchcache_devcluster.storage import Change, Key, Record, Storage, Table

__all__ = ["Controllers"]

Tree = dict[str, Any]
_log = logging.getLogger(__name__)
_CLOSES_NAMESPACE = "kubernetes"


class Controllers:
    """Reacts to changes; `run` is the task that does the work."""

    def __init__(self, storage: Storage, catalog: Catalog, clock: Callable[[], float]) -> None:
        self._storage = storage
        self._catalog = catalog
        self._clock = clock
        self._work: asyncio.Queue[Callable[[], None]] = asyncio.Queue()
        self._owners: dict[str, set[tuple[str, Key]]] = {}
        self._due: list[tuple[float, Key]] = []
        self._timer = asyncio.Event()
        storage.observe(self._note)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_queue())
            group.create_task(self._run_timer())

    async def settled(self) -> None:
        """Wait until everything noted so far has been worked on."""
        await self._work.join()

    async def _run_queue(self) -> None:
        while True:
            step = await self._work.get()
            try:
                step()
            except Exception:  # noqa: BLE001 - the supervisor: one bad object must not stop others
                _log.exception("a controller failed")
            finally:
                self._work.task_done()
            if self._work.qsize() % 64 == 0:
                await asyncio.sleep(0)

    async def _run_timer(self) -> None:
        while True:
            self._timer.clear()
            now = self._clock()
            while self._due and self._due[0][0] <= now:
                _, key = heapq.heappop(self._due)
                self._finish_pod(key)
            pause = self._due[0][0] - now if self._due else None
            try:
                async with asyncio.timeout(pause):
                    await self._timer.wait()
            except TimeoutError:
                pass

    # Noting

    def _note(self, table: Table, change: Change) -> None:
        record, previous = change.record, change.previous
        key = record.key
        if b'"ownerReferences":' in record.rest or (
            previous is not None and b'"ownerReferences":' in previous.rest
        ):
            self._index_owners(table, record, previous)
        if record.is_deleted:
            self._note_deleted(table, record)
            return
        if table.name == CRD_TABLE:
            self._work.put_nowait(lambda: self._sync_definition(key))
        elif b'"deletionTimestamp":' in record.rest:
            if table.name == "namespaces":
                self._work.put_nowait(lambda: self._empty_namespace(key[1]))
            elif table.name == "pods":
                self._schedule_pod(record)
            self._work.put_nowait(lambda: self._collect_owner(table, key))

    def _note_deleted(self, table: Table, record: Record) -> None:
        tree = record.decode()
        uid = tree["metadata"]["uid"]
        for owner in _owners(tree):
            self._work.put_nowait(partial(self._collect_owner_of, owner, record.namespace))
        if uid in self._owners:
            self._work.put_nowait(lambda: self._collect_dependents(uid))
        namespace = record.namespace
        home = self._storage.table("namespaces").get(("", namespace)) if namespace else None
        if home is not None and b'"deletionTimestamp":' in home.rest:
            self._work.put_nowait(lambda: self._empty_namespace(namespace))
        definition = self._storage.table(CRD_TABLE).get(("", table.name))
        if definition is not None and b'"deletionTimestamp":' in definition.rest:
            self._work.put_nowait(lambda: self._sync_definition(("", table.name)))

    def _index_owners(self, table: Table, record: Record, previous: Record | None) -> None:
        place = (table.name, record.key)
        if previous is not None:
            for uid in _owner_uids(previous.decode()):
                held = self._owners.get(uid, set())
                held.discard(place)
                if not held:
                    self._owners.pop(uid, None)
        if not record.is_deleted:
            for uid in _owner_uids(record.decode()):
                self._owners.setdefault(uid, set()).add(place)

    # Custom resources

    def _sync_definition(self, key: Key) -> None:
        table = self._storage.table(CRD_TABLE)
        record = table.get(key)
        if record is None:
            return
        tree = record.decode()
        if tree["metadata"].get("deletionTimestamp"):
            self._remove_definition(key, tree)
            return
        conflict = definitions.name_conflict(self._catalog, tree)
        status = tree.setdefault("status", {})
        now = timestamp(self._clock())
        names_accepted = _condition(
            "NamesAccepted",
            not conflict,
            "MultipleNamesNotAllowed" if conflict else "NoConflicts",
            conflict or "no conflicts found",
            now,
        )
        established = _condition(
            "Established",
            not conflict,
            "NotAccepted" if conflict else "InitialNamesAccepted",
            "not all names are accepted" if conflict else "the initial names have been accepted",
            now,
        )
        for condition in (names_accepted, established):
            _set_condition(status, condition)
        stored = [v["name"] for v in tree["spec"]["versions"] if v.get("storage")]
        versions = status.setdefault("storedVersions", [])
        versions += [name for name in stored if name not in versions]
        if not conflict:
            status["acceptedNames"] = definitions.accepted_names(tree)
            self._serve(tree)
        if record.decode().get("status") != status:
            self._storage.put(table, key, tree)

    def _serve(self, tree: Tree) -> None:
        wanted = definitions.resources_of(tree)
        name = tree["metadata"]["name"]
        served = [resource for resource in self._catalog.of_table(name) if resource.is_custom]
        kept = {resource.version for resource in wanted}
        self._catalog.remove(*(old for old in served if old.version not in kept))
        self._catalog.add(*wanted)
        self._storage.table(name)
        if served and {resource.version for resource in served} - kept:
            self._storage.table(name).wake()

    def _remove_definition(self, key: Key, tree: Tree) -> None:
        name = key[1]
        served = [resource for resource in self._catalog.of_table(name) if resource.is_custom]
        if served and not self._delete_all(self._storage.table(name), None):
            return
        finalizers = tree["metadata"].get("finalizers") or []
        kept = [item for item in finalizers if item != CLEANUP_FINALIZER]
        table = self._storage.table(CRD_TABLE)
        if kept:
            if kept != finalizers:
                tree["metadata"]["finalizers"] = kept
                self._storage.put(table, key, tree)
            return
        self._catalog.remove(*served)
        self._storage.drop(name)
        self._storage.delete(table, key)

    # Namespaces

    def _empty_namespace(self, namespace: str) -> None:
        spaces = self._storage.table("namespaces")
        record = spaces.get(("", namespace))
        if record is None:
            return
        is_empty = True
        for table in self._storage.tables():
            if table is not spaces and not self._delete_all(table, namespace):
                is_empty = False
        if not is_empty:
            return
        tree = record.decode()
        spec = tree.setdefault("spec", {})
        kept = [item for item in spec.get("finalizers") or [] if item != _CLOSES_NAMESPACE]
        if not kept and not tree["metadata"].get("finalizers"):
            self._storage.delete(spaces, ("", namespace))
        elif kept != (spec.get("finalizers") or []):
            spec["finalizers"] = kept
            self._storage.put(spaces, ("", namespace), tree, {"status.phase": "Terminating"})

    def _delete_all(self, table: Table, namespace: str | None) -> bool:
        """Delete a table's objects (of one namespace); say whether none is left."""
        for record in list(table.scan(namespace)):
            self._delete(table, record)
        return next(table.scan(namespace), None) is None

    def _delete(self, table: Table, record: Record) -> None:
        """Delete one object in the background: at once, or marked while finalizers hold it."""
        tree = record.decode()
        metadata = tree["metadata"]
        if not metadata.get("finalizers"):
            self._storage.delete(table, record.key)
        elif not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = timestamp(self._clock())
            metadata["deletionGracePeriodSeconds"] = 0
            if "generation" in metadata:
                metadata["generation"] += 1
            self._storage.put(table, record.key, tree, record.fields)

    # Owners

    def _collect_dependents(self, uid: str) -> None:
        for name, key in sorted(self._owners.get(uid, ())):
            table = self._storage.table(name)
            record = table.get(key)
            if record is None:
                continue
            tree = record.decode()
            kept = [owner for owner in _owners(tree) if owner.get("uid") != uid]
            if any(self._find_owner(owner, key[0]) for owner in kept):
                tree["metadata"]["ownerReferences"] = kept
                self._storage.put(table, key, tree, record.fields)
            else:
                self._delete(table, record)

    def _find_owner(self, owner: Tree, namespace: str) -> tuple[Table, Key] | None:
        """Return where the object that a reference means is kept, if it still exists."""
        resource = self._catalog.by_kind(str(owner.get("apiVersion")), str(owner.get("kind")))
        if resource is None:
            return None
        table = self._storage.table(resource.table)
        key = (namespace if resource.namespaced else "", str(owner.get("name")))
        record = table.get(key)
        if record is None or record.decode()["metadata"]["uid"] != owner.get("uid"):
            return None
        return table, key

    def _collect_owner_of(self, owner: Tree, namespace: str) -> None:
        found = self._find_owner(owner, namespace)
        if found is not None:
            self._collect_owner(*found)

    def _collect_owner(self, table: Table, key: Key) -> None:
        """Carry out the `orphan` and `foregroundDeletion` finalizers of a marked object."""
        record = table.get(key)
        if record is None:
            return
        tree = record.decode()
        metadata = tree["metadata"]
        finalizers = metadata.get("finalizers") or []
        uid = metadata["uid"]
        if "orphan" in finalizers:
            for name, place in sorted(self._owners.get(uid, ())):
                self._orphan(self._storage.table(name), place, uid)
            finalizers = [item for item in finalizers if item != "orphan"]
        elif "foregroundDeletion" in finalizers:
            self._collect_dependents(uid)
            if self._owners.get(uid):
                return
            finalizers = [item for item in finalizers if item != "foregroundDeletion"]
        else:
            return
        if finalizers:
            metadata["finalizers"] = finalizers
            self._storage.put(table, key, tree, record.fields)
        else:
            self._storage.delete(table, key)

    def _orphan(self, table: Table, key: Key, uid: str) -> None:
        record = table.get(key)
        if record is None:
            return
        tree = record.decode()
        kept = [owner for owner in _owners(tree) if owner.get("uid") != uid]
        tree["metadata"]["ownerReferences"] = kept
        if not kept:
            del tree["metadata"]["ownerReferences"]
        self._storage.put(table, key, tree, record.fields)

    # Pods

    def _schedule_pod(self, record: Record) -> None:
        metadata = record.decode()["metadata"]
        stamp = datetime.fromisoformat(metadata["deletionTimestamp"])
        heapq.heappush(self._due, (stamp.timestamp(), record.key))
        self._timer.set()

    def _finish_pod(self, key: Key) -> None:
        pods = self._storage.table("pods")
        record = pods.get(key)
        if record is None:
            return
        metadata = record.decode()["metadata"]
        stamp = metadata.get("deletionTimestamp")
        is_due = stamp is not None and stamp <= timestamp(self._clock())
        if is_due and not metadata.get("finalizers"):
            self._storage.delete(pods, key)


def _owners(tree: Tree) -> list[Tree]:
    return tree["metadata"].get("ownerReferences") or []


def _owner_uids(tree: Tree) -> list[str]:
    return [str(owner.get("uid")) for owner in _owners(tree)]


def _condition(kind: str, is_true: bool, reason: str, message: str, now: str) -> Tree:
    return {
        "type": kind,
        "status": "True" if is_true else "False",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _set_condition(status: Tree, condition: Tree) -> None:
    conditions: list[Tree] = status.setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            if old["status"] != condition["status"]:
                conditions[index] = condition
            return
    conditions.append(condition)
