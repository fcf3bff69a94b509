"""What a reduced script is handed out with: what it opens, beside it, and nothing else."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.minimize import repro, shipping
from accel_lab.minimize.target import Target
from accel_lab.reduction.problem import Candidate


class Told:
    """A lab whose runs say what they opened, and fail where a file is beside the script."""

    def __init__(self, facts: Any, needs: str = "") -> None:
        self.facts = facts
        self.needs = needs
        self.seen: list[set[str]] = []

    def submit(self, probe: Probe) -> Future[Outcome]:
        folder = Path(str(probe.program.path)).parent
        here = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        self.seen.append(here)
        assert not probe.cwd or probe.cwd == str(folder)
        (folder / "left.txt").write_text("what a run leaves")
        failed = not self.needs or self.needs in here
        status, code = (Status.EXIT, 4) if failed else (Status.OK, 0)
        done: Future[Outcome] = Future()
        done.set_result(Outcome(status=status, exit_code=code, facts=self.facts))
        return done

    def signature(self, outcome: Outcome) -> Signature | None:
        return Signature(kind="exit", type="exit 4") if outcome.failed else None

    def oracle_undecided(self, outcome: Outcome) -> bool:
        return False


@pytest.fixture
def candidate(tmp_path: Path) -> Candidate:
    home = tmp_path / "home"
    for name in (
        "pkg/__init__.py",
        "pkg/a.py",
        "pkg/__pycache__/a.pyc",
        "cfg.json",
        "env/pyvenv.cfg",
        "env/x.py",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    files = {name: home / name for name in ("pkg", "cfg.json", "env")}
    return Candidate("from pkg import a\n", files)


PROBE = Probe(program=Program(path="x", args=("--n",)))


def test_what_a_run_opened_is_copied(tmp_path: Path, candidate: Candidate) -> None:
    place, home = tmp_path / "linked", tmp_path / "home"
    read = [
        place / "repro.py",
        place / "pkg/__init__.py",
        place / "pkg/a.py",
        home / "cfg.json",
        "/etc/passwd",
    ]
    lab = Told({"opened": {"cwd": str(home), "read": [str(path) for path in read], "handed": [3]}})
    files = shipping.opened_by(lab, PROBE, candidate, place, "k")
    assert set(files) == {"pkg/__init__.py", "pkg/a.py", "cfg.json"}
    script = shipping.lay_out(candidate, files, tmp_path / "repro")
    here = {path for path in (tmp_path / "repro").rglob("*") if path.is_file()}
    assert {path.relative_to(tmp_path / "repro").as_posix() for path in here} == {*files, "repro.py"}
    assert not any(path.is_symlink() for path in here)
    assert script.read_text() == candidate.source


@pytest.mark.parametrize("facts", [{}, {"opened": 3}])
def test_where_no_run_told_the_source_does(tmp_path: Path, candidate: Candidate, facts: Any) -> None:
    files = shipping.opened_by(Told(facts), PROBE, candidate, tmp_path / "linked", "k")
    assert set(files) == {"pkg/__init__.py", "pkg/a.py"}


def test_everything_is_bounded_and_no_environment(tmp_path: Path, candidate: Candidate) -> None:
    assert set(shipping.everything(candidate)) == {"pkg/__init__.py", "pkg/a.py", "cfg.json"}
    many = tmp_path / "many"
    many.mkdir()
    for number in range(shipping.MAX_FILES + 50):
        (many / f"{number:04d}").write_text("1")
    assert len(shipping.everything(Candidate("", {"many": many}))) == shipping.MAX_FILES


@pytest.mark.parametrize(("shipped", "holds"), [({"cfg.json"}, True), (set(), False)])
def test_the_proof_is_run_with_what_ships_and_nothing_else(
    tmp_path: Path, candidate: Candidate, shipped: set[str], holds: bool
) -> None:
    lab = Told({}, needs="cfg.json")
    files = {name: path for name, path in candidate.files.items() if name in shipped}
    target = Target(signature=Signature(kind="exit", type="exit 4"), bad=Rung.KERNEL)
    folder = tmp_path / "repro"
    proof = repro.prove(lab, PROBE, candidate, target, folder, "k", Limits(), files)
    assert proof.holds is holds
    assert all(here == {"repro.py", *shipped} for here in lab.seen)  # nor what the run before left
    assert {path.name for path in folder.iterdir()} == {"repro.py", *shipped}
