"""Contract: who a caller is: ServiceAccounts, their tokens, and reviews of tokens."""

from __future__ import annotations

import base64
import datetime as dt
import json
from typing import Any

import pytest

from tests.contract.api import Api, eventually
from tests.contract.objects import assert_refused

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_AUDIENCE = "https://kubernetes.default.svc"


@pytest.fixture
async def account(api: Api, namespace: str) -> str:
    """Give the path of a new ServiceAccount."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": "robot"}})
    return f"{path}/robot"


async def request_token(api: Api, account: str, **spec: Any) -> str:
    """Return a new token of a ServiceAccount."""
    made = await api.create(f"{account}/token", {"spec": spec})
    token: str = made["status"]["token"]
    return token


async def review(api: Api, token: str, *audiences: str) -> dict[str, Any]:
    """Return the status of a TokenReview."""
    spec: dict[str, Any] = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    reviewed = await api.create(_TOKEN_REVIEWS, {"spec": spec})
    assert (reviewed["kind"], reviewed["apiVersion"]) == (
        "TokenReview",
        "authentication.k8s.io/v1",
    )
    status: dict[str, Any] = reviewed["status"]
    return status


def claims(token: str) -> dict[str, Any]:
    """Return what a token says, unchecked."""
    payload = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return found


def username(account: str) -> str:
    """Return the user name of a ServiceAccount."""
    parts = account.split("/")
    return f"system:serviceaccount:{parts[4]}:{parts[6]}"


class TestTokenRequest:
    """POST to the token subresource of a ServiceAccount."""

    async def test_the_answer_tells_token_time_and_identity(self, api: Api, account: str) -> None:
        """It holds the token, its end of life, and the uid of the ServiceAccount."""
        owner = await api.get(account)
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 600},
        }
        made = await api.create(f"{account}/token", body)
        assert (made["kind"], made["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
        metadata = made["metadata"]
        assert (metadata["name"], metadata["namespace"]) == ("robot", account.split("/")[4])
        assert metadata["uid"] == owner["metadata"]["uid"]
        assert made["spec"]["audiences"] == [_AUDIENCE]
        assert made["spec"]["expirationSeconds"] == 600

        said = claims(made["status"]["token"])
        ends = dt.datetime.fromisoformat(made["status"]["expirationTimestamp"])
        assert said["exp"] == int(ends.timestamp())
        assert said["exp"] - said["iat"] == 600
        assert said["nbf"] == said["iat"]
        assert (said["aud"], said["iss"]) == ([_AUDIENCE], _AUDIENCE)
        assert said["sub"] == username(account)
        assert said["kubernetes.io"] == {
            "namespace": account.split("/")[4],
            "serviceaccount": {"name": "robot", "uid": owner["metadata"]["uid"]},
        }

    async def test_an_hour_is_the_default(self, api: Api, account: str) -> None:
        """Without a lifetime in the request it is an hour."""
        bodies: list[dict[str, Any]] = [{}, {"spec": {}}]
        for body in bodies:
            made = await api.create(f"{account}/token", body)
            assert made["spec"]["expirationSeconds"] == 3600
            said = claims(made["status"]["token"])
            assert said["exp"] - said["iat"] == 3600

    @pytest.mark.parametrize(
        ("seconds", "message"),
        [
            (599, "may not specify a duration less than 10 minutes"),
            (0, "may not specify a duration less than 10 minutes"),
            (2**32 + 1, "may not specify a duration larger than 2^32 seconds"),
        ],
    )
    async def test_a_lifetime_out_of_bounds_is_invalid(
        self, api: Api, account: str, seconds: int, message: str
    ) -> None:
        """Ten minutes is the least, 2^32 seconds the most."""
        body = {"spec": {"expirationSeconds": seconds}}
        answer = await api.call("POST", f"{account}/token", body)
        assert_refused(answer, 422, "Invalid")
        assert answer.body["message"].startswith('TokenRequest.authentication.k8s.io "" is invalid')
        assert answer.body["details"]["causes"] == [
            {
                "reason": "FieldValueInvalid",
                "message": f"Invalid value: {seconds}: {message}",
                "field": "spec.expirationSeconds",
            }
        ]

    async def test_a_recreated_account_is_told_by_uid(self, api: Api, account: str) -> None:
        """A request for the ServiceAccount of another uid is a conflict."""
        owner = await api.get(account)
        right = {"metadata": {"uid": owner["metadata"]["uid"]}, "spec": {}}
        await api.create(f"{account}/token", right)
        answer = await api.call("POST", f"{account}/token", {"metadata": {"uid": "other"}})
        assert_refused(answer, 409, "Conflict")
        assert (
            "the UID in the token request (other) does not match the UID of the service"
            in (answer.body["message"])
        )
        assert answer.body["details"] == {
            "name": "robot",
            "group": "authentication.k8s.io",
            "kind": "TokenRequest",
        }

    async def test_another_name_is_refused(self, api: Api, account: str) -> None:
        """The name and namespace in the body must be those of the path, if they are there."""
        answer = await api.call("POST", f"{account}/token", {"metadata": {"name": "other"}})
        assert_refused(answer, 422, "Invalid")
        answer = await api.call("POST", f"{account}/token", {"metadata": {"namespace": "other"}})
        assert_refused(answer, 400, "BadRequest")

    async def test_a_missing_account_has_no_token(self, api: Api, account: str) -> None:
        """Without the ServiceAccount it is 404, which names it."""
        absent = account.replace("robot", "absent")
        answer = await api.call("POST", f"{absent}/token", {"spec": {}})
        assert_refused(answer, 404, "NotFound")
        assert answer.body["message"] == 'serviceaccounts "absent" not found'

    async def test_it_can_only_be_created(self, api: Api, account: str) -> None:
        """Tokens are made, not kept, so there is nothing to read."""
        answer = await api.call("GET", f"{account}/token")
        assert_refused(answer, 405, "MethodNotAllowed")


class TestUse:
    """What the API server makes of a token."""

    async def test_a_token_is_its_service_account(self, api: Api, account: str) -> None:
        """A caller with the token is the ServiceAccount, in its groups and with its uid."""
        token = await request_token(api, account)
        found = await api.create(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            token=token,
        )
        user = found["status"]["userInfo"]
        assert user["username"] == username(account)
        assert set(user["groups"]) == {
            "system:serviceaccounts",
            f"system:serviceaccounts:{account.split('/')[4]}",
            "system:authenticated",
        }
        assert user["uid"] == (await api.get(account))["metadata"]["uid"]

    async def test_a_token_for_another_audience_is_refused(self, api: Api, account: str) -> None:
        """A token that was made for someone else does not open the API."""
        token = await request_token(api, account, audiences=["elsewhere"])
        answer = await api.call("GET", "/version", token=token)
        assert_refused(answer, 401, "Unauthorized")

    @pytest.mark.parametrize("path", ["/version", "/api/v1/namespaces", "/apis"])
    async def test_an_unknown_token_is_refused_everywhere(self, api: Api, path: str) -> None:
        """A token that is not good is 401, even where none is needed, and the body says no more."""
        answer = await api.call("GET", path, token="unknown")
        assert answer.status == 401
        assert answer.body == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Unauthorized",
            "reason": "Unauthorized",
            "code": 401,
        }

    async def test_an_altered_token_is_refused(self, api: Api, account: str) -> None:
        """The signature is checked."""
        head, body, signature = (await request_token(api, account)).split(".")
        said = {**claims(f"{head}.{body}."), "sub": "system:serviceaccount:kube-system:other"}
        forged = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
        answer = await api.call("GET", "/version", token=f"{head}.{forged}.{signature}")
        assert_refused(answer, 401, "Unauthorized")

    async def test_no_token_is_anonymous(self, api: Api) -> None:
        """Without credentials a caller may see version and health, and is forbidden the rest."""
        for path in ("/version", "/healthz", "/readyz"):
            await api.get(path, token="")
        answer = await api.call("GET", "/api/v1/namespaces/default/configmaps", token="")
        assert_refused(answer, 403, "Forbidden")
        assert 'User "system:anonymous" cannot list resource "configmaps"' in answer.body["message"]

    async def test_a_token_ends_with_its_account(self, api: Api, account: str) -> None:
        """Once the ServiceAccount is deleted its tokens are refused, also when it is made again.

        A real server hears of the deletion a moment later, and remembers what it said of a token
        for some seconds: each token is used once only.
        """
        tokens = [await request_token(api, account) for _ in range(60)]
        await api.delete(account)

        async def is_refused() -> bool:
            answer = await api.call("GET", "/version", token=tokens.pop())
            return answer.status == 401 or len(tokens) <= 4

        await eventually(is_refused, "a token of the deleted account is refused")
        answer = await api.call("GET", "/version", token=tokens[0])
        assert_refused(answer, 401, "Unauthorized")
        assert "authenticated" not in await review(api, tokens[1])

        collection = account.rpartition("/")[0]
        await api.create(collection, {"metadata": {"name": "robot"}})
        answer = await api.call("GET", "/version", token=tokens[2])
        assert_refused(answer, 401, "Unauthorized")
        assert "authenticated" not in await review(api, tokens[3])


class TestTokenReview:
    """Reviews of tokens by someone who was shown them."""

    async def test_a_good_token_names_its_user(self, api: Api, account: str) -> None:
        """The review gives the user, uid, groups, the audiences and the credential's own id."""
        token = await request_token(api, account)
        status = await review(api, token)
        assert status["authenticated"] is True
        assert status["audiences"] == [_AUDIENCE]
        user = status["user"]
        assert user["username"] == username(account)
        assert user["uid"] == (await api.get(account))["metadata"]["uid"]
        assert set(user["groups"]) == {
            "system:serviceaccounts",
            f"system:serviceaccounts:{account.split('/')[4]}",
            "system:authenticated",
        }
        credential = user["extra"]["authentication.kubernetes.io/credential-id"]
        assert credential == [f"JTI={claims(token)['jti']}"]

    async def test_audiences_are_those_that_both_sides_name(self, api: Api, account: str) -> None:
        """Of the audiences asked for, the review gives those that the token has."""
        token = await request_token(api, account, audiences=["mine", "another"])
        status = await review(api, token, "mine", "yours")
        assert (status["authenticated"], status["audiences"]) == (True, ["mine"])

    @pytest.mark.parametrize(
        ("made_for", "asked_for"),
        [([], ["foreign"]), (["foreign"], [])],
        ids=["a token of the API", "a token of someone else"],
    )
    async def test_a_foreign_audience_is_not_authenticated(
        self, api: Api, account: str, made_for: list[str], asked_for: list[str]
    ) -> None:
        """A token for another audience than asked is as good as none."""
        spec = {"audiences": made_for} if made_for else {}
        status = await review(api, await request_token(api, account, **spec), *asked_for)
        assert "authenticated" not in status
        assert status["user"] == {}
        assert "is invalid for the target audiences" in status["error"]

    async def test_an_unknown_token_is_an_answer_and_no_error(self, api: Api) -> None:
        """The review itself succeeds, and says that the token does not."""
        status = await review(api, "unknown")
        assert status == {"user": {}, "error": "invalid bearer token"}

    async def test_a_review_without_a_token_is_refused(self, api: Api) -> None:
        """There must be something to review."""
        answer = await api.call("POST", _TOKEN_REVIEWS, {"spec": {}})
        assert_refused(answer, 400, "BadRequest")
        assert answer.body["message"] == "token is required for TokenReview in authentication"

    async def test_the_administrator_is_known_by_token(self, api: Api) -> None:
        """The administrator's token is a user in the group of masters."""
        status = await review(api, api.endpoint.admin_token)
        assert status["authenticated"] is True
        assert "system:masters" in status["user"]["groups"]

    async def test_reviewing_needs_a_right(self, api: Api, account: str) -> None:
        """Not everyone may have tokens reviewed."""
        token = await request_token(api, account)
        answer = await api.call("POST", _TOKEN_REVIEWS, {"spec": {"token": "x"}}, token=token)
        assert_refused(answer, 403, "Forbidden")
        assert answer.body["details"] == {"group": "authentication.k8s.io", "kind": "tokenreviews"}
