"""Recordings: what the recorder writes and leaves untouched; how recordings are read and compared."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel_lab.numerics.pairs import pairs
from accel_lab.numerics.recording import Entry, Recording, load
from accel_lab.numerics.records import Difference, agreement, diff, failures, same_difference
from accel_lab.numerics.values import Comparison

HERE = Path(__file__).resolve().parents[1] / "fakes"
CHILD = HERE.parents[1] / "bisect" / "accel_lab" / "child"


class Writer:
    """Writes a recording by hand, in the recorder's format."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.lines: list[str] = []
        self.data = b""

    def event(self, **event: Any) -> Writer:
        self.lines.append(json.dumps(event))
        return self

    def tensor(
        self,
        values: Any,
        *,
        reference: Any = None,
        spread: Any = None,
        event: str = "call",
        dtype: str = "float32",
        **place: Any,
    ) -> Writer:
        array = np.asarray(values, dtype)
        where = {"region": 0, "name": "f", "call": 0, "phase": "output", "path": "out"}
        told: dict[str, Any] = {"event": event, **where, "kind": "tensor", "dtype": dtype, **place}
        told.update(
            shape=list(array.shape), nbytes=array.nbytes, offset=len(self.data), sha256=array.tobytes().hex()
        )
        self.data += array.tobytes()
        for name, exact in (("ref", reference), ("spread", spread)):
            if exact is not None:
                high = np.asarray(exact, "float64")
                told[name] = {"offset": len(self.data), "length": high.nbytes, "dtype": "float64"}
                self.data += high.tobytes()
        return self.event(**told)

    def value(self, value: Any, **place: Any) -> Writer:
        where = {"event": "call", "region": 0, "name": "f", "call": 0, "phase": "output", "path": "out"}
        return self.event(**{**where, "kind": "value", "type": type(value).__name__, "value": value, **place})

    def read(self, tail: str = "\n") -> Recording:
        (self.folder / "records.jsonl").write_text("\n".join(self.lines) + tail)
        (self.folder / "tensors.bin").write_bytes(self.data)
        return load(self.folder)


@pytest.fixture
def got(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "got")


@pytest.fixture
def want(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "want")


def lines(differences: list[Difference]) -> list[tuple[str, int, str, str, str, bool]]:
    return [(d.name, d.call, d.phase, d.path, d.comparison.reason, d.note) for d in differences]


# ---- reading ---------------------------------------------------------------------------------------------


def test_a_recording_is_read_back(want: Writer) -> None:
    want.tensor([[1.0, 2.0]], reference=[[1.5, 2.5]]).value(3, path="out[1]")
    want.event(event="rng", sha256="a", parts={"torch": "a", "python": "b"}).event(event="note", note="odd")
    recording = want.read()
    entry = recording.entries["f", 0, 0, "output", "out"]
    assert entry.record.data is not None and entry.record.data.tolist() == [[1.0, 2.0]]
    assert entry.reference is not None and entry.reference.tolist() == [[1.5, 2.5]]
    assert recording.entries["f", 0, 0, "output", "out[1]"].record.value == 3
    assert recording.random_state == {"torch": "a", "python": "b"}
    assert recording.notes == ("odd",)
    assert recording.calls == {("f", 0): [0]}


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_last_line_cut_short_costs_only_itself(want: Writer, cut: int) -> None:
    recording = want.value(1).value(2, path="out[1]").read()
    assert len(recording.entries) == 2
    text = (want.folder / "records.jsonl").read_text()
    (want.folder / "records.jsonl").write_text(text[:-cut] if cut > 1 else text[:-2])
    assert list(load(want.folder).entries) == [("f", 0, 0, "output", "out")]


def test_values_cut_short_leave_the_hash(want: Writer) -> None:
    want.tensor([1.0, 2.0]).read()
    (want.folder / "tensors.bin").write_bytes(want.data[:5])
    record = load(want.folder).entries["f", 0, 0, "output", "out"].record
    assert record.data is None and record.sha256


def test_no_recording_is_an_empty_one(tmp_path: Path) -> None:
    assert load(tmp_path) == Recording()
    assert diff(load(tmp_path), load(tmp_path)) == []


# ---- aligning --------------------------------------------------------------------------------------------


