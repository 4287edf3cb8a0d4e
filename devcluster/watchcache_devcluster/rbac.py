"""Who may do what: the RBAC authorizer, reading stored roles and bindings.

`Authorizer.allows` answers for one request; `why_not` writes the refusal as kube-apiserver does;
`rules_for` lists what a user may do. Rights are looked up at the start of a request and never
again, so a running watch outlives them, as on a real server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from watchcache_devcluster import errors
from watchcache_devcluster.errors import ApiError, qualified
from watchcache_devcluster.storage import Change, Storage, Table
from watchcache_devcluster.tokens import ADMIN_GROUP, User

__all__ = ["Authorizer", "Question"]

Rule = dict[str, Any]
_SUFFIX = "rbac.authorization.k8s.io"
_TABLES = tuple(
    f"{plural}.{_SUFFIX}"
    for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
)


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that somebody wants to do."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """`pods` or `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    """Answers questions of right from the roles and bindings in the storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cache: dict[str, list[dict[str, Any]]] = {}
        storage.observe(self._forget)

    def _forget(self, table: Table, _change: Change) -> None:
        self._cache.pop(table.name, None)

    def _objects(self, table: str) -> list[dict[str, Any]]:
        if table not in self._cache:
            records = self._storage.table(table).scan()
            self._cache[table] = [record.decode() for record in records]
        return self._cache[table]

    def allows(self, user: User, question: Question) -> bool:
        """Say whether this user may do this."""
        return self.why(user, question) is not None

    def why(self, user: User, question: Question) -> str | None:
        """Return which binding lets this user do this, or None if he may not."""
        if ADMIN_GROUP in user.groups:
            return ""
        for rule, origin in self._rules(user, question.namespace, []):
            if _rule_allows(rule, question):
                return origin
        return None

    def why_not(self, user: User, question: Question) -> ApiError:
        """Return the 403 for a question whose answer was no."""
        missing: list[str] = []
        list(self._rules(user, question.namespace, missing))
        tail = f": RBAC: [{', '.join(missing)}]" if len(missing) > 1 else ""
        if len(missing) == 1:
            tail = f": RBAC: {missing[0]}"
        if not question.resource:
            return errors.forbidden(
                "",
                "",
                "",
                f'User "{user.name}" cannot {question.verb} path "{question.path}"{tail}',
            )
        scope = (
            f'in the namespace "{question.namespace}"'
            if question.namespace
            else "at the cluster scope"
        )
        return errors.forbidden(
            question.group,
            question.resource,
            question.name,
            f'User "{user.name}" cannot {question.verb} resource "{question.full_resource}" in API'
            f' group "{question.group}" {scope}{tail}',
        )

    def rules_for(self, user: User, namespace: str) -> list[Rule]:
        """Return every rule that applies to a user in a namespace."""
        if ADMIN_GROUP in user.groups:
            return [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ]
        return [rule for rule, _ in self._rules(user, namespace, [])]

    def _rules(self, user: User, namespace: str, missing: list[str]) -> Iterator[tuple[Rule, str]]:
        """Yield the rules that apply, each with the sentence that explains why it does."""
        for binding in self._objects(_TABLES[3]):
            subject = _bound_subject(binding, user, "")
            if subject:
                origin = _origin("ClusterRoleBinding", binding, subject)
                for rule in self._role_rules(binding["roleRef"], "", missing):
                    yield rule, origin
        if not namespace:
            return
        for binding in self._objects(_TABLES[1]):
            home = binding["metadata"]["namespace"]
            subject = _bound_subject(binding, user, home) if home == namespace else ""
            if subject:
                origin = _origin("RoleBinding", binding, subject)
                for rule in self._role_rules(binding["roleRef"], home, missing):
                    yield rule, origin

    def _role_rules(
        self, reference: dict[str, Any], namespace: str, missing: list[str]
    ) -> Iterator[Rule]:
        kind, name = reference.get("kind"), str(reference.get("name"))
        is_cluster_role = kind == "ClusterRole"
        for role in self._objects(_TABLES[2] if is_cluster_role else _TABLES[0]):
            metadata = role["metadata"]
            if metadata["name"] == name and (is_cluster_role or metadata["namespace"] == namespace):
                yield from role.get("rules") or []
                return
        plural = "clusterrole" if is_cluster_role else "role"
        missing.append(f'{qualified(plural, _SUFFIX)} "{name}" not found')


def _bound_subject(binding: dict[str, Any], user: User, namespace: str) -> str:
    """Return the subject of a binding that this user is, or the empty string."""
    for subject in binding.get("subjects") or []:
        name = subject.get("name")
        match subject.get("kind"):
            case "User" if name == user.name:
                return f'User "{name}"'
            case "Group" if name in user.groups:
                return f'Group "{name}"'
            case "ServiceAccount":
                home = subject.get("namespace") or namespace
                if user.name == f"system:serviceaccount:{home}:{name}":
                    return f'ServiceAccount "{name}/{home}"'
    return ""


def _origin(kind: str, binding: dict[str, Any], subject: str) -> str:
    metadata, role = binding["metadata"], binding["roleRef"]
    name = metadata["name"]
    if metadata.get("namespace"):
        name = f"{name}/{metadata['namespace']}"
    return (
        f'RBAC: allowed by {kind} "{name}" of {role.get("kind")} "{role.get("name")}" to {subject}'
    )


def _has(allowed: list[str] | None, wanted: str) -> bool:
    return bool(allowed) and ("*" in allowed or wanted in allowed)  # type: ignore[operator]


def _rule_allows(rule: Rule, question: Question) -> bool:
    if not _has(rule.get("verbs"), question.verb):
        return False
    if not question.resource:
        return any(
            url == question.path
            or (url.endswith("*") and question.path.startswith(url.removesuffix("*")))
            for url in rule.get("nonResourceURLs") or []
        )
    if not _has(rule.get("apiGroups"), question.group):
        return False
    resources = rule.get("resources") or []
    is_named = _has(resources, question.full_resource) or (
        bool(question.subresource) and f"*/{question.subresource}" in resources
    )
    names = rule.get("resourceNames") or []
    return is_named and (not names or question.name in names)
