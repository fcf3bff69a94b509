from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from accel_lab.config import load
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Index
from accel_lab.environments.index import pip_settings
from accel_lab.environments.index import reader as index_module
from accel_lab.environments.index.pip_settings import NO_INDEX, pip_index
from accel_lab.environments.index.reader import hide_secrets, list_wheels, without_secrets
from accel_lab.environments.index.requirements import (
    exact_version,
    gather,
    name_of,
    read_requirements,
    script_needs,
)
from fakes_env import FakeIndex, json_file, json_page, serving, wheel_name


@pytest.fixture
def server() -> Iterator[FakeIndex]:
    with serving() as index:
        yield index


def versions(index: Index, **more: object) -> list[str]:
    return [wheel.version for wheel in list_wheels(index, "torch", **more).wheels]  # type: ignore[arg-type]


def test_the_json_api_tells_dates_sizes_and_digests(server: FakeIndex) -> None:
    files = [
        json_file("2.1.0", "2023-10-04"),
        json_file("2.1.1", "2023-11-15", yanked="broken"),
        {"filename": "torch-2.1.0.tar.gz"},
    ]
    server.pages["/simple/torch/"] = json_page(files)
    listing = list_wheels(Index(url=server.url), "torch")
    first, second = listing.wheels
    assert (first.uploaded, first.size_bytes, first.sha256) == (
        "2023-10-04T10:00:00.000000Z",
        1000,
        "ab" * 32,
    )
    assert (first.yanked, second.yanked) == (False, True)
    assert listing.notes == []
    assert "json" in server.asked[0][1]["Accept"]


def test_an_index_that_speaks_html_is_read_too(server: FakeIndex) -> None:
    page = f"""<html><a href="../../f/{wheel_name("2.1.0%2Bcpu")}#sha256={"cd" * 32}">x</a>
    <a href="{wheel_name("2.2.0")}" data-yanked="">y</a><a>no link</a></html>"""
    server.pages["/simple/torch/"] = ("text/html", page)
    first, second = list_wheels(Index(url=server.url + "/"), "torch").wheels
    assert (first.version, first.sha256, first.uploaded) == ("2.1.0+cpu", "cd" * 32, "")
    assert second.yanked


def test_folders_with_wheels_count_beside_the_index(server: FakeIndex, tmp_path: Path) -> None:
    server.pages["/simple/torch/"] = json_page([json_file("2.1.0", "2023-10-04")])
    (tmp_path / wheel_name("2.13.0+cpu")).write_bytes(b"12345")
    (tmp_path / "notes.txt").touch()
    index = Index(url=server.url, find_links=(str(tmp_path),))
    local, remote = list_wheels(index, "torch").wheels
    assert (local.version, local.size_bytes, local.source) == ("2.13.0+cpu", 5, str(tmp_path))
    assert remote.source == server.url
    assert versions(Index(url=NO_INDEX, find_links=(tmp_path.as_uri(),))) == ["2.13.0+cpu"]


def test_a_page_of_links_may_be_far_away_or_a_file(server: FakeIndex, tmp_path: Path) -> None:
    text = f'<a href="{wheel_name("2.3.0")}">x</a>'
    server.pages["/wheels.html"] = ("text/html", text)
    (tmp_path / "wheels.html").write_text(text)
    far = server.url.replace("/simple", "/wheels.html")
    assert versions(Index(url=NO_INDEX, find_links=(far, str(tmp_path / "wheels.html")))) == ["2.3.0"] * 2


def test_an_index_in_a_folder_is_read_by_its_page_or_its_files(server: FakeIndex, tmp_path: Path) -> None:
    (tmp_path / "one" / "torch").mkdir(parents=True)
    (tmp_path / "one" / "torch" / "index.html").write_text(f'<a href="../{wheel_name("2.4.0")}">x</a>')
    (tmp_path / "two" / "torch").mkdir(parents=True)
    (tmp_path / "two" / "torch" / wheel_name("2.5.0")).touch()
    (tmp_path / "three").mkdir()
    extra = tuple((tmp_path / name).as_uri() for name in ("one", "two", "three"))
    server.pages["/simple/torch/"] = json_page([])
    listing = list_wheels(Index(url=server.url, extra_urls=extra), "torch")
    assert [wheel.version for wheel in listing.wheels] == ["2.4.0", "2.5.0"]
    assert listing.notes == []


def test_the_nightly_index_is_asked_only_for_nightlies(server: FakeIndex) -> None:
    server.pages["/nightly/torch/"] = json_page([json_file("2.16.0.dev20261120", "2026-11-20")])
    nightly = Index(url=server.url, nightly_url=server.url.replace("simple", "nightly"))
    assert versions(nightly) == []
    assert versions(nightly, nightly=True) == ["2.16.0.dev20261120"]


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_index_that_cannot_be_reached_costs_a_note(server: FakeIndex, tmp_path: Path) -> None:
    server.pages["/simple/torch/"] = json_page([json_file("2.1.0", "2023-10-04")])
    away = f"http://user:word@127.0.0.1:{closed_port()}/simple"
    index = Index(url=server.url, extra_urls=(away,), find_links=(str(tmp_path / "gone"),))
    listing = list_wheels(index, "torch")
    assert [wheel.version for wheel in listing.wheels] == ["2.1.0"]
    assert len(listing.notes) == 2
    assert "is not there" in listing.notes[0]
    assert "cannot be reached" in listing.notes[1]
    assert "word" not in "".join(listing.notes)


