"""What a hostile child leaves ends as an Outcome: nothing hangs, nothing is followed, nothing is believed."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import accel_lab
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import PROTOCOL, Probe, Program
from accel_lab.core.process_exit import ProcessExit
from accel_lab.core.stages import Rung
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.core.untrusted.fact_shapes import FACTS
from accel_lab.execution.journal import Journal
from accel_lab.execution.prober import Prober
from accel_lab.execution.run_folder.folder_views import LINKS
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.numerics import recording as reader
from accel_lab.numerics import records
from accel_lab.reduction.graph.load import header, load_captures, read_entry

SECRET = "do not tell"
Spoil = Callable[[Path], None]
REFUSED, OK = Status.REFUSED, Status.OK

REGION = {"id": 0, "name": "f", "backend": "inductor"}
RAISED = {"type": "ValueError", "message": "m", "frames": [{"file": "a.py", "line": 1, "function": "f"}]}
TENSOR = {
    "event": "call",
    "region": 0,
    "name": "f",
    "call": 0,
    "phase": "output",
    "path": "out",
    "kind": "tensor",
    "dtype": "float32",
    "shape": [2],
    "stride": [1],
    "nbytes": 8,
    "offset": 0,
    "stats": {"min": 0.0, "max": 1.0, "mean": 0.5},
}


def result(**more: Any) -> dict[str, Any]:
    return {"raised": None, "torch": "2.9", "python": "3.11", "facts": {"regions": [REGION]}, **more}


def leave(folder: Path) -> None:
    """What an honest child leaves."""
    (folder / "result.json").write_text(json.dumps(result()))
    (folder / "records.jsonl").write_text(json.dumps(TENSOR) + "\n")
    (folder / "tensors.bin").write_bytes(bytes(8))
    (folder / "artifacts").mkdir()
    (folder / "artifacts" / "post_grad_0.py").write_text("graph")


def put(name: str, content: Any) -> Spoil:
    """A file of that content: bytes, or a value as JSON."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()

    def spoil(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)

    return spoil


