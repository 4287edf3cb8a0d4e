"""Rules of reading a kubeconfig: fields are honoured or refused by name; errors say where."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.unit.clusters.kubeconfigs import document, write
from watchcache_server.clusters.errors import (
    ClusterConfigError,
    ContextUnknownError,
    KubeconfigFieldRefusedError,
    KubeconfigMalformedError,
    KubeconfigMissingError,
    KubeconfigUnreadableError,
)
from watchcache_server.clusters.kubeconfig import read_context

PEM = base64.b64encode(b"PEM").decode()


def test_the_current_context_is_the_default(tmp_path: Path) -> None:
    """Without a name the file's own choice counts."""
    config = read_context(write(tmp_path / "k", document()))
    assert config.context == "dev"
    assert config.cluster == {"server": "https://127.0.0.1:6443"}
    assert config.user == {"token": "t"}


def test_another_context_can_be_named(tmp_path: Path) -> None:
    """And its own cluster and user count, whatever else is in the file."""
    config = document()
    config["contexts"].append({"name": "other", "context": {"cluster": "c2", "namespace": "x"}})
    config["clusters"].append({"name": "c2", "cluster": {"server": "https://[::1]:6443"}})
    config["users"].append({"name": "bad", "user": {"auth-provider": {"name": "gcp"}}})
    found = read_context(write(tmp_path / "k", config), "other")
    assert found.cluster["server"] == "https://[::1]:6443"
    assert found.user == {}


def test_an_unknown_context_is_told_with_those_there_are(tmp_path: Path) -> None:
    """File, context and the known ones are named."""
    path = write(tmp_path / "k", document())
    with pytest.raises(ContextUnknownError) as caught:
        read_context(path, "staging")
    assert str(caught.value) == f"kubeconfig {path}: no context 'staging'; it has dev"
    assert caught.value.reason == "CONTEXT_UNKNOWN"
    empty = write(tmp_path / "k", document(contexts=None))
    with pytest.raises(ContextUnknownError, match="it has none"):
        read_context(empty)


