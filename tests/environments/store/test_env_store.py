from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accel_lab.core.machine import locks
from accel_lab.core.machine.locks import Lock
from accel_lab.environments.store.folder import Store, write_atomic
from accel_lab.environments.store.pruning import Census, prune


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "envs").glob(".*"))


def test_a_lock_excludes_and_shares(tmp_path: Path) -> None:
    first, second, third = (Lock(tmp_path / "deep" / "a.lock") for _ in range(3))
    assert first.take(shared=True)
    assert second.take(shared=True)
    assert not third.take()
    first.release()
    assert second.take()  # from shared to exclusive
    assert not third.take(shared=True, wait_s=0.2)
    second.release()
    assert third.take()
    third.release()


def test_a_killed_lab_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom accel_lab.core.machine.locks import Lock\n"
        "print(Lock(Path(sys.argv[1])).take(), flush=True)\ntime.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(locks.__file__).parents[2])}
    path = tmp_path / "a.lock"
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdout=subprocess.PIPE, env=env, text=True
    ) as child:
        assert child.stdout is not None
        # The object is dropped at once in the child, so its file is kept open by nobody but the descriptor.
        assert child.stdout.readline().strip() == "True"
        assert not Lock(path).take()
        child.kill()
        child.wait()
        assert Lock(path).take(wait_s=5.0)


def test_what_a_killed_lab_left_is_swept_but_not_what_is_being_made(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stale, alive = store.start("aaaa"), store.start("bbbb")
    (store.environments / ".removing-cccc-12").mkdir()
    with store.lock("bbbb") as held:
        assert held.take()
        store.sweep()
    assert not stale.exists()
    assert alive.exists()
    assert left_over(tmp_path) == [alive.name]
    store.start("bbbb")  # whoever starts holds the lock, so the other one is dead by now
    assert not alive.exists()


# -- removing --------------------------------------------------------------------------------------------


def filled(store: Store, key: str, size: int, used: float, shares: Path | None = None) -> Path:
    """An environment of a given size, not used since a time."""
    building = store.start(key)
    (building / "data").write_bytes(b"x" * size)
    if shares is not None:
        os.link(shares, building / "shared")
    spec = {"torch": key}
    folder = store.finish(building, key, {"spec": spec, "provenance": {}, "size_bytes": size})
    os.utime(folder / "last-used", (used, used))
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made, now = Store(tmp_path / "kept"), time.time()
    download = made.cache / "uv" / "archive-v0" / "wheel" / "shared"
    download.parent.mkdir(parents=True)
    download.write_bytes(b"y" * 400_000)
    spare = made.cache / "uv" / "archive-v0" / "spare" / "file"
    spare.parent.mkdir(parents=True)
    spare.write_bytes(b"z" * 200_000)
    filled(made, "old", 100_000, now - 30 * 86400, download)
    filled(made, "middle", 100_000, now - 10 * 86400, download)
    filled(made, "new", 100_000, now, None)
    return made


def keys(store: Store) -> list[str]:
    return [entry.key for entry in store.entries()]


def test_what_is_shared_is_counted_once(store: Store) -> None:
    census = Census(store)
    usage = census.environments
    assert usage["old"].total - usage["old"].own == usage["middle"].total - usage["middle"].own >= 400_000
    assert 100_000 <= usage["new"].own == usage["new"].total < 200_000
    assert 900_000 <= census.together < 1_100_000


def test_prune_by_age_takes_the_downloads_that_none_needs(store: Store) -> None:
    done, freed = prune(store, older_than_s=20 * 86400)
    assert [(row.key, row.removed, row.why) for row in done] == [("old", True, "not used for 30 days")]
    assert keys(store) == ["new", "middle"]
    assert 300_000 <= freed < 400_000
    assert sorted(p.name for p in (store.cache / "uv" / "archive-v0").iterdir()) == ["wheel"]


def test_prune_by_size_removes_the_longest_unused_first(store: Store) -> None:
    prune(store, max_bytes=720_000)
    assert keys(store) == ["new", "middle"]
    done, _ = prune(store, max_bytes=0)
    assert [row.key for row in done] == ["middle", "new"]
    assert list((store.cache / "uv" / "archive-v0").iterdir()) == []


def test_prune_of_nothing_removes_nothing_but_spare_downloads(store: Store) -> None:
    assert prune(store, max_bytes=10**9)[0] == []
    assert keys(store) == ["new", "middle", "old"]
    assert not (store.cache / "uv" / "archive-v0" / "spare").exists()


def test_one_that_is_in_use_stays(store: Store) -> None:
    with store.lock("old") as used:
        assert used.take(shared=True)
        assert {entry.key: entry.in_use for entry in store.entries()} == {
            "old": True,
            "middle": False,
            "new": False,
        }
        done, _ = prune(store, keys=["old"], max_bytes=0)
    assert {row.key: (row.removed, row.why) for row in done}["old"] == (False, "in use")
    assert keys(store) == ["old"]
    assert (store.cache / "uv" / "archive-v0" / "wheel").exists()


def test_a_dry_run_says_the_same_and_does_nothing(store: Store) -> None:
    said = prune(store, max_bytes=0, dry_run=True)
    assert keys(store) == ["new", "middle", "old"]
    done = prune(store, max_bytes=0)
    assert said == done


def test_downloads_stay_while_something_is_installed(store: Store) -> None:
    with store.downloads_lock() as held:
        assert held.take(shared=True)
        prune(store, max_bytes=10**9)
    assert (store.cache / "uv" / "archive-v0" / "spare").exists()


def test_a_file_appears_whole(tmp_path: Path) -> None:
    write_atomic(tmp_path / "new" / "a.txt", "one")
    write_atomic(tmp_path / "new" / "a.txt", "two")
    assert [(p.name, p.read_text()) for p in (tmp_path / "new").iterdir()] == [("a.txt", "two")]


def test_a_manifest_of_another_kind_is_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = filled(store, "aaaa", 1, 0.0)
    (folder / "environment.json").write_text(json.dumps({"schema": "other"}))
    assert store.manifest("aaaa") is None
    assert store.entries() == []
