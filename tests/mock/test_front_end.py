"""The mock's main front end: its programs give what eager gives, on both back ends, at sizes that straddle
a stick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from accel_lab.mock import faults  # noqa: E402
from accel_lab.mock.device import Device  # noqa: E402
from accel_lab.mock.frontend import pipeline  # noqa: E402
from accel_lab.mock.ir.program import STATIC_INPUTS, Enter, Kernel  # noqa: E402
from accel_lab.mock.spec.cache import SpecCache  # noqa: E402
from mock_front_end_cases import SMALL, check, graph, lowered, run  # noqa: E402

pytestmark = pytest.mark.torch
functional = torch.nn.functional
WIDTHS = (1, 63, 64, 65, 129)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(faults.VARIABLE, raising=False)
    torch.manual_seed(0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x: (x * 2 + x.exp() - torch.where(x > 0, x, 1 - x) / 3, (x > 0) & (x < 1)),
    "transposed": lambda x: (x.t() * x.t().exp(), x.t().reshape(-1), x.t() + 1),
    "reductions": lambda x: (x.sum(), x.sum(0), x.mean(1), x.amax(1), x.amin(0), x.t().sum(1), x.prod(1)),
    "truth": lambda x: ((x > 0).any(1), (x > 0).all(0), (x > 0).sum()),
    "places": lambda x: (x.argmax(1), x.argmin(0), x.argmax(), x.max(1).values),
    "softmax": lambda x: (functional.softmax(x, -1), functional.softmax(x, 0), functional.log_softmax(x, 1)),
    "moments": lambda x: (x.var(1, correction=0), functional.layer_norm(x, (x.shape[-1],))),
    "activations": lambda x: (
        functional.gelu(x),
        functional.silu(x),
        functional.leaky_relu(x),
        x.clamp(-1, 1),
    ),
    "casts": lambda x: (x.float(), x.half(), x.bfloat16(), x.long(), (x > 0).to(x.dtype), x.int()),
    "products": lambda x: (x @ x.t(), x.t() @ x, (x.exp() + 1) @ x.t()),
    "movement": lambda x: (torch.cat([x, x * 2], 1), x.flip(1), functional.pad(x, (1, 2)), x[1], x[:, :1]),
    "triangles": lambda x: (x.tril(), x.triu(1)),
    "scans": lambda x: (x.cumsum(1), x.sort(1)[0]),
    "made": lambda x: (torch.arange(x.shape[1]).to(x.dtype) * x, torch.zeros(3, 4), torch.ones_like(x) + x),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_eager_agrees(name: str, width: int) -> None:
    program = check(FUNCTIONS[name], torch.randn(3, width) / 2)
    assert not program.fallbacks


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_halves_agree(name: str, dtype: str) -> None:
    x = (torch.randn(3, 65) / 4).to(getattr(torch, dtype))
    program = check(FUNCTIONS[name], x, tolerance={"rtol": 2e-2, "atol": 2e-2})
    assert not program.fallbacks


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_reference_back_end_runs_the_same_specs(name: str) -> None:
    check(FUNCTIONS[name], torch.randn(3, 65) / 2, main=False)


@pytest.mark.parametrize(
    "device", [Device(memory_bytes=2**26, cores=1), Device(memory_bytes=2**26, use_scratchpad=False)]
)
def test_one_core_and_no_scratchpad(device: Device) -> None:
    for name in ("pointwise", "softmax", "products"):
        check(FUNCTIONS[name], torch.randn(3, 65) / 2, device=device)


@pytest.mark.parametrize("size", [(0, 5), (3, 0)])
def test_tensors_without_elements(size: tuple[int, int]) -> None:
    check(lambda x: (x * 2 + 1, x.sum(1), x.sum(), x.t() @ x, torch.cat([x, x])), torch.randn(size))


def test_strided_inputs() -> None:
    def function(x: Any) -> Any:
        return x * 2 + 1, x.sum(1), x @ x.t()

    for x in (torch.randn(5, 143)[1:4, 1:131:2], torch.randn(3, 1).expand(3, 65), torch.randn(65, 3).t()):
        check(function, x)


def test_as_strided_sees_memory_as_torch_does() -> None:
    def function(x: Any) -> Any:
        return torch.as_strided(x.t().clone(), (4, 3), (2, 1), 1), torch.as_strided(x, (5,), (3,), 2)

    check(function, torch.randn(7, 5))


def test_as_strided_of_a_part_runs_on_the_host_over_all_of_the_memory() -> None:
    def function(x: Any) -> Any:
        part, turned = (x + 1)[:, ::2], (x * 2).t()[1:]
        return (
            torch.as_strided(part, (3, 4), (10, 1), 1) * 2,
            torch.as_strided(turned, (3, 4), (10, 1)) * 2,
            torch.as_strided((x + 2)[2:].double(), (2, 2), (1, 3)),
        )

    program = check(function, torch.randn(6, 10))
    reasons = {call.node: call.reason for call in program.fallbacks}
    assert "part of a tensor" in reasons["as_strided"] and "part of a tensor" in reasons["as_strided_1"]


def test_integers_and_indices() -> None:
    weight, index = torch.randn(11, 65), torch.randint(0, 11, (4, 6))

    def function(w: Any, i: Any) -> Any:
        return functional.embedding(i, w), w[i], w.index_select(0, i[0]), i // 3, i % 3, i.sum(1), i * 2 > 5

    assert not check(function, weight, index).fallbacks


def test_a_training_step_of_a_convolution() -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
        y = functional.conv2d(x, w, b, stride=2, padding=1)
        y = functional.max_pool2d(torch.relu(y), 3, 2, 1)
        y = functional.batch_norm(y, None, None, training=True)
        return torch.autograd.grad(y.pow(2).sum() + y[0].sum(), [x, w, b])

    inputs = (torch.randn(2, 3, 17, 17), torch.randn(40, 3, 3, 3), torch.randn(40))
    assert not check(function, *inputs, tolerance={"rtol": 1e-3, "atol": 1e-3}).fallbacks


def test_outputs_may_be_inputs_duplicates_and_numbers() -> None:
    x = torch.randn(3, 5)
    program = check(lambda x: (x, x, x + 1, None, 3), x)
    assert [output.index for output in program.outputs] == [0, 0, None, None, None]
    assert program.outputs[2].stride == (5, 1)


def test_what_the_device_lacks_goes_to_the_host_with_a_reason() -> None:
    x = torch.randn(3, 5)
    program = check(lambda x: (torch.special.i0(x) * 2, x.double() + 1, x[x > 0].numel()), x)
    reasons = {call.node: call.reason for call in program.fallbacks}
    assert any("no float64" in reason for reason in reasons.values())
    assert any("no such operator" in reason for reason in reasons.values())
    random = lowered(lambda x: torch.rand_like(x) + x, x)
    assert [call.reason for call in random.fallbacks] == ["random numbers are drawn on the host"]


def test_only_the_native_operators_that_were_asked_for() -> None:
    x = torch.randn(3, 5)
    program = lowered(lambda x: (x + 1) * 2, x, native=["aten.add"])
    assert [call.node for call in program.fallbacks] == ["mul"]
    torch.testing.assert_close(run(program, (x,))[0], (x + 1) * 2)


def test_parameters_are_resident_and_texts_are_kept() -> None:
    w, x = torch.nn.Parameter(torch.randn(7, 5)), torch.randn(3, 5)
    gm = graph(lambda w, x: x @ w.t(), (w.detach(), x))
    gm.meta[STATIC_INPUTS] = (0,)
    program = pipeline.lower(gm, (w, x), SMALL, "test")
    assert {step.index: step.resident for step in program.steps if isinstance(step, Enter)} == {
        0: True,
        1: False,
    }
    assert 0 < program.resident_bytes < program.arena_bytes
    assert set(program.texts) == {"graph.txt", "loop_ir.txt", "fused.txt", "tiled.txt", "memory_plan.txt"}


def test_the_cache_key_has_the_layouts_unless_the_fault_is_on(monkeypatch: pytest.MonkeyPatch) -> None:

    x = torch.randn(48, 48)

    def spec(function: Callable[..., Any], *inputs: Any) -> Any:
        (kernel,) = [step.spec for step in lowered(function, *inputs).steps if isinstance(step, Kernel)]
        return kernel

    plain = spec(lambda x: x.exp(), x)
    other = spec(lambda x: x.exp(), torch.randn(48, 47))
    cache = SpecCache(held={})
    assert cache.of(plain) is plain
    assert cache.of(other) is other
    assert cache.of(plain).to_json() == plain.to_json()
    assert cache.hits == 1
    turned = replace(
        plain,
        operands=tuple(
            replace(operand, layout=replace(operand.layout, order=(1, 0))) for operand in plain.operands
        ),
    )
    assert cache.of(turned) is turned
    monkeypatch.setenv(faults.VARIABLE, "cache_key_misses_layout")
    cache = SpecCache(held={})
    cache.of(plain)
    assert cache.of(turned).operands[0].layout.order == (0, 1)


def two_readers(x: Any) -> Any:
    y = x.exp()
    return (y * 2) * (y + 1)


SHOWN: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "padding_undeclared": (lambda x: x.sum(1), ((3, 65),)),
    "mask_constant_nan": (lambda x: x.amax(1), ((3, 65),)),
    "broadcast_past_stick": (lambda x, r: x + r, ((3, 65), (65,))),
    "split_gcd_collapsed": (lambda x: x * 2, ((67, 65),)),
    "scratchpad_overlap": (two_readers, ((3, 65),)),
    "buffer_reused_live": (
        lambda x: x.exp().sum(0) @ (x @ x.t()).sum(0).expand(65, 65) + x.exp().sum(0),
        ((65, 65),),
    ),
    "restickify_overread": (lambda x: x @ (x + 1).t(), ((70, 40),)),
}


@pytest.mark.parametrize("name", SHOWN)
def test_each_fault_shows_or_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, sizes = SHOWN[name]
    inputs = [torch.randn(size) for size in sizes]
    no_cache = Device(memory_bytes=2**26, use_cache=False)
    check(function, *inputs, device=no_cache, tolerance={"rtol": 1e-3, "atol": 1e-3})
    monkeypatch.setenv(faults.VARIABLE, name)
    with pytest.raises((AssertionError, IndexError)):
        check(function, *inputs, device=no_cache, tolerance={"rtol": 1e-3, "atol": 1e-3})


def test_overlapping_locals_give_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No verifier sees it: the spec is a valid one, of another function."""

    def gate(x: Any) -> Any:
        y = x + 1
        return torch.sigmoid(y) * torch.tanh(y)

    x = torch.randn(3, 65)
    monkeypatch.setenv(faults.VARIABLE, "scratchpad_overlap")
    for function in (two_readers, gate):
        (got,) = run(lowered(function, x), (x,))
        assert (got - function(x)).abs().max() > 0.01


def test_the_downcast_fault_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.full((3, 65), 3000.0, dtype=torch.float16)
    check(lambda x: x.mean(1), x)
    monkeypatch.setenv(faults.VARIABLE, "accumulate_downcast")
    with pytest.raises(AssertionError):
        check(lambda x: x.mean(1), x)
