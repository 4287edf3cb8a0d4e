"""What a write request says besides its object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watchcache_devcluster import errors
from watchcache_devcluster.errors import Cause, field_invalid

__all__ = ["WriteOptions"]

_KINDS = {
    "create": "CreateOptions",
    "delete": "DeleteOptions",
    "deletecollection": "DeleteOptions",
    "patch": "PatchOptions",
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write; `warnings` collects what the answer's headers should say."""

    manager: str = "unknown"
    dry_run: bool = False
    force: bool = False
    field_validation: str = "Warn"
    duplicates: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def parse(
        cls, query: Mapping[str, str], agent: str, verb: str, duplicates: tuple[str, ...] = ()
    ) -> WriteOptions:
        """Read the query of a write.

        Raises:
            ApiError: 422 for a value that does not exist.
        """
        causes: list[Cause] = []
        dry_run = query.get("dryRun", "")
        if dry_run not in {"", "All"}:
            causes.append(_unsupported("dryRun", dry_run, ("All",)))
        validation = query.get("fieldValidation", "Warn")
        choices = ("Ignore", "Strict", "Warn")
        if validation not in choices:
            causes.append(_unsupported("fieldValidation", validation, ("", *choices)))
        if causes:
            raise errors.invalid_options(_KINDS.get(verb, "UpdateOptions"), causes)
        manager = query.get("fieldManager") or agent.partition("/")[0] or "unknown"
        force = query.get("force", "").lower() in {"1", "true"}
        return cls(manager, dry_run == "All", force, validation, duplicates)


def _unsupported(name: str, value: str, choices: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{choice}"' for choice in choices)
    return field_invalid(
        name, f"supported values: {listed}", value=f'"{value}"', reason="FieldValueNotSupported"
    )
