"""Questions that are asked by creating an object that nobody keeps: tokens and access reviews.

TokenRequest, TokenReview, SelfSubjectReview and the four access reviews. Each function takes the
body of the request and returns the body of the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from watchcache_devcluster import errors
from watchcache_devcluster.commits import timestamp
from watchcache_devcluster.errors import field_invalid
from watchcache_devcluster.intake import to_storage_form
from watchcache_devcluster.rbac import Authorizer, Question
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.storage import Record, Storage
from watchcache_devcluster.tokens import ISSUER, Tokens, User
from watchcache_devcluster.writer import place

__all__ = ["Reviews"]

Tree = dict[str, Any]
_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_LEAST_SECONDS = 600
_MOST_SECONDS = 1 << 32
_RESOURCE_FIELDS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")

TOKEN_REQUEST = Resource(_AUTHENTICATION, "v1", "tokenrequests", "TokenRequest", namespaced=True)


class Reviews:
    """Answers reviews and token requests."""

    def __init__(
        self,
        storage: Storage,
        tokens: Tokens,
        authorizer: Authorizer,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._storage = storage
        self._tokens = tokens
        self._authorizer = authorizer
        self._clock = clock

    def request_token(self, namespace: str, name: str, body: Any) -> Tree:
        """Answer a TokenRequest for a ServiceAccount.

        Raises:
            ApiError: 404 without the ServiceAccount, 409 if it is not the one meant by uid, 422 for
                a lifetime out of bounds.
        """
        body = _checked(TOKEN_REQUEST, body)
        metadata = body["metadata"]
        place(TOKEN_REQUEST, namespace, metadata)
        if metadata.get("name", name) != name:
            rule = "must match the service account name if specified"
            cause = field_invalid("metadata.name", rule, value=f'"{metadata["name"]}"')
            raise errors.invalid(_AUTHENTICATION, "TokenRequest", name, [cause])
        account = self._find("", "serviceaccounts", namespace, name)
        uid = account.decode()["metadata"]["uid"]
        stated = metadata.get("uid")
        if stated and stated != uid:
            raise errors.conflict(
                _AUTHENTICATION,
                "TokenRequest",
                name,
                f"the UID in the token request ({stated}) does not match the UID of the service"
                f" account ({uid})",
            )
        spec = dict(body.get("spec") or {})
        audiences = list(spec.get("audiences") or [ISSUER])
        lifetime = spec.get("expirationSeconds")
        lifetime = 3600 if lifetime is None else lifetime
        self._check_lifetime(lifetime)
        bound = self._bound(namespace, name, spec.get("boundObjectRef"))
        now = self._clock()
        token, expires = self._tokens.issue(account, lifetime, audiences, bound)
        answered: Tree = {"audiences": audiences, "expirationSeconds": lifetime}
        answered["boundObjectRef"] = spec.get("boundObjectRef")
        return {
            "kind": "TokenRequest",
            "apiVersion": f"{_AUTHENTICATION}/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "creationTimestamp": timestamp(now),
            },
            "spec": answered,
            "status": {"token": token, "expirationTimestamp": timestamp(expires)},
        }

    def _check_lifetime(self, lifetime: int) -> None:
        rule = ""
        if lifetime < _LEAST_SECONDS:
            rule = "may not specify a duration less than 10 minutes"
        elif lifetime > _MOST_SECONDS:
            rule = "may not specify a duration larger than 2^32 seconds"
        if rule:
            cause = field_invalid("spec.expirationSeconds", rule, value=str(lifetime))
            raise errors.invalid(_AUTHENTICATION, "TokenRequest", "", [cause])

    def _find(self, group: str, plural: str, namespace: str, name: str) -> Record:
        record = self._storage.table(errors.qualified(plural, group)).get((namespace, name))
        if record is None:
            raise errors.not_found(group, plural, name)
        return record

    def _bound(self, namespace: str, account: str, reference: Tree | None) -> Tree | None:
        if not reference:
            return None
        kind, name = str(reference.get("kind")), str(reference.get("name"))
        if kind not in {"Node", "Pod", "Secret"} or reference.get("apiVersion", "v1") != "v1":
            raise errors.bad_request(
                f"cannot bind token to object of type {reference.get('apiVersion')}, Kind={kind}"
            )
        home = "" if kind == "Node" else namespace
        tree = self._find("", f"{kind.lower()}s", home, name).decode()
        uid = tree["metadata"]["uid"]
        if kind == "Pod" and (tree.get("spec") or {}).get("serviceAccountName") != account:
            raise errors.bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different'
                " serviceaccount name."
            )
        if reference.get("uid") and reference["uid"] != uid:
            raise errors.conflict(
                "",
                kind,
                name,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID"
                " in record. The object might have been deleted and then recreated",
            )
        return {kind.lower(): {"name": name, "uid": uid}}

    def review(self, resource: Resource, namespace: str, body: Any, user: User) -> Tree:
        """Answer a review of any other kind."""
        body = _checked(resource, body)
        spec = body.get("spec") or {}
        match resource.kind:
            case "TokenReview":
                status = self._review_token(spec)
            case "SelfSubjectReview":
                status = {"userInfo": user.to_info()}
            case "SelfSubjectRulesReview":
                if not spec.get("namespace"):
                    raise errors.bad_request("no namespace on request")
                status = self._review_rules(user, str(spec["namespace"]))
            case "SelfSubjectAccessReview":
                status = self._review_access(resource, user, spec)
            case _:
                subject = self._subject(resource, namespace, spec)
                status = self._review_access(resource, subject, spec)
        answer: Tree = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {},
        }
        if spec and resource.kind != "SelfSubjectReview":
            answer["spec"] = spec
        return {**answer, "status": status}

    def _review_token(self, spec: Tree) -> Tree:
        token = spec.get("token")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        audiences = [str(audience) for audience in spec.get("audiences") or [ISSUER]]
        user, common = self._tokens.review(str(token), audiences)
        if user is None:
            foreign = self._tokens.foreign_audiences(str(token), audiences)
            if not foreign:
                return {"user": {}, "error": "invalid bearer token"}
            own, asked = (" ".join(f'"{name}"' for name in names) for names in (foreign, audiences))
            why = f"token audiences [{own}] is invalid for the target audiences [{asked}]"
            return {"user": {}, "error": f"[invalid bearer token, {why}]"}
        return {"authenticated": True, "user": user.to_info(), "audiences": common}

    def _review_rules(self, user: User, namespace: str) -> Tree:
        resource_rules, path_rules = [], []
        for rule in self._authorizer.rules_for(user, namespace):
            if rule.get("nonResourceURLs"):
                kept = ("verbs", "nonResourceURLs")
                path_rules.append({key: rule[key] for key in kept})
            if rule.get("resources"):
                keys = ("verbs", "apiGroups", "resources", "resourceNames")
                resource_rules.append({key: rule[key] for key in keys if rule.get(key)})
        return {
            "resourceRules": resource_rules,
            "nonResourceRules": path_rules,
            "incomplete": False,
        }

    def _subject(self, resource: Resource, namespace: str, spec: Tree) -> User:
        name, groups = spec.get("user", ""), spec.get("groups") or []
        causes = []
        if not name and not groups:
            causes.append(
                field_invalid(
                    "spec.user",
                    "at least one of user or group must be specified",
                    reason="FieldValueRequired",
                )
            )
        if causes:
            raise errors.invalid(_AUTHORIZATION, resource.kind, "", causes)
        stated = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if resource.namespaced and stated != namespace:
            rule, field = "must match metadata.namespace", "spec.resourceAttributes.namespace"
            cause = field_invalid(field, rule, value=f'"{stated}"')
            raise errors.invalid(_AUTHORIZATION, resource.kind, "", [cause])
        return User(str(name), str(spec.get("uid", "")), tuple(str(group) for group in groups))

    def _review_access(self, resource: Resource, user: User, spec: Tree) -> Tree:
        attributes, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        cause = None
        if attributes is None and path is None:
            rule = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            cause = field_invalid("spec.resourceAttributes", rule, value="null")
        elif attributes is not None and path is not None:
            rule = "cannot be specified in combination with resourceAttributes"
            cause = field_invalid("spec.nonResourceAttributes", rule, value="{}")
        if cause is not None:
            raise errors.invalid(_AUTHORIZATION, resource.kind, "", [cause])
        if attributes is not None:
            values = {field: str(attributes.get(field, "")) for field in _RESOURCE_FIELDS}
            values.pop("version")
            question = Question(**values)
        else:
            assert path is not None
            question = Question(verb=str(path.get("verb", "")), path=str(path.get("path", "")))
        reason = self._authorizer.why(user, question)
        if reason is None:
            return {"allowed": False}
        return {"allowed": True, "reason": reason} if reason else {"allowed": True}


def _checked(resource: Resource, body: Any) -> Tree:
    return to_storage_form(resource, {} if body is None else body)
