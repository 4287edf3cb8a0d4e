"""ServiceAccounts without rights, and the roles and bindings that give them some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.contract.api import Api, eventually, unique

__all__ = [
    "RBAC",
    "RBAC_GROUP",
    "REVIEWS",
    "Robot",
    "bind",
    "is_allowed",
    "rights_are_known",
    "rule",
]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
RBAC_GROUP = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1"


@dataclass(frozen=True)
class Robot:
    """A ServiceAccount that has no rights of its own, with a token."""

    namespace: str
    token: str

    @property
    def user(self) -> str:
        """Its user name."""
        return f"system:serviceaccount:{self.namespace}:robot"

    @property
    def subject(self) -> dict[str, str]:
        """How a binding names it."""
        return {"kind": "ServiceAccount", "name": "robot", "namespace": self.namespace}


def rule(resources: str, verbs: str, *, groups: str = "", names: str = "") -> dict[str, Any]:
    """Return a rule from words; an empty group is the core."""
    made: dict[str, Any] = {
        "apiGroups": groups.split() or [""],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }
    return {**made, "resourceNames": names.split()} if names else made


async def bind(
    api: Api,
    namespace: str,
    rules: list[dict[str, Any]],
    subject: dict[str, str],
    *,
    role: str = "Role",
    binding: str = "RoleBinding",
) -> str:
    """Make a role and a binding of these kinds under one new name, and return the name."""
    name = unique("grant")
    where = {
        kind: RBAC if kind.startswith("Cluster") else f"{RBAC}/namespaces/{namespace}"
        for kind in (role, binding)
    }
    await api.create(f"{where[role]}/{role.lower()}s", {"metadata": {"name": name}, "rules": rules})
    await api.create(
        f"{where[binding]}/{binding.lower()}s",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": role, "name": name},
            "subjects": [subject],
        },
    )
    return name


async def is_allowed(api: Api, user: dict[str, Any], attributes: dict[str, Any]) -> bool:
    """Ask the server by a SubjectAccessReview."""
    made = await api.create(f"{REVIEWS}/subjectaccessreviews", {"spec": {**user, **attributes}})
    allowed: bool = made["status"]["allowed"]
    return allowed


async def rights_are_known(api: Api, namespace: str) -> None:
    """Return when the server acts on every role and binding made so far.

    It learns of each kind in order, so grants of all four kinds that are made now and seen to work
    mean that those made before are in force as well.
    """
    for role, binding in (("Role", "RoleBinding"), ("ClusterRole", "ClusterRoleBinding")):
        user = unique("user")
        subject = {"kind": "User", "name": user, "apiGroup": RBAC_GROUP}
        await bind(api, namespace, [rule("configmaps", "get")], subject, role=role, binding=binding)
        attributes = {
            "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "configmaps"}
        }

        async def is_known(user: str = user, attributes: dict[str, Any] = attributes) -> bool:
            return await is_allowed(api, {"user": user}, attributes)

        await eventually(is_known, f"the {binding} of {user} is in force")
