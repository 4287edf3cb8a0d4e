"""The HTTP side: shapes, sizes, times, identities, and the admin paths."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.unit.devcluster.calls import Caller, calling
from watchcache_devcluster import DevCluster, Fault
from watchcache_devcluster.authentication import Authenticator
from watchcache_devcluster.rbac import Authorizer, Question
from watchcache_devcluster.requests import RequestInfo
from watchcache_devcluster.storage import Storage
from watchcache_devcluster.streams import WatchResponse
from watchcache_devcluster.tokens import Tokens, User

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.fixture
async def caller(devcluster: DevCluster) -> Any:
    """Give a client of a fresh cluster."""
    async with calling(devcluster) as caller:
        yield caller


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/version", {}, ("get", "", "", "")),
        ("GET", "/api/v1", {}, ("get", "", "", "")),
        ("GET", "/api/v1/pods", {}, ("list", "pods", "", "")),
        ("HEAD", "/api/v1/pods", {}, ("list", "pods", "", "")),
        ("GET", "/api/v1/pods", {"watch": "0"}, ("list", "pods", "", "")),
        ("GET", "/api/v1/pods", {"watch": "1"}, ("watch", "pods", "", "")),
        ("GET", "/api/v1/watch/pods", {}, ("watch", "pods", "", "")),
        ("GET", "/api/v1/namespaces/a", {}, ("get", "namespaces", "a", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, ("update", "namespaces", "a", "a")),
        ("GET", "/api/v1/namespaces/a/pods/b", {"watch": "1"}, ("get", "pods", "a", "b")),
        ("PATCH", "/apis/apps/v1/namespaces/a/x/b/status", {}, ("patch", "x", "a", "b")),
        ("DELETE", "/api/v1/namespaces/a/pods", {}, ("deletecollection", "pods", "a", "")),
        (
            "GET",
            "/api/v1/pods",
            {"fieldSelector": "spec.nodeName=n,metadata.name=b"},
            ("list", "pods", "", "b"),
        ),
    ],
)
def test_a_request_is_a_verb_on_a_resource(
    method: str, path: str, query: dict[str, str], expected: tuple[str, str, str, str]
) -> None:
    """Method, path and query say what is asked, as the API server reads them."""
    info = RequestInfo.parse(method, path, query)
    assert (info.verb, info.resource, info.namespace, info.name) == expected


class TestShapes:
    """How answers look."""

    async def test_a_large_list_comes_in_pieces(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """It is compressed for those who accept it, and the same either way."""
        for number in range(40):
            data = {"k": f"{number:05}" * 2000}
            await devcluster.create("cm", {"metadata": {"name": f"c{number}"}, "data": data})
        bodies = []
        for encoding in ("identity", "gzip"):
            async with caller.open("GET", CONFIGMAPS, **{"Accept-Encoding": encoding}) as answer:
                assert answer.headers.get("Content-Encoding", "identity") == encoding
                assert answer.headers["Transfer-Encoding"] == "chunked"
                bodies.append(json.loads(await answer.read()))
        assert bodies[0] == bodies[1]
        assert len(bodies[0]["items"]) == 40
        async with caller.watch(CONFIGMAPS) as lines:
            events = [await lines.next() for _ in range(41)]
        assert [event["type"] for event in events] == ["ADDED"] * 40 + ["BOOKMARK"]

    @pytest.mark.parametrize(("accept", "kind"), [(TABLE, "Table"), (METADATA, "PartialObjectM")])
    async def test_a_watch_has_the_shape_that_was_asked_for(
        self, devcluster: DevCluster, caller: Caller, accept: str, kind: str
    ) -> None:
        """Events and bookmarks alike; a table names its columns once."""
        for name in ("a", "b"):
            await devcluster.create("cm", {"metadata": {"name": name}, "data": {"k": "v"}})
        async with caller.watch(CONFIGMAPS, Accept=accept) as lines:
            events = [await lines.next() for _ in range(3)]
        assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
        for event in events:
            assert event["object"]["kind"].startswith(kind)
            assert "data" not in event["object"]
        if kind == "Table":
            columns = [bool(event["object"]["columnDefinitions"]) for event in events]
            assert columns == [True, False, False]

    async def test_warnings_are_headers(self, caller: Caller) -> None:
        """An unknown field is dropped and named."""
        body = {"metadata": {"name": "a"}, 'non"sense': 1}
        async with caller.open("POST", CONFIGMAPS, body) as answer:
            assert answer.status == 201
            assert answer.headers["Warning"] == '299 - "unknown field \\"non\\"sense\\""'

    async def test_old_discovery_can_be_played(self) -> None:
        """A cluster may serve the older form of aggregated discovery, or none."""
        form = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
        accept = f"{form.format('v2')},{form.format('v2beta1')},application/json"
        for versions, kind in (
            (("v2beta1",), "APIGroupDiscoveryList"),
            ((), "APIGroupList"),
            (("v2", "v2beta1"), "APIGroupDiscoveryList"),
        ):
            async with DevCluster(aggregated_discovery=versions) as cluster, calling(cluster) as c:
                _, body = await c.call("GET", "/apis", Accept=accept)
                assert body["kind"] == kind
                if versions:
                    assert body["apiVersion"] == f"apidiscovery.k8s.io/{versions[0]}"


class TestMistakes:
    """A mistake of the cluster itself."""

    async def test_a_mistake_in_a_request_is_500_and_logged(
        self,
        devcluster: DevCluster,
        caller: Caller,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """It must not look like a fault that was asked for; the next request is served."""
        with monkeypatch.context() as patch:
            patch.setattr(devcluster.faults, "strike", lambda _: 1 / 0)
            status, body = await caller.call("GET", "/version")
        assert (status, body["reason"]) == (500, "InternalError")
        assert "ZeroDivisionError" in body["message"]
        assert "GET /version failed" in caplog.text
        assert (await caller.call("GET", "/version"))[0] == 200

    async def test_a_mistake_in_a_controller_stops_none_of_them(
        self,
        devcluster: DevCluster,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The others go on, and the log says what happened."""
        for name in ("one", "two"):
            await devcluster.create("ns", {"metadata": {"name": name}})
        with monkeypatch.context() as patch:
            patch.setattr(devcluster.storage, "tables", lambda: 1 / 0)
            await devcluster.delete("ns", "one")
            await devcluster.settle()
        assert "a controller failed" in caplog.text
        await devcluster.delete("ns", "two")
        await devcluster.settle()
        names = [item["metadata"]["name"] for item in (await devcluster.list("ns"))["items"]]
        assert "one" in names
        assert "two" not in names


