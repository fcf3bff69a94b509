"""What a run writes beside its script is its own: the next run and the user's folder see nothing of it."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.execution.prober import Prober
from accel_lab.execution.run_folder import copies
from accel_lab.execution.run_folder.copies import Copy, remove
from accel_lab.execution.run_folder.folder_views import COPY, LINKS, MOUNT
from accel_lab.execution.run_folder.workspace import Workspace

#: Without the right to mount, only copies are tried here; ``kind`` says which was used.
KINDS = ("", COPY)

STATEFUL = """
import os, sys, pathlib
HERE = pathlib.Path(__file__).resolve().parent
state = HERE / "state.txt"
seen = state.exists()
state.write_text("1")
with open(HERE / "log.txt", "a") as stream:
    stream.write("more")
(HERE / "data" / "new.txt").write_text("x")
sys.path.append("")
import helper
print("seen", seen, sys.path[0] == str(HERE), open("log.txt").read(), helper.__name__)
"""


def project(tmp_path: Path, text: str = STATEFUL) -> Path:
    folder = tmp_path / "user"
    (folder / "data").mkdir(parents=True)
    (folder / "log.txt").write_text("old ")
    (folder / "helper.py").write_text("")
    (folder / "script.py").write_text(text)
    return folder


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def ask_bare(tmp_path: Path, script: Path, cwd: Path, kind: str, runs: int = 2) -> list[Outcome]:
    with Prober(
        python=sys.executable, workspace=Workspace(tmp_path / "run", cwd, views=kind), workers=1
    ) as prober:
        probe = Probe(program=Program(path=str(script)), bare=True, limits=Limits(timeout_s=60.0))
        return [prober.ask(replace(probe, attempt=n)) for n in range(runs)]


def printed(outcome: Outcome, name: str = "stdout.txt") -> str:
    return (Path(outcome.folder) / name).read_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inside", [True, False], ids=["in the folder", "elsewhere"])
def test_no_run_finds_what_another_wrote_beside_the_script(tmp_path: Path, kind: str, inside: bool) -> None:
    folder = project(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "log.txt").write_text("other")
    before = tree(folder)
    for outcome in ask_bare(tmp_path, folder / "script.py", folder if inside else elsewhere, kind):
        assert outcome.status is Status.OK, printed(outcome, "stderr.txt")
        assert printed(outcome) == f"seen False True {'old more' if inside else 'other'} helper\n"
        assert not (Path(outcome.folder) / "view").exists()
    assert tree(folder) == before
    assert tree(elsewhere) == {"log.txt": "other"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_working_directory_above_the_script_is_one_view_with_it(tmp_path: Path, kind: str) -> None:
    text = "import os, sys\nopen('scripts/new', 'w').close()\nprint(os.path.exists(sys.path[0] + '/new'))"
    folder = project(tmp_path)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "a.py").write_text(text)
    before = tree(folder)
    (outcome,) = ask_bare(tmp_path, folder / "scripts" / "a.py", folder, kind, runs=1)
    assert printed(outcome) == "True\n", printed(outcome, "stderr.txt")
    assert tree(folder) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_traceback_names_the_users_own_files(tmp_path: Path, kind: str) -> None:
    folder = project(tmp_path, "import broken\nbroken.go(__file__)\n")
    (folder / "broken.py").write_text("def go(name):\n    print(name)\n    raise ValueError(name)\n")
    (outcome,) = ask_bare(tmp_path, folder / "script.py", folder, kind, runs=1)
    assert outcome.raised is not None
    assert [frame.file for frame in outcome.raised.frames] == [
        str(folder / "script.py"),
        str(folder / "broken.py"),
    ]
    assert outcome.raised.message == str(folder / "script.py")
    assert printed(outcome) == f"{folder / 'script.py'}\n"


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_that_name_files_of_the_folder_lead_into_the_view(tmp_path: Path, kind: str) -> None:
    text = "import sys\nopen(sys.argv[1], 'a').write('!')\nprint(open('log.txt').read())\n"
    folder = project(tmp_path, text)
    with Prober(python=sys.executable, workspace=Workspace(tmp_path / "run", folder, views=kind)) as prober:
        program = Program(path=str(folder / "script.py"), args=(str(folder / "log.txt"),))
        outcome = prober.ask(Probe(program=program, bare=True))
    assert printed(outcome) == "old !\n", printed(outcome, "stderr.txt")
    assert (folder / "log.txt").read_text() == "old "


@pytest.mark.parametrize("kind", (*KINDS, LINKS))
def test_a_large_folder_is_there_whole(tmp_path: Path, kind: str) -> None:
    folder = project(tmp_path, "import os\nprint(len(os.listdir('.')), open('f2099').read())\n")
    for number in range(2100):
        (folder / f"f{number}").write_text(str(number))
    (outcome,) = ask_bare(tmp_path, folder / "script.py", folder, kind, runs=1)
    assert printed(outcome) == "2104 2099\n", printed(outcome, "stderr.txt")


def test_a_run_folder_inside_the_users_stays_reachable(tmp_path: Path) -> None:
    folder = project(tmp_path)
    with Prober(python=sys.executable, workspace=Workspace(folder / "runs" / "1", folder)) as prober:
        probe = Probe(program=Program(path=str(folder / "script.py")), bare=True)
        outcomes = [prober.ask(replace(probe, attempt=n)) for n in (0, 1)]
    assert [printed(outcome) for outcome in outcomes] == ["seen False True old more helper\n"] * 2
    assert not (folder / "state.txt").exists()


OUTSIDE = """
import os
for name in ("state.bin", "log.txt", "notes.md"):
    with open("FOLDER/" + name, "a") as stream:
        stream.write("past")