def test_a_missing_file_is_told_so(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(KubeconfigMissingError, match=str(tmp_path / "absent")):
        read_context(tmp_path / "absent")


def test_an_unreadable_file_is_told_so(tmp_path: Path) -> None:
    """A folder, or too large to be a kubeconfig."""
    with pytest.raises(KubeconfigUnreadableError, match="Is a directory"):
        read_context(tmp_path)
    large = write(tmp_path / "k", "#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(KubeconfigUnreadableError, match="larger than"):
        read_context(large)


MALFORMED: dict[str, tuple[Any, str]] = {
    "not YAML": ("a: [", "line 1 is not YAML"),
    "not YAML, on its second line": ("a: b\nc: d: e", "line 2 is not YAML"),
    "not text": ("a: \x00", "is not YAML"),
    "nested without end": ("[" * 5000, "is not YAML"),
    "a tag that fits nothing": ("a: !!timestamp x", "is not YAML"),
    "a truth that is none": ("a: !!bool x", "is not YAML"),
    "a number that is none": ('a: !!float ""', "is not YAML"),
    "a tag that builds objects": ("a: !!python/object:os.system {}", "is not YAML"),
    "empty": ("", "must be a mapping"),
    "a list": ([], "must be a mapping"),
    "another kind": (document(kind="Pod"), "must be of apiVersion v1 and kind Config"),
    "another version": (document(apiVersion="v2"), "must be of apiVersion v1 and kind Config"),
    "no current context": (document(**{"current-context": None}), "current-context is not set"),
    "an empty current context": (document(**{"current-context": ""}), "current-context is not set"),
    "a current context that is no string": (document(**{"current-context": 3}), "must be a string"),
    "contexts as a mapping": (document(contexts={"dev": {}}), "contexts must be a list"),
    "a context without a name": (document(contexts=[{}]), r"contexts\[0\] must be a mapping with"),
    "a context that is no mapping": (
        document(contexts=[{"name": "dev", "context": "c"}]),
        r"contexts\[0\]\.context must be a mapping",
    ),
    "a context twice": (
        document(contexts=[{"name": "dev"}, {"name": "dev"}]),
        r"contexts\[1\] repeats the name 'dev'",
    ),
    "a context of an unknown cluster": (
        document(contexts=[{"name": "dev", "context": {"cluster": "x"}}]),
        "context dev names the cluster 'x', which is not in clusters",
    ),
    "a context of an unknown user": (
        document(contexts=[{"name": "dev", "context": {"cluster": "c", "user": "x"}}]),
        "context dev names the user 'x', which is not in users",
    ),
    "no server": (document(cluster={"server": None}), "server of the cluster of context dev"),
    "a server that is no URL": (document(cluster={"server": "127.0.0.1:6443"}), "must be a URL"),
    "a server of another scheme": (document(cluster={"server": "ftp://x"}), "must be a URL"),
    "a server with a bad port": (document(cluster={"server": "https://x:y"}), "must be a URL"),
    "a proxy that is no URL": (
        document(cluster={"proxy-url": "http://["}),
        "proxy-url of the cluster of context dev must be a URL",
    ),
    "a server with a query": (document(cluster={"server": "https://x/?a=b"}), "must be a URL"),
    "a server that is a number": (document(cluster={"server": 3}), "must be a string"),
    "a CA that is not base64": (
        document(cluster={"certificate-authority-data": "%%%"}),
        "certificate-authority-data must be base64",
    ),
    "a CA that is a number": (
        document(cluster={"certificate-authority-data": 3}),
        "certificate-authority-data must be base64",
    ),
    "a switch that is a word": (
        document(cluster={"insecure-skip-tls-verify": "yes please"}),
        "insecure-skip-tls-verify of the cluster of context dev must be true or false",
    ),
    "a CA beside no verification": (
        document(cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": PEM}),
        "keep one",
    ),
    "a certificate without its key": (
        document(user={"client-certificate-data": PEM}),
        "needs both a client certificate and its key",
    ),
    "a key without its certificate": (
        document(user={"client-key": "k"}),
        "needs both a client certificate and its key",
    ),
    "a key that is not base64": (
        document(user={"client-certificate-data": PEM, "client-key-data": "%"}),
        "client-key-data must be base64",
    ),
    "a plugin beside a token": (
        document(user={"token": "t", "exec": {"command": "x"}}),
        "has exec beside a token or a certificate",
    ),
    "a token that is a number": (document(user={"token": 3}), "token of the user must be a string"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_kubeconfig_is_told_with_file_place_and_rule(tmp_path: Path, case: str) -> None:
    """Nothing is guessed, and no secret of the file is shown."""
    config, text = MALFORMED[case]
    path = write(tmp_path / "k", config)
    with pytest.raises(KubeconfigMalformedError, match=text) as caught:
        read_context(path)
    assert f"kubeconfig {path}: " in str(caught.value)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "an auth provider": (
        {"user": {"auth-provider": {"name": "gcp"}}},
        "auth-provider",
        "use an exec plugin or a token",
    ),
    "basic authentication": ({"user": {"username": "me"}}, "username", "use a token"),
    "a password": ({"user": {"password": "hush"}}, "password", "use a token"),
    "impersonation of a user": ({"user": {"as": "jane"}}, "as", "name the identity itself"),
    "impersonation of groups": ({"user": {"as-groups": ["x"]}}, "as-groups", "name the identity"),
    "impersonation of a uid": ({"user": {"as-uid": "x"}}, "as-uid", "name the identity"),
    "impersonation with extra": (
        {"user": {"as-user-extra": {"a": ["b"]}}},
        "as-user-extra",
        "name",
    ),
    "a mistyped field of the user": (
        {"user": {"client-certificate-dat": "x"}},
        "'client-certificate-dat' (user)",
        "mend its spelling",
    ),
    "a mistyped field of the cluster": (
        {"cluster": {"certificate-authority-dat": "x"}},
        "'certificate-authority-dat' (cluster)",
        "mend its spelling",
    ),
    "a mistyped field of the context": (
        {"contexts": [{"name": "dev", "context": {"cluster": "c", "usr": "u"}}]},
        "'usr' (context dev)",
        "mend its spelling",
    ),
    "a SOCKS proxy": ({"cluster": {"proxy-url": "socks5://x:1080"}}, "proxy-url", "such a proxy"),
    "a user in the URL": (
        {"cluster": {"server": "https://me:hush@x"}},
        "a user in the server's URL",
        "use a token",
    ),
    "tokens in clear over a network": (
        {"cluster": {"server": "http://10.0.0.1:8080"}},
        "an http server on another machine",
        "use https",
    ),
    "tokens in clear to a name": (
        {"cluster": {"server": "http://api.example.com"}},
        "an http server on another machine",
        "use https",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, case: str) -> None:
    """Nothing that the file asks for is silently ignored; the mend is named, secrets are not."""
    changes, field, mend = REFUSED[case]
    path = write(tmp_path / "k", document(**changes))
    with pytest.raises(KubeconfigFieldRefusedError) as caught:
        read_context(path)
    text = str(caught.value)
    assert text.startswith(f"kubeconfig {path}, context dev: {field}")
    assert mend in text
    assert "hush" not in text


def test_empty_fields_are_as_good_as_absent(tmp_path: Path) -> None:
    """Tools write fields that they do not use as empty."""
    user = {"token": "t", "username": "", "auth-provider": None, "as-groups": [], "unknown": ""}
    cluster = {"certificate-authority": "", "proxy-url": "", "insecure-skip-tls-verify": False}
    read_context(write(tmp_path / "k", document(user=user, cluster=cluster)))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]"])
def test_a_local_server_may_speak_http(tmp_path: Path, host: str) -> None:
    """`kubectl proxy` does."""
    cluster = {"server": f"http://{host}:8001"}
    assert read_context(write(tmp_path / "k", document(cluster=cluster))).cluster == cluster


def test_what_needs_no_action_is_allowed(tmp_path: Path) -> None:
    """Other programs' extensions, and compression that is never used anyway."""
    cluster = {"disable-compression": True, "extensions": [{"name": "minikube", "extension": {}}]}
    read_context(
        write(
            tmp_path / "k",
            document(cluster=cluster, user={"token": "t", "extensions": []}, preferences={}),
        )
    )


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """The repr of what was read holds no token."""
    config = read_context(write(tmp_path / "k", document(user={"token": "hush"})))
    assert "hush" not in repr(config)


def test_every_error_is_a_configuration_error() -> None:
    """Whoever starts the service catches one kind; each has a reason of its own."""
    kinds = (
        ContextUnknownError,
        KubeconfigFieldRefusedError,
        KubeconfigMalformedError,
        KubeconfigMissingError,
        KubeconfigUnreadableError,
    )
    assert all(issubclass(kind, ClusterConfigError) for kind in kinds)
    assert len({kind.reason for kind in kinds}) == len(kinds)
