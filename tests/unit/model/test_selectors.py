"""Selectors mean what they mean to kubectl, have one form for one meaning, and are checked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.model.selector_oracle import selects
from watchcache_server.model.label_matcher import LabelMatcher
from watchcache_server.model.selectors import (
    LabelSelector,
    Requirement,
    SelectorError,
    canonical_field_selector,
)

# Label selectors: their form


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("  ", "", id="blank"),
        pytest.param("app=web", "app=web", id="equal"),
        pytest.param("app==web", "app=web", id="equal, two signs"),
        pytest.param(" app = web ", "app=web", id="spaces"),
        pytest.param("app in (web)", "app=web", id="set of one"),
        pytest.param("app!=web", "app!=web", id="not equal"),
        pytest.param("app notin (web)", "app!=web", id="not in a set of one"),
        pytest.param("app in (web,db,web)", "app in (db,web)", id="set, sorted, once each"),
        pytest.param("app notin ( web , db )", "app notin (db,web)", id="not in a set"),
        pytest.param("app", "app", id="exists"),
        pytest.param("!app", "!app", id="absent"),
        pytest.param("! app", "!app", id="absent, space"),
        pytest.param("app=", "app=", id="empty value"),
        pytest.param("app!=", "app!=", id="not the empty value"),
        pytest.param("app=,tier=1", "app=,tier=1", id="empty value, and more"),
        pytest.param("app in (,)", "app=", id="set of empty values"),
        pytest.param("app in (web,)", "app in (,web)", id="set with an empty value"),
        pytest.param("app in (,web)", "app in (,web)", id="set with an empty value first"),
        pytest.param("app in (a,,b)", "app in (,a,b)", id="set with an empty value between"),
        pytest.param("replicas>5", "replicas>5", id="greater"),
        pytest.param("replicas<5", "replicas<5", id="less"),
        pytest.param("replicas > 007", "replicas>7", id="leading zeros"),
        pytest.param(
            "replicas>9223372036854775807", "replicas>9223372036854775807", id="largest number"
        ),
        pytest.param("tier=1,app=web", "app=web,tier=1", id="terms are sorted"),
        pytest.param("app=web,app=web", "app=web", id="terms are told once"),
        pytest.param(
            "app.kubernetes.io/name=web", "app.kubernetes.io/name=web", id="key with a prefix"
        ),
        pytest.param("app=in", "app=in", id="value that is a word of the grammar"),
        pytest.param("in in (in)", "in=in", id="key that is a word of the grammar"),
        pytest.param("a.b_c-d=A.b_C-d", "a.b_c-d=A.b_C-d", id="every allowed character"),
        pytest.param("a=" + "v" * 63, "a=" + "v" * 63, id="longest value"),
        pytest.param("k" * 63, "k" * 63, id="longest key"),
    ],
)
def test_label_selector_has_one_form(text: str, canonical: str) -> None:
    """Texts that mean the same are one selector, and the form means itself."""
    selector = LabelSelector.parse(text)
    assert str(selector) == canonical
    assert LabelSelector.parse(canonical) == selector


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(",", "the label key ','", id="only a comma"),
        pytest.param("app=web,", "nothing follows the last ','", id="comma at the end"),
        pytest.param(",app=web", "the label key ','", id="comma at the start"),
        pytest.param("a,,b", "the label key ','", id="two commas"),
        pytest.param("=web", "the label key '='", id="no key"),
        pytest.param("!", "a label key is missing at the end", id="absent of nothing"),
        pytest.param("!!app", "the label key '!'", id="twice absent"),
        pytest.param("!app=web", "expected ',' before '='", id="absent with a value"),
        pytest.param("app web", "'web' is no operator", id="two words"),
        pytest.param("app=web db", "expected ',' before 'db'", id="two values"),
        pytest.param("app=web=db", "expected ',' before '='", id="two equal signs apart"),
        pytest.param("app===web", "expected ',' before '='", id="three equal signs"),
        pytest.param("app=!web", "expected ',' before '!'", id="equal not"),
        pytest.param("app(web)", r"'\(' is no operator", id="set without in"),
        pytest.param("app in", "need a list such as", id="in without a set"),
        pytest.param("app in web", "need a list such as", id="in with a word"),
        pytest.param("app in ()", "is empty", id="empty set"),
        pytest.param("app in (", r"is not closed by '\)'", id="set that ends at once"),
        pytest.param("app in (web", r"is not closed by '\)'", id="set that does not end"),
        pytest.param("app in (web db)", "expected ',' before 'db'", id="set without a comma"),
        pytest.param("app in (web))", r"expected ',' before '\)'", id="set closed twice"),
        pytest.param("app in ((web))", "is no label value", id="set in a set"),
        pytest.param("app in (a=b)", "expected ',' before '='", id="term in a set"),
        pytest.param("replicas>many", "needs a whole number, not 'many'", id="greater than a word"),
        pytest.param("replicas>", "needs a whole number, not ''", id="greater than nothing"),
        pytest.param("replicas>-1", "'-1' is no label value", id="greater than a negative"),
        pytest.param("replicas>1.5", "needs a whole number", id="greater than a fraction"),
        pytest.param("replicas<9223372036854775808", "needs a whole number", id="too large"),
        pytest.param("replicas<" + "9" * 40, "needs a whole number", id="far too large"),
        pytest.param("replicas<٣", "is no label value", id="digits of another script"),
        pytest.param("-app=web", "the label key", id="key begins with a dash"),
        pytest.param("app-=web", "the label key", id="key ends with a dash"),
        pytest.param("a/b/c=web", "prefix that is no DNS subdomain", id="two slashes"),
        pytest.param("/app=web", "prefix that is no DNS subdomain", id="no prefix"),
        pytest.param("example.com/=web", "is no label key", id="no name"),
        pytest.param(
            "Example.com/a=web", "prefix that is no DNS subdomain", id="upper-case prefix"
        ),
        pytest.param("k" * 64, "a name part of 64 characters", id="key too long"),
        pytest.param("app=" + "v" * 64, "is no label value", id="value too long"),
        pytest.param("app=.web", "is no label value", id="value begins with a dot"),
        pytest.param("app=wéb", "is no label value", id="value that is not ASCII"),
        pytest.param("äpp=web", "is no label key", id="key that is not ASCII"),
        pytest.param("app in (wéb)", "is no label value", id="set that is not ASCII"),
        pytest.param('app="web"', "is no label value", id="quotes"),
        pytest.param("app=we\0b", "is no label value", id="a zero byte"),
    ],
)
def test_malformed_label_selector_is_refused(text: str, why: str) -> None:
    """The error shows the selector and says what is wrong where."""
    with pytest.raises(SelectorError, match=why) as caught:
        LabelSelector.parse(text)
    assert repr(text) in str(caught.value)


keys = st.from_regex(
    r"([a-z]{1,3}\.[a-z]{1,3}/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,3}[A-Za-z0-9])?", fullmatch=True
)
values = st.from_regex(r"([A-Za-z0-9]([-._A-Za-z0-9]{0,3}[A-Za-z0-9])?)?", fullmatch=True)
value_sets = st.sets(values, min_size=1, max_size=3).map(lambda found: tuple(sorted(found)))
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(("in", "notin")), value_sets),
    st.builds(Requirement, keys, st.sampled_from(("exists", "absent")), st.just(())),
    st.builds(
        Requirement,
        keys,
        st.sampled_from(("gt", "lt")),
        st.integers(0, 2**63 - 1).map(lambda number: (str(number),)),
    ),
)


@given(st.sets(requirements, max_size=4))
def test_every_selector_can_be_read_back(found: set[Requirement]) -> None:
    """The canonical form is a selector, and the same one."""
    selector = LabelSelector(tuple(sorted(found)))
    assert LabelSelector.parse(str(selector)) == selector


@given(st.one_of(st.text(max_size=30), st.text("ab=!,()<> in", max_size=20)))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    """Nothing that a client sends raises anything else, and what is accepted is stable."""
    try:
        canonical = str(LabelSelector.parse(text))
    except SelectorError:
        return
    assert str(LabelSelector.parse(canonical)) == canonical


# Label selectors: their meaning

LABELS = ("app", "web", "empty", "", "replicas", "5")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", True, id="empty"),
        pytest.param("app=web", True, id="equal"),
        pytest.param("app=db", False, id="not equal to another"),
        pytest.param("other=web", False, id="key that is not there"),
        pytest.param("empty=", True, id="empty value"),
        pytest.param("other=", False, id="empty value of a key that is not there"),
        pytest.param("app!=db", True, id="not another"),
        pytest.param("app!=web", False, id="not itself"),
        pytest.param("other!=web", True, id="not, of a key that is not there"),
        pytest.param("app in (db,web)", True, id="in"),
        pytest.param("app in (db,cache)", False, id="not in"),
        pytest.param("other in (web,db)", False, id="in, of a key that is not there"),
        pytest.param("app notin (db,cache)", True, id="notin"),
        pytest.param("app notin (db,web)", False, id="notin, but in"),
        pytest.param("other notin (db,web)", True, id="notin, of a key that is not there"),
        pytest.param("app", True, id="exists"),
        pytest.param("empty", True, id="exists with an empty value"),
        pytest.param("other", False, id="does not exist"),
        pytest.param("!other", True, id="absent"),
        pytest.param("!app", False, id="not absent"),
        pytest.param("replicas>4", True, id="greater"),
        pytest.param("replicas>5", False, id="not greater than itself"),
        pytest.param("replicas<6", True, id="less"),
        pytest.param("replicas<5", False, id="not less than itself"),
        pytest.param("app>1", False, id="a word is not greater"),
        pytest.param("app<1", False, id="a word is not less"),
        pytest.param("other>1", False, id="greater, of a key that is not there"),
        pytest.param("app=web,replicas=5", True, id="two terms"),
        pytest.param("app=web,replicas=6", False, id="two terms, one wrong"),
        pytest.param("web", False, id="a value is no key"),
    ],
)
def test_label_selector_matches(text: str, expected: bool) -> None:
    """The terms are joined by AND; `!=` and `notin` also match objects without the key."""
    selector = LabelSelector.parse(text)
    assert selects(selector, LABELS) is expected
    assert LabelMatcher(selector).matches(LABELS) is expected


@pytest.mark.parametrize("value", ["9223372036854775808", "9" * 30, "", "-1", "+6", "٣"])
def test_label_that_is_no_number_is_neither_greater_nor_less(value: str) -> None:
    """The API server reads 63 bits; what does not fit is no number to it."""
    labels = ("replicas", value)
    assert not LabelMatcher(LabelSelector.parse("replicas>5")).matches(labels)
    assert not LabelMatcher(LabelSelector.parse("replicas<5")).matches(labels)


@given(requirement=requirements, labels=st.dictionaries(keys, values, max_size=3))
def test_negated_terms_are_opposites(requirement: Requirement, labels: dict[str, str]) -> None:
    """In and notin, exists and absent split all objects in two."""
    opposite = {"in": "notin", "notin": "in", "exists": "absent", "absent": "exists"}
    flat = tuple(text for pair in sorted(labels.items()) for text in pair)
    if requirement.operator in opposite:
        other = requirement._replace(operator=opposite[requirement.operator])
        matchers = [LabelMatcher(LabelSelector((term,))) for term in (requirement, other)]
        assert matchers[0].matches(flat) is not matchers[1].matches(flat)


# Few keys and values, so that terms meet each other and the labels.
few_keys = st.sampled_from(("a", "b"))
few_values = st.sampled_from(("", "1", "2", "3", "x"))
few_requirements = st.one_of(
    st.builds(
        Requirement,
        few_keys,
        st.sampled_from(("in", "notin")),
        st.sets(few_values, min_size=1).map(lambda found: tuple(sorted(found))),
    ),
    st.builds(Requirement, few_keys, st.sampled_from(("exists", "absent")), st.just(())),
    st.builds(Requirement, few_keys, st.sampled_from(("gt", "lt")), st.sampled_from("123")),
).map(lambda found: found._replace(values=tuple(found.values)))


@given(found=st.lists(few_requirements, max_size=4), labels=st.dictionaries(few_keys, few_values))
def test_the_matcher_and_the_terms_agree(found: list[Requirement], labels: dict[str, str]) -> None:
    """Terms brought together by key match what each of them by itself matches."""
    selector = LabelSelector(tuple(sorted(found)))
    flat = tuple(text for pair in sorted(labels.items()) for text in pair)
    assert LabelMatcher(selector).matches(flat) is selects(selector, flat)


# Selectors from anybody


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(",".join(f"k{n} in (a,b)" for n in range(4000)), id="many sets"),
        pytest.param(f"k in ({','.join(f'v{n}' for n in range(9000))})", id="a large set"),
        pytest.param(",".join(f"!k{n}" for n in range(8000)), id="many keys"),
        pytest.param(" " * 60_000, id="spaces"),
    ],
)
def test_a_large_label_selector_is_read_in_no_time(text: str) -> None:
    """The event loop is not held up."""
    selector = LabelSelector.parse(text)
    assert LabelMatcher(selector).matches(("k1", "a")) is selects(selector, ("k1", "a"))


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a=b," * 12_000 + "((", id="malformed at the end"),
        pytest.param("(" * 60_000, id="malformed at the start"),
        pytest.param("k" * 60_000, id="a long key"),
        pytest.param("k=" + "v" * 60_000, id="a long value"),
        pytest.param("k " + "v" * 60_000, id="a long operator"),
        pytest.param("k in (" + "a," * 20_000 + "a b", id="a set without an end"),
    ],
)
def test_a_large_label_selector_is_refused_in_no_time(text: str) -> None:
    """An error says what is wrong, not all that was sent."""
    with pytest.raises(SelectorError) as caught:
        LabelSelector.parse(text)
    assert len(str(caught.value)) < 1000


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a=" + " " * 60_000 + "\\", id="spaces in a value"),
        pytest.param(" " * 60_000 + "!", id="spaces before a path"),
        pytest.param("a" + " " * 60_000 + "!", id="spaces behind a path"),
        pytest.param("a" * 60_000, id="a long path"),
        pytest.param("," * 60_000, id="commas"),
        pytest.param("\\" * 60_000, id="backslashes"),
        pytest.param("a=b," * 12_000 + "!", id="malformed at the end"),
    ],
)
def test_a_large_field_selector_is_refused_in_no_time(text: str) -> None:
    """The event loop is not held up, and an error says what is wrong, not all that was sent."""
    with pytest.raises(SelectorError) as caught:
        canonical_field_selector(text)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("parse", [LabelSelector.parse, canonical_field_selector])
def test_a_selector_has_a_largest_length(parse: Callable[[str], object]) -> None:
    """It is what an API server would not read either; the error says both lengths."""
    with pytest.raises(SelectorError, match="65537 characters long; a selector has at most 65536"):
        parse("a=" + "b" * 65_535)


# Field selectors


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("  ", "", id="blank"),
        pytest.param("metadata.name=web", "metadata.name=web", id="equal"),
        pytest.param("metadata.name==web", "metadata.name=web", id="equal, two signs"),
        pytest.param("status.phase!=Running", "status.phase!=Running", id="not equal"),
        pytest.param("b=2,a=1", "a=1,b=2", id="sorted"),
        pytest.param("a=1,a=1", "a=1", id="once each"),
        pytest.param(" a = 1 , b != 2 ", "a=1,b!=2", id="spaces"),
        pytest.param("a=", "a=", id="empty value"),
        pytest.param(r"a=x\,y", r"a=x\,y", id="comma in the value"),
        pytest.param(r"a=x\=y", r"a=x\=y", id="equal sign in the value"),
        pytest.param(r"a=x\\,b=y", r"a=x\\,b=y", id="value that ends with a backslash"),
        pytest.param("spec.nodeName=node 1", "spec.nodeName=node 1", id="space in the value"),
        pytest.param("spec.a[0].b/c-d_e=1", "spec.a[0].b/c-d_e=1", id="path"),
    ],
)
def test_field_selector_has_one_form(text: str, canonical: str) -> None:
    """Texts that mean the same are one selector, and the form means itself."""
    assert canonical_field_selector(text) == canonical
    assert canonical_field_selector(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("metadata.name", id="no operator"),
        pytest.param("=web", id="no path"),
        pytest.param("a=1,", id="comma at the end"),
        pytest.param(",a=1", id="comma at the start"),
        pytest.param("a=1,,b=2", id="two commas"),
        pytest.param(",", id="only a comma"),
        pytest.param("a=b=c", id="equal sign that is not escaped"),
        pytest.param(r"a=x\y", id="backslash before another character"),
        pytest.param("a=x\\", id="backslash at the end"),
        pytest.param("a>1", id="operator of label selectors"),
        pytest.param("a in (b)", id="set"),
        pytest.param(".a=1", id="path begins with a dot"),
        pytest.param("a b=1", id="space in the path"),
        pytest.param("!a", id="absent"),
    ],
)
def test_malformed_field_selector_is_refused(text: str) -> None:
    """The error shows the term and an example of a good one."""
    with pytest.raises(SelectorError, match="is no field term; use path=value or path!=value"):
        canonical_field_selector(text)


@given(st.one_of(st.text(max_size=30), st.text("ab=!,\\ .", max_size=20)))
def test_any_text_is_a_field_selector_or_a_selector_error(text: str) -> None:
    """Nothing that a client sends raises anything else, and what is accepted is stable."""
    try:
        canonical = canonical_field_selector(text)
    except SelectorError:
        return
    assert canonical_field_selector(canonical) == canonical
