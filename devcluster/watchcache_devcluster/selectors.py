"""Label and field selectors: parsed once, asked for every object.

The label grammar is the whole of Kubernetes' (`=`, `==`, `!=`, `in`, `notin`, `exists`, `!`, `<`,
`>`), the field grammar has `=`, `==`, `!=` and backslash escapes. A selector that cannot be read
raises `ApiError` 400. Which field labels a kind knows is the resource's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from watchcache_devcluster.errors import bad_request
from watchcache_devcluster.resources import Resource

__all__ = [
    "EVERY_FIELD",
    "EVERY_LABEL",
    "FieldSelector",
    "LabelSelector",
    "is_label_value",
    "is_qualified_name",
    "parse_field_selector",
    "parse_label_selector",
]

_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", "<", ">", "(", ")", ","})
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")
_NAME_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")


def is_label_value(value: str) -> bool:
    """Say whether a label may have this value."""
    return _LABEL_VALUE.match(value) is not None


def is_qualified_name(name: str) -> bool:
    """Say whether a label or annotation may have this key."""
    prefix, slash, part = name.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or _SUBDOMAIN.match(prefix) is None):
        return False
    return _NAME_PART.match(part) is not None


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        (bound,) = self.values
        if value is None or not value.isdigit():
            return False
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements on labels; the empty one selects everything."""

    requirements: tuple[_Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERY_LABEL = LabelSelector()


class _LabelParser:
    """A recursive descent over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokenize(text))
        self._position = 0

    def parse(self) -> LabelSelector:
        requirements: list[_Requirement] = []
        while self._peek():
            if self._peek() in _SYMBOLS - {"!"}:
                raise bad_request(
                    f"found '{self._peek()}', expected: !, identifier, or 'end of string'"
                )
            requirements.append(self._requirement())
            separator = self._next()
            if not separator:
                break
            if separator != ",":
                raise bad_request(f"found '{separator}', expected: ',' or 'end of string'")
            if not self._peek():
                raise bad_request("found '', expected: identifier after ','")
        return LabelSelector(tuple(requirements))

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _error(self, what: str) -> Exception:
        return bad_request(f"unable to parse requirement: {what}")

    def _requirement(self) -> _Requirement:
        negated = self._peek() == "!"
        if negated:
            self._next()
        key = self._next()
        if not key or key in _SYMBOLS:
            raise self._error(f"found '{key}', expected: identifier")
        if not is_qualified_name(key):
            raise self._error(f'<nil>: Invalid value: "{key}": name part {NAME_RULE}')
        if negated:
            return _Requirement(key, "!")
        if self._peek() in {"", ","}:
            return _Requirement(key, "exists")
        operator = self._next()
        match operator:
            case "in" | "notin":
                return _Requirement(key, operator, self._value_set(key))
            case "=" | "==":
                return _Requirement(key, "in", frozenset({self._value(key)}))
            case "!=":
                return _Requirement(key, "notin", frozenset({self._value(key)}))
            case "<" | ">":
                bound = self._value(key)
                if not bound.isdigit():
                    raise self._error(
                        f"values[0]: Invalid value: \"{bound}\": for 'Gt', 'Lt' operators, the"
                        " value must be an integer"
                    )
                return _Requirement(key, operator, frozenset({bound}))
        raise self._error(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _value(self, key: str) -> str:
        if self._peek() in {"", ","}:
            return ""
        return self._checked(key, self._next())

    def _value_set(self, key: str) -> frozenset[str]:
        opening = self._next()
        if opening != "(":
            raise self._error(f"found '{opening}' expected: '('")
        values: set[str] = set()
        value = ""
        while True:
            token = self._next()
            if token in {",", ")"}:
                values.add(value)
                value = ""
                if token == ")":
                    return frozenset(values)
            elif not token or value:
                raise self._error(f"found '{token}', expected: ',' or ')'")
            else:
                value = self._checked(key, token)

    def _checked(self, key: str, value: str) -> str:
        if value in _SYMBOLS:
            raise self._error(f"found '{value}', expected: identifier")
        if not is_label_value(value):
            raise self._error(f'values[0][{key}]: Invalid value: "{value}": {VALUE_RULE}')
        return value


NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _tokenize(text: str) -> Iterator[str]:
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:  # every character is a symbol, a blank or part of a word
            raise bad_request(f"unable to parse requirement: found {text[position:]!r}")
        yield match.group(1)
        position = match.end()


def parse_label_selector(text: str) -> LabelSelector:
    """Parse `labelSelector`.

    Raises:
        ApiError: 400, naming what was found and what was expected.
    """
    return _LabelParser(text).parse()


@dataclass(frozen=True, slots=True)
class _Term:
    label: str
    value: str
    is_negated: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of (in)equalities on field labels; the empty one selects everything."""

    terms: tuple[_Term, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """Say whether an object whose fields `value_of` reads is selected."""
        return all((value_of(term.label) == term.value) != term.is_negated for term in self.terms)

    def exact(self, label: str) -> str:
        """Return the value that `label` must have, or the empty string if it is not bound."""
        for term in self.terms:
            if term.label == label and not term.is_negated:
                return term.value
        return ""


EVERY_FIELD = FieldSelector()


def parse_field_selector(text: str, resource: Resource) -> FieldSelector:
    """Parse `fieldSelector` for one resource.

    Raises:
        ApiError: 400 if it cannot be read or names a field label that the kind does not know.
    """
    terms = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        match = re.search(r"!=|==|=", part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        label = part[: match.start()]
        _check_label(label, resource)
        value = _unescape(part[match.end() :])
        terms.append(_Term(resource.stored_label(label), value, match.group() == "!="))
    return FieldSelector(tuple(terms))


def _check_label(label: str, resource: Resource) -> None:
    if label in {"metadata.name", *resource.selectable}:
        return
    if label == "metadata.namespace" and (resource.namespaced or not resource.selectable):
        return
    if resource.selectable and not resource.is_custom:
        raise bad_request(f"field label not supported: {label}")
    known = ["metadata.name", "metadata.namespace"]
    if resource.is_custom:
        if not resource.namespaced:
            known.remove("metadata.namespace")
        known = sorted([*known, *resource.selectable])
        if resource.selectable:
            raise bad_request(f"field label not supported: {label}")
    quoted = ", ".join(f'"{name}"' for name in known)
    raise bad_request(f'"{label}" is not a known field selector: only {quoted}')


def _split_terms(text: str) -> list[str]:
    terms, term, is_escaped = [], "", False
    for character in text:
        if character == "," and not is_escaped:
            terms.append(term)
            term = ""
            continue
        term += character
        is_escaped = character == "\\" and not is_escaped
    return [*terms, term]


def _unescape(value: str) -> str:
    plain, is_escaped = "", False
    for character in value:
        if is_escaped:
            if character not in "\\,=":
                raise bad_request(f"invalid field selector: invalid escape sequence: \\{character}")
            plain += character
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif character in ",=":
            raise bad_request(
                f"invalid field selector: unescaped character in value: {ord(character)}"
            )
        else:
            plain += character
    if is_escaped:
        raise bad_request("invalid field selector: invalid escape sequence: \\")
    return plain