def test_equal_runs_have_no_difference(got: Writer, want: Writer) -> None:
    for writer in (got, want):
        writer.tensor([1.0, 2.0]).value("a", path="out[1]")
    assert diff(got.read(), want.read()) == []


def test_regions_are_aligned_by_name_and_turn(got: Writer, want: Writer) -> None:
    want.value(1, region=0, name="f").value(2, region=1, name="g").value(3, region=2, name="f")
    got.value(2, region=5, name="g").value(1, region=7, name="f").value(4, region=9, name="f")
    found = diff(got.read(), want.read())
    assert [(d.region, d.comparison.reason) for d in found] == [("f#1", "value")]


def test_the_first_difference_comes_first(got: Writer, want: Writer) -> None:
    for call in range(4):
        want.tensor([1.0], call=call)
        got.tensor([1.0 if call < 2 else 2.0], call=call)
    assert lines(diff(got.read(), want.read())) == [
        ("f", 2, "output", "out", "values", False),
        ("f", 3, "output", "out", "values", False),
    ]


def test_the_reference_of_the_uncompiled_run_decides(got: Writer, want: Writer) -> None:
    want.tensor([1.0, 1.01], reference=[1.0, 1.0], dtype="float16")
    got.tensor([1.0, 1.0], dtype="float16")
    assert diff(got.read(), want.read()) == []
    want.lines.clear()
    want.tensor([1.0, 1.01], reference=[1.0, 1.01], dtype="float16")
    assert lines(diff(got.read(), want.read())) == [("f", 0, "output", "out", "values", False)]


def test_missing_calls_are_one_difference(got: Writer, want: Writer) -> None:
    for call in range(5):
        want.value(call, call=call).value(call, call=call, path="out[1]")
    got.value(0).value(0, path="out[1]")
    (only,) = diff(got.read(), want.read())
    assert (only.call, only.phase, only.comparison.reason) == (1, "call", "missing")
    assert only.comparison.detail == "4 calls missing in the compiled run, from call 1 on"
    (only,) = diff(want.read(), got.read())
    assert (only.call, only.comparison.reason) == (1, "extra")


def three_threads(writer: Writer, order: str, wrong: str = "") -> Writer:
    """One call for each thread, in an order of chance; each has inputs of its own."""
    for call, who in enumerate(order):
        place = {"thread": "abc".index(who), "inputs": f"{who}0", "call": call}
        writer.tensor([float(ord(who)) + (who == wrong)], **place)
        writer.tensor([1.0], event="end", phase="leaf_grad", path="args[0]", **place)
    return writer


def test_calls_of_several_threads_belong_together_by_their_inputs(got: Writer, want: Writer) -> None:
    assert diff(three_threads(got, "cab").read(), three_threads(want, "abc").read()) == []
    assert agreement(got.read(), want.read()).types[0].tensors == 6
    compared = pairs(got.read(), want.read())
    assert len(compared) == 6 and all(pair.comparison.same for pair in compared)


def test_a_wrong_call_among_threads_has_the_number_of_the_uncompiled_run(got: Writer, want: Writer) -> None:
    found = diff(three_threads(got, "cab", wrong="b").read(), three_threads(want, "abc").read())
    assert lines(found) == [("f", 1, "output", "out", "values", False)]


def test_calls_of_threads_with_inputs_that_one_run_lacks_are_left_out(got: Writer, want: Writer) -> None:
    three_threads(got, "ab")
    got.tensor([7.0], call=2, thread=2, inputs="ffff")
    assert diff(got.read(), three_threads(want, "bac").read()) == []


def test_equal_inputs_are_told_apart_by_their_turn(got: Writer, want: Writer) -> None:
    for writer in (got, want):
        for call in range(4):
            writer.tensor([float(call)], call=call, thread=call % 2, inputs="same")
    assert diff(got.read(), want.read()) == []
    assert agreement(got.read(), want.read()).types[0].tensors == 4


def test_a_missing_path_is_a_difference(got: Writer, want: Writer) -> None:
    want.value(1).value(2, path="out[1]")
    got.value(1).value(2, path="out[2]")
    assert lines(diff(got.read(), want.read())) == [
        ("f", 0, "output", "out[1]", "missing", False),
        ("f", 0, "output", "out[2]", "extra", False),
    ]


