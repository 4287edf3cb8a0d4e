"""The state of an informer together with the sentence that says why.

Sentences name the verb, the resource, the namespace, the cluster and the ServiceAccount, so that a
person can act on them. They hold what a server said only after `shorten`, and never a token or an
object.
"""

from __future__ import annotations

import msgspec

from watchcache_server.informer.reasons import Reason
from watchcache_server.informer.statuses import shorten
from watchcache_server.model.states import SourceState

__all__ = ["Condition", "Subject"]


class Condition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is published of an informer, except for what time adds to it."""

    state: SourceState
    reason: str
    message: str
    missing_verbs: tuple[str, ...] = ()


class Subject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an informer watches, in words for people.

    `resource` is the plural name with its group. `namespace` is empty for all namespaces.
    `service_account` is `namespace/name`, or empty when the cluster's own credentials are used.
    `is_scope_open` says that the namespace counts only if the kind turns out to be namespaced.
    """

    cluster: str
    resource: str
    namespace: str
    service_account: str
    is_scope_open: bool = False

    def scoped(self, *, is_namespaced: bool) -> Subject:
        """Return what is watched, now that it is known whether the kind is namespaced."""
        if self.is_scope_open and not is_namespaced:
            return msgspec.structs.replace(self, namespace="")
        return self

    @property
    def place(self) -> str:
        """The namespace and the cluster."""
        scope = f"namespace {self.namespace}" if self.namespace else "all namespaces"
        return f"{scope} of cluster {self.cluster}"

    @property
    def who(self) -> str:
        """Whose rights count."""
        if self.service_account:
            return f"serviceaccount {self.service_account}"
        return f"the credentials of cluster {self.cluster}"

    def sentence(self, what: str, said: str = "") -> str:
        """Make the sentence of something that happened to this informer."""
        start = f"{self.resource} in {self.place}: {what}"
        return f"{start} ({shorten(said)})" if said else start

    def needs(self, missing: tuple[str, ...], allowed: tuple[str, ...]) -> str:
        """Say which rights are missing, and which are there."""
        text = f"{self.who} needs {' and '.join(missing)} on {self.resource} in {self.place}"
        return f"{text}; {' and '.join(allowed)} is allowed" if allowed else text

    def invalid_scope(self) -> Condition:
        """Say that the resource has no namespaces."""
        return Condition(
            state=SourceState.GONE,
            reason=Reason.INVALID_SCOPE,
            message=f"{self.resource} of cluster {self.cluster} is not namespaced; "
            "watch it without a namespace",
        )

    def overlapping(self, said: str) -> Condition:
        """Say that another entry of the spec watches it."""
        return Condition(
            state=SourceState.GONE,
            reason=Reason.OVERLAPPING_WATCHES,
            message=self.sentence("watched by another entry already", said),
        )

    def verb_not_served(self, missing: tuple[str, ...]) -> Condition:
        """Say that the server cannot do it for anyone."""
        return Condition(
            state=SourceState.GONE,
            reason=Reason.VERB_NOT_SERVED,
            message=f"{self.resource} of cluster {self.cluster} does not support "
            f"{' and '.join(missing)}; it cannot be cached",
        )
