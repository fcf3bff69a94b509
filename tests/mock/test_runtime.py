"""The runtime: residents, eviction, host calls, strides, refusals; on programs written by hand."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from accel_lab.mock.device import Device  # noqa: E402
from accel_lab.mock.ir.layout import row_major  # noqa: E402
from accel_lab.mock.ir.program import Enter, HostCall, Output, Program, Ref  # noqa: E402
from accel_lab.mock.reference.builder import Builder  # noqa: E402
from accel_lab.mock.runtime.host_calls import restrided  # noqa: E402
from accel_lab.mock.runtime.output_aliases import alias_groups, share  # noqa: E402
from accel_lab.mock.runtime.resident import fingerprint  # noqa: E402
from accel_lab.mock.runtime.run_statistics import Statistics  # noqa: E402
from accel_lab.mock.runtime.runner import Runtime  # noqa: E402
from accel_lab.mock.spec.verifier import SpecError  # noqa: E402

SMALL = Device(cores=2, memory_bytes=1 << 20)


def doubling(reason: str = "", extent: int = 65) -> Program:
    """Input 0 times two on the device, and its double once more on the host."""
    bytes_in = row_major((extent,), "fp32").bytes
    b = Builder(SMALL, bytes_in)
    b.origin = "x"
    x = b.place((extent,), "fp32", address=0)
    b.origin = "y"
    y = b.pointwise("mul", (x, 2), (extent,), "fp32")
    call = HostCall(
        node="z",
        target=torch.ops.aten.mul.Tensor,
        args=(Ref(buffer=y.name), 2),
        kwargs={},
        names=("z",),
        buffers=(None,),
        reason=reason,
    )
    return Program(
        name="doubling",
        front_end="main",
        buffers=b.buffers,
        steps=(Enter(index=0, buffer=x.name, resident=True), *b.steps, call),
        outputs=(Output(buffer=y.name, stride=(2,)), Output(host="z"), Output(index=0), Output(value=3)),
        arena_bytes=b.arena_bytes,
        resident_bytes=bytes_in,
    )


@pytest.fixture(params=["main", "reference"])
def runtime(request: Any) -> Runtime:
    return Runtime(SMALL, request.param, statistics=Statistics())


def test_outputs_have_their_values_strides_and_kinds(runtime: Runtime) -> None:
    x = torch.arange(65.0)
    y, z, same, number = runtime.load(doubling()).run([x])
    assert torch.equal(y, x * 2)
    assert y.stride() == (2,)
    assert torch.equal(z, x * 4)
    assert same is x
    assert number == 3


def test_an_unchanged_input_is_sent_until_it_is_known(runtime: Runtime) -> None:
    loaded, x = runtime.load(doubling()), torch.arange(65.0)
    for _ in range(5):
        loaded.run([x])
    assert runtime.statistics.transfers_skipped == 3
    x.add_(1)
    assert torch.equal(loaded.run([x])[0], x * 2)


def test_a_write_that_no_version_counter_sees_is_seen(runtime: Runtime) -> None:
    loaded, x = runtime.load(doubling()), torch.arange(65.0)
    for _ in range(3):
        loaded.run([x])
    x.data[64] = 1000.0
    assert loaded.run([x])[0][64] == 2000.0


def test_inference_tensors_are_sent_every_time(runtime: Runtime) -> None:
    loaded = runtime.load(doubling())
    with torch.inference_mode():
        x = torch.arange(65.0)
    for _ in range(4):
        loaded.run([x])
    assert runtime.statistics.transfers_skipped == 0


def test_without_the_cache_nothing_stays(runtime: Runtime) -> None:
    other = Runtime(Device(cores=2, memory_bytes=1 << 20, use_cache=False), statistics=Statistics())
    loaded, x = other.load(doubling()), torch.arange(65.0)
    for _ in range(3):
        loaded.run([x])
    assert other.statistics.transfers_skipped == 0
    assert other.memory.in_use == 0


def test_programs_make_room_for_each_other(runtime: Runtime) -> None:
    count = 50_000
    one, two = runtime.load(doubling(extent=count)), runtime.load(doubling(extent=count))
    x = torch.arange(float(count))
    for loaded in (one, two, one):
        assert torch.equal(loaded.run([x])[0], x * 2)
    one.release()
    two.release()
    assert runtime.memory.in_use == 0


def test_a_program_that_is_gone_gives_its_memory_back(runtime: Runtime) -> None:
    loaded = runtime.load(doubling())
    loaded.run([torch.zeros(65)])
    assert runtime.memory.in_use > 0
    del loaded
    assert runtime.memory.in_use == 0


def test_a_fallback_is_counted_with_its_reason_and_a_computation_of_numbers_is_none(runtime: Runtime) -> None:
    runtime.load(doubling()).run([torch.zeros(65)])
    assert runtime.statistics.fallbacks == {}
    runtime.load(doubling("no such unit")).run([torch.zeros(65)])
    assert runtime.statistics.fallbacks == {
        "aten.mul.Tensor": {"count": 1, "reason": "no such unit", "source": ""}
    }


def test_fallback_zeros_hits_fallbacks_and_nothing_else(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOCK_FAULTS", "fallback_zeros")
    x = torch.ones(65)
    assert torch.equal(runtime.load(doubling()).run([x])[1], x * 4)
    assert torch.equal(runtime.load(doubling("no such unit")).run([x])[1], x * 0)


def test_a_wrong_spec_is_refused_before_it_runs(runtime: Runtime) -> None:
    from dataclasses import replace

    program = doubling()
    with pytest.raises(SpecError, match="bounds"):
        runtime.load(replace(program, arena_bytes=256))


def test_an_observer_sees_every_step(runtime: Runtime) -> None:
    loaded = runtime.load(doubling())
    seen: list[Any] = []
    loaded.observer = lambda number, step, at: seen.append((number, type(step).__name__))
    loaded.run([torch.ones(65)])
    assert seen == [(0, "Enter"), (1, "Kernel"), (2, "HostCall")]
    assert torch.equal(loaded.value("y"), torch.full((65,), 2.0))


def test_a_fingerprint_knows_a_swap_and_one_changed_element() -> None:
    x = torch.arange(64.0)
    changed = x.clone()
    changed[33] = 7.5
    assert len({fingerprint(t) for t in (x, x.flip(0), changed)}) == 3


@pytest.mark.parametrize("stride", [(0, 1), (1, 3), (5, 1)])
def test_strides_are_made_as_promised(stride: tuple[int, int]) -> None:
    x = torch.arange(3.0).repeat(3, 1)
    made = restrided(x, stride)
    assert made.stride() == stride
    assert torch.equal(made, x)


def test_outputs_that_shared_memory_share_it_again() -> None:
    base = torch.empty(2, 3)
    traced = [base, base.t(), torch.empty(2)]
    values = [torch.ones(2, 3), torch.ones(3, 2), torch.zeros(2)]
    share(values, traced, alias_groups(traced))
    values[0][0, 1] = 5
    assert values[1][1, 0] == 5
    assert values[1].stride() == (1, 3)