def raised(writer: Writer, kind: str, *bases: str) -> None:
    place = {"event": "call", "region": 0, "name": "f", "call": 0, "phase": "raised", "path": "raised"}
    writer.event(**place, kind="value", type=kind, value="message", bases=list(bases))


def test_raising_in_one_run_only_is_one_difference(got: Writer, want: Writer) -> None:
    raised(want, "IndexError", "LookupError", "Exception")
    got.value(1).value(2, path="out[1]")
    (only,) = diff(got.read(), want.read())
    assert (only.phase, only.comparison.reason) == ("raised", "raised")
    assert only.comparison.detail == "returned instead of raised IndexError: message"
    (only,) = diff(want.read(), got.read())
    assert only.comparison.detail == "raised IndexError: message instead of returned"


@pytest.mark.parametrize(
    ("kind", "bases", "same"),
    [
        ("RuntimeError", ["Exception"], True),
        (
            "torch._dynamo.exc.TorchRuntimeError",
            ["torch._dynamo.exc.TorchDynamoException", "RuntimeError"],
            True,
        ),
        ("torch._dynamo.exc.BackendCompilerFailed", ["RuntimeError"], False),
        ("torch.OutOfMemoryError", ["RuntimeError"], True),
        ("ValueError", ["Exception"], False),
    ],
)
def test_the_same_exception(got: Writer, want: Writer, kind: str, bases: list[str], same: bool) -> None:
    raised(want, "RuntimeError", "Exception")
    raised(got, kind, *bases)
    assert (diff(got.read(), want.read()) == []) is same


def test_inputs_written_with_the_values_they_had(got: Writer, want: Writer) -> None:
    want.value(1).tensor([1.0], phase="mutated_input", path="args[0]", changed=False)
    got.value(1).tensor([2.0], phase="mutated_input", path="args[1]", changed=True)
    assert lines(diff(got.read(), want.read())) == [("f", 0, "mutated_input", "args[1]", "extra", False)]


def test_what_lives_longer_and_random_states_are_notes(got: Writer, want: Writer) -> None:
    for writer, state in ((got, "a"), (want, "b")):
        writer.value(1).event(event="rng", parts={"torch": state, "python": "c"})
    want.tensor([1.0], event="end", phase="parameter", path="weight", module=0)
    want.tensor([1.0], event="end", phase="leaf_grad", path="args[0]")
    found = diff(got.read(), want.read())
    assert failures(found) == []
    assert [d.phase for d in found] == ["parameter", "leaf_grad", "rng"]
    assert found[-1].comparison.detail == "the random state at the end differs: torch"


def test_a_gradient_that_is_none_is_a_difference(got: Writer, want: Writer) -> None:
    want.tensor([1.0], event="end", phase="grad", path="weight", module=0, name="M")
    got.value(None, event="end", phase="grad", path="weight", module=0, name="M")
    (only,) = diff(got.read(), want.read())
    assert (only.call, only.phase, only.comparison.reason, only.note) == (-1, "grad", "type", False)
    json.dumps(only.to_json(), allow_nan=False)
    assert only.line == "M grad weight: NoneType instead of tensor of float32[1]"


# ---- the same failure ------------------------------------------------------------------------------------


def place(path: str, reason: str = "values", error: float | None = 1.0, note: bool = False) -> Difference:
    result = Comparison(same=note, reason=reason, max_abs_error=error)
    return Difference(region="f#0", name="f", call=0, phase="output", path=path, comparison=result, note=note)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ([], [], True),
        ([place("a")], [], False),
        ([place("a")], [place("a", error=50.0)], True),
        ([place("a")], [place("a", error=200.0)], False),
        ([place("a", error=0.0)], [place("a", error=1e-9)], False),
        ([place("a", error=float("inf"))], [place("a", error=float("inf"))], True),
        ([place("a", error=float("inf"))], [place("a")], False),
        ([place("a", "nan")], [place("a")], False),
        ([place("a", "shape", None)], [place("a", "shape", None)], True),
        ([place("a")], [place("b")], False),
        ([place("a"), place("b")], [place("a")], True),
        ([place("a"), place("b"), place("c")], [place("a")], False),
        ([place("a"), place("b"), place("c")], [place("a"), place("b")], True),
        ([place("a"), place("n", note=True)], [place("a")], True),
    ],
)
def test_the_same_difference(one: list[Difference], two: list[Difference], same: bool) -> None:
    assert same_difference(one, two) is same
    assert same_difference(two, one) is same


