"""Rules of ServiceAccounts' tokens, against a server that grants them and a clock that is moved."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from aiohttp import web

from tests.unit.kubernetes.api_double import ApiDouble
from tests.unit.kubernetes.clock import Clock, Recorder
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.credentials import StaticToken
from watchcache_server.kubernetes.errors import (
    ServiceAccountNotFoundError,
    TokenRequestFailedError,
    TokenRequestForbiddenError,
)
from watchcache_server.kubernetes.tokens import ServiceAccountCredentials, ServiceAccountTokens

PATH = "/api/v1/namespaces/team-a/serviceaccounts/shop/token"


class Issuer:
    """Answers TokenRequests with t1, t2, ... and remembers what was asked for."""

    def __init__(self, api: ApiDouble) -> None:
        self.issued = 0
        self.asked_seconds: list[int] = []
        self.uid = "uid-1"
        self.granted_seconds = 3600
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_asked = asyncio.Event()
        self._api = api
        self.work()

    def work(self) -> None:
        """Answer from now on."""
        self._api.routes[PATH] = self._issue

    def hold(self) -> None:
        """Let answers wait from now on, until `may_answer`; `is_asked` tells of the first one."""
        self.may_answer.clear()
        self.is_asked.clear()

    def fail(self, code: int, message: str = "no", **headers: str) -> None:
        """Refuse from now on."""
        body = {"kind": "Status", "code": code, "message": message}
        self._api.answer(PATH, body, status=code, **headers)

    def token(self, number: int) -> str:
        """Return the number-th token."""
        claims = {"kubernetes.io": {"serviceaccount": {"uid": self.uid}}}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        return f"t{number}.{payload}.s"

    async def _issue(self, request: web.Request) -> web.StreamResponse:
        self.is_asked.set()
        await self.may_answer.wait()
        self.issued += 1
        self.asked_seconds.append((await request.json())["spec"]["expirationSeconds"])
        body = {
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": self.granted_seconds},
            "status": {"token": self.token(self.issued)},
        }
        return web.json_response(body, status=201)


@pytest.fixture
def clock() -> Clock:
    """Give the time."""
    return Clock()


@pytest.fixture
def recorder() -> Recorder:
    """Give a reporter."""
    return Recorder()


@pytest.fixture
def issuer(api: ApiDouble) -> Issuer:
    """Give the issuer of tokens behind the server."""
    return Issuer(api)


@pytest.fixture
def tokens(
    api: ApiDouble, issuer: Issuer, clock: Clock, recorder: Recorder
) -> ServiceAccountTokens:
    """Give the tokens of a cluster, asked for as the service itself."""
    own = ApiAccess(api.transport(), StaticToken("own"), identity="the service")
    return ServiceAccountTokens(own, clock=clock, jitter=lambda: 0.0, reporter=recorder)


@pytest.fixture
def shop(tokens: ServiceAccountTokens) -> ServiceAccountCredentials:
    """Give the credentials of team-a/shop."""
    return tokens.acquire("team-a", "shop")


def header(issuer: Issuer, number: int) -> str:
    """Return the header with the number-th token."""
    return f"Bearer {issuer.token(number)}"


async def test_the_first_use_asks_and_the_next_ones_do_not(
    shop: ServiceAccountCredentials, issuer: Issuer, api: ApiDouble
) -> None:
    """One token serves until it is due; it is asked for as the service itself."""
    for _ in range(3):
        assert await shop.authorization() == header(issuer, 1)
    assert issuer.asked_seconds == [3600]
    assert api.requests[0].headers["Authorization"] == "Bearer own"
    assert shop.uid == "uid-1"


async def test_the_token_request_names_no_audience(
    shop: ServiceAccountCredentials, api: ApiDouble, issuer: Issuer
) -> None:
    """A token for another audience than the API server's own would be refused by it."""
    bodies: list[dict[str, object]] = []
    issue = api.routes[PATH]

    async def spy(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        return await issue(request)

    api.routes[PATH] = spy
    await shop.authorization()
    assert bodies == [
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
    ]


async def test_many_who_ask_at_once_cause_one_request(
    shop: ServiceAccountCredentials, issuer: Issuer
) -> None:
    """A thousand informers of one identity start with one TokenRequest."""
    issuer.hold()
    waiting = [asyncio.create_task(shop.authorization()) for _ in range(50)]
    await issuer.is_asked.wait()
    issuer.may_answer.set()
    assert set(await asyncio.gather(*waiting)) == {header(issuer, 1)}
    assert issuer.issued == 1


async def test_extensions_of_one_account_share_its_token(
    tokens: ServiceAccountTokens, issuer: Issuer
) -> None:
    """Credentials are counted by holder and shared by identity."""
    first, second = tokens.acquire("team-a", "shop"), tokens.acquire("team-a", "shop")
    assert first is second
    assert tokens.acquire("team-b", "shop") is not first
    await first.authorization()
    await second.authorization()
    assert issuer.issued == 1


async def test_the_last_holder_takes_the_token_along(
    tokens: ServiceAccountTokens, issuer: Issuer
) -> None:
    """Nothing of a ServiceAccount is kept once no extension uses it."""
    first, second = tokens.acquire("team-a", "shop"), tokens.acquire("team-a", "shop")
    await first.authorization()
    first.release()
    assert len(tokens) == 1
    assert await second.authorization() == header(issuer, 1)
    second.release()
    assert len(tokens) == 0
    assert second.expires_in_seconds is None
    assert await tokens.acquire("team-a", "shop").authorization() == header(issuer, 2)


async def test_a_due_renewal_is_done_by_one_and_waited_for_by_none(
    shop: ServiceAccountCredentials, issuer: Issuer, clock: Clock
) -> None:
    """While one caller renews, the others go on with the old token, which is still good."""
    await shop.authorization()
    clock.advance(0.8 * 3600)
    issuer.hold()
    renewing = asyncio.create_task(shop.authorization())
    await issuer.is_asked.wait()
    assert await shop.authorization() == header(issuer, 1)
    issuer.may_answer.set()
    assert await renewing == header(issuer, 2)
    assert await shop.authorization() == header(issuer, 2)
    assert issuer.issued == 2


async def test_the_granted_life_counts_not_the_requested_one(
    shop: ServiceAccountCredentials, issuer: Issuer, clock: Clock
) -> None:
    """A server that grants ten minutes instead of an hour is asked again after eight."""
    issuer.granted_seconds = 600
    await shop.authorization()
    assert shop.expires_in_seconds == 600
    assert shop.refresh_in_seconds == 480
    clock.advance(480)
    assert await shop.authorization() == header(issuer, 2)


async def test_the_old_token_is_kept_while_renewals_fail(
    shop: ServiceAccountCredentials, issuer: Issuer, clock: Clock, recorder: Recorder
) -> None:
    """An outage of the token endpoint is nobody's outage before the token ends."""
    await shop.authorization()
    issuer.fail(503, "not now")
    clock.advance(0.8 * 3600)
    assert await shop.authorization() == header(issuer, 1)
    assert isinstance(shop.error, TokenRequestFailedError)
    assert ("failed", "shop", "TOKEN_REQUEST_FAILED") in recorder.heard
    clock.advance(0.2 * 3600)
    with pytest.raises(TokenRequestFailedError, match="not now"):
        await shop.authorization()
    issuer.work()
    clock.advance(15)
    assert await shop.authorization() == header(issuer, 2)
    assert shop.error is None


REFUSALS: dict[str, tuple[int, type[Exception], str]] = {
    "gone": (404, ServiceAccountNotFoundError, "team-a/shop does not exist; create it"),
    "forbidden": (
        403,
        TokenRequestForbiddenError,
        "grant it create on serviceaccounts/token named shop in namespace team-a",
    ),
    "overloaded": (429, TokenRequestFailedError, "429"),
    "broken": (500, TokenRequestFailedError, "500"),
    "invalid": (422, TokenRequestFailedError, "422"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_a_refusal_is_typed_and_not_asked_for_again_at_once(
    shop: ServiceAccountCredentials,
    issuer: Issuer,
    api: ApiDouble,
    clock: Clock,
    case: str,
) -> None:
    """A deleted or forbidden account costs one request now and then, not one for each API call."""
    code, kind, text = REFUSALS[case]
    issuer.fail(code)
    for _ in range(20):
        with pytest.raises(kind, match=text):
            await shop.authorization()
    assert api.asked(PATH) == 1
    clock.advance(15)
    with pytest.raises(kind):
        await shop.authorization()
    assert api.asked(PATH) == 2


async def test_retry_after_is_obeyed(
    shop: ServiceAccountCredentials, issuer: Issuer, api: ApiDouble, clock: Clock
) -> None:
    """A server that is overloaded says when to come back."""
    issuer.fail(429, Retry_After="60")
    with pytest.raises(TokenRequestFailedError):
        await shop.authorization()
    clock.advance(59)
    with pytest.raises(TokenRequestFailedError):
        await shop.authorization()
    assert api.asked(PATH) == 1


async def test_a_malformed_answer_is_a_failure(
    shop: ServiceAccountCredentials, api: ApiDouble
) -> None:
    """A captive portal that answers 200 with HTML gives no token."""
    api.answer(PATH, "<html>", status=201)
    with pytest.raises(TokenRequestFailedError, match="malformed"):
        await shop.authorization()


async def test_a_server_that_is_down_is_a_failure_with_its_cause(api: ApiDouble) -> None:
    """The transport's error is chained."""
    own = ApiAccess(api.transport(url="https://127.0.0.1:1"), StaticToken("own"), identity="me")
    shop = ServiceAccountTokens(own).acquire("team-a", "shop")
    with pytest.raises(TokenRequestFailedError, match="connection refused"):
        await shop.authorization()


async def test_after_a_401_one_new_token_serves_all(
    shop: ServiceAccountCredentials, issuer: Issuer, clock: Clock
) -> None:
    """Streams that were refused together share one refresh; a late one finds the new token."""
    rejected = await shop.authorization()
    clock.advance(60)
    await asyncio.gather(*(shop.refresh(rejected) for _ in range(10)))
    await shop.refresh(rejected)
    assert issuer.issued == 2
    assert await shop.authorization() == header(issuer, 2)


async def test_a_very_young_token_is_not_replaced(
    shop: ServiceAccountCredentials, issuer: Issuer, clock: Clock
) -> None:
    """A lagging API server refuses it; another token would be refused as well."""
    rejected = await shop.authorization()
    clock.advance(5)
    await shop.refresh(rejected)
    assert issuer.issued == 1


async def test_a_deleted_account_shows_on_refresh(
    shop: ServiceAccountCredentials, issuer: Issuer, clock: Clock
) -> None:
    """A 401 because the account is gone ends as that, and the dead token is used no more."""
    rejected = await shop.authorization()
    clock.advance(60)
    issuer.fail(404)
    with pytest.raises(ServiceAccountNotFoundError):
        await shop.refresh(rejected)
    with pytest.raises(ServiceAccountNotFoundError):
        await shop.authorization()


async def test_a_recreated_account_is_told_by_its_uid(
    shop: ServiceAccountCredentials, issuer: Issuer, clock: Clock, recorder: Recorder
) -> None:
    """The same name with another uid is another account."""
    rejected = await shop.authorization()
    clock.advance(60)
    await shop.refresh(rejected)
    assert shop.recreations == 0
    issuer.uid = "uid-2"
    clock.advance(60)
    await shop.refresh(await shop.authorization())
    assert (shop.uid, shop.recreations) == ("uid-2", 1)
    assert ("recreated", "shop") in recorder.heard


async def test_a_caller_that_leaves_does_not_take_the_request_along(
    shop: ServiceAccountCredentials, issuer: Issuer
) -> None:
    """Deregistering one extension does not fail another of the same account."""
    issuer.hold()
    leaving = asyncio.create_task(shop.authorization())
    staying = asyncio.create_task(shop.authorization())
    await issuer.is_asked.wait()
    leaving.cancel()
    await asyncio.sleep(0)
    issuer.may_answer.set()
    assert await staying == header(issuer, issuer.issued)


async def test_tokens_are_never_shown(
    shop: ServiceAccountCredentials, issuer: Issuer, recorder: Recorder
) -> None:
    """Neither repr nor reports hold a token."""
    await shop.authorization()
    shown = repr(shop) + repr(recorder.heard) + shop.identity
    assert issuer.token(1) not in shown
    assert "serviceaccount team-a/shop" in shown


async def test_the_skew_of_the_clocks_is_told(
    shop: ServiceAccountCredentials, recorder: Recorder
) -> None:
    """The operator learns of a clock that is off before tokens fail because of it."""
    await shop.authorization()
    assert [what for what in recorder.heard if what[0] == "skew"] == [("skew", 0.0)]


@pytest.mark.parametrize("seconds", [0, 599])
async def test_a_lifetime_under_the_least_is_refused(
    tokens: ServiceAccountTokens, seconds: int
) -> None:
    """The API server would refuse each request for it."""
    with pytest.raises(ValueError, match="grants no less than 600 s"):
        ServiceAccountTokens(tokens.access, lifetime_seconds=seconds)


async def test_only_a_token_that_takes_the_place_of_another_is_a_rotation(
    shop: ServiceAccountCredentials, clock: Clock, recorder: Recorder
) -> None:
    """The first token is none."""
    await shop.authorization()
    assert ("rotated", "shop") not in recorder.heard
    clock.advance(0.9 * 3600)
    await shop.authorization()
    assert recorder.heard.count(("rotated", "shop")) == 1
    assert len([told for told in recorder.heard if told[0] == "issued"]) == 2
