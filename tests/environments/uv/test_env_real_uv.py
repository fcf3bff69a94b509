"""The whole way with the real uv and no network: wheels of a few lines stand for torch and its companions."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import sys
import zipfile
from pathlib import Path

import pytest

from accel_lab.core.machine.environment import EnvironmentUnavailable, Index
from accel_lab.environments.index.pip_settings import NO_INDEX
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.environments.store.folder import Store
from accel_lab.environments.store.pruning import Census, prune
from accel_lab.environments.store.thorough_check import verify_entry
from accel_lab.environments.uv.provider import UvProvider
from accel_lab.execution.processes import process
from fakes_env import json_page, serving

pytestmark = pytest.mark.skipif(importlib.util.find_spec("uv") is None, reason="uv is not installed")

TORCH = """
from .version import __version__
class cuda:
    is_available = staticmethod(lambda: False)
class ones:
    def __init__(self, rows, columns): self.n = rows * columns
    def mm(self, other): return self
    def sum(self): return self
    def item(self): return 12.0
DATA = {data!r}
"""


def make_wheel(
    folder: Path, name: str, version: str, files: dict[str, str], needs: tuple[str, ...] = ()
) -> Path:
    """A pure wheel, with a RECORD as an installer wants it."""
    info = f"{name}-{version}.dist-info"
    metadata = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in files.items():
            archive.writestr(place, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{place},sha256={digest},{len(text.encode())}\n")
        archive.writestr(f"{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")
    return path


def make_torch(folder: Path, version: str, *needs: str) -> Path:
    files = {
        "torch/__init__.py": TORCH.format(data=version * 20_000),
        "torch/version.py": f"__version__ = {version!r}\n",
    }
    return make_wheel(folder, "torch", version, files, needs)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, version in (("numpy", "1.26.0"), ("numpy", "2.1.0"), ("setuptools", "70.0")):
        make_wheel(
            folder, name, version, {f"{name}/__init__.py": f"__version__ = {version!r}\n" + "#" * 50_000}
        )
    make_torch(folder, "2.1.0", "numpy<2")
    make_torch(folder, "2.13.0+cpu", "numpy")
    make_torch(folder, "2.14.0", "nowhere-to-be-found")
    return folder


@pytest.fixture
def options(tmp_path: Path, wheels: Path) -> EnvironmentOptions:
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    index = Index(url=NO_INDEX, find_links=(str(wheels),))
    return EnvironmentOptions(python=python, index=index, folder=tmp_path / "store", slim="no")


def test_environments_are_made_checked_shared_and_pruned(options: EnvironmentOptions) -> None:
    store = Store(options.folder)
    with UvProvider(options, process.run, gpu=False) as maker:
        assert [release.version for release in maker.releases()] == ["2.1.0", "2.13.0", "2.14.0"]
        old, new = (maker.make(maker.spec(version)) for version in ("2.1.0", "2.13.0"))
        assert old.provenance["packages"] == {"numpy": "1.26.0", "setuptools": "70.0", "torch": "2.1.0"}
        assert new.provenance["packages"]["torch"] == "2.13.0+cpu"
        assert new.provenance["packages"]["numpy"] == "2.1.0"
        assert new.provenance["wheels"][0]["tag"] == "py3-none-any"
        held = maker.make(maker.spec("2.13.0", pins=(("numpy", "1.26.0"),)))
        assert held.provenance["packages"]["numpy"] == "1.26.0"
        assert held.python != new.python
        with pytest.raises(EnvironmentUnavailable, match="nowhere-to-be-found"):
            maker.make(maker.spec("2.14.0"))
        # The copy in the cache, and the environments' own names for it, are one file.
        shared = next(Path(held.folder).glob("venv/lib/python3*/site-packages/torch/__init__.py"))
        assert os.stat(shared).st_nlink == 3
        assert held.size_bytes < new.size_bytes
        assert list(shared.parent.glob("__pycache__/*.pyc"))
        assert len(store.entries()) == 3
        assert prune(store, max_bytes=0)[0][0].why == "in use"
        for entry in store.entries():
            assert verify_entry(entry, process.run) == []
    before = Census(store).together
    done, freed = prune(store, keys=[old.spec.key])
    assert [row.removed for row in done] == [True]
    assert freed > 100_000
    assert abs(freed - (before - Census(store).together)) < 50_000  # but for uv's notes on what it had
    with UvProvider(options, process.run, gpu=False) as again:
        assert again.make(again.spec("2.13.0")).cached
        assert not again.make(again.spec("2.1.0")).cached  # its downloads are gone, and uv takes that


def test_an_index_without_dates_gives_up_the_era_and_says_so(
    options: EnvironmentOptions, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch has a date, its companions have none: the resolution in the era finds nothing."""
    dated = [{"filename": "torch-2.1.0-py3-none-any.whl", "upload-time": "2023-10-04T10:00:00Z"}]
    torch = wheels / "torch-2.1.0-py3-none-any.whl"
    digest = hashlib.sha256(torch.read_bytes()).hexdigest()
    with serving() as server:
        base = server.url.removesuffix("/simple")
        for row in dated:
            row.update(url=f"{base}/files/{row['filename']}", hashes={"sha256": digest}, size=1)  # type: ignore[call-overload]
        server.pages["/simple/torch/"] = json_page(dated)
        server.files["/files/torch-2.1.0-py3-none-any.whl"] = torch.read_bytes()
        for name in ("numpy", "setuptools"):
            page = ""
            for file in sorted(wheels.glob(f"{name}-*.whl")):
                page += f'<a href="{base}/files/{file.name}">{file.name}</a>'
                server.files[f"/files/{file.name}"] = file.read_bytes()
            server.pages[f"/simple/{name}/"] = ("text/html", page)
        monkeypatch.delenv("UV_OFFLINE", raising=False)
        far = EnvironmentOptions(**{**options.__dict__, "index": Index(url=server.url)})
        with UvProvider(far, process.run, gpu=False) as maker:
            spec = maker.spec("2.1.0")
            assert spec.exclude_newer == "2023-10-11"
            made = maker.make(spec)
    assert made.provenance["packages"]["numpy"] == "1.26.0"
    assert made.provenance["era"] == ""
    assert "no upload times" in made.provenance["notes"][-1]
    assert made.provenance["wheels"][-1]["source"] == server.url


def test_no_network_and_no_such_python_are_one_line(
    options: EnvironmentOptions, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    away = Index(url="http://127.0.0.1:9/simple", find_links=(str(wheels),))
    settings = {**options.__dict__, "index": away}
    with UvProvider(EnvironmentOptions(**settings), process.run, gpu=False) as maker:
        assert "cannot be reached" in "".join(maker.releases() and maker.notes)
        with pytest.raises(EnvironmentUnavailable, match=r"no network: .*127\.0\.0\.1"):
            maker.make(maker.spec("2.1.0"))
    other = EnvironmentOptions(**{**options.__dict__, "python": "3.2"})
    with UvProvider(other, process.run, gpu=False) as maker, pytest.raises(EnvironmentUnavailable) as refused:
        maker.make(maker.spec("2.1.0"))
    assert "there is no Python 3.2 on this machine" in str(refused.value)
    assert list(options.folder.glob("envs/*")) == []