# ---- the recorder, run by interpreters that have torch ---------------------------------------------------


def run(python: str, folder: Path, *variants: str, code: int = 0) -> dict[str, Any]:
    command = [python, str(HERE / "torch_recorder_cases.py"), str(CHILD), str(folder), *variants]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr[-4000:]
    return json.loads(done.stdout) if done.stdout else {}


def numbers(entry: Entry) -> Any:
    return None if entry.record.data is None else entry.record.data.tolist()


@pytest.fixture(scope="module")
def odd(torch_pythons: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What each interpreter tells of its own traces, and its recording."""
    found = []
    for python in torch_pythons:
        folder = tmp_path_factory.mktemp("odd")
        found.append((run(python, folder, "odd")["odd"], load(folder / "odd")))
    return found


@pytest.fixture(scope="module")
def trained(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    folder = tmp_path_factory.mktemp("trained")
    variants = [
        "reference",
        "capped",
        "plain",
        "rounded",
        "wrong",
        "wrong_grad",
        "short_grad",
        "stepped",
        "half",
        "raises",
        "shorter",
        "draws",
    ]
    run(torch_python, folder, *variants)
    return {name: load(folder / name) for name in variants}


@pytest.fixture(scope="module")
def beyond(torch_pythons: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Of each interpreter: a right and a wrong run of a function that reads its model from a closure."""
    found = []
    for python in torch_pythons:
        folder = tmp_path_factory.mktemp("beyond")
        told = run(python, folder, "beyond", "beyond_wrong", "beyond_trained")
        names = ("beyond", "beyond_wrong", "beyond_trained")
        found.append((told["beyond"], *(load(folder / name) for name in names)))
    return found


@pytest.mark.torch
@pytest.mark.slow
def test_what_a_function_reads_beside_its_arguments_is_recorded(beyond: list[Any]) -> None:
    for told, right, wrong, _ in beyond:
        assert told["hooks"], "a hook on the tensor itself would be seen by Dynamo"
        places = {(key[3], key[4]) for key in right.entries}
        assert {
            ("grad", "weight"),
            ("grad", "bias"),
            ("parameter_grad", "weight backward 1"),
            ("leaf_grad", "call 0 helper.weight"),
            ("input_grad", "call 0 args[0]"),
            ("mutated_input", "count"),
        } <= places
        different = failures(diff(wrong, right))
        assert {d.phase for d in different} == {"grad", "parameter_grad", "leaf_grad", "input_grad"}


@pytest.mark.torch
def test_tensors_that_a_call_leaves_in_the_scripts_state_are_compared(
    torch_python: str, tmp_path: Path
) -> None:
    """A tensor is recorded once, under the first path; keys that differ in each run are no difference."""
    run(torch_python, tmp_path, "left", "left_again", "left_wrong")
    right, again, wrong = (load(tmp_path / name) for name in ("left", "left_again", "left_wrong"))
    paths = {(key[2], key[4]) for key in right.entries if key[3] == "state" and "made at" not in key[4]}
    per_call = {"average.mean", "kwargs['table']['last']", "decoder.last"}
    seen = {
        (0, "rows[1]"),
        (1, "rows[2]"),
        (0, "decoder.seen[0]"),
        (1, "decoder.seen[1]"),
    }  # the same tensors
    assert paths - seen == {(call, path) for call in (0, 1) for path in per_call}
    assert len(paths & seen) == 2
    assert failures(diff(again, right)) == []
    assert {d.phase for d in failures(diff(wrong, right))} == {"state"}


@pytest.mark.torch
@pytest.mark.slow
def test_of_a_model_that_was_trained_only_what_came_before_is_compared(beyond: list[Any]) -> None:
    """An optimizer makes of the roundings of half types what is as large as a fault."""
    for _, _, _, trained in beyond:
        phases = {key[3] for key in trained.entries}
        assert phases == {"output", "mutated_input", "input_grad", "parameter_grad"}


@pytest.mark.torch
@pytest.mark.slow
def test_the_recorder_leaves_no_trace(odd: list[Any]) -> None:
    for told, recording in odd:
        assert told["seen"] == []
        assert told["versions"][:3] == told["versions"][3:]
        assert told["graph"] == ["MulBackward0", "torch::autograd::AccumulateGrad", True]
        assert told["same_state"] and told["finished_state"]
        assert recording.notes == ()


@pytest.mark.torch
@pytest.mark.slow
def test_what_is_recorded_of_odd_values(odd: list[Any]) -> None:
    numbers = {
        "['nested'][0]": [[1.0, 1.0], [1.0, 1.0]],
        "['nested'][1].first": 3,
        "['output'].loss": 2.5,
        "['bfloat16']": [1.0, -2.5],
        "['float16']": [1.0, -2.5],
        "['conj']": [1 - 2j, -3j],
        "['negative']": [-2.0, -3.0],
        "['bools']": [True, False],
        "['uint8']": [255, 0],
        "['no_elements']": [],
        "['scalar']": 4.0,
        "['transposed']": [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]],
        "['offset']": [2.0, 4.0],
        "['expanded']": [[1.0, 1.0]] * 3,
        "['plain_subclass']": [1.0, 1.0],
        "['parameter']": [1.0, 1.0],
        "['float8']": [1.0, -2.0],
        "['slotted'].loss": 2.5,
        "['sparse'].indices": [[0, 1], [0, 1]],
        "['sparse'].values": [1.0, 3.0],
        "['compressed'].crow_indices": [0, 1, 2],
        "['compressed'].col_indices": [0, 1],
        "['compressed'].values": [1.0, 1.0],
        "['quantized'].int_repr": [10, 10, 10],
        "['nested_tensor'][0]": [1.0, 1.0],
        "['nested_tensor'][1]": [1.0, 1.0, 1.0],
    }
    values = {
        "['nested'][1].second": None,
        "['nested'][2]['key'][0]": 1.5,
        "['nested'][2]['key'][1]": "text",
        "['output'].name": "output",
        "['circle'][0]": 1,
        "['floats'][0]": "nan",
        "['floats'][1]": "inf",
        "['large_int']": 10**30,
        "['complex']": ["1.0", "2.0"],
        "['dtype']": "torch.float32",
    }
    objects = {
        "['circle'][1]": "list",
        "['empty']": "dict",
        "['object']": "object",
        "['generator']": "generator",
        "['set']": "set",
        "['fake']": "torch._subclasses.fake_tensor.FakeTensor",
        "['meta']": "torch.Tensor",
        "['freed']": "torch.Tensor",
        "['sparse']": "torch.Tensor (sparse_coo)",
        "['compressed']": "torch.Tensor (sparse_csr)",
        "['quantized']": "torch.Tensor (quantized)",
        "['nested_tensor']": "torch.Tensor (nested)",
    }
    for _, recording in odd:
        at = {key[4][3:]: entry.record for key, entry in recording.entries.items() if key[0] == "odd"}
        for path, expected in numbers.items():
            if path in at or path != "['float8']":
                assert at[path].kind == "tensor" and at[path].data is not None, path
                assert at[path].data.tolist() == expected, path
        assert {path: at[path].value for path in values} == values
        assert {path: (at[path].kind, at[path].type) for path in objects} == {
            path: ("object", kind) for path, kind in objects.items()
        }
        assert at["['transposed']"].stride == (1, 3) and at["['expanded']"].stride == (0, 1)
        assert at["['plain_subclass']"].type == "__main__.Plain"
        assert at["['odd_numbers']"].stats == {"min": 1.0, "max": 1.0, "mean": 1.0, "nan": 1, "inf": 2}
        deep = [path for path in at if path.startswith("['deep']")]
        assert len(deep) == 1 and at[deep[0]].kind == "object"


