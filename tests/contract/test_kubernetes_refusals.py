"""Contract: requests that are refused, and the Status bodies that say why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contract.api import Api
from tests.contract.objects import assert_refused


@dataclass(frozen=True)
class Refusal:
    """A request to be refused. `{configmaps}` in its path stands for the test's collection."""

    method: str
    path: str
    body: Any
    status: int
    reason: str
    message: str
    details: dict[str, Any] | None = field(default=None)
    content_type: str = "application/json"
    accept: str = "application/json"


REFUSALS = {
    "an object that is not there": Refusal(
        "GET",
        "{configmaps}/absent",
        None,
        404,
        "NotFound",
        'configmaps "absent" not found',
        {"name": "absent", "kind": "configmaps"},
    ),
    "an object of a named group that is not there": Refusal(
        "GET",
        "/apis/apps/v1/namespaces/default/deployments/absent",
        None,
        404,
        "NotFound",
        'deployments.apps "absent" not found',
        {"name": "absent", "group": "apps", "kind": "deployments"},
    ),
    "a resource that the version does not have": Refusal(
        "GET",
        "/api/v1/nonesuches",
        None,
        404,
        "NotFound",
        "the server could not find the requested resource",
        {},
    ),
    "a version that the group does not have": Refusal(
        "GET",
        "/apis/apps/v9/deployments",
        None,
        404,
        "NotFound",
        "the server could not find the requested resource",
        {},
    ),
    "a name that is taken": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "taken"}},
        409,
        "AlreadyExists",
        'configmaps "taken" already exists',
        {"name": "taken", "kind": "configmaps"},
    ),
    "a namespace that is not there": Refusal(
        "POST",
        "/api/v1/namespaces/absent/configmaps",
        {"metadata": {"name": "a"}},
        404,
        "NotFound",
        'namespaces "absent" not found',
        {"name": "absent", "kind": "namespaces"},
    ),
    "no name": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {}},
        422,
        "Invalid",
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        {
            "kind": "ConfigMap",
            "causes": [
                {
                    "reason": "FieldValueRequired",
                    "message": "Required value: name or generateName is required",
                    "field": "metadata.name",
                }
            ],
        },
    ),
    "a name that breaks the DNS rules": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "Not_A_Name"}},
        422,
        "Invalid",
        'ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name": '
        "a lowercase RFC 1123 subdomain must consist of",
    ),
    "a label that breaks the rules": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "a", "labels": {"k": "not a value"}}},
        422,
        "Invalid",
        'ConfigMap "a" is invalid: metadata.labels: Invalid value: "not a value": '
        "a valid label must be an empty string or consist of",
    ),
    "a finalizer without a domain": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "a", "finalizers": ["plain"]}},
        422,
        "Invalid",
        'ConfigMap "a" is invalid: metadata.finalizers[0]: Invalid value: "plain": name is neither',
    ),
    "another namespace in the body": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "a", "namespace": "other"}},
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "another kind in the body": Refusal(
        "POST",
        "{configmaps}",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}},
        400,
        "BadRequest",
        'Secret in version "v1" cannot be handled as a ConfigMap',
    ),
    "another version in the body": Refusal(
        "POST",
        "{configmaps}",
        {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap',
    ),
    "a name of another type": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": 5}},
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number',
    ),
    "half a JSON value": Refusal(
        "POST",
        "{configmaps}",
        b'{"metadata"',
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version",
    ),
    "an empty body": Refusal(
        "POST",
        "{configmaps}",
        b"",
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version",
    ),
    "a body of an unknown media type": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "a"}},
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json",
        content_type="text/plain",
    ),
    "an answer in an unknown media type": Refusal(
        "GET",
        "{configmaps}",
        None,
        406,
        "NotAcceptable",
        "",
        accept="text/html",
    ),
    "a method that a collection does not have": Refusal(
        "PUT",
        "{configmaps}",
        {},
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    ),
    "a method that an object does not have": Refusal(
        "POST",
        "{configmaps}/taken",
        {},
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    ),
    "deleting what is not there": Refusal(
        "DELETE",
        "{configmaps}/absent",
        None,
        404,
        "NotFound",
        'configmaps "absent" not found',
        {"name": "absent", "kind": "configmaps"},
    ),
    "replacing what is not there": Refusal(
        "PUT",
        "{configmaps}/absent",
        {"metadata": {"name": "absent"}},
        404,
        "NotFound",
        'configmaps "absent" not found',
        {"name": "absent", "kind": "configmaps"},
    ),
    "replacing under another name": Refusal(
        "PUT",
        "{configmaps}/taken",
        {"metadata": {"name": "other"}},
        400,
        "BadRequest",
        "the name of the object (other) does not match the name on the URL (taken)",
    ),
    "replacing without a name": Refusal(
        "PUT",
        "{configmaps}/taken",
        {"metadata": {}},
        400,
        "BadRequest",
        "the name of the object (taken based on URL) was undeterminable: name must be provided",
    ),
    "a subresource that the kind does not have": Refusal(
        "GET",
        "{configmaps}/taken/status",
        None,
        404,
        "NotFound",
        "the server could not find the requested resource",
        {},
    ),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refusal_says_what_was_wrong(api: Api, configmaps: str, case: Refusal) -> None:
    """A refused request is answered by a Status whose code, reason and details tell the cause."""
    await api.create(configmaps, {"metadata": {"name": "taken"}})
    answer = await api.call(
        case.method,
        case.path.format(configmaps=configmaps),
        case.body,
        content_type=case.content_type,
        accept=case.accept,
    )
    assert_refused(answer, case.status, case.reason)
    assert answer.body["message"].startswith(case.message)
    if case.details is not None:
        assert answer.body.get("details", {}) == case.details


async def test_a_version_given_to_create_is_refused(api: Api, configmaps: str) -> None:
    """A resourceVersion on a new object is an error, by a Status that has no reason."""
    body = {"metadata": {"name": "a", "resourceVersion": "5"}}
    refused = await api.create(configmaps, body, expect=500)
    assert refused["message"] == "resourceVersion should not be set on objects to be created"
    assert "reason" not in refused


async def test_an_unknown_group_is_plain_text(api: Api) -> None:
    """A path under a group that is not served is 404 without a Status."""
    answer = await api.call("GET", "/apis/nonesuch.example/v1/things", expect=404)
    assert answer.body == "404 page not found\n"
    assert answer.headers["Content-Type"].startswith("text/plain")
