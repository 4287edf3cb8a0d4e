"""Reads specs in a thread of its own, which lives as long as the reader is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from watchcache.v1alpha1 import extension_pb2
from watchcache_server.model.errors import FieldViolation, InvalidRequestError
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec
from watchcache_server.serving.spec_conversion import extension_spec
from watchcache_server.settings import Settings

__all__ = ["SpecReader"]


class SpecReader:
    """Reads specs, one at a time: a large one takes long, and everything else is to go on."""

    def __init__(
        self,
        settings: Settings,
        *,
        default_cluster: str,
        known_clusters: Callable[[], Collection[str] | None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._default_cluster = default_cluster
        self._known_clusters = known_clusters
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spec-reader")

    async def read(
        self,
        key: ExtensionKey,
        message: extension_pb2.ExtensionSpec,
        violations: Iterable[FieldViolation] = (),
    ) -> ExtensionSpec:
        """Check and return a spec in canonical form.

        Raises InvalidRequestError, with the `violations` found in the rest of the request before.
        """
        size, limit = message.ByteSize(), self._settings.max_spec_bytes
        if size > limit:
            raise InvalidRequestError.of(
                "spec",
                f"is {size} bytes, more than the {limit} allowed; register fewer resources, or "
                "raise the setting max_spec_bytes",
                reason="SPEC_TOO_LARGE",
            )
        read = partial(
            extension_spec,
            key,
            message,
            self._settings,
            self._default_cluster,
            known_clusters=self._known_clusters(),
            violations=violations,
        )
        return await asyncio.get_running_loop().run_in_executor(self._thread, read)

    def close(self) -> None:
        """Read nothing more. Does not wait for a spec that is being read."""
        self._thread.shutdown(wait=False, cancel_futures=True)