@pytest.mark.torch
@pytest.mark.slow
def test_inputs_that_a_call_changed(odd: list[Any]) -> None:
    for _, recording in odd:
        changed = {
            (key[0], key[4]): (
                entry.changed,
                entry.record.data.tolist() if entry.record.data is not None else None,
            )
            for key, entry in recording.entries.items()
            if key[3] == "mutated_input"
        }
        assert changed == {
            ("odd", "args[1][0]"): (True, [1.0, 1.0]),
            ("odd", "kwargs['written']"): (True, [5.0, 0.0]),
            ("inference", "args[0]"): (True, [1.0, 1.0]),
            ("raising", "args[0]"): (True, [2.0, 2.0]),
        }
        error = recording.entries["raising", 0, 0, "raised", "raised"].record
        assert (error.type, error.value, error.bases) == (
            "IndexError",
            "out of range",
            ("LookupError", "Exception"),
        )
        assert recording.entries["mapped", 0, 0, "output", "out"].record.kind == "object"
        gradient = recording.entries["odd", 0, -1, "leaf_grad", "call 0 args[0]"]
        assert numbers(gradient) == [2.0, 2.0, 2.0]
        assert set(recording.random_state) >= {"torch", "python"}


@pytest.mark.torch
@pytest.mark.slow
def test_a_run_equals_itself_and_one_that_rounds_otherwise(trained: dict[str, Recording]) -> None:
    want = trained["reference"]
    assert diff(trained["plain"], want) == []
    assert failures(diff(trained["rounded"], want)) == []
    assert not any(
        np.array_equal(want.entries[key].record.data, entry.record.data)  # type: ignore[arg-type]
        for key, entry in trained["rounded"].entries.items()
        if key[3:] == ("output", "out['out']")
    ), "the rounded run must differ in bits, or it proves nothing"


