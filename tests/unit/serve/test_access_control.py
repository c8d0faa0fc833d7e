"""Who is answered: another site's pages, other names for this machine and guesses are not."""

from __future__ import annotations

import pytest

from tilewright.serve.access_control import POLICY, Access

from .conftest import TOKEN, Client


def test_the_printed_address_gives_a_cookie_that_scripts_and_other_sites_cannot_use(
    client: Client,
) -> None:
    answer = client.ask(f"/runs/x?state=kept&token={TOKEN}", cookie=None)
    assert answer.status == 303
    assert answer.headers["location"] == "/runs/x?state=kept"
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(client.cookie.lower())
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize("path", ["/", "/static/live.js", "/events", "/runs/3fa94c10/rows"])
@pytest.mark.parametrize(
    "cookie", [None, "tilewright-8123=wrong", "tilewright-8123", "a=b; ;;=", "\xe9"]
)
def test_nothing_is_answered_without_the_token(
    client: Client, path: str, cookie: str | None
) -> None:
    answer = client.ask(path, cookie=cookie)
    assert answer.status == 403
    assert "open the address that `tilewright serve` printed" in answer.text


def test_a_wrong_token_in_the_address_is_refused(client: Client) -> None:
    assert client.ask("/?token=guess", cookie=None).status == 403
    assert client.ask("/?token=", cookie=None).status == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8123",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8123",
        "",
        "127.0.0.1:8123@evil.example",
        "[::1]evil",
        "127.0.0.1:80:80",
        None,
    ],
)
def test_a_name_that_another_site_points_here_is_refused(client: Client, host: str | None) -> None:
    answer = client.ask("/", host=host)
    assert answer.status == 403
    assert "not known by that name" in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:9999", "[::1]:8123", "LOCALHOST"])
def test_addresses_of_this_machine_are_answered_through_any_forwarded_port(
    client: Client, host: str
) -> None:
    assert client.ask("/", host=host).status == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1", "file://", ""],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_of_other_sites_are_refused(client: Client, origin: str, method: str) -> None:
    assert client.ask("/", method, origin=origin).status == 403


def test_what_changes_something_must_say_where_it_comes_from(client: Client) -> None:
    answer = client.ask("/runs/3fa94c10/stop", "POST")
    assert answer.status == 403
    assert "Use the buttons of the page" in answer.text


def test_an_address_cannot_lead_to_another_site(client: Client) -> None:
    answer = client.ask(f"//evil.example/x?token={TOKEN}", cookie=None)
    assert answer.headers["location"] == "/evil.example/x"


def test_every_answer_forbids_scripts_but_its_own_and_frames(client: Client) -> None:
    for path in ("/", "/nowhere", "/runs/none", "/static/live.js", "/runs/3fa94c10/trials.csv"):
        headers = client.ask(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert "unsafe" not in POLICY
    assert "frame-ancestors 'none'" in POLICY


def test_without_a_token_hosts_and_origins_are_still_checked(
    client: Client, served, tmp_path
) -> None:
    open_to_all = served(tmp_path, token=None)
    assert open_to_all.ask("/", cookie=None).status == 200
    assert open_to_all.ask("/", cookie=None, host="evil.example").status == 403
    assert open_to_all.ask("/", cookie=None, origin="http://evil.example").status == 403


def test_the_token_of_a_form_is_not_the_token_and_is_checked() -> None:
    access = Access(TOKEN, 8123)
    assert access.is_csrf_token(access.csrf_token())
    assert not access.is_csrf_token(TOKEN)
    assert not access.is_csrf_token("")
    assert not Access(TOKEN, 8123).is_csrf_token(access.csrf_token())
