"""The fields of the built-in kinds, from the Kubernetes API's own sources.

`builtin_types.json` is generated (tools/generate_types.py says how and what its notation means).
`message_of` finds the message of a kind; `conform` reads an object as a Go server would: it refuses
values of the wrong type, drops what a kind does not know, and leaves out what Go leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import msgspec

__all__ = ["Field", "Message", "WrongType", "conform", "message_of", "parse_type"]

Tree = dict[str, Any]

_PACKAGES = {
    ("", "v1"): "core",
    ("apiextensions.k8s.io", "v1"): "apiextensions",
    ("apps", "v1"): "apps",
    ("authentication.k8s.io", "v1"): "authentication",
    ("authorization.k8s.io", "v1"): "authorization",
    ("autoscaling", "v1"): "autoscaling",
    ("autoscaling", "v2"): "autoscalingv2",
    ("batch", "v1"): "batch",
    ("coordination.k8s.io", "v1"): "coordination",
    ("events.k8s.io", "v1"): "events",
    ("networking.k8s.io", "v1"): "networking",
    ("rbac.authorization.k8s.io", "v1"): "rbac",
}
_SCALARS: dict[str, tuple[type, ...]] = {
    "s": (str,),
    "i": (int,),
    "f": (int, float),
    "b": (bool,),
    "y": (str,),
    "T": (str,),
    "U": (str,),
    "D": (str,),
    "I": (int, str),
    "Q": (str, int, float),
}
_GO_NAMES = {
    "s": "string",
    "i": "int64",
    "f": "float64",
    "b": "bool",
    "y": "[]uint8",
    "T": "v1.Time",
    "U": "v1.MicroTime",
    "D": "v1.Duration",
    "I": "intstr.IntOrString",
    "Q": "resource.Quantity",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its JSON name, protobuf number and type.

    `kind` is `list`, `map`, `slice` (a named slice), `message` or the letter of a scalar.
    """

    name: str
    number: int
    kind: str
    inner: Field | None = None
    message: str = ""
    is_inline: bool = False
    is_pointer: bool = False
    is_always_written: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """The fields of one Go struct, by JSON name (inlined ones resolved) and by number."""

    name: str
    by_name: dict[str, Field]
    by_number: dict[int, Field]

    @property
    def go_name(self) -> str:
        """The struct's name without its package."""
        return self.name.rpartition(".")[2]


class WrongType(Exception):  # noqa: N818 - it describes the value, and is turned into an ApiError
    """A value does not have the type of its field."""

    def __init__(self, value: Any, where: str, expected: str) -> None:
        self.found = _json_kind(value)
        self.where = where
        self.expected = expected
        super().__init__(
            f"json: cannot unmarshal {self.found} into Go struct field {where} of type {expected}"
        )


def _json_kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def parse_type(name: str, text: str) -> Field:
    """Read one field from the notation of the generated file."""
    number, _, type_ = text.partition(":")
    is_always = type_.endswith("!")
    type_ = type_.removesuffix("!")
    is_pointer = type_.endswith("?")
    type_ = type_.removesuffix("?")
    if type_.startswith("~"):
        return Field(name, int(number), "message", message=type_[2:], is_inline=True)
    for prefix, kind in (("*[]", "slice"), ("[]", "list"), ("{}", "map")):
        if type_.startswith(prefix):
            inner = parse_type(name, f"0:{type_.removeprefix(prefix)}")
            return Field(name, int(number), kind, inner, "", False, is_pointer, is_always)
    if type_.startswith("@"):
        return Field(name, int(number), "message", None, type_[1:], False, is_pointer, is_always)
    return Field(name, int(number), type_, None, "", False, is_pointer, is_always)


@cache
def _table() -> dict[str, dict[str, str]]:
    text = resources.files(__package__).joinpath("builtin_types.json").read_bytes()
    table: dict[str, dict[str, str]] = msgspec.json.decode(text)
    return table


@cache
def message(name: str) -> Message:
    """Return a message by its name in the generated file, such as `core.Pod`."""
    by_name: dict[str, Field] = {}
    by_number: dict[int, Field] = {}
    for field_name, text in _table()[name].items():
        field = parse_type(field_name, text)
        by_number[field.number] = field
        if field.is_inline:
            by_name |= message(field.message).by_name
        else:
            by_name[field_name] = field
    return Message(name, by_name, by_number)


@cache
def message_of(group: str, version: str, kind: str) -> Message | None:
    """Return the message of a built-in kind, or None for any other kind."""
    name = f"{_PACKAGES.get((group, version), '')}.{kind}"
    return message(name) if name in _table() else None


def conform(shape: Message, tree: Tree, unknown: list[str], path: str = "") -> Tree:
    """Return a copy of an object as the server would keep it; collect unknown fields by path.

    Raises:
        WrongType: a value does not have the type of its field.
    """
    kept: Tree = {}
    for name, value in tree.items():
        field = shape.by_name.get(name)
        where = f"{path}.{name}" if path else name
        if field is None:
            if path or name not in {"apiVersion", "kind"}:
                unknown.append(where)
            continue
        if value is None:
            continue
        read = _read(shape, field, value, unknown, where)
        if read in ("", 0, [], {}) and not (field.is_pointer or field.is_always_written):
            is_struct = field.kind == "message" and read == {}
            if not is_struct:
                continue
        kept[name] = read
    return kept


def _read(shape: Message, field: Field, value: Any, unknown: list[str], path: str) -> Any:
    match field.kind:
        case "J" | "R" | "F":
            return value
        case "message":
            if not isinstance(value, dict):
                raise WrongType(value, f"{shape.go_name}.{path}", f"{field.message}")
            return conform(message(field.message), value, unknown, path)
        case "list" | "slice":
            inner = field.inner
            assert inner is not None
            if not isinstance(value, list):
                raise WrongType(value, f"{shape.go_name}.{path}", f"[]{_go_type(inner)}")
            return [
                _read(shape, inner, item, unknown, f"{path}[{index}]")
                for index, item in enumerate(value)
                if item is not None
            ]
        case "map":
            inner = field.inner
            assert inner is not None
            if not isinstance(value, dict):
                raise WrongType(value, f"{shape.go_name}.{path}", f"map[string]{_go_type(inner)}")
            return {
                key: "" if item is None else _read(shape, inner, item, unknown, path)
                for key, item in value.items()
            }
    allowed = _SCALARS[field.kind]
    is_lookalike = isinstance(value, bool) and field.kind != "b"
    if not isinstance(value, allowed) or is_lookalike:
        raise WrongType(value, f"{shape.go_name}.{path}", _go_type(field))
    return str(value) if field.kind == "Q" else value


def _go_type(field: Field) -> str:
    if field.inner is not None:
        prefix = "map[string]" if field.kind == "map" else "[]"
        return prefix + _go_type(field.inner)
    return _GO_NAMES.get(field.kind, field.message or "interface {}")