def instead(name: str, make: Callable[[Path], Any]) -> Spoil:
    """Something else in a file's place."""

    def spoil(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        make(path)

    return spoil


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


def sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(4 << 30)


def secret_link(path: Path) -> None:
    secret = Path(path.parent, "..", "..", "..", "secret.txt").resolve()
    secret.write_text(SECRET)
    path.symlink_to(secret)


def looped(path: Path) -> None:
    path.symlink_to(path.name)


ODD = {
    "a pipe": os.mkfifo,
    "a link to a secret": secret_link,
    "a link to itself": looped,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a socket": listening,
    "4 GB of nothing": sparse,
}
PLACES = (
    "result.json",
    "regions.json",
    "records.jsonl",
    "tensors.bin",
    "crash.txt",
    "stdout.txt",
    "stderr.txt",
)
#: Of these only a part is read, so their size is no harm.
HARMLESS = {("4 GB of nothing", "stdout.txt"), ("4 GB of nothing", "stderr.txt")}


def odd_files() -> Iterator[tuple[str, Spoil, Status]]:
    for name in PLACES:
        for kind, make in ODD.items():
            if (kind, name) == ("4 GB of nothing", "regions.json"):
                continue  # not read where result.json tells the same
            expected = OK if (kind, name) in HARMLESS else REFUSED
            yield f"{name} is {kind}", instead(name, make), expected


def wrong_results() -> Iterator[tuple[str, Spoil, Status]]:
    wrong: dict[str, Any] = {
        "cut short": b'{"facts": {"regions": [',
        "empty": b"",
        "not JSON": b"\x7fELF",
        "not UTF-8": b'{"torch": "\xff\xfe"}',
        "nested 100,000 deep": b"[" * 100_000,
        "nested 500 deep": b'{"facts": {"x": ' + b"[" * 500 + b"]" * 500 + b"}}",
        "of 5,000 digits": b'{"facts": {"graphs": ' + b"9" * 5000 + b"}}",
        "of 100 digits": b'{"facts": {"x": ' + b"9" * 100 + b"}}",
        "a list": [],
        "text": "result",
        "a number": 7,
        "notes of numbers": result(notes=[1, 2]),
        "notes as an object": result(notes={"a": 1}),
        "torch as a list": result(torch=["2.9"]),
        "facts as a list": result(facts=[1]),
        "raised as text": result(raised="ValueError"),
        "raised without a message": result(raised={"type": "ValueError"}),
        "raised of a number": result(raised={**RAISED, "type": 3}),
        "raised with frames of text": result(raised={**RAISED, "frames": ["a.py"]}),
        "raised with more in a frame": result(
            raised={**RAISED, "frames": [{**RAISED["frames"][0], "os": "x"}]}
        ),
        "raised with half a link": result(raised={**RAISED, "links": [["ValueError"]]}),
        "raised at a NaN": b'{"raised": {"type": "E", "message": "m", "frames": '
        b'[{"file": "a", "line": NaN, "function": "f"}]}}',
        "regions without an id": result(facts={"regions": [{"name": "f"}]}),
        "regions of id -1": result(facts={"regions": [{**REGION, "id": -1}]}),
        "regions of id true": result(facts={"regions": [{**REGION, "id": True}]}),
        "caught without a type": result(facts={"caught": [{"message": "m"}]}),
        "kernels of lines of text": result(
            facts={"kernels": [{"file": "a", "language": "cpp", "text": "", "origins": {"x": ["1"]}}]}
        ),
        "applied to a text": result(facts={"applied": {"lowerings": "all"}}),
        "steps of text": result(facts={"mock": {"steps": {"wrong": ["x"]}}}),
        "front calls of text": result(facts={"front": {"calls": ["x"]}}),
        "rows without a node": result(facts={"divergence": {"graphs": [{"rows": [{"op": "x"}]}]}}),
    }
    for name, content in wrong.items():
        yield f"result.json is {name}", put("result.json", content), REFUSED
    for fact in FACTS:
        bad: Any = {"x": 1} if fact in ("regions", "graphs", "random", "not_applicable", "dtypes") else "x\0y"
        if fact == "not_applicable":
            bad = ["x"]
        yield f"the fact {fact} has a wrong type", put("result.json", result(facts={fact: bad})), REFUSED
    yield "regions.json is a text", _without_result(put("regions.json", "x")), REFUSED
    yield "kernels.json is nested", _without_result(put("kernels.json", b"[" * 90_000)), REFUSED
    yield "entries.json is a number", _without_result(put("entries.json", 1)), REFUSED
    yield "fault.txt is not UTF-8", put("fault.txt", b"\xff\xfe" * 9), OK


def _without_result(spoil: Spoil) -> Spoil:
    def both(folder: Path) -> None:
        (folder / "result.json").unlink()
        spoil(folder)

    return both


def wrong_records() -> Iterator[tuple[str, Spoil, Status]]:
    rows: dict[str, Any] = {
        "a shape of text": {"shape": "2"},
        "a shape below zero": {"shape": [-2]},
        "a shape of fractions": {"shape": [1.5]},
        "a shape of 2**60": {"shape": [1 << 60]},
        "a hundred dimensions": {"shape": [1] * 100},
        "a stride of text": {"stride": ["1"]},
        "an offset below zero": {"offset": -8},
        "an offset of text": {"offset": "0"},
        "an offset of NaN": {"offset": float("nan")},
        "2**70 bytes": {"nbytes": 1 << 70},
        "a dtype that is a list": {"dtype": ["float32"]},
        "statistics that are a list": {"stats": [1, 2]},
        "statistics of lists": {"stats": {"min": [1]}},
        "a sample without a step": {"sample": {"offset": 0}},
        "a sample of step 0": {"sample": {"step": 0, "offset": 0, "nbytes": 8}},
        "a reference without a place": {"ref": {"dtype": "float64"}},
        "a spread of text": {"spread": "x"},
        "bases of numbers": {"bases": [1]},
        "changed by text": {"changed": "yes"},
        "a region that is an object": {"region": {}},
        "a call of text": {"call": "first"},
        "a name that is a list": {"name": ["f"]},
        "exact text": {"exact": {"value": "one", "spread": None}},
        "an exact triple": {"exact": {"value": ["1", "2", "3"], "spread": None}},
        "a value of objects": {"value": [{}]},
    }
    for name, change in rows.items():
        yield f"records.jsonl has {name}", put("records.jsonl", {**TENSOR, **change}), REFUSED
    yield "records.jsonl is nested", put("records.jsonl", b"[" * 100_000), REFUSED
    harmless: dict[str, Any] = {
        "bytes beyond the file": {**TENSOR, "offset": 1 << 40},
        "fewer values than its shape": {**TENSOR, "shape": [3, 3]},
        "an unknown dtype": {**TENSOR, "dtype": "float1"},
        "no keys": {"event": "call"},
        "a value of 2,000 digits": {**TENSOR, "kind": "value", "value": 10**2000},
        "rows of an unknown kind": {"event": "other", "shape": "x"},
    }
    for name, row in harmless.items():
        yield f"records.jsonl has {name}", put("records.jsonl", row), OK
    yield "records.jsonl is cut short", put("records.jsonl", b'{"event": "call", "sh'), OK
    yield "records.jsonl is not UTF-8", put("records.jsonl", b"\xff\xfe\n\n"), OK
    yield "tensors.bin is gone", lambda folder: (folder / "tensors.bin").unlink(), OK


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def replaced(folder: Path) -> None:
    shutil.move(folder, folder.with_name("moved"))
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / "stdout.txt").write_text(SECRET)
    folder.symlink_to(elsewhere)


