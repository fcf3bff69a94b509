"""The memory plan: no two tensors share bytes while both live, and bytes are used again."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from accel_lab.mock import faults  # noqa: E402
from accel_lab.mock.frontend.memory_plan import lifetimes, plan  # noqa: E402
from accel_lab.mock.ir.loop_ir import Line, LoopBuffer, LoopProgram, Nest, Result, whole  # noqa: E402

pytestmark = pytest.mark.torch


def chain(reads: list[list[int]], width: int) -> LoopProgram:
    """One nest for each entry, which reads earlier results (number -1 is the graph's input)."""
    program = LoopProgram(name="chain")
    program.buffers["p-1"] = LoopBuffer(
        name="p-1", size=(width,), format="fp32", kind="input", index=0, order=(0,)
    )
    for number, inputs in enumerate(reads):
        name = f"p{number}"
        program.buffers[name] = LoopBuffer(
            name=name, size=(width * (1 + number % 3),), format="fp32", order=(0,)
        )
        views = tuple(whole(program.buffers[f"p{source}"]) for source in inputs)
        line = Line(op="add", inputs=views, output=name)
        program.nests.append(
            Nest(name=name, unit="pointwise", op="add", loops=(width,), writes={name: name}, body=[line])
        )
    program.results.append(Result(view=whole(program.buffers[f"p{len(reads) - 1}"])))
    return program


programs = st.integers(1, 8).flatmap(
    lambda count: st.tuples(
        *(st.lists(st.integers(-1, n - 1), min_size=1, max_size=2) for n in range(count))
    ).map(list)
)


@settings(deadline=None)
@given(programs, st.integers(1, 200), st.booleans())
def test_places_that_live_together_lie_apart(reads: list[list[int]], width: int, resident: bool) -> None:
    program = chain(reads, width)
    stays = {"p-1"} if resident else set()
    planned = plan(program, stays)
    lives = lifetimes(program, stays)
    for one, other in itertools.combinations(lives, 2):
        a, b = planned.addresses[one.name], planned.addresses[other.name]
        if one.meets(other) or one.resident or other.resident:
            assert a + one.bytes <= b or b + other.bytes <= a
    assert all(planned.addresses[life.name] % 128 == 0 for life in lives)
    assert all(planned.addresses[life.name] + life.bytes <= planned.arena_bytes for life in lives)


def test_bytes_are_used_again() -> None:
    planned = plan(chain([[-1], [0], [1], [2], [3]], 32), set())
    assert planned.arena_bytes < sum(
        life.bytes for life in lifetimes(chain([[-1], [0], [1], [2], [3]], 32), set())
    )
    assert "arena" in planned.text


def test_an_alias_keeps_its_place_alive() -> None:
    program = chain([[-1], [-1], [1]], 32)
    program.buffers["view"] = LoopBuffer(name="view", size=(32,), format="fp32", order=(0,), alias_of="p0")
    program.results.append(Result(view=whole(program.buffers["view"])))
    life = next(life for life in lifetimes(program, set()) if life.name == "p0")
    assert life.end == len(program.nests)


def test_the_fault_frees_one_use_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    program = chain([[-1], [0], [1], [2], [3], [0, 4]], 32)
    right = plan(program, {"p-1"})
    monkeypatch.setenv(faults.VARIABLE, "buffer_reused_live")
    wrong = plan(program, {"p-1"})
    assert right.addresses["p3"] != right.addresses["p0"] == wrong.addresses["p0"]
    assert wrong.addresses["p3"] == wrong.addresses["p0"]