class TestTimes:
    """When watches end and speak."""

    async def test_a_quiet_watch_gets_bookmarks(self) -> None:
        """Each tells how far the server is, by the interval that was set."""
        async with DevCluster(bookmark_seconds=0.05) as cluster, calling(cluster) as caller:
            async with caller.watch(CONFIGMAPS) as lines:
                first = await lines.next()
                await cluster.create("secrets", {"metadata": {"name": "a"}})
                second = await lines.next()
            assert [event["type"] for event in (first, second)] == ["BOOKMARK", "BOOKMARK"]
            versions = [event["object"]["metadata"]["resourceVersion"] for event in (first, second)]
            assert int(versions[1]) >= int(versions[0])
            assert versions[1] == str(cluster.storage.resource_version)

    async def test_a_watch_without_a_deadline_ends_by_itself(self) -> None:
        """The server takes one between the least time and twice that."""
        async with (
            DevCluster(min_watch_seconds=0.05) as cluster,
            calling(cluster) as caller,
            caller.watch(CONFIGMAPS) as lines,
        ):
            await lines.next()
            assert await lines.raw_rest() == b""

    async def test_a_quiet_watch_outlives_a_compaction(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """Nothing was missed, so there is nothing to tell."""
        async with caller.watch(CONFIGMAPS) as lines:
            await lines.next()
            await devcluster.create("secrets", {"metadata": {"name": "a"}})
            devcluster.compact()
            await devcluster.create("cm", {"metadata": {"name": "a"}})
            assert (await lines.next())["type"] == "ADDED"

    async def test_a_watch_that_falls_behind_the_history_is_ended(self) -> None:
        """The server does not keep more for it than for everyone; it may come again."""
        async with (
            DevCluster(history_limit=10) as cluster,
            calling(cluster) as caller,
            caller.watch(CONFIGMAPS) as lines,
        ):
            await lines.next()
            for number in range(30):  # in one go, so that the watch reads nothing between
                await cluster.create("cm", {"metadata": {"name": f"c{number}"}})
            assert await lines.raw_rest() == b""

    async def test_many_changes_are_sent_in_their_order(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """More changes than one batch holds lose and double nothing, compacted or not."""
        async with caller.watch(CONFIGMAPS) as lines:
            await lines.next()
            for number in range(700):
                await devcluster.create("cm", {"metadata": {"name": f"c{number}"}})
                if number == 400:
                    devcluster.compact()
            events = [await lines.next() for _ in range(700)]
        assert [event["object"]["metadata"]["name"] for event in events] == [
            f"c{number}" for number in range(700)
        ]


class TestIdentities:
    """Who a caller is."""

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Authorization": ""}, 403),
            ({"Authorization": "Basic x"}, 403),
            ({"Authorization": "Bearer wrong"}, 401),
            ({"Impersonate-User": "someone"}, 403),
            ({"Impersonate-User": "system:serviceaccount:default:robot"}, 403),
            ({"Impersonate-User": "someone", "Impersonate-Group": "system:masters"}, 200),
        ],
    )
    async def test_rights_follow_the_user(
        self, caller: Caller, headers: dict[str, str], status: int
    ) -> None:
        """No credentials is nobody, bad ones are refused, an administrator may be anybody."""
        assert (await caller.call("GET", CONFIGMAPS, **headers))[0] == status

    async def test_health_is_for_everybody(self, caller: Caller) -> None:
        """Probes need no credentials."""
        for path in ("/healthz", "/livez", "/readyz"):
            assert await caller.call("GET", path, Authorization="") == (200, "ok")

    def test_only_who_may_can_impersonate(self) -> None:
        """Each user and group that is put on is asked for by itself."""
        storage = Storage()
        authorizer = Authorizer(storage)
        tokens = Tokens(storage, lambda: 0.0, "admin-token")
        authenticator = Authenticator(tokens, authorizer)
        certificate = {"subject": ((("commonName", "u"),), (("countryName", "X"),))}
        user = authenticator.identify({}, certificate)
        assert user == User("u", groups=("system:authenticated",))
        rules = [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}]
        role = {"metadata": {"name": "r"}, "rules": rules}
        binding = {
            "metadata": {"name": "r"},
            "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}],
        }
        group = "rbac.authorization.k8s.io"
        storage.put(storage.table(f"clusterroles.{group}"), ("", "r"), role)
        storage.put(storage.table(f"clusterrolebindings.{group}"), ("", "r"), binding)
        put_on = authenticator.identify({"Impersonate-User": "v"}, certificate)
        assert put_on == User("v", groups=("system:authenticated",))
        missing = Question(verb="impersonate", resource="groups", name="g")
        assert not authorizer.allows(user, missing)


