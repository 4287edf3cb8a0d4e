"""Label and field selectors in the notation of kubectl.

A label selector is parsed, checked, brought into one canonical form, and matched against labels
that are kept as a flat tuple (key, value, key, value, ...). A field selector is only checked for
its form: which fields exist is known to the API server alone.

Source of the rules: the selector grammar of Kubernetes' API concepts (label values are at most 63
characters; `!=` and `notin` also match objects without the key).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from watchcache_server.model.names import qualified_name_problem

__all__ = ["LabelSelector", "Labels", "Requirement", "SelectorError", "canonical_field_selector"]

Labels = tuple[str, ...]

_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
# Every character but white space belongs to a token.
_TOKEN = re.compile(r"!=|==|[=!,()<>]|[^\s!=,()<>]+")
_OPERATORS = frozenset(("!=", "==", "=", "!", ",", "(", ")", "<", ">"))
_NUMBER = re.compile(r"[0-9]{1,19}")
_LARGEST_NUMBER = 2**63 - 1


class SelectorError(ValueError):
    """The text is no selector."""


class Requirement(NamedTuple):
    """One term: key, operator (in, notin, exists, absent, gt, lt) and its sorted values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Tell whether the labels satisfy this term."""
        value = _value_of(labels, self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case _:
                return _compares(value, self.operator, self.values[0])

    def __str__(self) -> str:
        match self.operator:
            case "in" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "notin" if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case "exists":
                return self.key
            case "absent":
                return f"!{self.key}"
            case _:
                return f"{self.key}{'>' if self.operator == 'gt' else '<'}{self.values[0]}"


def _value_of(labels: Labels, key: str) -> str | None:
    keys = labels[::2]
    return labels[2 * keys.index(key) + 1] if key in keys else None


def _compares(value: str | None, operator: str, bound: str) -> bool:
    number = None if value is None else _number(value)
    if number is None:
        return False
    return number > int(bound) if operator == "gt" else number < int(bound)


def _number(text: str) -> int | None:
    """Read a whole number of 63 bits; a label value has no sign."""
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if number <= _LARGEST_NUMBER else None


class LabelSelector(NamedTuple):
    """A parsed label selector; empty matches everything. Equal selectors have equal `str`."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Parse `text`.

        Raises SelectorError, saying where and why, when it is malformed.
        """
        tokens = _TOKEN.findall(text)
        requirements = set()
        position = 0
        while position < len(tokens):
            requirement, position = _requirement(tokens, position, text)
            requirements.add(requirement)
            if position == len(tokens):
                break
            if tokens[position] != ",":
                raise SelectorError(f"{text!r}: expected ',' before {tokens[position]!r}")
            position += 1
            if position == len(tokens):
                raise SelectorError(f"{text!r}: nothing follows the last ','")
        return cls(tuple(sorted(requirements)))

    def matches(self, labels: Labels) -> bool:
        """Tell whether the labels satisfy every term."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


def _requirement(tokens: list[str], position: int, text: str) -> tuple[Requirement, int]:
    if tokens[position] == "!":
        key, position = _key(tokens, position + 1, text)
        return Requirement(key, "absent"), position
    key, position = _key(tokens, position, text)
    if position == len(tokens) or tokens[position] == ",":
        return Requirement(key, "exists"), position
    operator = tokens[position]
    position += 1
    if operator in {"in", "notin"}:
        values, position = _value_set(tokens, position, text)
        return Requirement(key, operator, values), position
    value = ""
    if position < len(tokens) and tokens[position] not in _OPERATORS:
        value = _value(tokens[position], text)
        position += 1
    if operator in {"=", "=="}:
        return Requirement(key, "in", (value,)), position
    if operator == "!=":
        return Requirement(key, "notin", (value,)), position
    if operator in {">", "<"}:
        number = _number(value)
        if number is None:
            raise SelectorError(f"{text!r}: {operator!r} needs a whole number, not {value!r}")
        return Requirement(key, "gt" if operator == ">" else "lt", (str(number),)), position
    raise SelectorError(f"{text!r}: {operator!r} is no operator; use =, ==, !=, in, notin, > or <")


def _key(tokens: list[str], position: int, text: str) -> tuple[str, int]:
    if position == len(tokens):
        raise SelectorError(f"{text!r}: a label key is missing at the end")
    problem = qualified_name_problem(tokens[position])
    if problem:
        raise SelectorError(f"{text!r}: the label key {problem}")
    return tokens[position], position + 1


def _value(value: str, text: str) -> str:
    if len(value) > 63 or not _VALUE.fullmatch(value):
        raise SelectorError(
            f"{text!r}: {value!r} is no label value; use at most 63 letters, digits, '-', '_' or "
            "'.', with a letter or digit at both ends"
        )
    return value


def _value_set(tokens: list[str], position: int, text: str) -> tuple[tuple[str, ...], int]:
    """Read a list such as (a,b). A value that is left out, as in (a,), is the empty one."""
    if tokens[position : position + 1] != ["("]:
        raise SelectorError(f"{text!r}: 'in' and 'notin' need a list such as (a,b)")
    if tokens[position + 1 : position + 2] == [")"]:
        raise SelectorError(f"{text!r}: the list after 'in' or 'notin' is empty")
    values: set[str] = set()
    value: str | None = None
    for end, token in enumerate(tokens[position + 1 :], position + 2):
        if token in {",", ")"}:
            values.add(value or "")
            value = None
        elif value is None:
            value = _value(token, text)
        else:
            raise SelectorError(f"{text!r}: expected ',' before {token!r}")
        if token == ")":
            return tuple(sorted(values)), end
    raise SelectorError(f"{text!r}: the list after 'in' or 'notin' is not closed by ')'")


_FIELD_TERM = re.compile(
    r"\s*([A-Za-z][A-Za-z0-9_.\-\[\]/]*)\s*(!=|==|=)\s*((?:\\[\\,=]|[^=,\\])*?)\s*"
)


def canonical_field_selector(text: str) -> str:
    r"""Check the form of a field selector and return it with its terms sorted.

    Terms are `path=value`, `path==value` or `path!=value`, joined by ','; a ',', '=' or '\' in a
    value is written with a backslash. Raises SelectorError when it is malformed.
    """
    if not text.strip():
        return ""
    terms = set()
    for term in re.findall(r"(?:^|,)((?:\\.|[^,\\]|\\$)*)", text, re.DOTALL):
        match = _FIELD_TERM.fullmatch(term)
        if match is None:
            raise SelectorError(
                f"{term!r} is no field term; use path=value or path!=value, for example "
                "metadata.name=web"
            )
        path, operator, value = match.groups()
        terms.add(f"{path}{'!=' if operator == '!=' else '='}{value}")
    return ",".join(sorted(terms))
