"""The reference front end: its programs against eager on both back ends, and its fallbacks."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from accel_lab.mock.device import Device  # noqa: E402
from accel_lab.mock.ir.program import Enter, Kernel, Program  # noqa: E402
from accel_lab.mock.reference.front_end import lower  # noqa: E402
from accel_lab.mock.reference.rules import RULES  # noqa: E402
from accel_lab.mock.runtime.run_statistics import Statistics  # noqa: E402
from accel_lab.mock.runtime.runner import Runtime  # noqa: E402

DEVICE = Device(memory_bytes=1 << 26)
EXTENTS = (0, 1, 31, 32, 33, 65, 129)
aten = torch.ops.aten


def traced(function: Callable[..., Any], inputs: list[Any]) -> Any:
    return make_fx(function, tracing_mode="fake")(*inputs)


def lowered(function: Callable[..., Any], inputs: list[Any], **options: Any) -> Program:
    return lower(traced(function, inputs), inputs, DEVICE, "test", **options)


def check(function: Callable[..., Any], *inputs: Any, native: bool = True) -> Program:
    """Lower, run on both back ends, compare with eager."""
    program = lowered(function, list(inputs))
    expected = function(*inputs)
    expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    if native:
        assert [call.reason for call in program.fallbacks] == []
    for back_end in ("main", "reference"):
        got = Runtime(DEVICE, back_end, statistics=Statistics()).load(program).run(list(inputs))
        loose = expected[0].dtype in (torch.float16, torch.bfloat16)
        options = {"rtol": 2e-2, "atol": 2e-2} if loose else {"rtol": 1e-5, "atol": 1e-5}
        torch.testing.assert_close(got, expected, equal_nan=True, **options)
    return program


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("extent", EXTENTS)
def test_pointwise_with_broadcast_across_a_stick(extent: int, dtype: Any) -> None:
    torch.manual_seed(0)
    x, row, column = torch.randn(3, extent), torch.randn(extent), torch.randn(3, 1)
    inputs = [t.to(dtype) for t in (x, row, column)]
    check(lambda x, r, c: aten.mul.Tensor(aten.add.Tensor(x, r, alpha=2), c), *inputs)


@pytest.mark.parametrize("extent", EXTENTS)
def test_where_keeps_its_condition_a_bool(extent: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, extent)
    check(lambda x: aten.where.self(aten.gt.Scalar(x, 0), x, aten.full_like.default(x, 0.0)), x)
    check(lambda x, m: aten.where.self(m, x, aten.neg.default(x)), x, torch.tensor([[True], [False], [True]]))


@pytest.mark.parametrize("dims", [[0], [1], [0, 1], [-1]])
@pytest.mark.parametrize("extent", EXTENTS)
def test_reductions_along_and_across_the_sticks(extent: int, dims: list[int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, extent)
    check(lambda x: aten.sum.dim_IntList(x, dims), x)
    check(lambda x: aten.any.dims(aten.gt.Scalar(x, 1), dims, True), x)
    if extent:
        check(lambda x: (aten.amax.default(x, dims), aten.mean.dim(x, dims, True)), x)
        check(lambda x: (aten.argmax.default(x, dims[0]), aten.argmin.default(x, dims[0], True)), x)


@pytest.mark.parametrize("k", [0, 1, 31, 33, 64])
def test_products_with_any_inner_extent(k: int) -> None:
    torch.manual_seed(0)
    check(aten.mm.default, torch.randn(3, k), torch.randn(k, 65))
    check(aten.bmm.default, torch.randn(2, 3, k), torch.randn(2, k, 5))
    check(lambda b, x, y: aten.addmm.default(b, x, y), torch.randn(7), torch.randn(3, k), torch.randn(k, 7))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: aten.permute.default(x, [1, 0]),
        lambda x: aten.view.default(x, [-1]),
        lambda x: aten.slice.Tensor(x, 1, 3, -2, 2),
        lambda x: aten.select.int(x, 1, -1),
        lambda x: aten.cat.default([x, x], 1),
        lambda x: aten.constant_pad_nd.default(x, [1, 2], 3.0),
        lambda x: aten.flip.default(x, [1]),
        lambda x: aten.expand.default(aten.unsqueeze.default(x, 0), [2, -1, -1]),
        lambda x: aten.repeat.default(x, [2, 2]),
        lambda x: aten.roll.default(x, [1], [1]),
        lambda x: aten.tril.default(x, 1),
        lambda x: aten.cumsum.default(x, 1),
        lambda x: aten.slice_scatter.default(x, aten.zeros.default([2, 70]), 0, 1, 3),
        lambda x: aten.select_scatter.default(x, aten.ones.default([70]), 0, 2),
        lambda x: aten.index.Tensor(x, [None, aten.arange.default(3)]),
        lambda x: aten.gather.default(x, 1, aten.zeros.default([5, 2], dtype=torch.int64)),
        lambda x: aten.index_put.default(x, [aten.arange.default(2)], aten.ones.default([70]), True),
        lambda x: aten._softmax.default(x, 1, False),
        lambda x: aten._log_softmax.default(x, 0, False),
        lambda x: aten.var.correction(x, [1], correction=1),
        lambda x: aten.gelu.default(x, approximate="tanh"),
        lambda x: aten.leaky_relu.default(x, 0.1),
        lambda x: aten.elu.default(x),
        lambda x: aten.clamp.default(x, -0.5, 0.5),
        lambda x: aten.div.Tensor_mode(x, 0.3, rounding_mode="floor"),
        lambda x: aten._to_copy.default(x, dtype=torch.bfloat16),
        lambda x: aten.as_strided.default(x, [3, 4], [1, 2], 5),
    ],
)
def test_an_operator_against_eager(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    check(function, torch.randn(5, 70))


@pytest.mark.parametrize("transposed", [False, True])
def test_windows_and_their_gradients(transposed: bool) -> None:
    torch.manual_seed(0)
    x, w, bias = torch.randn(2, 3, 9, 9), torch.randn(3, 3, 3, 3), torch.randn(3)
    window = ([2, 2], [1, 1], [1, 1], transposed, [0, 0], 1)
    check(lambda x, w, b: aten.convolution.default(x, w, b, *window), x, w, bias)
    grad = torch.randn_like(aten.convolution.default(x, w, bias, *window))
    check(
        lambda g, x, w: aten.convolution_backward.default(g, x, w, [3], *window, [True, True, True]),
        grad,
        x,
        w,
    )
    check(lambda x: aten.max_pool2d_with_indices.default(x, [3, 3], [2, 2], [1, 1]), x)
    check(lambda x: aten.avg_pool2d.default(x, [2], [2]), x)
    check(lambda x: aten._adaptive_avg_pool2d.default(x, [1, 1]), x)


@pytest.mark.parametrize("make", [lambda x: x.t(), lambda x: x[1:, 2:], lambda x: x[:1].expand(70, 5)])
def test_inputs_of_any_strides(make: Callable[[Any], Any]) -> None:
    torch.manual_seed(0)
    check(lambda x: aten.exp.default(x), make(torch.randn(70, 5)))


def test_a_dtype_that_the_device_lacks_goes_to_the_host_with_the_reason() -> None:
    program = check(
        lambda x: aten.add.Tensor(aten._to_copy.default(x, dtype=torch.float64), 1),
        torch.ones(3),
        native=False,
    )
    assert [str(call.target) for call in program.fallbacks] == ["aten._to_copy.default", "aten.add.Tensor"]
    assert "torch.float64" in program.fallbacks[0].reason
    assert not any(isinstance(step, Enter) for step in program.steps)


def test_an_operator_without_a_rule_goes_to_the_host_and_back() -> None:
    program = check(
        lambda x: aten.neg.default(aten.erfinv.default(aten.mul.Tensor(x, 0.5))), torch.rand(40), native=False
    )
    assert [str(call.target) for call in program.fallbacks] == ["aten.erfinv.default"]
    assert len(program.kernels) == 2


def test_native_limits_what_runs_on_the_device() -> None:
    x = torch.ones(3)
    program = lowered(lambda x: aten.neg.default(aten.exp.default(x)), [x], native={"aten.exp"})
    assert [str(call.target) for call in program.fallbacks] == ["aten.neg.default"]
    assert "aten.neg.default" in RULES


def test_buffers_are_never_used_again_and_every_kernel_has_one_statement() -> None:
    program = lowered(lambda x: aten._softmax.default(aten.exp.default(x), 1, False), [torch.ones(4, 70)])
    places = sorted((buffer.address, buffer.layout.bytes) for buffer in program.buffers.values())
    assert all(one + size <= two for (one, size), (two, _) in itertools.pairwise(places))
    assert all(len(step.spec.body) <= 1 for step in program.steps if isinstance(step, Kernel))
    assert all(
        operator.attrgetter("memory")(entry) == "hbm" for spec in program.kernels for entry in spec.operands
    )
    assert "kernel exp" in program.texts["kernels.txt"]
