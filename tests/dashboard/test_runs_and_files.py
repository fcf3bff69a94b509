"""Runs and their files: nothing outside a run's folder is shown, and what a stranger wrote does nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import fakes_kept
from accel_lab.dashboard.runs import MOST_BYTES, files_of
from fakes_dashboard import SECRET, Dashboard, dashboard

RUN = "/runs/runs/kept-diff"


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Dashboard]:
    with dashboard(tmp_path) as made:
        (tmp_path / "secret.txt").write_text(SECRET)
        yield made


@pytest.fixture
def client(board: Dashboard) -> TestClient:
    return board.client()


def test_all_runs_are_listed_and_each_has_a_page(board: Dashboard, client: TestClient) -> None:
    page = client.get("/").text
    for kind in (*fakes_kept.KINDS, "bisect"):
        assert f'href="{board.access.root}/runs/runs/kept-{kind}"' in page
        answer = client.get(f"/runs/runs/kept-{kind}")
        assert answer.status_code == 200 and f"{kind} run" in answer.text
    only = client.get("/", params={"kind": "diff"}).text
    assert "kept-diff" in only and "kept-guards" not in only


def test_a_run_says_its_verdict_and_links_its_page_and_files(client: TestClient) -> None:
    page = client.get("/runs/runs/kept-bisect").text
    assert "lowering: aten.sum (proven)" in page and "fails" in page
    assert "/runs/runs/kept-bisect/files/report.html" in page
    assert "accel-lab report" in page


def test_a_finished_run_is_seen_by_the_next_look(board: Dashboard, client: TestClient) -> None:
    folder = board.base / "new"
    fakes_kept.write_bisection(folder)
    (folder / "report.json").rename(folder / "later.json")
    assert "unfinished" in client.get("/runs/runs/new").text
    (folder / "later.json").rename(folder / "report.json")
    assert "unfinished" not in client.get("/runs/runs/new").text


def test_many_runs_are_shown_in_parts(
    board: Dashboard, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accel_lab.dashboard.pages.ROWS_OF_PAGE", 6)
    for number in range(13):
        fakes_kept.write(board.base / f"many-{number}", "run")
    names = set()
    for start in (0, 6, 12):
        page = client.get("/", params={"kind": "run", "start": str(start)}).text
        names |= {
            f"many-{number}"
            for number in range(13)
            if f'href="{board.access.root}/runs/runs/many-{number}"' in page
        }
        assert (">older<" in page) == (start < 12) and (">newer<" in page) == (start > 0)
    assert len(names) == 13
    for start in ("-5", "x", "99999999999", "9999999", "²"):
        assert client.get("/", params={"start": start}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("../request.json", "%2e%2e/%2e%2e/secret.txt", "..%2f..%2f..%2fsecret.txt", "%2fetc%2fpasswd"),
        *("/etc/passwd", "%2e%2e%2f%2e%2e%2f%2e%2e%2fsecret.txt", "..%5c..%5csecret.txt", "a%00b", "%00"),
        *("link.txt", "linked/secret.txt", "folder", "pipe", "socket", "none.txt", "diff.json/x", ""),
        *(
            "folder/../../../../secret.txt",
            "folder/%2e%2e/%2e%2e/%2e%2e/%2e%2e/secret.txt",
            "%ff%fe",
            "lock.json",
        ),
        "x" * 5000,
    ],
)
def test_no_file_outside_a_run_is_shown(board: Dashboard, client: TestClient, path: str) -> None:
    folder = board.base / "kept-diff"
    (folder / "folder").mkdir()
    (folder / "lock.json").write_text("{}")
    os.mkfifo(folder / "pipe")
    (folder / "link.txt").symlink_to(board.base.parents[1] / "secret.txt")
    (folder / "linked").symlink_to(board.base.parents[1])
    answer = client.get(f"{RUN}/files/{path}")
    assert answer.status_code == 404
    assert SECRET not in answer.text and "root:" not in answer.text
    assert {file.path for file in files_of(folder)[0]} == {"accel-lab-run.json", "diff.json"}


def test_a_file_that_is_too_large_is_not_read(board: Dashboard, client: TestClient) -> None:
    with (board.base / "kept-diff" / "big.txt").open("wb") as big:
        big.truncate(MOST_BYTES + 1)
    answer = client.get(f"{RUN}/files/big.txt")
    assert answer.status_code == 404 and "at most are read" in answer.text


@pytest.mark.parametrize(
    "name", ["..", ".", "%2e%2e", "..%2fruns", "linked", "plain", "none", "a%00b", "%ff"]
)
def test_what_is_no_run_of_a_known_folder_is_not_there(
    board: Dashboard, client: TestClient, name: str
) -> None:
    (board.base / "linked").symlink_to(board.base / "kept-diff")
    (board.base / "plain").mkdir()
    for path in (f"/runs/runs/{name}", f"/runs/none/{name}", f"/runs/runs/{name}/files/diff.json"):
        assert client.get(path).status_code == 404
    assert "linked" not in client.get("/").text


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("page.html", "text/html"),
        ("PAGE.HTML", "text/html"),
        ("picture.svg", "image/svg+xml"),
        ("page.xhtml", "text/plain"),
        ("page.htm", "text/plain"),
        ("page", "text/plain"),
        ("code.py", "text/plain"),
        ("code.js", "text/plain"),
    ],
)
def test_what_a_stranger_wrote_cannot_run_scripts(
    board: Dashboard, client: TestClient, name: str, kind: str
) -> None:
    (board.base / "kept-diff" / name).write_text("<script>alert(1)</script>")
    headers = client.get(f"{RUN}/files/{name}").headers
    assert headers["content-type"].partition(";")[0] == kind
    assert headers["x-content-type-options"] == "nosniff"
    policy = headers["content-security-policy"]
    if kind == "text/plain":
        assert "default-src 'none'" in policy
    else:
        assert policy.startswith("sandbox allow-same-origin;") and "script-src" not in policy
        assert "default-src 'none'" in policy and "form-action 'none'" in policy


def test_what_is_no_text_is_a_download(board: Dashboard, client: TestClient) -> None:
    for name in ("bundle.zip", 'a"b\u00e9.bin'):
        (board.base / "kept-diff" / name).write_bytes(b"PK\0\1")
        answer = client.get(f"{RUN}/files/{name}")
        assert answer.status_code == 200 and answer.content == b"PK\0\1"
        said = answer.headers["content-disposition"]
        assert said.startswith("attachment; filename*=UTF-8''") and said.count('"') == 0 and said.isascii()


def test_what_a_run_says_is_text_on_the_page(board: Dashboard, client: TestClient) -> None:
    bad = fakes_kept.BAD
    folder = fakes_kept.write(board.base / "bad", "diff", program=bad, test=bad)
    fakes_kept.write_bisection(board.base / "bad2", verdict=bad, culprit={"stage": bad, "confidence": bad})
    (folder / "<img src=x onerror=alert(2)>.txt").write_text("")
    (folder / "esc\x1b[31m\u202e.txt").write_text("")
    pages = [client.get(path).text for path in ("/", "/runs/runs/bad", "/runs/runs/bad2")]
    pages.append(client.get("/joint", params={"run": ["runs/bad", "runs/bad2"]}).text)
    for page in pages:
        assert "<script>alert" not in page and "<img src=x" not in page and "\x1b" not in page
        assert "\u202e" not in page
    assert "&lt;script&gt;alert" in pages[1]


def test_chosen_runs_are_joined_into_one_page(board: Dashboard, client: TestClient) -> None:
    answer = client.get("/joint", params={"run": ["runs/kept-diff", "runs/kept-bisect", "runs/kept-diff"]})
    assert answer.status_code == 200 and "2 runs of 1 model" in answer.text
    assert f'href="{board.access.root}/runs/runs/kept-bisect"' in answer.text and "file:" not in answer.text
    assert answer.headers["content-security-policy"].startswith("sandbox")


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ([], 400),
        (["runs"], 404),
        (["runs/../x"], 404),
        (["/etc"], 404),
        ([f"runs/{n}" for n in range(101)], 400),
    ],
)
def test_a_joint_page_of_no_runs_is_refused(client: TestClient, keys: list[str], status: int) -> None:
    assert client.get("/joint", params={"run": keys}).status_code == status