def a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("x")


def another(folder: Path) -> None:
    shutil.move(folder, folder.with_name("moved-away"))
    folder.mkdir()
    leave(folder)


def deep(folder: Path) -> None:
    for turn in range(1200):
        name = f"d{turn}"
        os.mkdir(name, dir_fd=(at := os.open(folder if turn == 0 else ".", os.O_RDONLY)))
        os.chdir(at)
        os.chdir(name)
        os.close(at)
    os.chdir("/")


FOLDERS: dict[str, tuple[Spoil, Status]] = {
    "the folder is gone": (removed, REFUSED),
    "the folder is a link": (replaced, REFUSED),
    "the folder is a file": (a_file, REFUSED),
    "the folder is another one": (another, REFUSED),
    "folders are nested 1,200 deep": (deep, REFUSED),
    "artifacts is a link": (instead("artifacts", lambda path: path.symlink_to("/etc")), REFUSED),
    "artifacts is a file": (instead("artifacts", lambda path: path.write_text("x")), OK),
    "artifacts holds a pipe": (instead("artifacts/kernel_0.py", os.mkfifo), REFUSED),
    "artifacts holds a link": (instead("artifacts/kernel_0.py", secret_link), REFUSED),
    "the folder may not be entered": (lambda folder: folder.chmod(0), OK),
    "result.json may not be read": (lambda folder: (folder / "result.json").chmod(0), OK),
    "a name has control characters": (put("\x1b[31m\n.txt", b"x"), OK),
    "a pipe has such a name": (instead("\x1b[31m\n.txt", os.mkfifo), REFUSED),
    "a name is not UTF-8": (lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch(), OK),
    "outcome.json is a folder": (instead("outcome.json", Path.mkdir), REFUSED),
    "outcome.json is a link": (instead("outcome.json", secret_link), REFUSED),
    "outcome.json.part is a link": (instead("outcome.json.part", secret_link), REFUSED),
    "a sanitizer's report is a pipe": (instead("sanitizer.1", os.mkfifo), REFUSED),
    "a sanitizer's report is a folder": (instead("sanitizer.1", Path.mkdir), OK),
    "a report names another file": (
        put("sanitizer.1", b"ERROR: AddressSanitizer: x\n    #0 0x1 in f /etc/passwd.cpp:1\n"),
        OK,
    ),
    "capture is a link": (instead("capture", lambda path: path.symlink_to("/")), REFUSED),
}
CASES = [
    *odd_files(),
    *wrong_results(),
    *wrong_records(),
    *((name, spoil, status) for name, (spoil, status) in FOLDERS.items()),
]


class Bench:
    """A prober whose runs leave what they are told to."""

    def __init__(self, folder: Path) -> None:
        cwd = folder / "cwd"
        cwd.mkdir()
        self.script = cwd / "repro.py"
        self.script.write_text("")
        self.spoil: Spoil = leave
        self.prober = Prober(
            python="python",
            workspace=Workspace(folder / "run", cwd, views=LINKS),
            env={},
            runner=self._run,
        )
        self.asked = 0

    def _run(self, command: Any, *, stdout: Path, stderr: Path, **_: Any) -> ProcessExit:
        stdout.touch()
        stderr.touch()
        leave(stdout.parent)
        self.spoil(stdout.parent)
        return ProcessExit(exit_code=0, seconds=0.1)

    def ask(self, spoil: Spoil) -> Outcome:
        self.spoil, self.asked = spoil, self.asked + 1
        program = Program(path=str(self.script))
        return self.prober.ask(Probe(program=program, rung=Rung.KERNEL, cold=True, attempt=self.asked))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bench"))
    with made.prober:
        yield made


@pytest.fixture(autouse=True)
def no_wait() -> Iterator[None]:
    """What waits for a pipe fails instead of hanging."""

    def late(*_: object) -> None:
        raise AssertionError("it waits for something that a child left")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_there_are_enough() -> None:
    assert len(CASES) >= 100
    assert len({name for name, _, _ in CASES}) == len(CASES)


@pytest.mark.parametrize(("spoil", "status"), [(s, t) for _, s, t in CASES], ids=[n for n, _, _ in CASES])
def test_what_a_child_left_is_an_outcome(bench: Bench, spoil: Spoil, status: Status) -> None:
    outcome = bench.ask(spoil)
    assert outcome.status is status, outcome.notes
    if status is REFUSED:
        (note,) = outcome.notes
        assert note.isprintable()
        assert note.startswith("what the run left was not read: ")
    recording = reader.load(outcome.folder)  # whatever is left now can be read
    assert records.diff(recording, recording) is not None
    text = json.dumps(outcome.to_json(), default=str)
    assert SECRET not in text
    secrets = list(Path(outcome.folder).parents[1].rglob("secret.txt"))
    assert all(path.read_text() == SECRET for path in secrets)
    told = ChildFiles(outcome.folder)
    assert (told.tail("stdout.txt", 1000) or "").strip("\0") == ""