@pytest.mark.parametrize(
    ("status", "page", "says"),
    [
        (500, ("text/plain", "oops"), "answers 500"),
        (401, ("text/plain", "who"), "answers 401"),
        (200, ("application/json", "{}"), "does not answer as a package index"),
        (200, ("application/json", "{"), "does not answer as a package index"),
    ],
)
def test_an_index_that_answers_wrongly_costs_a_note(
    server: FakeIndex, status: int, page: tuple[str, str], says: str
) -> None:
    server.pages["/simple/torch/"], server.status = page, status
    listing = list_wheels(Index(url=server.url), "torch")
    assert listing.wheels == []
    assert says in listing.notes[0]
    assert "\n" not in listing.notes[0]


def test_a_ca_bundle_that_is_not_there_is_said(server: FakeIndex, tmp_path: Path) -> None:
    listing = list_wheels(Index(url=server.url, ca_bundle=str(tmp_path / "no.pem")), "torch")
    assert "CA bundle" in listing.notes[0]


def test_an_answer_is_remembered_and_used_when_the_index_is_away(
    server: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pages["/simple/torch/"] = json_page([json_file("2.1.0", "2023-10-04")])
    index = Index(url=server.url)
    first = list_wheels(index, "torch", memory=tmp_path)
    assert list_wheels(index, "torch", memory=tmp_path).wheels == first.wheels
    assert len(server.asked) == 1
    monkeypatch.setattr(index_module, "FRESH_S", 0.0)
    server.pages["/simple/torch/"] = json_page([json_file("2.1.1", "2023-11-15")])
    assert [w.version for w in list_wheels(index, "torch", memory=tmp_path).wheels] == ["2.1.1"]
    server.status = 503
    stale = list_wheels(index, "torch", memory=tmp_path)
    assert [w.version for w in stale.wheels] == ["2.1.1"]
    assert "is used" in stale.notes[0]
    for kept in tmp_path.iterdir():
        kept.write_text("{")
    assert list_wheels(index, "torch", memory=tmp_path).wheels == []


def test_user_and_password_are_sent_and_never_shown(server: FakeIndex) -> None:
    server.pages["/simple/torch/"] = json_page([json_file("2.1.0", "2023-10-04")])
    index = Index(url=server.url.replace("http://", "http://me:s%40fe@"))
    (wheel,) = list_wheels(index, "torch").wheels
    assert server.asked[0][1]["Authorization"] == "Basic " + base64.b64encode(b"me:s@fe").decode()
    assert wheel.source == server.url
    assert without_secrets(index).url == server.url
    assert hide_secrets("at https://a:b@host/x and http://c@d/") == "at https://host/x and http://d/"


# -- what pip is configured with -----------------------------------------------------------------------


def pip_file(folder: Path, text: str) -> None:
    (folder / "pip").mkdir(parents=True, exist_ok=True)
    (folder / "pip" / "pip.conf").write_text(text)


def test_pips_files_and_variables_are_read_as_pip_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pip_settings, "_SYSTEM", tmp_path / "none")
    pip_file(tmp_path / "wide", "[global]\nindex-url = https://wide/simple\ncert = /wide.pem\n")
    pip_file(
        tmp_path / "own",
        "[global]\nindex_url = https://own/simple\nextra-index-url = https://a/simple\n  https://b/simple\n"
        "[install]\nfind-links = /w1 /w2\n",
    )
    base = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_DIRS": str(tmp_path / "wide"),
        "XDG_CONFIG_HOME": str(tmp_path / "own"),
    }
    found = pip_index(base, prefix=str(tmp_path / "none"))
    assert found.url == "https://own/simple"
    assert found.extra_urls == ("https://a/simple", "https://b/simple")
    assert found.find_links == ("/w1", "/w2")
    assert found.ca_bundle == "/wide.pem"
    stronger = {
        **base,
        "PIP_INDEX_URL": "https://env/simple",
        "PIP_FIND_LINKS": "/w3",
        "PIP_CERT": "/env.pem",
    }
    found = pip_index(stronger, prefix=str(tmp_path / "none"))
    assert (found.url, found.find_links, found.ca_bundle) == ("https://env/simple", ("/w3",), "/env.pem")
    assert pip_index({**base, "PIP_NO_INDEX": "1"}, prefix=str(tmp_path)).url == NO_INDEX
    assert pip_index({**base, "PIP_CONFIG_FILE": os.devnull}, prefix=str(tmp_path)) == Index()


def test_a_broken_file_of_pips_is_left_to_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_settings, "_SYSTEM", tmp_path / "none")
    pip_file(tmp_path, "no section\n")
    assert (
        pip_index({"HOME": "/none", "XDG_CONFIG_HOME": str(tmp_path)}, prefix=str(tmp_path)).find_links == ()
    )


