"""Contract: label and field selectors on lists."""

from __future__ import annotations

import pytest

from tests.contract.api import Api
from tests.contract.objects import assert_refused, names


class TestSelectors:
    """Label and field selectors."""

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("parity=even", "0246"),
            ("parity==even", "0246"),
            ("parity!=even", "135x"),
            ("parity in (even,odd)", "0123456"),
            ("parity in (odd)", "135"),
            ("parity notin (odd)", "0246x"),
            ("parity", "0123456"),
            ("!parity", "x"),
            ("n>3", "456"),
            ("n<2", "01"),
            ("parity=even,n=2", "2"),
            ("parity=even,n!=2", "046"),
            ("parity=even, n in (2, 4)", "24"),
            ("parity=", ""),
            ("absent!=x", "0123456x"),
            ("", "0123456x"),
        ],
    )
    async def test_label_selectors(
        self, api: Api, configmaps: str, seven: list[int], selector: str, expected: str
    ) -> None:
        """Requirements are joined by and; a missing label satisfies the negative ones."""
        await api.create(configmaps, {"metadata": {"name": "cx"}})
        found = await api.get(configmaps, labelSelector=selector)
        assert names(found) == [f"c{name}" for name in expected]

    @pytest.mark.parametrize(
        ("selector", "message"),
        [
            ("p===x", "unable to parse requirement: found '=', expected: identifier"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("p in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, =="),
            ("p=x,", "found '', expected: identifier after ','"),
            ("-p=x", 'unable to parse requirement: <nil>: Invalid value: "-p"'),
            ("p=-x-", 'unable to parse requirement: values[0][p]: Invalid value: "-x-"'),
            ("n>x", 'unable to parse requirement: values[0]: Invalid value: "x"'),
        ],
    )
    async def test_malformed_label_selectors_are_bad_requests(
        self, api: Api, configmaps: str, selector: str, message: str
    ) -> None:
        """A selector that cannot be parsed is refused, with the place where it went wrong."""
        answer = await api.call("GET", configmaps, labelSelector=selector)
        assert_refused(answer, 400, "BadRequest")
        assert answer.body["message"].startswith(message)

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("metadata.name=c1", "1"),
            ("metadata.name==c1", "1"),
            ("metadata.name!=c1", "023456"),
            ("metadata.name=c1,metadata.name=c2", ""),
            ("metadata.namespace=absent", ""),
        ],
    )
    async def test_field_selectors(
        self, api: Api, configmaps: str, seven: list[int], selector: str, expected: str
    ) -> None:
        """Every kind can be selected by name and namespace."""
        found = await api.get(configmaps, fieldSelector=selector)
        assert names(found) == [f"c{name}" for name in expected]

    async def test_both_selectors_apply(self, api: Api, configmaps: str, seven: list[int]) -> None:
        """Label and field selectors together select what both select."""
        query = {"labelSelector": "parity=even", "fieldSelector": "metadata.name!=c2"}
        assert names(await api.get(configmaps, **query)) == ["c0", "c4", "c6"]

    async def test_some_kinds_have_fields_of_their_own(self, api: Api, namespace: str) -> None:
        """Pods can be selected by their node and phase."""
        pods = f"/api/v1/namespaces/{namespace}/pods"
        containers = [{"name": "main", "image": "example.test/main"}]
        for name, node in (("a", {"nodeName": "n1"}), ("b", {})):
            spec = {"containers": containers, **node}
            await api.create(pods, {"metadata": {"name": name}, "spec": spec})
        for selector, expected in (
            ("spec.nodeName=n1", ["a"]),
            ("spec.nodeName=", ["b"]),
            ("status.phase=Pending", ["a", "b"]),
            ("spec.nodeName!=n1,status.phase=Pending", ["b"]),
        ):
            assert names(await api.get(pods, fieldSelector=selector)) == expected, selector

    @pytest.mark.parametrize(
        ("selector", "message"),
        [
            (
                "data.k=v",
                '"data.k" is not a known field selector: only "metadata.name", "metadata.',
            ),
            ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
            ("metadata.name>x", "invalid selector: 'metadata.name>x'; can't understand"),
        ],
    )
    async def test_other_field_selectors_are_bad_requests(
        self, api: Api, configmaps: str, selector: str, message: str
    ) -> None:
        """A field that the kind does not offer is refused, not passed over."""
        answer = await api.call("GET", configmaps, fieldSelector=selector)
        assert_refused(answer, 400, "BadRequest")
        assert answer.body["message"].startswith(message)
