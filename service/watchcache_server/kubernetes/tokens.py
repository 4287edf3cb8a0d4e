"""Tokens of ServiceAccounts, by TokenRequest: one identity, one token, shared by all who use it.

    tokens = ServiceAccountTokens(own_access)              # one for each cluster
    credentials = tokens.acquire("team-a", "shop")         # counted; shared while anyone holds it
    access = ApiAccess(bare_transport, credentials, identity=credentials.identity)
    ...
    credentials.release()

A token is renewed by the first request that finds it due (`token_schedule`), not by a timer: every
running informer opens its watch again within a minute, and a renewal falls due at least two minutes
before the end, so a used token is always renewed in time, an unused one costs nothing, and there is
no task to own or leak. While one caller renews, the others go on with the old token. Tokens have no
audience of their own (another one would be refused by the API server) and are never shown. A
recreated ServiceAccount is told by the uid in its token. Lives are measured on the monotonic clock;
the wall clock is only compared, for the operator.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import msgspec

from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.credentials import bearer
from watchcache_server.kubernetes.errors import (
    AccessError,
    CredentialsError,
    ServiceAccountNotFoundError,
    StatusError,
    TokenRequestFailedError,
    TokenRequestForbiddenError,
)
from watchcache_server.kubernetes.flight import SingleFlight
from watchcache_server.kubernetes.granted import (
    GrantedToken,
    TokenAnswerError,
    clock_skew_seconds,
    read_token_answer,
)
from watchcache_server.kubernetes.reporting import SILENT, AccessReporter
from watchcache_server.kubernetes.requests import Request, resource_path
from watchcache_server.kubernetes.token_schedule import MIN_LIFETIME_SECONDS, Step, TokenSchedule

__all__ = ["ServiceAccountCredentials", "ServiceAccountTokens"]


class ServiceAccountTokens:
    """The ServiceAccounts in use at one cluster."""

    def __init__(
        self,
        access: ApiAccess,
        *,
        lifetime_seconds: int = 3600,
        answer_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
        reporter: AccessReporter = SILENT,
    ) -> None:
        """Ask for tokens with `access`, the service's own identity, for `lifetime_seconds`."""
        if lifetime_seconds < MIN_LIFETIME_SECONDS:
            raise ValueError(
                f"a token lifetime of {lifetime_seconds} s is too short: "
                f"an API server grants no less than {MIN_LIFETIME_SECONDS:g} s"
            )
        self.access = access
        self.lifetime_seconds = lifetime_seconds
        self.answer_seconds = answer_seconds
        self.clock = clock
        self.wall_clock = wall_clock
        self.jitter = jitter
        self.reporter = reporter
        self._in_use: dict[tuple[str, str], ServiceAccountCredentials] = {}

    def __len__(self) -> int:
        return len(self._in_use)

    def acquire(self, namespace: str, name: str) -> ServiceAccountCredentials:
        """Return the credentials of a ServiceAccount; call their `release` when done with them."""
        key = (namespace, name)
        credentials = self._in_use.get(key)
        if credentials is None:
            credentials = self._in_use[key] = ServiceAccountCredentials(self, namespace, name)
        credentials.holders += 1
        return credentials

    def forget(self, credentials: ServiceAccountCredentials) -> None:
        """Drop credentials that nobody holds; called by them."""
        key = (credentials.namespace, credentials.name)
        if self._in_use.get(key) is credentials:
            del self._in_use[key]