# -- the lab's own configuration -------------------------------------------------------------------------


def test_the_nearest_file_counts_over_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own))
    (own / "accel-lab").mkdir(parents=True)
    (own / "accel-lab" / "accel-lab.toml").write_text('store = "/big"\nindex-url = "https://user/simple"\n')
    work = tmp_path / "work" / "deep"
    work.mkdir(parents=True)
    (work.parent / ".git").mkdir()  # the search ends at a repository's root
    (work / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    (work.parent / "pyproject.toml").write_text(
        "[tool.accel-lab]\nindex-url = 'https://near/simple'\nfind_links = ['wheels', 'https://far/']\n"
        "cert = 'ca.pem'\npre = true\n[tool.accel-lab.mock]\nstrict = true\n"
    )
    config = load(work)
    assert config.index.url == "https://near/simple"
    assert config.text("store") == "/big"
    assert config.index.find_links == (str(work.parent / "wheels"), "https://far/")
    assert config.index.ca_bundle == str(work.parent / "ca.pem")
    assert config.values["pre"] is True
    (work / "accel-lab.toml").write_text("python-version = '3.11'\n")
    assert load(work).text("python-version") == "3.11"
    assert load(work).index.url == "https://user/simple"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("indx-url = 'x'", "did you mean index-url"),
        ("zzz = 1", "there is no setting zzz"),
        ("index-url = 3", "index-url must be text"),
        ("find-links = [1]", "must be a list of text"),
        ("pre = 'yes'", "must be true or false"),
        ("= 3", "is not valid TOML"),
    ],
)
def test_a_bad_setting_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "accel-lab.toml").write_text(text)
    with pytest.raises(UsageError, match=says) as refused:
        load(tmp_path)
    assert "accel-lab.toml" in str(refused.value)


# -- what the script needs -------------------------------------------------------------------------------


def test_the_block_in_a_script_is_read(tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    script.write_text(
        "#!/usr/bin/env python\n# /// script\n# requires-python = '>=3.10'\n# dependencies = [\n"
        "#   'torch==2.6',\n"
        "#   'einops',\n#\n#   'torchvision>=0.2; python_version > \"3\"',\n# ]\n# ///\nimport torch\n"
    )
    found = gather(("numpy<2",), (), script)
    assert found.lines == ("numpy<2", "einops", 'torchvision; python_version > "3"')
    assert len(found.notes) == 2
    assert "'torch==2.6'" in found.notes[0]
    script.write_text("import torch\n# /// other\n# ///\n")
    assert script_needs(script) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# /// script\n# dependencies = 'x'\n# ///\n", "must be a list"),
        ("# /// script\n# = 3\n# ///\n", "is not valid TOML"),
        ("# /// script\n# x = 1\n# ///\n\n# /// script\n# x = 1\n# ///\n", "2 `# /// script` blocks"),
        ("# /// script\n# dependencies = ['-r x']\n# ///\n", "is not a requirement"),
        ("# /// script\n# dependencies = ['a b']\n# ///\n", "is not a requirement"),
    ],
)
def test_a_bad_block_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    script = tmp_path / "repro.py"
    script.write_text(text)
    with pytest.raises(UsageError, match=says) as refused:
        gather((), (), script)
    assert "repro.py" in str(refused.value)


def test_a_requirements_file_is_read_with_those_that_it_includes(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text("einops == 0.7 # why\n./wheels/x.whl\n")
    main = tmp_path / "requirements.txt"
    main.write_text(
        "# comment\ntimm @ ./timm.whl\n-r more/base.txt\n"
        "numpy==1.26.4 \\\n  --hash=sha256:aa --hash=sha256:bb\n"
        "torch\n"
    )
    assert read_requirements(main)[-2:] == ["numpy==1.26.4", "torch"]
    assert read_requirements(main)[0] == f"timm @ {(tmp_path / 'timm.whl').as_uri()}"
    with pytest.raises(UsageError, match="is not a requirement"):
        gather((), (main,))


@pytest.mark.parametrize(
    ("text", "says"),
    [("--index-url x\n", ":1: --index-url is not read here"), ("-r requirements.txt", "circle")],
)
def test_a_bad_requirements_file_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(text)
    with pytest.raises(UsageError, match=says):
        read_requirements(file)
    with pytest.raises(UsageError, match="cannot be read"):
        read_requirements(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("numpy==1.26.4", "numpy", "1.26.4"),
        ("Typing_Extensions[all] === 4 ; x", "typing-extensions", "4"),
        ("numpy==1.*", "numpy", ""),
        ("numpy>=1", "numpy", ""),
        ("numpy", "numpy", ""),
    ],
)
def test_an_exact_version_is_told(line: str, name: str, version: str) -> None:
    assert (name_of(line), exact_version(line)) == (name, version)


def test_json_of_a_page_is_what_the_fake_says() -> None:
    kind, text = json_page([json_file("2.1.0", "2023-10-04")])
    assert "json" in kind
    assert json.loads(text)["files"][0]["filename"] == wheel_name("2.1.0")
