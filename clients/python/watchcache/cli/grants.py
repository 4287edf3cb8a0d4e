"""The kubectl commands that grant what an extension is missing."""

from __future__ import annotations

import re
import shlex

from watchcache.keys import resource_name
from watchcache.status import AccessRule

__all__ = ["grant_commands"]


def grant_commands(
    rule: AccessRule, *, namespace: str, service_account: str, default_cluster: str
) -> list[str]:
    """Return commands that give the ServiceAccount the right, and no more than it.

    A right in one namespace is a Role there; one in the whole cluster is a ClusterRole. For another
    cluster than the default one a comment says where to run them, since the names of kubectl's
    contexts are the reader's own.
    """
    resource = resource_name(rule.group, rule.resource)
    subject = f"{namespace}:{service_account}"
    name = _object_name(service_account, resource)
    if rule.namespace:
        begin, kinds = ["kubectl", "-n", rule.namespace], ("role", "rolebinding")
    else:
        # Unlike a Role, it shares its name with those of every namespace.
        begin, kinds = ["kubectl"], ("clusterrole", "clusterrolebinding")
        name = f"{namespace}-{name}"
    role = ["create", kinds[0], name, f"--verb={','.join(rule.verbs)}", f"--resource={resource}"]
    binding = ["create", kinds[1], name, f"--{kinds[0]}={name}", f"--serviceaccount={subject}"]
    commands = [shlex.join([*begin, *role]), shlex.join([*begin, *binding])]
    if rule.cluster != default_cluster:
        commands.insert(0, f"# on cluster {rule.cluster}:")
    return commands


def _object_name(parts: str, resource: str) -> str:
    return re.sub(r"[^a-z0-9.-]", "-", f"{parts}-{resource}".lower())