@pytest.mark.torch
@pytest.mark.slow
def test_the_recording_holds_references_and_the_end_state(trained: dict[str, Recording]) -> None:
    entries = trained["reference"].entries
    floats = [e for e in entries.values() if e.record.dtype == "float32"]
    assert floats and all(e.reference is not None for e in floats)
    phases = {key[3] for key in entries}
    assert phases == {
        *("output", "mutated_input", "parameter", "grad", "parameter_grad", "buffer", "leaf_grad")
    }
    assert sum(key[3] == "grad" for key in entries) == sum(key[3] == "parameter" for key in entries) == 6
    counter = entries["torch.nn.modules.container.Sequential", 0, -1, "buffer", "1.num_batches_tracked"]
    assert numbers(counter) == 3


@pytest.mark.torch
@pytest.mark.slow
def test_each_wrong_run_is_told_where_it_first_goes_wrong(trained: dict[str, Recording]) -> None:
    want = trained["reference"]

    def first(variant: str) -> tuple[int, str, str, str]:
        found = failures(diff(trained[variant], want))[0]
        return found.call, found.phase, found.path, found.comparison.reason

    assert first("wrong") == (1, "output", "out['out']", "values")
    assert first("half") == (0, "output", "out['out']", "dtype")
    assert first("raises") == (2, "raised", "raised", "raised")
    assert first("shorter") == (2, "call", "", "missing")
    assert first("wrong_grad") == (-1, "leaf_grad", "call 0 args[1]", "values")
    drawn = diff(trained["draws"], want)
    assert failures(drawn) == []
    assert [d.comparison.detail for d in drawn] == ["the random state at the end differs: torch"]
    wrong, gradient = (diff(trained[name], want) for name in ("wrong", "wrong_grad"))
    assert same_difference(wrong, wrong) and not same_difference(wrong, gradient)


@pytest.mark.torch
@pytest.mark.slow
def test_the_gradient_of_each_backward_pass_is_compared(trained: dict[str, Recording]) -> None:
    """Of a sum of three gradients nobody can tell that the first one was rounded to bfloat16 (#179804)."""
    want = trained["reference"]
    found = [d for d in failures(diff(trained["short_grad"], want)) if d.call < 0]
    assert (found[0].phase, found[0].path) == ("parameter_grad", "0.weight backward 1")
    assert found[0].comparison.reason == "values"

    def passes(variant: str) -> set[str]:
        keys = [key for key in trained[variant].entries if key[3] == "parameter_grad"]
        return {key[4] for key in keys if key[4].startswith("3.bias")}

    assert passes("plain") == {"3.bias backward 1", "3.bias backward 2", "3.bias backward 3"}
    assert passes("stepped") == {"3.bias backward 1", "3.bias backward 2"}, (
        "an optimizer carries roundings on"
    )


@pytest.mark.torch
@pytest.mark.slow
def test_beyond_the_cap_samples_and_hashes_are_compared(trained: dict[str, Recording]) -> None:
    capped = trained["capped"]
    assert any(entry.record.sample_step == 1 for entry in capped.entries.values())
    assert failures(diff(trained["rounded"], capped)) == []
    first = failures(diff(trained["wrong"], capped))[0]
    assert (first.call, first.path, first.comparison.reason) == (1, "out['out']", "values")


