"""Contract: namespaces, and what they do to what is in them."""

from __future__ import annotations

from tests.contract.api import Api, unique
from tests.contract.objects import assert_refused, version_of


class TestNamespaces:
    """Namespaces, and what they do to what is in them."""

    async def test_a_new_namespace_is_active_and_labelled(self, api: Api, namespace: str) -> None:
        """It carries its own name as a label, the finalizer of its content, and a phase."""
        made = await api.get(f"/api/v1/namespaces/{namespace}")
        assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}
        assert made["spec"] == {"finalizers": ["kubernetes"]}
        assert made["status"] == {"phase": "Active"}

    async def test_the_first_namespaces_are_there(self, api: Api) -> None:
        """A new cluster has default and kube-system."""
        names = {
            item["metadata"]["name"] for item in (await api.get("/api/v1/namespaces"))["items"]
        }
        assert {"default", "kube-system"} <= names

    async def test_default_may_not_be_deleted(self, api: Api) -> None:
        """The namespaces that the cluster needs are protected."""
        answer = await api.call("DELETE", "/api/v1/namespaces/default")
        assert_refused(answer, 403, "Forbidden")
        assert answer.body["message"] == (
            'namespaces "default" is forbidden: this namespace may not be deleted'
        )

    async def test_namespaces_have_no_collection_to_delete(self, api: Api) -> None:
        """All namespaces at once cannot be deleted."""
        answer = await api.call("DELETE", "/api/v1/namespaces")
        assert_refused(answer, 405, "MethodNotAllowed")

    async def test_a_terminating_namespace_takes_nothing_new(
        self, api: Api, namespace: str, configmaps: str
    ) -> None:
        """While its content is being removed, creating in it is 403 for a cause of its own."""
        held = {"metadata": {"name": "held", "finalizers": ["example.test/hold"]}}
        await api.create(configmaps, held)
        marked = await api.delete(f"/api/v1/namespaces/{namespace}")
        assert marked["kind"] == "Namespace"
        assert marked["status"]["phase"] == "Terminating"
        assert "deletionTimestamp" in marked["metadata"]
        answer = await api.call("POST", configmaps, {"metadata": {"name": "late"}})
        assert_refused(answer, 403, "Forbidden")
        assert answer.body["message"] == (
            'configmaps "late" is forbidden: unable to create new content in namespace '
            f"{namespace} because it is being terminated"
        )
        assert answer.body["details"]["causes"] == [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]

    async def test_a_deleted_namespace_takes_its_content_along(
        self, api: Api, namespace: str, configmaps: str
    ) -> None:
        """Each object in it is deleted, by an event of its own, and then the namespace is gone."""
        api.endpoint.run_controllers()
        for name in ("a", "b"):
            await api.create(configmaps, {"metadata": {"name": name}})
        start = version_of(await api.get(configmaps))
        selector = f"metadata.name={namespace}"
        async with (
            api.watch(configmaps, resourceVersion=start) as content,
            api.watch("/api/v1/namespaces", fieldSelector=selector, resourceVersion=start) as names,
        ):
            await api.delete(f"/api/v1/namespaces/{namespace}")
            gone = [await content.next_change() for _ in range(2)]
            assert {(event["type"], event["object"]["metadata"]["name"]) for event in gone} == {
                ("DELETED", "a"),
                ("DELETED", "b"),
            }
            while (await names.next_change())["type"] != "DELETED":
                pass
        await api.get(f"/api/v1/namespaces/{namespace}", expect=404)
        assert (await api.get(configmaps))["items"] == []

    async def test_a_list_in_a_missing_namespace_is_empty(self, api: Api) -> None:
        """Reading the objects of a namespace that is not there is no error."""
        found = await api.get(f"/api/v1/namespaces/{unique('absent')}/configmaps")
        assert (found["kind"], found["items"]) == ("ConfigMapList", [])
