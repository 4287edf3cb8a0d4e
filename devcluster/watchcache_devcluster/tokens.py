"""ServiceAccount tokens: signing, checking, refusing; and the admin token.

Tokens are JWTs signed with ES256 by a key that lives as long as the cluster object. The cluster
remembers every token that it issued, so one is known by its text, which is as good as checking its
signature. It is good while its audience and its times are, its ServiceAccount exists with the same
uid, and nobody has ordered it refused (`refuse`, the token-expiry fault).
"""

from __future__ import annotations

import base64
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from watchcache_devcluster.storage import Record, Storage

__all__ = ["ADMIN_GROUP", "ISSUER", "Tokens", "User"]

ISSUER = "https://kubernetes.default.svc"
ADMIN_GROUP = "system:masters"
_LEEWAY_SECONDS = 60
_ALGORITHM = ec.ECDSA(hashes.SHA256())
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class User:
    """Who makes a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = field(default_factory=dict, compare=False, hash=False)

    def to_info(self) -> dict[str, Any]:
        """Return the `UserInfo` of reviews."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = self.extra
        return info


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


def service_account_user(namespace: str, name: str, uid: str = "") -> User:
    """Return the user that a ServiceAccount is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", uid, (*groups, "system:authenticated"))


class Tokens:
    """Makes and checks bearer tokens."""

    def __init__(self, storage: Storage, clock: Callable[[], float], admin_token: str) -> None:
        self._storage = storage
        self._clock = clock
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._key_id = secrets.token_urlsafe(16)
        self._issued: dict[str, dict[str, Any]] = {}
        self._refused: set[str] = set()
        self.admin_token = admin_token

    def issue(
        self,
        account: Record,
        lifetime_seconds: int,
        audiences: list[str],
        bound: dict[str, Any] | None = None,
    ) -> tuple[str, float]:
        """Sign a token for a ServiceAccount; return it and the time at which it expires."""
        now = self._clock()
        uid = account.decode()["metadata"]["uid"]
        private = {
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": uid},
            **(bound or {}),
        }
        claims: dict[str, Any] = {
            "aud": audiences,
            "exp": int(now) + lifetime_seconds,
            "iat": int(now),
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": int(now),
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        header = {"alg": "ES256", "kid": self._key_id, "typ": "JWT"}
        signed = b".".join(_base64(msgspec.json.encode(part)) for part in (header, claims))
        numbers = decode_dss_signature(self._key.sign(signed, _ALGORITHM))
        signature = b"".join(number.to_bytes(32) for number in numbers)
        token = f"{signed.decode()}.{_base64(signature).decode()}"
        self._issued[token] = claims
        return token, now + lifetime_seconds

    def refuse(self, namespace: str, name: str) -> None:
        """Refuse from now on every token issued to this ServiceAccount so far."""
        for claims in self._issued.values():
            private = claims["kubernetes.io"]
            if (private["namespace"], private["serviceaccount"]["name"]) == (namespace, name):
                self._refused.add(claims["jti"])

    def authenticate(self, token: str, audiences: list[str] | None = None) -> User | None:
        """Return whose token this is, or None if it is not (or no longer) good."""
        user, _ = self.review(token, audiences or [ISSUER])
        return user

    def review(self, token: str, audiences: list[str]) -> tuple[User | None, list[str]]:
        """Return whose token this is and for which of these audiences it is good."""
        if secrets.compare_digest(token.encode(), self.admin_token.encode()):
            return User("admin", "admin-uid", (ADMIN_GROUP, "system:authenticated")), audiences
        claims = self._issued.get(token)
        if claims is None:
            return None, []
        common = [audience for audience in audiences if audience in claims["aud"]]
        now = self._clock()
        is_timely = claims["nbf"] - _LEEWAY_SECONDS <= now <= claims["exp"] + _LEEWAY_SECONDS
        if not common or not is_timely or claims["jti"] in self._refused:
            return None, []
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        if not self._exists("serviceaccounts", (namespace, account["name"]), account["uid"]):
            return None, []
        extra = {_CREDENTIAL_ID: [f"JTI={claims['jti']}"]}
        for kind, home in (("node", ""), ("pod", namespace), ("secret", namespace)):
            bound = private.get(kind)
            if bound and not self._exists(f"{kind}s", (home, bound["name"]), bound["uid"]):
                return None, []
        if private.get("pod"):
            extra["authentication.kubernetes.io/pod-name"] = [private["pod"]["name"]]
            extra["authentication.kubernetes.io/pod-uid"] = [private["pod"]["uid"]]
        user = service_account_user(namespace, account["name"], account["uid"])
        return User(user.name, user.uid, user.groups, extra), common

    def foreign_audiences(self, token: str, audiences: list[str]) -> list[str]:
        """Return the audiences of a token of ours that is good for none of these, else nothing."""
        claims = self._issued.get(token)
        if claims is None or any(audience in claims["aud"] for audience in audiences):
            return []
        foreign: list[str] = claims["aud"]
        return foreign

    def _exists(self, table: str, key: tuple[str, str], uid: str) -> bool:
        record = self._storage.table(table).get(key)
        return record is not None and record.decode()["metadata"]["uid"] == uid


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
