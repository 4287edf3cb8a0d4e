"""What the API server is filled with."""

from __future__ import annotations

import json

from bench.corpus import POD_NAMESPACES, fixtures, pod_requests


def test_a_pod_is_created_by_one_manager_and_its_status_written_by_another() -> None:
    """The first request has no status and nothing that the server makes; the second adds status."""
    pod = pod_requests(7)
    created, updated = json.loads(pod.create), json.loads(pod.update_status)
    assert "status" not in created
    assert updated.pop("status")["phase"] == "Running"
    assert updated == created
    assert not {"managedFields", "uid", "resourceVersion", "creationTimestamp"} & set(
        created["metadata"]
    )


def test_pods_are_the_same_in_every_run() -> None:
    """Figures of two runs are of the same objects."""
    assert [pod_requests(number) for number in range(40)] == [
        pod_requests(number) for number in range(40)
    ]


def test_pods_spread_over_their_namespaces_under_names_of_their_own() -> None:
    """No two pods have one name, and each namespace that is made gets some."""
    pods = [pod_requests(number) for number in range(800)]
    assert len({(pod.namespace, pod.name) for pod in pods}) == 800
    made = {
        json.loads(body)["metadata"]["name"]
        for path, body in fixtures()
        if path == "/api/v1/namespaces"
    }
    used = {pod.namespace for pod in pods}
    assert len(used) == POD_NAMESPACES
    assert used <= made


def test_everything_goes_into_a_namespace_that_was_made_before() -> None:
    """The fixtures can be created in the order given."""
    made: set[str] = set()
    for path, body in fixtures():
        if path == "/api/v1/namespaces":
            made.add(json.loads(body)["metadata"]["name"])
        elif "/namespaces/" in path:
            assert path.split("/")[4] in made
