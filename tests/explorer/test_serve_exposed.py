"""Who may reach the server: what the command line refuses, and which names a server answers to."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.errors import UsageError
from regard.explorer import app as application
from regard.explorer import served, serving
from regard.explorer.hosts import LOCAL
from regard.explorer.limits import Limits


class Stopped(Exception):
    """The server would begin now."""


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The names of every server that would have begun."""
    found: list[Any] = []

    def make_app(loaded: Any, limits: Limits, key: str | None, hosts: frozenset[str] | None) -> None:
        found.append(hosts)
        raise Stopped

    monkeypatch.delenv("REGARD_API_KEY", raising=False)
    monkeypatch.setattr(served, "load_all", lambda runs: {})
    monkeypatch.setattr(application, "make_app", make_app)
    return found


def begin(**options: Any) -> None:
    with pytest.raises(Stopped):
        serving.serve(["run"], port=0, limits=Limits(), **options)


@pytest.fixture
def key(tmp_path: Path) -> str:
    (tmp_path / "key").write_text("a good key\n")
    return str(tmp_path / "key")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_a_key_other_machines_are_refused_unless_that_is_wanted(
    hosts: list[Any], host: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="ask for a key with --api-key-file FILE, or add --no-auth"):
        serving.serve(["run"], host=host, port=0, limits=Limits())
    assert hosts == []
    begin(host=host, no_auth=True)
    assert f"whoever reaches {host} may use these models" in capsys.readouterr().err
    begin(host=host, no_auth=True, allowed_hosts=["models.example.org"])
    capsys.readouterr()
    begin(host=host, key_file=key)
    begin(host=host, key_file=key, allowed_hosts=["models.example.org:443"])
    assert capsys.readouterr().err == ""
    assert hosts == [LOCAL, LOCAL | {"models.example.org"}, None, LOCAL | {"models.example.org:443"}]


def test_on_this_machine_nobody_needs_a_key(hosts: list[Any], key: str, capsys: pytest.CaptureFixture[str]) -> None:
    begin(host="127.0.0.1")
    begin(host="localhost")
    begin(host="127.0.0.2", allowed_hosts=["box"])
    begin(host="127.0.0.1", key_file=key)
    assert hosts == [LOCAL, LOCAL, LOCAL | {"127.0.0.2", "box"}, None]
    assert capsys.readouterr().err == ""


def test_a_key_and_no_auth_contradict_each_other(hosts: list[Any], key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--no-auth contradicts the key"):
        serving.serve(["run"], host="127.0.0.1", port=0, limits=Limits(), key_file=key, no_auth=True)
    monkeypatch.setenv("REGARD_API_KEY", "a good key")
    with pytest.raises(UsageError, match="REGARD_API_KEY"):
        serving.serve(["run"], host="0.0.0.0", port=0, limits=Limits(), no_auth=True)


@pytest.mark.parametrize("name", ["", "*", "*.example.org", "https://example.org", "a b", "a/b", "me@host", "a:99999"])
def test_an_allowed_host_is_a_name(hosts: list[Any], name: str) -> None:
    with pytest.raises(UsageError, match=r"is no name of a server: write models\.example\.org or NAME:PORT"):
        serving.serve(["run"], host="127.0.0.1", port=0, limits=Limits(), allowed_hosts=[name])


def test_the_command_line_says_so_in_one_line(hosts: list[Any]) -> None:
    refused = CliRunner().invoke(app, ["serve", "run", "--host", "0.0.0.0", "--port", "0"])
    assert isinstance(refused.exception, UsageError)
    both = ["--no-auth", "--allowed-host", "one", "--allowed-host", "two:8443"]
    begun = CliRunner().invoke(app, ["serve", "run", "--host", "0.0.0.0", "--port", "0", *both])
    assert isinstance(begun.exception, Stopped)
    assert hosts == [LOCAL | {"one", "two:8443"}]
