"""Who may ask the dashboard: each line of its defence is a test."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from accel_lab.core.errors import UsageError
from accel_lab.dashboard.server import listening
from fakes_dashboard import ENDS, ORIGIN, PORT, Dashboard, dashboard

PAGES = (
    "/",
    "/live.js",
    "/joint",
    "/runs/runs/kept-diff",
    "/runs/runs/kept-diff/files/diff.json",
    "/jobs/x",
    "/no",
)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with dashboard(tmp_path_factory.mktemp("board"), ENDS) as made:
        yield made


@pytest.fixture
def client(board: Dashboard) -> TestClient:
    return board.client()


def test_the_token_is_changed_for_a_cookie_that_scripts_cannot_read(board: Dashboard) -> None:
    client = board.client(entered=False)
    answer = client.get(f"{ORIGIN}/", params={"token": board.access.token})
    said = answer.headers["set-cookie"].lower()
    assert answer.status_code == 200 and "httponly" in said and "samesite=strict" in said
    assert f"path={board.access.root}/".lower() in said
    assert board.access.token not in said and board.access.token not in answer.text
    page = client.get("/")
    assert page.status_code == 200 and "Start a bisection" in page.text
    assert board.access.token not in page.text and board.access.session not in page.text


@pytest.mark.parametrize("path", PAGES)
def test_without_the_cookie_nothing_is_shown(board: Dashboard, path: str) -> None:
    client = board.client(entered=False)
    for cookie in (None, "", "wrong", board.access.token, board.access.session + "x", "\u00e9"):
        client.cookies.clear()
        headers = {} if cookie is None else {b"cookie": f"{board.access.cookie}={cookie}".encode("latin-1")}
        answer = client.get(path, headers=headers)
        assert answer.status_code == 403 and "kept-" not in answer.text
        assert "accel-lab dashboard" in answer.text


def test_nothing_lies_outside_the_root_that_only_the_cookie_knows(board: Dashboard) -> None:
    """A server on another port is sent the cookies of this one's host, but only for their path."""
    cookie = {"cookie": f"{board.access.cookie}={board.access.session}"}
    root = board.access.root
    client = board.client(entered=False)
    assert client.get(f"{ORIGIN}{root}/", headers=cookie).status_code == 200
    for path in ("/", "/x", "/runs/runs/kept-diff", root, f"/{'x' * 43}/", f"{root}x/"):
        answer = client.get(ORIGIN + path, headers=cookie)
        assert answer.status_code == 403 and root not in answer.text
    client = board.client()
    assert dict(client.cookies)
    answer = client.get(f"{ORIGIN}/jobs/x")
    assert "cookie" not in answer.request.headers and answer.status_code == 403


@pytest.mark.parametrize("token", ["", "wrong", "\u00e9", "x" * 5000])
def test_a_wrong_token_gives_no_cookie(board: Dashboard, token: str) -> None:
    answer = board.client(entered=False).get(f"{ORIGIN}/", params={"token": token})
    assert answer.status_code == 403 and "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"127.0.0.1.evil.example:{PORT}",
        f"127.0.0.2:{PORT}",
        f"[::2]:{PORT}",
        f"localhost.:{PORT}",
        f"127.0.0.1:{PORT},evil.example",
        f"evil@127.0.0.1:{PORT}",
        "",
    ],
)
def test_another_host_is_refused(board: Dashboard, client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 421
    tokened = board.client(entered=False).get(
        f"{ORIGIN}/", params={"token": board.access.token}, headers={"host": host}
    )
    assert tokened.status_code == 421 and "set-cookie" not in tokened.headers


@pytest.mark.parametrize("host", [f"localhost:{PORT}", f"[::1]:{PORT}", f"LOCALHOST:{PORT}"])
def test_every_name_of_this_machine_is_answered(client: TestClient, host: str) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    assert client.get("/", headers={"host": host, "cookie": cookie}).status_code == 200


def test_two_hosts_are_refused(client: TestClient) -> None:
    answer = client.get("/", headers=[("host", f"127.0.0.1:{PORT}"), ("host", "evil.example")])
    assert answer.status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": f"http://localhost:{PORT}"},
        {"origin": ""},
        {"origin": "null"},
        {},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"origin": "null", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
        {"origin": ORIGIN, "sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/jobs", "/jobs/x/stop"])