def test_a_limit_that_ended_the_run_is_told_before_what_it_left(bench: Bench) -> None:
    outcome = bench.ask(put("result.json", b"{"))
    assert outcome.status is REFUSED
    bench.prober._runner = lambda *words, **settings: replace(
        bench._run(*words, **settings), exit_code=None, limit="timeout"
    )
    try:
        assert bench.ask(put("result.json", b"{")).status is Status.TIMEOUT
    finally:
        bench.prober._runner = bench._run


# -- readers of their own ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        {"graph": 0, "reason": "", "nodes": {}, "calls": []},
        {"graph": -1, "reason": "", "nodes": [], "calls": []},
        {"graph": 0, "reason": 3, "nodes": [], "calls": []},
        {"graph": 0, "reason": "", "nodes": [{}], "calls": []},
        {"graph": 0, "reason": "", "nodes": [], "calls": [{}]},
    ],
)
def test_a_captured_graph_of_another_shape_is_refused(tmp_path: Path, data: Any) -> None:
    put("capture/graph0.json", data)(tmp_path)
    with pytest.raises(UntrustedFileError):
        load_captures(tmp_path)


@pytest.mark.parametrize("name", ["graph.json", "graphx.json", f"graph{'9' * 30}.json"])
def test_a_captured_graph_of_another_name_is_passed_over(tmp_path: Path, name: str) -> None:
    put(f"capture/{name}", {})(tmp_path)
    assert load_captures(tmp_path) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        (1 << 62).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (11).to_bytes(8, "little") + b'{"a": null}',
        (15).to_bytes(8, "little") + b'{"a": {"b": 1}}',
        b"\x32\0\0\0\0\0\0\0" + b'{"a": {"dtype": "F32", "data_offsets": [-8, -4]}} ',
        b"\x30\0\0\0\0\0\0\0" + b'{"a": {"dtype": "F32", "data_offsets": [8, 4]}} ',
        b"\x37\0\0\0\0\0\0\0" + b'{"a": {"dtype": "F32", "data_offsets": [0, 99999999]}} ',
        b"\x30\0\0\0\0\0\0\0" + b'{"b": {"dtype": "F32", "data_offsets": [0, 4]}} ',
    ],
)
def test_a_file_of_values_that_lies_about_its_size_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "values.safetensors"
    path.write_bytes(data)
    with pytest.raises(UntrustedFileError):
        header(path)
        read_entry(path, "a")


@pytest.mark.parametrize(
    "row",
    [
        {"event": "ended", "key": "k"},
        {"event": "ended", "key": "k", "outcome": {"status": "splendid"}},
        {"event": "ended", "key": "k", "outcome": {"status": ["ok"]}},
        {"event": "ended", "key": "k", "outcome": {"status": "ok", "facts": {"regions": "x"}}},
        {"event": "ended", "key": ["k"], "outcome": {"status": "ok"}},
        {"event": ["ended"]},
        [],
        7,
    ],
)
def test_a_row_of_the_journal_that_is_none_is_passed_over(tmp_path: Path, row: Any) -> None:
    good = Outcome(status=OK).to_json()
    first = {"event": "protocol", "protocol": PROTOCOL}
    rows = [first, row, {"event": "ended", "key": "good", "outcome": good}]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows) + "[" * 90_000)
    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.answered == 1
    journal.close()


def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    for name in ("../x", "/etc/hostname", "a/../../x", "", "a\0b"):
        with pytest.raises(UntrustedFileError):
            ChildFiles(tmp_path).data(name, 100)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a" * 10)
    whole = os.read

    def growing(file: int, size: int) -> bytes:
        with path.open("ab") as stream:
            stream.write(b"a" * 100)
        return whole(file, size)

    monkeypatch.setattr(os, "read", growing)
    with pytest.raises(UntrustedFileError, match="grew"):
        ChildFiles(tmp_path).data("x", 50)


def test_nothing_is_unpickled_in_the_labs_process() -> None:
    """The probed interpreter runs these four folders; everything else is the lab."""
    root = Path(accel_lab.__file__).parent
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] in ("child", "accelerators", "mock", "workloads"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not names & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}, path
            if isinstance(node, ast.Attribute) and node.attr in ("load", "fromfile", "memmap"):
                assert getattr(node.value, "id", "") not in ("np", "numpy", "torch", "joblib"), path
