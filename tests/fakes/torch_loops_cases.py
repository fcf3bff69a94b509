"""Run by an interpreter that has torch: real programs under the loop interpreter and in eager; prints JSON.

A case is a function of its inputs. Compared are its outputs (values, dtype, shape), its inputs afterwards,
and, where asked, the gradients of its inputs. `argv`: the child's folder, then the names of the cases to run.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CHILD = Path(sys.argv[1])
SPEC = importlib.util.spec_from_file_location(
    "accel_lab_child", CHILD / "__init__.py", submodule_search_locations=[str(CHILD)]
)
sys.modules["accel_lab_child"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sys.modules["accel_lab_child"])
loops = importlib.import_module("accel_lab_child.loops.interpreter")
kernels = importlib.import_module("accel_lab_child.loops.kernel")
conflicts = importlib.import_module("accel_lab_child.loops.conflicts")

CASES: dict[str, Any] = {}


def case(make: Callable[[], tuple[Any, ...]], **options: Any) -> Callable[[Any], Any]:
    def keep(function: Any) -> Any:
        CASES[function.__name__] = (function, make, options)
        return function

    return keep


def randn(
    *shapes: Any, dtype: torch.dtype = torch.float32, grad: bool = False
) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(torch.randn(*shape, dtype=dtype).requires_grad_(grad) for shape in shapes)


@case(randn((4, 9), (9,)))
def pointwise_chain(x, y):
    return torch.sigmoid(x * 2 + y) - (x - y).tanh().exp(), (x > y) & (x < 1), torch.where(x > 0, x, y / 3)


@case(randn((3, 1, 5), (4, 1)))
def broadcasting(x, y):
    return x + y, x.expand(3, 4, 5) * y, torch.outer(x.flatten(), y.flatten())


@case(randn((3, 4, 5)))
def transposes(x):
    return x.transpose(0, 2).contiguous() * 2, x.permute(2, 0, 1).reshape(5, 12) + 1, x.flip(1), x[:, ::2, 1:]


@case(randn((17, 33)))
def reductions(x):
    y = x.double()
    return (
        x.sum(),
        x.mean(1),
        x.var(0),
        x.std(),
        x.amax(1),
        y.prod(0),
        (x > 2).any(1),
        x.norm(dim=1),
        x.all(0),
    )


@case(randn((6, 40)))
def arg_reductions(x):
    return x.argmax(), x.argmin(1), x.max(0), x.min(1), x.round().argmax(1), x.t().argmax()


@case(lambda: (torch.tensor([[1.0, float("nan"), 3.0], [float("inf"), 2.0, -float("inf")]]),))
def special_values(x):
    return x.amax(1), x.argmax(1), x.softmax(1), x.isnan(), torch.maximum(x, x.flip(1)), x.sign(), x.relu()


@case(lambda: (torch.tensor([0.0, -0.0, 0.0, -0.0]), torch.tensor([-0.0, 0.0, 0.0, -0.0])), bits=True)
def signed_zeros(x, y):
    return torch.minimum(x, y), torch.maximum(x, y), -x, x * y, x.abs(), torch.copysign(x + 1, y)


@case(randn((7, 300), (300,), (300,), grad=True), grad=True)
def softmax_and_layer_norm(x, w, b):
    return F.layer_norm(x.softmax(-1), (300,), w, b), F.log_softmax(x, 0)


def batch_norm_inputs() -> tuple[Any, ...]:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), torch.randn(4, 3, 9, 9)


@case(batch_norm_inputs, module=True)
def batch_norm_training(module, x):
    module(x).square().mean().backward()
    return (x * 1,)


@case(randn((2, 3, 12, 12), (5, 3, 3, 3), (5,), grad=True), grad=True)
def convolution(x, w, b):
    return F.conv2d(x, w, b, stride=2, padding=1).relu()


@case(randn((6, 7), (7, 8), (8,), (2, 6, 8), (2, 8, 5), grad=True), grad=True)
def matrix_products(a, b, c, d, e):
    return F.linear(a, b.t(), c).relu() @ b.t(), torch.bmm(d, e) * 2, torch.addmm(c, a, b)


@case(randn((2, 3, 10, 11), grad=True), grad=True)
def pooling(x):
    return (
        F.max_pool2d(x, 3, 2, 1),
        F.avg_pool2d(x, 3, 2, 1),
        F.adaptive_avg_pool2d(x, (3, 4)),
        F.max_pool2d(x, 2),
    )


@case(randn((5, 40)))
def scans(x):
    return x.cumsum(1), x.cumprod(0), x.cummax(1), x.logcumsumexp(1), (x > 0).cumsum(0)


@case(randn((5, 40)))
def sorting(x):
    return (x * 2).sort(1), x.topk(3, 1), x.argsort(0), torch.searchsorted(x[0].sort().values, x[1])


@case(lambda: (torch.randint(0, 9, (4, 6)), torch.randn(9, 5, requires_grad=True)), grad=True)
def embedding(i, w):
    return F.embedding(i, w) * 2, F.embedding(i, w, padding_idx=0)


@case(lambda: (torch.randn(6, 5), torch.randint(0, 6, (9,)), torch.randn(9, 5), torch.randint(-6, 6, (4,))))
def indexing(x, i, v, j):
    y = x.clone()
    y[j] = v[:4]
    z = torch.zeros(6, 5).index_add(0, i, v)
    counted = torch.zeros(6, 5).index_put((i,), v, accumulate=True)
    return (
        y,
        z,
        counted,
        x[i],
        x[i, :2],
        torch.gather(x, 1, torch.argsort(x, 1)),
        x.take_along_dim(x.argmax(1, True), 1),
    )


@case(lambda: (torch.randn(6, 5), torch.randint(0, 6, (3, 5)), torch.randn(3, 5)))
def scatters(x, i, v):
    return x.scatter_add(0, i, v), x.scatter_reduce(0, i, v, "amax"), torch.zeros(6, 5).scatter(0, i[:1], v)


@case(randn((3, 4), (2, 4)))
def joining(x, y):
    return (
        torch.cat([x, y * 2, x.flip(0)]),
        torch.stack([x, x + 1], 1),
        torch.cat([x, x.sin()], 1).split(3, 1),
    )


@case(randn((2, 3, 5, 6), grad=True), grad=True)
def padding_and_upsampling(x):
    return (
        F.pad(x, (1, 2, 0, 1), value=3.0),
        F.pad(x, (1, 1, 2, 2), mode="reflect"),
        F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.interpolate(x, size=(7, 4), mode="nearest"),
        F.pixel_shuffle(x.reshape(1, 6, 5, 6)[:, :4], 2),
    )


@case(lambda: (torch.arange(40.0),))
def strided_views(x):
    return x.as_strided((3, 4), (2, 3), 5) * 2, x.unfold(0, 5, 3) + 1, x.view(5, 8).t().reshape(-1)


@case(lambda: (torch.arange(40.0)[3:33].view(5, 6).t(), torch.randn(6, 5)))
def inputs_with_offsets(x, y):
    return x + y, x[1:].sum(1), x @ y.t()


@case(randn((4, 5), (4, 5)))
def input_mutation(x, y):
    x.add_(y)
    y[1:3].mul_(2)
    x[:, 0] = y[:, 1]
    return x * 2, x[1]


@case(randn((4, 5)))
def returned_views(x):
    y = x * 2
    return x, x.t(), y[1:], y.view(-1), x.detach()


@case(randn((9, 40)), setting="fallback_random")
def dropout(x):
    return F.dropout(x, 0.4, True) + torch.rand(9, 40) + torch.randn_like(x)


@case(lambda: (torch.randint(-50, 50, (6, 7)), torch.randint(1, 9, (6, 7))))
def integers(x, y):
    small = x.to(torch.int8) * 3
    return (
        x // y,
        x % y,
        torch.div(x, y, rounding_mode="trunc"),
        torch.fmod(x, y),
        x & y,
        x << 2,
        small,
        x / y,
        x.sum(),
    )


@case(lambda: (torch.rand(6, 7) > 0.5, torch.randint(0, 255, (6, 7), dtype=torch.uint8)))
def bools_and_bytes(x, y):
    return (
        x & ~x.flip(0),
        x.sum(0),
        x.any(),
        y + y,
        y.float().mean(),
        x.to(torch.float32),
        y.bitwise_not(),
        x.cumsum(1),
    )


@case(randn((6, 32), (32, 8), dtype=torch.bfloat16))
def bfloat16(x, w):
    return (x @ w).relu(), x.softmax(1), x.float().sum(), x.mean(), x * 1.7, F.layer_norm(x, (32,))


@case(randn((6, 32), dtype=torch.float16))
def float16(x):
    return x * x, x.sum(1), x.float().exp(), x.view(torch.int16), x.to(torch.bfloat16), x.amax(0)


@case(randn((6, 32), dtype=torch.bfloat16), setting="emulate_precision_casts")
def rounding_after_every_operation(x):
    return (x * x.exp() + x.sin()).float() - x, (x.exp() / x).double()


@case(randn((4, 6)), dynamic=True)
def dynamic_shapes(x):
    n = x.shape[0]
    return x.reshape(-1) * n, x[: n // 2].sum(0), torch.arange(n) + x.shape[1], x.new_ones(n + 1), n * 2


@case(lambda: (torch.randn(3, 4, 8, 8), torch.randn(2, 4)), dynamic=True)
def dynamic_pooling(x, y):
    return F.adaptive_avg_pool2d(x, 2).flatten(1), F.avg_pool2d(x, 2), F.pad(y, (1, y.shape[0])), y.mean(0)


@case(randn((3, 1, 2000)))
def large_reduction(x):
    return x.sum(), x.var(), (x * 2).expand(3, 50, 2000).softmax(2).sum(1)


@case(randn((1030, 1030), (1030, 1)))
def larger_than_a_chunk(x, y):
    return (x.unsqueeze(2) * y.view(1, 1030, 1) + torch.arange(5)).sum(2), x.t() * 2


@case(lambda: (torch.tensor([3.0, 8.5, 1.25]), torch.tensor([1, 2, 3])))
def constants(x, y):
    return (
        x + torch.tensor([1.0, 2.0, 3.0]),
        y * torch.tensor([[5], [6]]),
        torch.full((2, 2), 7),
        torch.eye(3) @ x,
    )


@case(lambda: (torch.rand(40) * 3 + 0.1, torch.randn(40)))
def special_functions(x, y):
    s = torch.special
    first = torch.lgamma(x), torch.digamma(x), torch.erf(y), torch.polygamma(1, x), torch.igamma(x, x)
    second = s.i0e(y), s.zeta(x + 1, x), s.ndtri(x / 4), s.log_ndtr(y), torch.logit(x / 4)
    return first, second, torch.frexp(y), torch.nextafter(x, y), torch.hypot(x, y), torch.logaddexp(x, y)


class Block(nn.Module):
    """One transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(2, 5, 3, 4, 4).permute(2, 0, 3, 1, 4)
        mask = torch.ones(5, 5, dtype=torch.bool).tril()
        weights = (q @ k.transpose(-1, -2) / 2).masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(2, 5, 16))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def seeded(make: Callable[[], nn.Module], *shape: int) -> Callable[[], tuple[Any, ...]]:
    def build() -> tuple[Any, ...]:
        torch.manual_seed(1)
        return make(), torch.randn(*shape)

    return build


