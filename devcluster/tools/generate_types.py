"""Write `watchcache_devcluster/builtin_types.json` from the Go sources of the Kubernetes API.

    python devcluster/tools/generate_types.py API_MODULE APIMACHINERY_MODULE APIEXTENSIONS_MODULE

Each argument is the folder of a Go module (k8s.io/api, k8s.io/apimachinery,
k8s.io/apiextensions-apiserver) of one version, as `go mod download -json` names it. The tags of a
struct's fields hold all that is needed: JSON name, protobuf number, repetition. A field is written
as `number:type`, where a type is a letter (`s` string, `i` integer, `f` float, `b` boolean, `y`
bytes, `T` and `U` times, `D` duration, `I` integer or string, `Q` quantity, `R` raw object, `F`
owned fields, `J` any JSON), `@message`, `[]type` or `{}type`; a leading `*` means a named slice (a
message on the wire), a leading `~` that the field's message is inlined in JSON, a trailing `?` that
the field is a pointer, a trailing `!` that it is never left out.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

_PACKAGES = {
    "core": "core/v1",
    "apps": "apps/v1",
    "authentication": "authentication/v1",
    "authorization": "authorization/v1",
    "autoscaling": "autoscaling/v1",
    "autoscalingv2": "autoscaling/v2",
    "batch": "batch/v1",
    "coordination": "coordination/v1",
    "events": "events/v1",
    "networking": "networking/v1",
    "rbac": "rbac/v1",
}
_IMPORTS = {"v1": "core", "corev1": "core", "metav1": "meta"}
_SPECIAL = {
    "[]byte": "y",
    "bool": "b",
    "float64": "f",
    "int": "i",
    "int32": "i",
    "int64": "i",
    "string": "s",
    "intstr.IntOrString": "I",
    "resource.Quantity": "Q",
    "runtime.RawExtension": "R",
    "types.NodeName": "s",
    "types.UID": "s",
    "meta.Duration": "D",
    "meta.FieldsV1": "F",
    "meta.MicroTime": "U",
    "meta.Time": "T",
    "apiextensions.JSON": "J",
    "apiextensions.JSONSchemaProps": "J",
}
_ROOTS = {
    "apiextensions": "CustomResourceDefinition",
    "apps": "DaemonSet Deployment ReplicaSet StatefulSet",
    "authentication": "SelfSubjectReview TokenRequest TokenReview",
    "authorization": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview"
    " SubjectAccessReview",
    "autoscaling": "HorizontalPodAutoscaler Scale",
    "autoscalingv2": "HorizontalPodAutoscaler",
    "batch": "CronJob Job",
    "coordination": "Lease",
    "core": "ConfigMap Endpoints Event Namespace Node PersistentVolume PersistentVolumeClaim Pod"
    " Secret Service ServiceAccount",
    "events": "Event",
    "meta": "DeleteOptions",
    "networking": "Ingress NetworkPolicy",
    "rbac": "ClusterRole ClusterRoleBinding Role RoleBinding",
}
_STRUCT = re.compile(r"^type (\w+) struct ?\{(?:\}|\n(.*?)^\})", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^type (\w+) ([^\s{]+)(?: //.*)?$", re.MULTILINE)
_FIELD = re.compile(
    r'^\s+(?:(\w+)\s+)?([^\s`]+)\s+`json:"([^"]*)"[^`]*?protobuf:"(\w+),(\d+),(\w+)', re.MULTILINE
)


def read(folder: Path, package: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the bodies of the structs and the underlying types of the aliases of a package."""
    text = "\n".join(path.read_text() for path in sorted(folder.glob("*types.go")))
    structs = {f"{package}.{name}": body for name, body in _STRUCT.findall(text)}
    aliases = {f"{package}.{name}": type_ for name, type_ in _ALIAS.findall(text)}
    return structs, aliases


def main(api: Path, machinery: Path, extensions: Path) -> None:
    """Generate the file."""
    folders = {package: api / path for package, path in _PACKAGES.items()}
    folders["meta"] = machinery / "pkg/apis/meta/v1"
    folders["apiextensions"] = extensions / "pkg/apis/apiextensions/v1"
    structs: dict[str, str] = {}
    aliases: dict[str, str] = {}
    for package, folder in folders.items():
        found, named = read(folder, package)
        structs |= found
        aliases |= named

    def resolve(type_: str, package: str) -> str:
        type_ = type_.removeprefix("*")
        if type_ in _SPECIAL:
            return _SPECIAL[type_]
        if type_.startswith("[]"):
            return "[]" + resolve(type_[2:], package)
        mapped = re.fullmatch(r"map\[[^]]+\](.+)", type_)
        if mapped:
            return "{}" + resolve(mapped.group(1), package)
        prefix, _, name = type_.rpartition(".")
        home = _IMPORTS.get(prefix, prefix) if prefix else package
        full = f"{home}.{name}"
        if full in _SPECIAL:
            return _SPECIAL[full]
        if full in structs:
            return f"@{full}"
        resolved = resolve(aliases[full], home)
        # A named slice is a message of its own on the wire, unlike a slice.
        return f"*{resolved}" if resolved.startswith("[]") else resolved

    messages: dict[str, dict[str, str]] = {}
    waiting = [f"{package}.{kind}" for package, kinds in _ROOTS.items() for kind in kinds.split()]
    while waiting:
        message = waiting.pop()
        if message in messages:
            continue
        package = message.partition(".")[0]
        fields: dict[str, str] = {}
        for name, type_, tag, _, number, _ in _FIELD.findall(structs[message]):
            json_name, *options = tag.split(",")
            resolved = resolve(type_, package)
            if "inline" in options and not json_name:
                json_name, resolved = type_.rpartition(".")[2] or name, f"~{resolved}"
            mark = "?" if type_.startswith("*") else ""
            if "omitempty" not in options and not resolved.startswith("~"):
                mark += "!"
            fields[json_name] = f"{number}:{resolved}{mark}"
            inner = re.search(r"@([\w.]+)", resolved)
            if inner:
                waiting.append(inner.group(1))
        messages[message] = fields
    target = Path(__file__).parents[1] / "watchcache_devcluster" / "builtin_types.json"
    lines = [f"{json.dumps(name)}:{json.dumps(messages[name])}" for name in sorted(messages)]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