class ServiceAccountCredentials:
    """The token of one ServiceAccount: `Credentials` for all its informers."""

    def __init__(self, tokens: ServiceAccountTokens, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self.holders = 0
        #: uid of the account that the token at hand stands for; empty before the first.
        self.uid = ""
        #: How often the account was found to be another one under the same name.
        self.recreations = 0
        self._tokens = tokens
        self._schedule = TokenSchedule()
        self._flight: SingleFlight[None] = SingleFlight()
        self._header: str | None = None
        self._error: CredentialsError | None = None

    def __repr__(self) -> str:
        return f"<ServiceAccountCredentials {self.namespace}/{self.name} in {self.cluster}>"

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._tokens.access.cluster

    @property
    def identity(self) -> str:
        """Who this is, for people."""
        return f"serviceaccount {self.namespace}/{self.name}"

    @property
    def expires_in_seconds(self) -> float | None:
        """What is left of the life of the token at hand; None when there is none."""
        left = self._schedule.expires_at - self._tokens.clock()
        return left if left > 0 else None

    @property
    def refresh_in_seconds(self) -> float | None:
        """How soon a use of the token will renew it; None when there is none."""
        if self.expires_in_seconds is None:
            return None
        return max(0.0, self._schedule.renew_at - self._tokens.clock())

    @property
    def error(self) -> CredentialsError | None:
        """Why the last attempt to get a token failed; None when it did not."""
        return self._error

    def release(self) -> None:
        """Let go of these credentials; with the last holder the token is forgotten."""
        self.holders -= 1
        if self.holders <= 0:
            self._header = None
            self._schedule = TokenSchedule()
            self._tokens.forget(self)

    async def authorization(self) -> str | None:
        """Return the header with a good token, asking for one where due.

        Raises ServiceAccountNotFoundError, TokenRequestForbiddenError or TokenRequestFailedError
        when there is none.
        """
        match self._schedule.step(self._tokens.clock()):
            case Step.USE:
                return self._header
            case Step.RENEW:
                if not self._flight.is_running:
                    await self._renew()
                return self._header
            case Step.REQUEST:
                await self._flight.run(self._request)
                return self._header
            case Step.REFUSE:
                assert self._error is not None
                raise self._error

    async def refresh(self, rejected: str | None) -> None:
        """Get another token because `rejected` was refused; a very young one is kept."""
        if rejected == self._header and self._schedule.rejected(self._tokens.clock()):
            await self.authorization()

    async def _renew(self) -> None:
        try:
            await self._flight.run(self._request)
        except CredentialsError:
            # Noted in `error`, and reported; the token at hand is good for some time yet.
            return

    async def _request(self) -> None:
        requested_at = self._tokens.clock()
        try:
            answer = await self._tokens.access.call(self._token_request())
            granted = self._granted(answer)
        except AccessError as error:
            told = self._explain(error)
            self._note_failure(told, error)
            raise told from error
        self._take(granted, requested_at)
        self._compare_clocks(answer)

    def _token_request(self) -> Request:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": self._tokens.lifetime_seconds},
        }
        return Request(
            method="POST",
            path=resource_path(
                "",
                "v1",
                "serviceaccounts",
                namespace=self.namespace,
                name=self.name,
                subresource="token",
            ),
            body=msgspec.json.encode(body),
            response_seconds=self._tokens.answer_seconds,
            idle_seconds=self._tokens.answer_seconds,
        )

    def _granted(self, answer: Answer) -> GrantedToken:
        if not answer.is_success:
            raise answer.error(self.cluster, f"requesting a token for {self.identity}")
        try:
            return read_token_answer(answer.body, answer.headers.get("Date"))
        except TokenAnswerError as error:
            raise TokenRequestFailedError(
                self.cluster, self.namespace, self.name, str(error)
            ) from error

    def _explain(self, error: AccessError) -> CredentialsError:
        place = (self.cluster, self.namespace, self.name)
        match error:
            case CredentialsError():
                return error
            case StatusError(code=404):
                return ServiceAccountNotFoundError(*place)
            case StatusError(code=403):
                return TokenRequestForbiddenError(*place, error.text)
            case _:
                return TokenRequestFailedError(*place, str(error))

    def _note_failure(self, told: CredentialsError, error: AccessError) -> None:
        self._error = told
        wait = error.retry_after_seconds if isinstance(error, StatusError) else None
        self._schedule.failed(
            self._tokens.clock(), jitter=self._tokens.jitter(), retry_after_seconds=wait or 0.0
        )
        self._tokens.reporter.token_failed(self.cluster, self.namespace, self.name, told.reason)

    def _take(self, granted: GrantedToken, requested_at: float) -> None:
        self._schedule.issued(requested_at, granted.lifetime_seconds, jitter=self._tokens.jitter())
        is_rotation = self._header is not None
        self._header = bearer(granted.token)
        self._error = None
        reporter = self._tokens.reporter
        reporter.token_issued(self.cluster, self.namespace, self.name, granted.lifetime_seconds)
        if is_rotation:
            reporter.token_rotated(self.cluster, self.namespace, self.name)
        if self.uid and granted.uid and granted.uid != self.uid:
            self.recreations += 1
            reporter.service_account_recreated(self.cluster, self.namespace, self.name)
        self.uid = granted.uid or self.uid

    def _compare_clocks(self, answer: Answer) -> None:
        skew_seconds = clock_skew_seconds(answer.headers.get("Date"), self._tokens.wall_clock())
        if skew_seconds is not None:
            self._tokens.reporter.clock_skew_measured(self.cluster, skew_seconds)