def test_a_form_that_another_site_sends_is_refused(
    board: Dashboard, client: TestClient, path: str, headers: dict[str, str]
) -> None:
    client.headers.pop("origin")
    answer = client.post(path, data=board.form(), headers=headers)
    assert answer.status_code == 403 and "another site" in answer.text
    assert board.jobs.all() == []


@pytest.mark.parametrize("headers", [{"origin": ORIGIN}, {"origin": "null", "sec-fetch-site": "same-origin"}])
def test_a_form_of_its_own_page_is_taken(
    board: Dashboard, client: TestClient, headers: dict[str, str]
) -> None:
    """A browser that sends no referrer says ``null`` for the origin of a form."""
    client.headers.pop("origin")
    answer = client.post("/jobs", data=board.form(script="none.py"), headers=headers)
    assert answer.status_code == 400 and "no script none.py" in answer.text


@pytest.mark.parametrize("form", [None, "", "wrong", "\u00e9"])
@pytest.mark.parametrize("path", ["/jobs", "/jobs/x/stop"])
def test_a_form_without_its_token_is_refused(
    board: Dashboard, client: TestClient, path: str, form: str | None
) -> None:
    fields = {"script": "script.py", **({} if form is None else {"form": form})}
    assert client.post(path, data=fields).status_code == 403
    assert board.jobs.all() == []


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "application/json", 415),
        (b"script=script.py", "text/plain", 415),
        (b"script=" + b"x" * 100_000, "application/x-www-form-urlencoded", 413),
        (b"&".join(b"a=1" for _ in range(100)), "application/x-www-form-urlencoded", 400),
        (b"script=%ff%fe", "application/x-www-form-urlencoded", 400),
        ("script=\u00e9".encode(), "application/x-www-form-urlencoded", 400),
    ],
)
def test_what_is_no_form_is_refused(client: TestClient, body: bytes, kind: str, status: int) -> None:
    assert client.post("/jobs", content=body, headers={"content-type": kind}).status_code == status


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_are_refused(client: TestClient, method: str) -> None:
    assert client.request(method, "/").status_code == 405


@pytest.mark.parametrize("path", ["/jobs/x/stop", "/jobs/x", "/jobs"])
def test_to_look_at_an_address_changes_nothing(board: Dashboard, client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (404, 405)
    assert board.jobs.all() == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_can_lead_here_and_load_nothing(client: TestClient, site: str) -> None:
    loads = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert client.get("/runs/runs/kept-diff/files/diff.json", headers=loads).status_code == 403
    leads = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=leads).status_code == 200


@pytest.mark.parametrize(
    "path", [*PAGES, "/jobs/x/events", "/%00", "/runs/runs/kept-bisect/files/report.html"]
)
@pytest.mark.parametrize("entered", [True, False])
def test_every_answer_says_what_a_browser_may_not_do(board: Dashboard, path: str, entered: bool) -> None:
    headers = board.client(entered=entered).get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "base-uri 'none'" in policy and "unsafe-eval" not in policy
    assert "script-src 'self'" in policy or "sandbox" in policy
    assert "access-control-allow-origin" not in headers and "server" not in headers


def test_an_exception_of_ours_is_a_line_on_the_page(
    board: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("accel_lab.dashboard.runs.Runs.rows", fails)
    client = board.client()
    client._transport.raise_server_exceptions = False  # type: ignore[attr-defined]
    answer = client.get("/")
    assert answer.status_code == 500 and "mistake: RuntimeError" in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.0.1", "example.org", "127.0.0.2"])
def test_no_other_address_is_listened_on(host: str) -> None:
    with pytest.raises(UsageError, match="only this machine may reach it"):
        listening(host, 0)


def test_a_taken_port_is_one_line() -> None:
    wanted = pytest.raises(UsageError, match="choose another with --port")
    with socket.create_server(("127.0.0.1", 0)) as taken, wanted:
        listening("127.0.0.1", taken.getsockname()[1])


def test_it_listens_on_this_machine_only() -> None:
    with listening("localhost", 0) as bound:
        assert bound.getsockname()[0] == "127.0.0.1"
