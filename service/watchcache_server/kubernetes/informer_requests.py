"""The HTTP requests of an informer: what its reflector asks for, with what its spec says."""

from __future__ import annotations

from watchcache_server.informer.effects import List, Watch
from watchcache_server.kubernetes.requests import (
    Request,
    list_request,
    resource_path,
    watch_request,
)
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import Projection

__all__ = ["collection_request"]


def collection_request(
    asked: List | Watch, spec: SourceSpec, served: ServedResource, namespace: str
) -> Request:
    """Return the request for a list or watch of `namespace`, or of the whole cluster if empty."""
    path = resource_path(served.group, served.version, served.resource, namespace=namespace)
    is_metadata_only = spec.projection == Projection.METADATA.value
    if isinstance(asked, List):
        return list_request(
            path,
            limit=asked.limit or 0,
            continue_token=asked.continue_token,
            resource_version=asked.resource_version or None,
            match="NotOlderThan" if asked.match else None,
            label_selector=spec.label_selector,
            field_selector=spec.field_selector,
            is_metadata_only=is_metadata_only,
        )
    return watch_request(
        path,
        resource_version=asked.resource_version or None,
        match="NotOlderThan" if asked.match else None,
        is_sending_initial_events=asked.send_initial_events,
        timeout_seconds=asked.timeout_seconds,
        label_selector=spec.label_selector,
        field_selector=spec.field_selector,
        is_metadata_only=is_metadata_only,
        response_seconds=asked.response_seconds,
        idle_seconds=asked.inactivity_seconds,
    )
