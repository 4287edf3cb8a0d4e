"""Specs that a stream of extensions has sent: it sends each once, and leaves it out after that."""

from __future__ import annotations

from watchcache.v1alpha1 import extension_pb2

__all__ = ["KnownSpecs"]


class KnownSpecs:
    """Remembers the newest spec of each extension, for messages that leave it out."""

    def __init__(self) -> None:
        self._specs: dict[tuple[str, str], tuple[str, extension_pb2.ExtensionSpec]] = {}

    def complete(self, message: extension_pb2.Extension) -> None:
        """Put the spec that holds into a message without one; remember that of another."""
        key = message.namespace, message.name
        if message.HasField("spec"):
            self._specs[key] = message.uid, message.spec
            return
        uid, spec = self._specs.get(key, ("", None))
        if spec is not None and uid == message.uid:
            message.spec.CopyFrom(spec)

    def forget(self, namespace: str, name: str) -> None:
        """Forget the spec of an extension that is no longer there."""
        self._specs.pop((namespace, name), None)