@case(seeded(Block, 2, 5, 16), module=True)
def transformer_block_training(module, x):
    module(x).square().mean().backward()
    return (x * 1,)


@case(
    seeded(lambda: nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 4), nn.Softmax(1)), 8, 6),
    module=True,
)
def mlp_training(module, x):
    F.cross_entropy(module(x), torch.arange(8) % 4).backward()
    return (x * 1,)


@case(seeded(lambda: nn.LSTMCell(4, 5), 2, 4), module=True)
def recurrent(module, x):
    state = None
    for _ in range(3):
        state = module(x, state)
    return state


@case(lambda: (torch.randn(5), torch.tensor(2), torch.randn(5)))
def control_flow(x, n, y):
    return torch.cond(x.sum() > 0, lambda a: a.sin() * 2, lambda a: a.cos() + 1, (x,)), y * 2


@case(lambda: (torch.randn(8), torch.tensor(3)), capture_scalars=True)
def data_dependent(x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k < 8)
    return x * k, torch.zeros(k + 1) + 2, x[k]


@case(lambda: (torch.randn(6, 5), torch.tensor([4, 1, 4, 0]), torch.randn(4, 5)))
def in_place_updates_of_rows(x, i, v):
    x[i[1:]] *= 2  # each row once
    x.index_add_(0, i, v)
    x.index_put_((i,), v * 0 + 3.0)  # one row twice, with the same value
    x[2:4] = x[4:] + x[:2]
    return x.index_copy_(0, i[1:], x[3:] - 1), x.scatter(1, i[:, None].expand(4, 5), 7.0)