"""


def test_what_a_copy_cannot_keep_is_put_back_and_said(tmp_path: Path) -> None:
    """What people write by hand is left alone: it may be theirs."""
    folder = project(tmp_path)
    (folder / "script.py").write_text(OUTSIDE.replace("FOLDER", str(folder)))
    (folder / "notes.md").write_text("mine ")
    outcome, again = ask_bare(tmp_path, folder / "script.py", folder, COPY)
    assert (folder / "log.txt").read_text() == "old "
    assert not (folder / "state.bin").exists()
    assert (folder / "notes.md").read_text().startswith("mine past")
    kept = tmp_path / "run" / "displaced" / folder.relative_to("/")
    assert (kept / "log.txt").read_text() == "old past"
    assert (kept / "state.bin").read_text() == "past"
    (note,) = outcome.notes
    assert "log.txt, state.bin (restored" in note and "notes.md" not in note
    assert len(again.notes) == 1


def test_an_overlay_is_used_where_the_kernel_allows_it(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("needs the right to mount")
    folder = project(tmp_path)
    workspace = Workspace(tmp_path / "run", folder)
    place = workspace.place(Probe(program=Program(path=str(folder / "script.py"))))
    if workspace.folder_views.kind != MOUNT:
        pytest.skip("this kernel has no overlay")
    assert (place.cwd, place.view.copies) == (folder, ())


def test_a_folder_that_cannot_be_mounted_over_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path)
    workspace = Workspace(tmp_path / "run", folder)
    (workspace.library / "view.py").write_text("import sys\nsys.exit(70)\n")
    place = workspace.place(Probe(program=Program(path=str(folder / "script.py"))))
    assert workspace.folder_views.kind == COPY
    assert (
        place.cwd.name == "user" and (place.cwd / "data").is_dir() and not (place.cwd / "data").is_symlink()
    )


# -- copies --------------------------------------------------------------------------------------


def test_a_copy_keeps_the_meaning_of_links(tmp_path: Path) -> None:
    folder = project(tmp_path)
    outside = tmp_path / "outside.txt"
    outside.write_text("far")
    os.symlink("log.txt", folder / "relative")
    os.symlink(folder / "log.txt", folder / "absolute")
    os.symlink("../outside.txt", folder / "out")
    os.symlink("nowhere", folder / "broken")
    os.mkfifo(folder / "pipe")
    target = tmp_path / "copy"
    Copy(source=folder, target=target).make()
    for name in ("relative", "absolute"):
        (target / name).write_text("changed")
        (target / "log.txt").write_text("changed")
    assert (folder / "log.txt").read_text() == "old "
    assert (target / "out").read_text() == "far"
    assert (target / "broken").is_symlink() and not (target / "broken").exists()
    assert stat.S_ISFIFO((target / "pipe").stat().st_mode)


def test_what_is_large_is_a_link_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "COPY_BYTES", 10)
    folder = project(tmp_path)
    (folder / "data" / "big").write_bytes(b"x" * 11)
    made = Copy(source=folder, target=tmp_path / "copy").make()
    assert made.cut
    assert (tmp_path / "copy" / "data" / "big").is_symlink()
    assert not (tmp_path / "copy" / "log.txt").is_symlink()


def test_more_folders_than_are_copied_are_links_but_not_the_scripts_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "COPY_ENTRIES", 2)
    folder = project(tmp_path)
    own = folder / "z" / "deep"
    own.mkdir(parents=True)
    (own / "a").write_text("a")
    made = Copy(source=folder, target=tmp_path / "copy", real=(own,)).make()
    assert made.cut
    assert not (tmp_path / "copy" / "z" / "deep").is_symlink()
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == sorted(os.listdir(folder))


def test_a_virtual_environment_and_the_lab_s_own_folder_are_not_copied(tmp_path: Path) -> None:
    folder = project(tmp_path)
    for name in ("env", "runs/1"):
        (folder / name).mkdir(parents=True)
    (folder / "env" / "pyvenv.cfg").touch()
    Copy(source=folder, target=tmp_path / "copy", apart=folder / "runs" / "1").make()
    assert (tmp_path / "copy" / "env").is_symlink() and (tmp_path / "copy" / "runs").is_symlink()


def test_a_read_only_folder_is_copied_as_one_and_can_be_removed(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "data").chmod(0o555)
    Copy(source=folder, target=tmp_path / "copy").make()
    assert stat.S_IMODE((tmp_path / "copy" / "data").stat().st_mode) == 0o555
    remove(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    (folder / "data").chmod(0o755)


# -- on a real torch -----------------------------------------------------------------------------

COMPILES = """
import os, pathlib, sys
HERE = pathlib.Path(__file__).resolve().parent
seen = (HERE / "state").exists()
(HERE / "state").touch()
import torch
torch.compile(lambda t: t + 1, backend="eager")(torch.ones(2))
print(seen, os.getcwd() == str(HERE), sys.argv[0] == __file__)
raise ValueError(HERE)
"""


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_warm_and_cold_runs_see_the_same(torch_python: str, tmp_path: Path, kind: str) -> None:
    folder = project(tmp_path, COMPILES)
    before = tree(folder)
    probe = Probe(program=Program(path=str(folder / "script.py")), limits=Limits(timeout_s=240.0))
    with Prober(python=torch_python, workspace=Workspace(tmp_path / "run", folder, views=kind)) as prober:
        prober.warm_up()
        outcomes = [
            prober.ask(replace(probe, cold=cold, attempt=n)) for n, cold in enumerate((True, False, False))
        ]
    assert [outcome.warm for outcome in outcomes] == [False, True, True]
    for outcome in outcomes:
        assert printed(outcome) == "False True True\n", printed(outcome, "stderr.txt")
        assert outcome.raised is not None and outcome.raised.message == str(folder)
        assert outcome.raised.frames[-1].file == str(folder / "script.py")
        assert str(folder / "script.py") in printed(outcome, "stderr.txt")
    assert tree(folder) == before


def test_a_reduced_script_leaves_nothing_beside_itself(tmp_path: Path) -> None:
    """One that lies in the run's own folder: the next run of it must not find what the last one wrote."""
    folder = project(tmp_path)
    root = tmp_path / "run"
    workspace = Workspace(root, folder)
    script = root / "reduce" / "script" / "repro.py"
    script.parent.mkdir(parents=True)
    script.write_text(
        "import os, pathlib\nbeside = pathlib.Path(__file__).with_name('state')\n"
        "print(os.getcwd() == os.path.dirname(__file__), beside.exists())\nbeside.write_text('x')\n"
    )
    with Prober(python=sys.executable, workspace=workspace) as prober:
        probe = Probe(program=Program(path=str(script)), bare=True, cold=True, cwd=str(script.parent))
        runs = [prober.ask(replace(probe, attempt=n)) for n in range(2)]
    if workspace.folder_views.kind != MOUNT:
        pytest.skip("no mount is allowed here")
    assert [printed(run) for run in runs] == ["True False\n"] * 2, printed(runs[0], "stderr.txt")
    assert [path.name for path in script.parent.iterdir()] == ["repro.py"]


