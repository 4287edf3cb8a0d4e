"""Whether an extension is indexed by what a filter names: elsewhere nothing would ever pass."""

from __future__ import annotations

from watchcache_server.extensions.extension import Extension
from watchcache_server.informer.filters import Filter
from watchcache_server.model.errors import InvalidRequestError

__all__ = ["require_indexed"]


def require_indexed(extension: Extension, wanted: Filter) -> None:
    """Refuse a filter by a path that an informer in view is not registered with.

    Where the filter names resources, nobody knows yet whether an informer of which only the kind is
    known is in view. Raises InvalidRequestError.
    """
    if not wanted.paths:
        return
    informers = extension.told()
    in_view = [informer for informer in informers if wanted.covers(informer.source)] or informers
    declared = {path for informer in in_view for path in informer.spec.indexes}
    for path in sorted(wanted.paths):
        lacking = [
            informer.spec.type_name
            for informer in in_view
            if path not in informer.spec.indexes
            and (informer.source.resource or not wanted.resources or path not in declared)
        ]
        if lacking or path not in declared:
            raise _not_declared(path, extension, lacking)


def _not_declared(path: str, extension: Extension, lacking: list[str]) -> InvalidRequestError:
    subject = f"{min(lacking)} of extension {extension.key}" if lacking else str(extension.key)
    return InvalidRequestError.of(
        "filter.fields",
        f"{subject} is not indexed by {path}; add it to index_paths in the spec, or name in "
        "filter.resources only what is indexed by it",
        reason="NOT_INDEXED",
    )
