"""What can go wrong between the service and an API server, a class for each cause.

Every error carries a stable `reason` (for metrics, logs and tables of decisions) and a text for
people that names the thing, the rule and the mend. No text ever holds a token, a key or the body of
an object. What an HTTP status means is not decided here: an answer with any status is an answer,
not an error.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AccessError",
    "AnswerTooLargeError",
    "BodyCutError",
    "BodyIdleError",
    "ConnectTimedOutError",
    "ConnectionRefusedByServerError",
    "ConnectionResetByServerError",
    "CredentialsError",
    "DiscoveryUnreadableError",
    "ExecPluginFailedError",
    "NameNotResolvedError",
    "NotHttpError",
    "ProxyFailedError",
    "RedirectRefusedError",
    "RequestInvalidError",
    "ResponseTimedOutError",
    "ServerUnreachableError",
    "ServiceAccountNotFoundError",
    "StatusError",
    "TlsFailedError",
    "TokenFileUnreadableError",
    "TokenRequestFailedError",
    "TokenRequestForbiddenError",
    "TransportClosedError",
    "TransportError",
]


class AccessError(Exception):
    """Something between the service and one API server failed."""

    reason: ClassVar[str] = "access"


class RequestInvalidError(AccessError, ValueError):
    """A request cannot be built from what was asked: a name that would change the path, say."""

    reason = "request_invalid"


class TransportError(AccessError):
    """No whole answer came: the connection, TLS, the name or the time ran out.

    `cluster` and `server` say where to; the original exception is chained.
    """

    reason = "transport"

    def __init__(self, cluster: str, server: str, text: str) -> None:
        super().__init__(f"cluster {cluster} ({server}): {text}")
        self.cluster = cluster
        self.server = server


class ConnectionRefusedByServerError(TransportError):
    """Nothing listens at the address."""

    reason = "refused"


class ConnectionResetByServerError(TransportError):
    """The connection ended before the headers of the answer were complete."""

    reason = "reset"


class BodyCutError(TransportError):
    """The connection ended in the middle of the body: what was read is not the whole answer."""

    reason = "cut"


class BodyIdleError(TransportError):
    """Nothing arrived for longer than the idle limit: the peer may be gone without a word."""

    reason = "idle"


class NameNotResolvedError(TransportError):
    """The name of the server has no address."""

    reason = "dns"


class TlsFailedError(TransportError):
    """The TLS handshake failed: unknown CA, another name, expired or refused certificate."""

    reason = "tls"


class ConnectTimedOutError(TransportError):
    """No connection (TCP and TLS) within the limit."""

    reason = "connect_timeout"


class ResponseTimedOutError(TransportError):
    """Connected, but the headers of the answer did not come within the limit."""

    reason = "response_timeout"


class ServerUnreachableError(TransportError):
    """No way to the server: no route, network down, too many open files."""

    reason = "unreachable"


class ProxyFailedError(TransportError):
    """The proxy named in the kubeconfig refused or failed."""

    reason = "proxy"


class RedirectRefusedError(TransportError):
    """The server answered with a redirect; credentials are never carried to another address."""

    reason = "redirect"


class NotHttpError(TransportError):
    """What answered does not speak HTTP as an API server does."""

    reason = "not_http"


class AnswerTooLargeError(TransportError):
    """An answer that should be small is larger than its limit."""

    reason = "too_large"


class TransportClosedError(TransportError):
    """The connection was closed on this side: cluster removed, or answer let go of."""

    reason = "closed"


class StatusError(AccessError):
    """A one-off call (discovery, token, review) was answered with a status that is no success.

    `code` is the HTTP status, `status_reason` the reason of the Status body, empty where there was
    none.
    """

    reason = "status"

    def __init__(
        self,
        cluster: str,
        action: str,
        *,
        code: int,
        status_reason: str = "",
        text: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        said = text or status_reason or "no explanation"
        super().__init__(f"cluster {cluster}: {action}: the API server answered {code}: {said}")
        self.cluster = cluster
        self.action = action
        self.code = code
        self.status_reason = status_reason
        self.text = text
        self.retry_after_seconds = retry_after_seconds


class DiscoveryUnreadableError(AccessError):
    """A part of discovery cannot be read now, so whether something is served cannot be told."""

    reason = "discovery_unreadable"

    def __init__(self, cluster: str, part: str, problem: str) -> None:
        super().__init__(f"cluster {cluster}: discovery of {part} cannot be read: {problem}")
        self.cluster = cluster
        self.part = part


class CredentialsError(AccessError):
    """No credentials can be had for a request, so it was not sent.

    The reasons of these are shown to clients as the reason of an informer.
    """

    reason = "CREDENTIALS_UNAVAILABLE"


class TokenFileUnreadableError(CredentialsError):
    """A token file is missing, unreadable or empty, and none was read before."""

    reason = "TOKEN_FILE_UNREADABLE"


class ExecPluginFailedError(CredentialsError):
    """A credential plugin of a kubeconfig failed, hung or answered nonsense."""

    reason = "EXEC_PLUGIN_FAILED"


class ServiceAccountNotFoundError(CredentialsError):
    """The ServiceAccount does not exist, so no token can be had for it."""

    reason = "SERVICE_ACCOUNT_NOT_FOUND"

    def __init__(self, cluster: str, namespace: str, name: str) -> None:
        super().__init__(
            f"cluster {cluster}: serviceaccount {namespace}/{name} does not exist; "
            "create it, or name another"
        )
        self.cluster = cluster
        self.namespace = namespace
        self.name = name


class TokenRequestForbiddenError(CredentialsError):
    """The service may not ask for a token of this ServiceAccount."""

    reason = "TOKEN_REQUEST_FORBIDDEN"

    def __init__(self, cluster: str, namespace: str, name: str, text: str) -> None:
        super().__init__(
            f"cluster {cluster}: the service may not request a token for serviceaccount "
            f"{namespace}/{name}; grant it create on serviceaccounts/token named {name} in "
            f"namespace {namespace} ({text})"
        )
        self.cluster = cluster
        self.namespace = namespace
        self.name = name


class TokenRequestFailedError(CredentialsError):
    """A token was asked for and did not come; it is asked for again later."""

    reason = "TOKEN_REQUEST_FAILED"

    def __init__(self, cluster: str, namespace: str, name: str, text: str) -> None:
        super().__init__(
            f"cluster {cluster}: no token for serviceaccount {namespace}/{name}: {text}"
        )
        self.cluster = cluster
        self.namespace = namespace
        self.name = name