@pytest.mark.parametrize("kind", (*KINDS, LINKS))
def test_a_changed_script_stands_in_the_place_of_the_users_own(tmp_path: Path, kind: str) -> None:
    folder = project(tmp_path, "print('mine')\n")
    before = tree(folder)
    workspace = Workspace(tmp_path / "run", folder, views=kind)
    text = workspace.keep_text("import helper\nprint('changed', __file__)\n")
    script = folder / "script.py"
    plain = Probe(program=Program(path=str(script)), bare=True, limits=Limits(timeout_s=60.0))
    probe = replace(plain, edited=(str(script), str(text)))
    with Prober(python=sys.executable, workspace=workspace, workers=1) as prober:
        changed, own = prober.ask(probe), prober.ask(plain)
    if kind == LINKS:
        assert changed.status is Status.NOT_APPLICABLE and "edited scripts need" in changed.notes[0]
    else:
        assert printed(changed) == f"changed {script}\n", printed(changed, "stderr.txt")
    assert printed(own) == "mine\n"
    assert tree(folder) == before
    assert probe.key != plain.key


def test_a_changed_script_is_known_by_its_text(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "run", tmp_path)
    one, two = workspace.keep_text("a = 1\n"), workspace.keep_text("a = 2\n")
    assert one == workspace.keep_text("a = 1\n") != two
    probe = Probe(program=Program(path="/x.py"), edited=("/x.py", str(one)))
    elsewhere = replace(probe, edited=("/x.py", f"/elsewhere/{one.name}"))
    assert probe.key == elsewhere.key != replace(probe, edited=("/x.py", str(two))).key