@case(randn((6, 8)))
def mirrored_in_place(x):
    y = x.flip(0) * 2
    x.add_(y)
    y.copy_(x.roll(1, 1))
    x[:, :4], x[:, 4:] = y[:, 4:] + 1, y[:, :4] - 1
    return x.cumsum(0) + y.t().reshape(6, 8)


@case(
    lambda: (torch.tensor([[1, 1, 0], [8, 1, 3]]), torch.randn(9, 5, requires_grad=True)),
    grad=True,
)
def rows_taken_twice(i, w):
    taken = F.embedding(i, w)
    return taken * taken.detach().softmax(-1), w[i[0]] + w.index_select(0, i[1])


@case(lambda: (torch.zeros(7), torch.tensor([3, 3, 5]), torch.tensor([2.0, 4.0, 8.0])))
def accumulated_then_read(x, i, v):
    x.index_put_((i,), v, accumulate=True)
    y = x[i] * 2
    x.scatter_reduce_(0, i, v * 9, "amax")
    return y, x[i] - x.flip(0)[:3], torch.cat([x, x[1:3] * 2, y])


def leaves(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


def outcome(function: Any, inputs: tuple[Any, ...], options: dict[str, Any], compiler: Any) -> list[Any]:
    """Everything that a run leaves: outputs, inputs afterwards, gradients."""
    inputs = copy.deepcopy(inputs)
    torch.manual_seed(5)
    if options.get("module"):
        module = inputs[0]
        shown = compiler(module) if compiler else module
        outputs = function(shown, *inputs[1:])
        extra = [p.grad for p in module.parameters()] + list(module.buffers())
        return [leaves(outputs), leaves(inputs[1:]), extra]
    outputs = (compiler(function) if compiler else function)(*inputs)
    grads: list[Any] = []
    if options.get("grad"):
        wanted = [t for t in leaves(outputs) if torch.is_tensor(t) and t.requires_grad]
        # A smooth function of every output, different at each element.
        sum((t * torch.linspace(1, 2, t.numel()).view(t.shape).to(t)).sum() for t in wanted).backward()
        grads = [t.grad for t in inputs if t.is_floating_point()]
    return [leaves(outputs), [t for t in inputs if torch.is_tensor(t)], grads]


def difference(want: list[Any], got: list[Any], bits: bool) -> str:
    for kind, a, b in zip(("output", "input", "gradient"), want, got, strict=True):
        if len(a) != len(b):
            return f"{len(b)} {kind}s instead of {len(a)}"
        for position, (x, y) in enumerate(zip(a, b, strict=True)):
            try:
                if bits:
                    x, y = x.view(torch.int32), y.view(torch.int32)
                torch.testing.assert_close(y, x, equal_nan=True, check_stride=False)
            except AssertionError as error:
                return f"{kind} {position}: {error}"
    return ""


def run(name: str, mode: str) -> str:
    function, make, options = CASES[name]
    torch.manual_seed(0)
    inputs = make()
    torch._dynamo.reset()
    settings = {options["setting"]: True} if "setting" in options else {}
    backend = functools.partial(
        loops.compile_loops,
        scheduled=mode != "loops",
        together=mode == "together",
        config_patches=settings,
    )
    compiler = functools.partial(
        torch.compile, backend=backend, dynamic=options.get("dynamic"), fullgraph=True
    )
    torch._dynamo.config.capture_scalar_outputs = bool(options.get("capture_scalars"))
    before = len(kernels.KERNELS)
    conflicts.FOUND.clear()
    try:
        want = outcome(function, inputs, options, None)
        got = outcome(function, inputs, options, compiler)
    except Exception as error:
        reason = loops.not_interpretable(error)
        return f"not interpretable: {reason}" if reason else f"{type(error).__name__}: {error}"
    found = difference(want, got, options.get("bits", False))
    ordered = [row for row in conflicts.FOUND if not row["by_contract"]]
    if not found and ordered:
        return f"the order of iterations matters: {ordered[0]}"
    return found or ("" if len(kernels.KERNELS) > before else "no kernel was interpreted")


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    names = [word for word in sys.argv[2:] if word in CASES] or list(CASES)
    modes = ("loops", "scheduled", *(["together"] if "together" in sys.argv[2:] else []))
    answer = {mode: {name: run(name, mode) for name in names} for mode in modes}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
