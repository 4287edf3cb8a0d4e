"""Tables: the cells and columns that kinds are shown with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.devcluster.sample_kinds import WIDGET, Tree, kind
from watchcache_devcluster.tables import age, columns_of, custom_column, row_of


class TestTables:
    """What kubectl shows."""

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [
            (-5, "0s"),
            (5, "5s"),
            (130, "2m10s"),
            (240, "4m"),
            (700, "11m"),
            (4 * 3600, "4h"),
            (4 * 3600 + 60, "4h1m"),
            (20 * 3600, "20h"),
            (3 * 86400, "3d"),
            (800 * 86400, "2y"),
        ],
    )
    def test_ages_are_short(self, seconds: int, shown: str) -> None:
        """One or two units, as kubectl writes them."""
        assert age("1970-01-01T00:00:00Z", seconds) == shown
        assert age(None, 0) == "<unknown>"

    @pytest.mark.parametrize(
        ("table", "tree", "cells"),
        [
            (
                "pods",
                {
                    "spec": {"containers": [{}, {}], "nodeName": "n"},
                    "status": {
                        "phase": "Running",
                        "podIP": "1.2.3.4",
                        "containerStatuses": [
                            {"ready": True, "restartCount": 2, "state": {"running": {}}}
                        ],
                    },
                },
                ["1/2", "Running", "2", "<unknown>", "1.2.3.4", "n"],
            ),
            (
                "pods",
                {"status": {"containerStatuses": [{"state": {"waiting": {"reason": "Pull"}}}]}},
                ["0/0", "Pull", "0", "<unknown>", "<none>", "<none>"],
            ),
            (
                "pods",
                {"metadata": {"deletionTimestamp": "x"}},
                ["0/0", "Terminating", "0", "<unknown>", "<none>", "<none>"],
            ),
            ("deployments.apps", {"spec": {"replicas": 2}}, ["0/2", 0, 0, "<unknown>"]),
            ("configmaps", {"data": {"a": "1"}, "binaryData": {"b": ""}}, [2, "<unknown>"]),
            (
                "services",
                {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]}},
                ["NodePort", "<none>", "80:30000/TCP", "<unknown>"],
            ),
            (
                "nodes",
                {
                    "spec": {"unschedulable": True},
                    "status": {"conditions": [{"type": "X"}, {"type": "Ready", "status": "True"}]},
                },
                ["Ready,SchedulingDisabled", "<unknown>", ""],
            ),
            (
                "nodes",
                {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
                ["NotReady", "<unknown>", ""],
            ),
            ("nodes", {}, ["Unknown", "<unknown>", ""]),
            (
                "rolebindings.rbac.authorization.k8s.io",
                {"roleRef": {"kind": "Role", "name": "r"}},
                ["Role/r", "<unknown>"],
            ),
            (
                "ingresses.networking.k8s.io",
                {"spec": {"rules": [{"host": "a"}, {}], "tls": [{}]}},
                ["<none>", "a,*", "80, 443", "<unknown>"],
            ),
            ("jobs.batch", {"status": {"succeeded": 1}}, ["1/1", "<unknown>"]),
            ("cronjobs.batch", {"spec": {"schedule": "x"}}, ["x", "False", "<unknown>"]),
            (
                "horizontalpodautoscalers.autoscaling",
                {"spec": {"scaleTargetRef": {"kind": "D", "name": "n"}, "maxReplicas": 3}},
                ["D/n", 0, 3, 0, "<unknown>"],
            ),
        ],
    )
    def test_the_cells_of_built_in_kinds(self, table: str, tree: Tree, cells: list[Any]) -> None:
        """A few columns each, after the name."""
        whole = {"metadata": {"name": "a"}, **tree}
        whole["metadata"].setdefault("name", "a")
        columns = columns_of(kind(table))
        assert row_of(columns, whole, 0.0) == ["a", *cells]
        assert all(column.definition()["name"] for column in columns)

    def test_events_begin_with_their_age(self) -> None:
        """An event is looked for by when it was seen, not by its name."""
        event = {
            "metadata": {"name": "e", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "type": "Normal",
            "reason": "R",
            "involvedObject": {"kind": "Pod", "name": "p"},
            "message": "m",
        }
        row = row_of(columns_of(kind("events")), event, 3.0)
        assert row == ["3s", "Normal", "R", "pod/p", "m", "e"]

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            (".spec.size", 3),
            ("{.spec.size}", 3),
            (".spec.list[1]", "b"),
            (".spec.list[9]", None),
            (".metadata.labels.example\\.test/x", "y"),
            (".metadata.labels['example.test/x']", "y"),
            (".spec.size.deeper", None),
        ],
    )
    def test_custom_columns_follow_their_path(self, path: str, expected: Any) -> None:
        """The paths that printer columns use: keys, indices, escaped and quoted keys."""
        tree = {
            "metadata": {"labels": {"example.test/x": "y"}},
            "spec": {"size": 3, "list": ["a", "b"]},
        }
        column = custom_column({"name": "X", "type": "integer", "jsonPath": path})
        assert column.cell(tree, 0.0) == expected

    def test_a_date_is_shown_as_an_age(self) -> None:
        """A column of type date counts from its time."""
        column = custom_column({"name": "X", "type": "date", "jsonPath": ".at"})
        assert column.cell({"at": "1970-01-01T00:00:00Z"}, 7.0) == "7s"
        assert column.cell({}, 7.0) is None
        assert columns_of(WIDGET)[1].name == "Age"
