"""CustomResourceDefinitions for the contract: each test makes kinds of its own."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from tests.contract.api import Api, eventually

__all__ = ["DEFINITIONS", "CustomKind", "define", "new_kind"]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0},
                "name": {"type": "string"},
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


@dataclass(frozen=True)
class CustomKind:
    """The names of a custom kind."""

    group: str
    plural: str
    kind: str
    is_namespaced: bool = True
    versions: tuple[str, ...] = ("v1",)

    @property
    def definition_path(self) -> str:
        """The path of its CustomResourceDefinition."""
        return f"{DEFINITIONS}/{self.plural}.{self.group}"

    @property
    def everywhere(self) -> str:
        """The path of its objects in the whole cluster."""
        return f"/apis/{self.group}/{self.versions[0]}/{self.plural}"

    def path(self, namespace: str, version: str | None = None) -> str:
        """Return the path of its objects in a namespace."""
        served = version or self.versions[0]
        return f"/apis/{self.group}/{served}/namespaces/{namespace}/{self.plural}"

    def object(self, name: str, spec: object = None, **metadata: Any) -> dict[str, Any]:
        """Return an object of this kind."""
        return {
            "apiVersion": f"{self.group}/{self.versions[0]}",
            "kind": self.kind,
            "metadata": {"name": name, **metadata},
            "spec": {"size": 1} if spec is None else spec,
        }

    def definition(self, **spec: Any) -> dict[str, Any]:
        """Return its CustomResourceDefinition."""
        versions = [
            {
                "name": version,
                "served": True,
                "storage": version == self.versions[0],
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": _SCHEMA},
                "selectableFields": [{"jsonPath": ".spec.name"}],
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
                ],
            }
            for version in self.versions
        ]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{self.group}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.is_namespaced else "Cluster",
                "names": {
                    "plural": self.plural,
                    "singular": self.plural.removesuffix("s"),
                    "kind": self.kind,
                    "shortNames": [f"{self.plural[:2]}{self.group[:3]}"],
                },
                "versions": versions,
                **spec,
            },
        }


def new_kind(*, is_namespaced: bool = True, versions: tuple[str, ...] = ("v1",)) -> CustomKind:
    """Return a kind of a group that no other test uses; it is not defined yet."""
    group = f"g{secrets.token_hex(4)}.example"
    return CustomKind(group, "widgets", "Widget", is_namespaced, versions)


async def define(api: Api, kind: CustomKind) -> dict[str, Any]:
    """Create the definition, wait until the kind is served, and return the definition."""
    made: dict[str, Any] = await api.create(DEFINITIONS, kind.definition())

    async def is_served() -> bool:
        # 404 before the definition is known, 429 while its storage is being opened.
        answer = await api.call("GET", kind.everywhere)
        assert answer.status in {200, 404, 429}, answer.body
        return answer.status == 200

    await eventually(is_served, f"{kind.plural}.{kind.group} is served")
    return made
