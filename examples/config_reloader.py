"""Restarts Deployments when a ConfigMap that they use changes.

A Deployment takes part when it has the annotation `reload.example/enabled: "true"`.

    python examples/config_reloader.py NAMESPACE [SERVICEACCOUNT]

It reads as the ServiceAccount and writes, with kubernetes_asyncio, as the user of your kubeconfig.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from kubernetes_asyncio import client, config

import watchcache

ENABLED, SEEN = "reload.example/enabled", "reload.example/seen"
Objects = watchcache.Mirror[dict[str, Any]]


def used_configmaps(part: Any) -> Iterator[str]:
    """Find the ConfigMaps that a pod template names, wherever it does."""
    for name, inner in part.items() if isinstance(part, dict) else enumerate(part):
        if name in ("configMap", "configMapRef", "configMapKeyRef") and isinstance(inner, dict):
            yield inner["name"]
        elif isinstance(inner, dict | list):
            yield from used_configmaps(inner)


def content_hash(objects: Objects, namespace: str, deployment: dict[str, Any]) -> str:
    """Return what stands for the content of all ConfigMaps in use; "" while one is missing."""
    names = sorted(set(used_configmaps(deployment["spec"]["template"])))
    found = [objects.get("configmaps", f"{namespace}/{name}") for name in names]
    content = json.dumps([[e.get("data"), e.get("binaryData")] for e in found if e], sort_keys=True)
    return "" if None in found else hashlib.sha256(content.encode()).hexdigest()[:16]


async def reconcile(objects: Objects, key: watchcache.Key, api: client.ApiClient) -> None:
    """Restart one Deployment if what it has seen is not what there is."""
    deployment = objects.get("deployments.apps", key) or {"metadata": {}}
    notes = deployment["metadata"].get("annotations", {})
    if notes.get(ENABLED) != "true":
        return
    seen, now = notes.get(SEEN), content_hash(objects, key.namespace, deployment)
    if now in ("", seen):
        return
    note = {"metadata": {"annotations": {SEEN: now}}}
    patch = {**note, "spec": {"template": note}} if seen else note  # a new template rolls over
    await client.AppsV1Api(api).patch_namespaced_deployment(key.name, key.namespace, patch)
    print("restarted" if seen else "noted", key, flush=True)


async def main(namespace: str, account: str = "config-reloader") -> None:
    """Run until stopped."""
    await config.load_config()
    name, watch = f"{namespace}/config-reloader", ["deployments.apps", "configmaps"]
    async with client.ApiClient() as api, watchcache.connect() as wc:
        ext = await wc.register(
            name, service_account=account, watch=watch, namespaces=[namespace], ttl="2m", wait="30s"
        )
        for source in ext.not_live:
            print(source.message, file=sys.stderr)
        async with ext.mirror(max_age="90s") as objects:
            everyone = {"configmaps": lambda _: objects.keys("deployments.apps")}
            async for key in (queue := objects.queue("deployments.apps", related=everyone)):
                with queue.attempt(key):
                    await reconcile(objects, key, api)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
