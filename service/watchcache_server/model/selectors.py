"""Label and field selectors in the notation of kubectl.

A label selector is parsed, checked and brought into one canonical form; `label_matcher` matches it
against labels, which are kept as a flat tuple (key, value, key, value, ...). A field selector is
only checked for its form: which fields exist is known to the API server alone.

Source of the rules: the selector grammar of Kubernetes' API concepts (label values are at most 63
characters; `!=` and `notin` also match objects without the key).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from watchcache_server.model.names import qualified_name_problem

__all__ = [
    "LabelSelector",
    "Labels",
    "Requirement",
    "SelectorError",
    "canonical_field_selector",
    "whole_number",
]

Labels = tuple[str, ...]

_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
# Every character but white space belongs to a token.
_TOKEN = re.compile(r"!=|==|[=!,()<>]|[^\s!=,()<>]+")
_OPERATORS = frozenset(("!=", "==", "=", "!", ",", "(", ")", "<", ">"))
_NUMBER = re.compile(r"[0-9]{1,19}")
_LARGEST_NUMBER = 2**63 - 1
# An API server takes no request line that is much longer.
_MOST_CHARACTERS = 64 * 1024
_SHOWN_CHARACTERS = 200


class SelectorError(ValueError):
    """The text is no selector."""


class Requirement(NamedTuple):
    """One term: key, operator (in, notin, exists, absent, gt, lt) and its sorted values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

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


def whole_number(text: str) -> int | None:
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
        _check_length(text)
        tokens = _TOKEN.findall(text)
        requirements = set()
        position = 0
        while position < len(tokens):
            requirement, position = _requirement(tokens, position, text)
            requirements.add(requirement)
            if position == len(tokens):
                break
            if tokens[position] != ",":
                raise _malformed(text, f"expected ',' before {_shown(tokens[position])}")
            position += 1
            if position == len(tokens):
                raise _malformed(text, "nothing follows the last ','")
        return cls(tuple(sorted(requirements)))

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
        number = whole_number(value)
        if number is None:
            raise _malformed(text, f"{operator!r} needs a whole number, not {value!r}")
        return Requirement(key, "gt" if operator == ">" else "lt", (str(number),)), position
    raise _malformed(text, f"{_shown(operator)} is no operator; use =, ==, !=, in, notin, > or <")


def _key(tokens: list[str], position: int, text: str) -> tuple[str, int]:
    if position == len(tokens):
        raise _malformed(text, "a label key is missing at the end")
    problem = qualified_name_problem(tokens[position])
    if problem:
        raise _malformed(text, f"the label key {problem}")
    return tokens[position], position + 1


def _value(value: str, text: str) -> str:
    if len(value) > 63 or not _VALUE.fullmatch(value):
        raise _malformed(
            text,
            f"{_shown(value)} is no label value; use at most 63 letters, digits, '-', '_' or '.', "
            "with a letter or digit at both ends",
        )
    return value


def _value_set(tokens: list[str], position: int, text: str) -> tuple[tuple[str, ...], int]:
    """Read a list such as (a,b). A value that is left out, as in (a,), is the empty one."""
    if tokens[position : position + 1] != ["("]:
        raise _malformed(text, "'in' and 'notin' need a list such as (a,b)")
    if tokens[position + 1 : position + 2] == [")"]:
        raise _malformed(text, "the list after 'in' or 'notin' is empty")
    values: set[str] = set()
    value: str | None = None
    for place in range(position + 1, len(tokens)):
        token = tokens[place]
        if token in {",", ")"}:
            values.add(value or "")
            value = None
        elif value is None:
            value = _value(token, text)
        else:
            raise _malformed(text, f"expected ',' before {_shown(token)}")
        if token == ")":
            return tuple(sorted(values)), place + 1
    raise _malformed(text, "the list after 'in' or 'notin' is not closed by ')'")


def _check_length(text: str) -> None:
    if len(text) > _MOST_CHARACTERS:
        raise SelectorError(
            f"is {len(text)} characters long; a selector has at most {_MOST_CHARACTERS}"
        )


def _malformed(text: str, problem: str) -> SelectorError:
    return SelectorError(f"{_shown(text)}: {problem}")


def _shown(text: str) -> str:
    """Return the text in quotes, cut where it would hide what is said about it."""
    if len(text) <= _SHOWN_CHARACTERS:
        return repr(text)
    return f"{text[:_SHOWN_CHARACTERS]!r}..."


# Possessive quantifiers: nothing is ever tried twice.
_FIELD_TERM = re.compile(r"([A-Za-z][A-Za-z0-9_.\-\[\]/]*+)\s*+(!=|==|=)((?:\\[\\,=]|[^=,\\])*+)")
_FIELD_TERMS = re.compile(r"(?:^|,)((?:\\.|[^,\\]|\\$)*+)", re.DOTALL)


def canonical_field_selector(text: str) -> str:
    r"""Check the form of a field selector and return it with its terms sorted.

    Terms are `path=value`, `path==value` or `path!=value`, joined by ','; a ',', '=' or '\' in a
    value is written with a backslash. Raises SelectorError when it is malformed.
    """
    _check_length(text)
    if not text.strip():
        return ""
    terms = set()
    for term in _FIELD_TERMS.findall(text):
        match = _FIELD_TERM.fullmatch(term.strip())
        if match is None:
            raise SelectorError(
                f"{_shown(term)} is no field term; use path=value or path!=value, for example "
                "metadata.name=web"
            )
        path, operator, value = match.groups()
        terms.add(f"{path}{'!=' if operator == '!=' else '='}{value.strip()}")
    return ",".join(sorted(terms))