@pytest.mark.torch
@pytest.mark.slow
def test_a_killed_run_keeps_what_was_recorded(torch_python: str, tmp_path: Path) -> None:
    run(torch_python, tmp_path, "killed", code=3)
    recording = load(tmp_path / "killed")
    assert recording.calls == {("step", 0): [0, 1, 2]}
    assert all(
        entry.record.data is not None for entry in recording.entries.values() if entry.record.kind == "tensor"
    )


# ---- how far rounding goes -------------------------------------------------------------------------------


def test_the_spread_decides_of_noise(got: Writer, want: Writer) -> None:
    zeros, noise = [0.0] * 9, [4e-8] * 9
    want.tensor(zeros, reference=[1e-18] * 9, spread=[2e-8] * 9).tensor(
        zeros, reference=[1e-18] * 9, spread=[1e-12] * 9, path="out[1]"
    )
    got.tensor(noise).tensor(noise, path="out[1]")
    assert [d.path for d in failures(diff(got.read(), want.read()))] == ["out[1]"]


def test_float64_is_its_own_reference_where_its_spread_is_known(got: Writer, want: Writer) -> None:
    values = np.linspace(1, 2, 9)
    want.tensor(values, spread=values * 1e-16, dtype="float64").tensor(values, dtype="float64", path="out[1]")
    got.tensor(values + 1e-9, dtype="float64").tensor(values + 1e-9, dtype="float64", path="out[1]")
    assert [d.path for d in failures(diff(got.read(), want.read()))] == ["out"]


def test_what_no_reference_tells_is_noise_relative_to_the_run(got: Writer, want: Writer) -> None:
    """A result that could not be followed: in a run of ones 1e-8 is a rounding, in one of 1e-7 it is not."""
    for writer, value in ((want, 0.0), (got, 1e-8)):
        writer.tensor([value] * 3)
    for greatest, places in ((1.0, []), (1e-7, ["out"])):
        stats = {"min": 0.0, "max": greatest}
        one, two = got.read(), want.read()
        (entry,) = two.entries.values()
        entry = replace(entry, record=replace(entry.record, stats=stats))
        two = replace(two, entries={entry.key: entry})
        assert two.magnitude == greatest
        assert [d.path for d in failures(diff(one, two))] == places
        assert [d.path for d in failures(diff(one, two, prefilter=True))] == ["out"], "the prefilter asks"


def test_numbers_have_references_of_their_own(got: Writer, want: Writer) -> None:
    want.value(1e-9, exact={"value": 1.1e-9, "spread": 1e-10}).value(1e-9, path="out[1]")
    got.value(1.15e-9).value(1.15e-9, path="out[1]")
    assert [d.path for d in failures(diff(got.read(), want.read()))] == ["out[1]"]
    assert len(failures(diff(got.read(), want.read(), prefilter=True))) == 2


def test_an_agreement_is_told_by_type(got: Writer, want: Writer) -> None:
    want.tensor([1.0, 2.0]).tensor([1.0], path="out[1]").tensor([1.0, 2.0], dtype="float16", path="out[2]")
    want.tensor([3], dtype="int64", path="out[3]").value(2.5, path="out[4]")
    got.tensor([1.0, 2.0]).tensor([1.000001], path="out[1]").tensor(
        [1.0, 2.0], dtype="float16", path="out[2]"
    )
    got.tensor([3], dtype="int64", path="out[3]").value(2.5, path="out[4]")
    one, two = got.read(), want.read()
    assert not failures(diff(one, two, prefilter=True))
    half, single = agreement(one, two, prefilter=True).types
    assert (half.dtype, half.tensors, half.greatest, half.tolerance) == ("float16", 1, 0.0, 1e-3)
    assert (single.dtype, single.tensors, single.tolerance) == ("float32", 3, 1.3e-6)
    assert single.greatest == pytest.approx(5e-7, rel=0.1), "of the element and the tensor's own size"
    told = agreement(one, two)
    assert (agreement(one, two, prefilter=True).factor, told.factor, told.others) == (None, 3.0, 1)


def test_half_types_are_told(got: Writer) -> None:
    assert got.event(event="half").read().half is True
