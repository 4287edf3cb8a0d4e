"""Who makes a request: bearer tokens, client certificates, impersonation, or nobody.

A wrong token is 401; no credentials at all is the anonymous user, whom the authorizer then refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchcache_devcluster import errors
from watchcache_devcluster.rbac import Authorizer, Question
from watchcache_devcluster.tokens import ANONYMOUS, Tokens, User, service_account_user

__all__ = ["Authenticator"]

_ACCOUNT = "system:serviceaccount:"


class Authenticator:
    """Finds the user of a request."""

    def __init__(self, tokens: Tokens, authorizer: Authorizer) -> None:
        self._tokens = tokens
        self._authorizer = authorizer

    def identify(self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None) -> User:
        """Return who sent these headers over a connection with this client certificate.

        Raises:
            ApiError: 401 for a bad token, 403 for an impersonation that is not allowed.
        """
        user = self._caller(headers.get("Authorization", ""), certificate)
        impersonated = headers.get("Impersonate-User")
        if not impersonated:
            return user
        return self._impersonate(user, impersonated, headers)

    def _caller(self, header: str, certificate: Mapping[str, Any] | None) -> User:
        scheme, _, token = header.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            user = self._tokens.authenticate(token.strip())
            if user is None:
                raise errors.unauthorized()
            return user
        if certificate:
            return _user_of_certificate(certificate)
        return ANONYMOUS

    def _impersonate(self, caller: User, name: str, headers: Mapping[str, str]) -> User:
        groups: tuple[str, ...] = ()
        question = Question(verb="impersonate", resource="users", name=name)
        if name.startswith(_ACCOUNT):
            namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
            question = Question(
                verb="impersonate", resource="serviceaccounts", namespace=namespace, name=account
            )
            groups = service_account_user(namespace, account).groups
        questions = [question]
        get_all = getattr(headers, "getall", None)
        asked = get_all("Impersonate-Group", []) if get_all is not None else []
        if asked:
            groups = (*asked, "system:authenticated")
            questions += [
                Question(verb="impersonate", resource="groups", name=group) for group in asked
            ]
        for wanted in questions:
            if not self._authorizer.allows(caller, wanted):
                raise self._authorizer.why_not(caller, wanted)
        return User(name, groups=groups or ("system:authenticated",))


def _user_of_certificate(certificate: Mapping[str, Any]) -> User:
    name = ""
    groups = []
    for relative_names in certificate.get("subject", ()):
        for key, value in relative_names:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, groups=(*groups, "system:authenticated"))