class TestAdminPaths:
    """What the command uses."""

    async def test_faults_by_http(self, devcluster: DevCluster, caller: Caller) -> None:
        """Add, list, remove and clear."""
        status, answer = await caller.call(
            "POST", "/devcluster/faults", {"kind": "status", "code": 503, "verb": "list"}
        )
        assert (status, answer["stays"]) == (200, True)
        assert (await caller.call("GET", CONFIGMAPS))[0] == 503
        _, listed = await caller.call("GET", "/devcluster/faults")
        assert listed["faults"][0]["struck"] == 1
        number = answer["number"]
        assert (await caller.call("DELETE", f"/devcluster/faults/{number}"))[0] == 200
        assert (await caller.call("DELETE", f"/devcluster/faults/{number}"))[0] == 404
        assert (await caller.call("DELETE", "/devcluster/faults/x"))[0] == 404
        devcluster.faults.add(Fault("delay", seconds=0))
        assert await caller.call("DELETE", "/devcluster/faults") == (200, {"cleared": 1})

    async def test_actions_by_http(self, devcluster: DevCluster, caller: Caller) -> None:
        """Compact, expire tokens, restart."""
        _, answer = await caller.call("POST", "/devcluster/compact")
        assert answer == {"compacted": devcluster.storage.resource_version}
        token = await devcluster.token_for("default", "robot")
        body = {"namespace": "default", "serviceaccount": "robot"}
        assert (await caller.call("POST", "/devcluster/expire-tokens", body))[0] == 200
        assert (await caller.call("GET", "/version", Authorization=f"Bearer {token}"))[0] == 401
        assert (await caller.call("POST", "/devcluster/restart"))[0] == 200
        while True:  # the limit of the test is the limit of the restart
            try:
                assert (await caller.call("GET", "/version"))[0] == 200
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.01)
            else:
                break

    @pytest.mark.parametrize(
        ("method", "path", "body", "status"),
        [
            ("POST", "faults", {"kind": "bogus"}, 400),
            ("POST", "faults", {"kind": "reset", "color": "red"}, 400),
            ("POST", "faults", {}, 400),
            ("POST", "faults", [1], 400),
            ("POST", "faults", b"{", 400),
            ("POST", "expire-tokens", {}, 400),
            ("GET", "compact", None, 404),
            ("GET", "nonesuch", None, 404),
        ],
    )
    async def test_a_senseless_request_is_refused(
        self, caller: Caller, method: str, path: str, body: Any, status: int
    ) -> None:
        """Nothing happens, and the answer says why."""
        assert (await caller.call(method, f"/devcluster/{path}", body))[0] == status

    async def test_they_are_for_administrators(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """A ServiceAccount cannot make trouble."""
        bearer = f"Bearer {await devcluster.token_for('default', 'robot')}"
        assert (await caller.call("GET", "/devcluster/faults", Authorization=bearer))[0] == 403


async def test_a_client_that_has_left_is_no_mistake(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is logged when nobody is left to be answered."""

    async def leave(_: WatchResponse) -> Any:
        raise ConnectionResetError

    monkeypatch.setattr(WatchResponse, "run", leave)
    async with caller.open("GET", f"{CONFIGMAPS}?watch=true") as response:
        assert await response.read() == b""
    assert caplog.records == []


@pytest.mark.parametrize(
    ("length", "status"),
    [
        pytest.param(64 * 1024, 200, id="as long as a selector may be"),
        pytest.param(1_000_000, 200, id="as long as a real server reads it"),
        pytest.param(1_100_000, 400, id="longer"),
    ],
)
async def test_a_request_may_be_as_long_as_a_real_server_takes_it(
    caller: Caller, caplog: pytest.LogCaptureFixture, length: int, status: int
) -> None:
    """A longer one is the client's mistake: it is told, and nothing is logged."""
    values = ",".join(["v" * 49] * (length // 50))
    path = f"{CONFIGMAPS}?labelSelector=a%20in%20({values})"
    async with caller.open("GET", path) as response:
        assert response.status == status
    assert caplog.records == []
