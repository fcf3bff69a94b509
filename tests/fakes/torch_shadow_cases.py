"""Run by an interpreter that has torch: each case under ShadowMode and truly in float64; prints JSON.

A case is a function of tensors. What is told of it: how far its shadow is from the float64 run, how far
its real result is, whether that result and the random state are those of a run without the mode, and what
could not be followed.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
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
shadow = importlib.import_module("accel_lab_child.shadow.mode")

CASES: dict[str, Any] = {}
WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64}
WIDE[torch.complex64] = torch.complex128


def case(*shapes: Any, **options: Any) -> Callable[[Any], Any]:
    def keep(function: Any) -> Any:
        CASES[function.__name__] = (function, shapes, options)
        return function

    return keep


def tensors(shapes: Any, options: Any) -> list[torch.Tensor]:
    torch.manual_seed(3)
    kind = options.get("dtype", torch.float32)
    grad = options.get("grad", False)
    return [torch.randn(*shape, dtype=kind).requires_grad_(grad) for shape in shapes]


def joined(*parts: torch.Tensor) -> torch.Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


@case((32, 48), (48, 16))
def matmul(a, b):
    return a @ b


@case((8, 33))
def softmax(a):
    return (a * 3).softmax(-1).log()


@case((8, 33), (33,), (33,))
def layer_norm(a, weight, bias):
    return F.layer_norm(a, (33,), weight, bias)[:, ::2].t()


@case((2, 3, 8, 8), (4, 3, 3, 3), (4,))
def convolution(a, weight, bias):
    return F.max_pool2d(F.conv2d(a, weight, bias, padding=1).relu(), 2)


@case((5, 6))
def views_and_writes(a):
    b = a.exp()
    b[1:, ::2].mul_(1.1)
    b.t()[0].add_(0.3)
    c = b[1:, ::2].clone()
    c[0] = b[0, : c.shape[1]]
    return joined(c, b, b.view(-1)[::7], b.as_strided((3, 3), (1, 2), 4))


@case((5, 6))
def index_put(a):
    b = a.sin()
    b.index_put_((torch.tensor([0, 2, 0]),), a[:3] * 0.1, accumulate=True)
    b[b > 0.5] = 0.25
    b.masked_fill_(b < -0.5, 0.1)
    return b.cumsum(0)


@case((5, 6))
def out_arguments(a):
    one, two = torch.empty(0), torch.empty(5, 6)
    torch.mul(a, 1.1, out=one)
    torch.exp(one, out=two)
    values, where = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.max(two, 1, out=(values, where))
    return joined(torch.add(two, one, out=one), values, where * values)


@case((8,))
def complex_views(a):
    b = torch.fft.fft(a)
    c = b.conj() * b
    torch.view_as_real(c)[..., 0].mul_(0.1)
    return joined(c.real, b.imag, b.conj().imag * b.real, b.abs())


@case((4, 4), dtype=torch.complex64)
def complex_matmul(a):
    return (a @ a.mH).exp() / 3


@case((50, 6))
def dropout(a):
    return F.dropout(a.exp(), 0.3, True) * 1.1


@case((50, 6))
def fused_dropout(a):
    return torch.native_dropout(a.exp(), 0.3, True)[0] * 1.1


@case((5, 6))
def random_numbers(a):
    noise = torch.randn_like(a) + torch.rand(5, 6)
    mask = torch.bernoulli(torch.full((5, 6), 0.5))
    return (a.sin() + noise) * mask + torch.empty(5, 6).uniform_(0.5, 1.0)


@case((5, 6), (6, 7), (7, 4), grad=True)
def backward_of_an_mlp(a, one, two):
    hidden = F.gelu(a @ one)
    loss = (F.layer_norm(hidden @ two, (4,)) * 0.5 + hidden @ two).relu().mean()
    return joined(loss, *torch.autograd.grad(loss, [a, one, two]))


@case((6, 3, 4, 4), (3,), (3,), grad=True)
def batch_norm(a, weight, bias):
    mean, variance = torch.zeros(3), torch.ones(3)
    result = F.batch_norm(a, mean, variance, weight, bias, training=True)
    gradients = torch.autograd.grad((result**3).sum(), [a, weight, bias])
    return joined(result, mean, variance, *gradients)


@case((2, 2, 16, 8), grad=True)
def attention(a):
    result = F.scaled_dot_product_attention(a, a * 0.5, a, is_causal=True)
    return joined(result, torch.autograd.grad(result.sin().sum(), a)[0])


@case((5, 6), (7, 6))
def inference(a, weight):
    with torch.inference_mode():
        return F.linear(F.dropout(a, 0.2, True), weight).reshape(-1).contiguous() * 2


@case((6,))
def factories(a):
    grid = torch.linspace(0, 1, 6) + torch.arange(6) / 3 + torch.arange(6) * 0.1
    return a + torch.full((6,), 0.1) + grid + torch.ones(6, dtype=torch.int64) / 3


@case((6,))
def lists_of_tensors(a):
    parts = torch._foreach_add([a.sin(), a.cos()], 0.1)
    torch._foreach_mul_(parts, 1.3)
    return joined(*parts, *torch.stack(parts).exp().split(1), *torch.stack(parts).unbind(1))


@case((6,))
def training(a):
    weight = nn.Parameter(a.clone())
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, weight_decay=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        (weight.sin() * weight).sum().backward()
        optimizer.step()
    return weight


@case((5, 6))
def discrete_steps(a):
    b = a * 1.7
    order = b.argsort(1)
    return joined(b.floor(), b.sign() * b, b.gather(1, order), torch.where(b > 0, b, -b), b.topk(2).values)


@case((5, 6))
def expanded(a):
    b = a.exp()
    return (b[:1].expand(5, 6) * 1.1 + b).sum(0)


@case((5, 6))
def vmapped(a):
    return torch.func.vmap(lambda row: (row.sin() * row).sum())(a)


@case((5, 6), grad=True)
def second_derivative(a):
    (first,) = torch.autograd.grad((a.sin() ** 2).sum(), a, create_graph=True)
    return torch.autograd.grad(first.exp().sum(), a)[0]


@case((5, 6), grad=True)
def checkpointed(a):
    from torch.utils.checkpoint import checkpoint

    result = checkpoint(lambda x: F.dropout(x.sin().exp(), 0.5, True), a, use_reentrant=False)
    return joined(result, torch.autograd.grad(result.sum(), a)[0])


@case((5, 6))
def casts(a):
    return a.to(torch.bfloat16).to(torch.float32) * 1.1 + a.half()


def measure(name: str) -> dict[str, Any]:
    function, shapes, options = CASES[name]
    given = tensors(shapes, options)
    torch.manual_seed(5)
    plain = function(*given).detach()
    after = torch.get_rng_state()
    given = tensors(shapes, options)
    torch.manual_seed(5)
    with shadow.ShadowMode(draws=shadow.DRAWS) as mode:
        real = function(*given)
        reference, spread = mode.lookup(real), mode.spread(real)
    same_state = torch.equal(torch.get_rng_state(), after)
    wide = [t.detach().to(WIDE[t.dtype]).requires_grad_(t.requires_grad) for t in tensors(shapes, options)]
    torch.manual_seed(5)
    torch.set_default_dtype(torch.float64)
    if name in ("random_numbers", "casts"):
        truth = None  # float64 draws are other draws; casts round there too
    else:
        truth = function(*wide).detach()
    torch.set_default_dtype(torch.float32)
    told = {
        "same_result": torch.equal(plain, real.detach()) and plain.stride() == real.stride(),
        "same_state": same_state,
        "fallbacks": dict(mode.fallbacks),
        "has_reference": reference is not None,
        "has_spread": spread is not None,
    }
    if reference is not None:
        exact = reference if truth is None else truth
        scale = float(exact.abs().max())
        told["dtype"] = str(reference.dtype)
        told["shape"] = reference.shape == real.shape
        told["error"] = float((reference - exact).abs().max()) / scale
        told["spread"] = None if spread is None else float(spread.max()) / scale
        told["real_error"] = float((real.detach().to(exact.dtype) - exact).abs().max()) / scale
    return told


class Wrapped(torch.Tensor):
    """A subclass that holds its tensor inside."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        result = func(*[a.inner if isinstance(a, cls) else a for a in args], **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


def special() -> dict[str, Any]:
    """Single facts, each by its name."""
    told: dict[str, Any] = {}
    a = torch.linspace(-1, 1, 7)
    with shadow.ShadowMode() as mode:
        # An input that numpy writes into between two uses.
        shared = torch.zeros(7)
        first = shared.exp()
        shared.numpy()[:] = 1.0
        second = shared.exp()
        told["numpy_write"] = float((mode.lookup(second) - torch.full((7,), 1.0).double().exp()).abs().max())
        told["float64_alone"] = mode.lookup(a.double().clone().sum()) is not None
        told["float64_only"] = mode.lookup(torch.ones(3, dtype=torch.float64).sin())
        told["integers"] = mode.lookup(torch.arange(3))
        told["numbers"] = numbers()
        # What depends on an operator without a float64 twin has no reference; overwriting ends that.
        lost = torch.sparse.mm(a.exp().diag().to_sparse(), torch.ones(7, 1)).sin()
        told["lost"] = mode.lookup(lost) is None
        lost.copy_(a.exp().reshape(7, 1))
        told["found_again"] = mode.lookup(lost) is not None
        # A storage written through another type, and one that was resized.
        bits = a.exp()
        bits.view(torch.int32).zero_()
        told["other_type"] = float(mode.lookup(bits).abs().max())
        resized = a.exp()
        resized.resize_(20).fill_(0.1)
        told["resized"] = float((mode.lookup(resized) - 0.1).abs().max())
        inner = Wrapped(a.exp())
        told["subclass"] = float((mode.lookup((inner + 1).inner) - (a.double().exp() + 1)).abs().max())
        told["float8"] = None
        if hasattr(torch, "float8_e4m3fn"):
            back = a.exp().to(torch.float8_e4m3fn).float()
            told["float8"] = float((mode.lookup(back) - back.double()).abs().max())
        rows = len(mode._exact.rows)
        for _ in range(6000):
            a + 1
        told["rows_grow"] = len(mode._exact.rows) - rows
        raised = []
        for bad in (lambda: a @ torch.ones(3), lambda: torch.zeros(2).index_select(0, torch.tensor([5]))):
            try:
                bad()
            except (RuntimeError, IndexError) as error:
                raised.append(type(error).__name__)
        told["raised"] = raised
        other = threading.Thread(target=lambda: told.update(thread=mode.lookup(a.exp()) is None))
        other.start()
        other.join()
    told["after"] = mode.lookup(first) is not None and mode.lookup(second) is not None
    told["own_operators"] = own_operators(a)
    told["branch"] = branch(a)
    told["default_dtype"] = str(torch.get_default_dtype())
    return told


def numbers() -> dict[str, Any]:
    """What is known of Python numbers that were taken out of tensors."""
    with shadow.ShadowMode(draws=shadow.DRAWS) as mode:
        third = torch.ones(()) / 3
        value, known = third.item(), mode.number(third.item())
        zero = torch.linspace(0, 1, 7).sub(torch.linspace(0, 1, 7).mean()).sum()
        noise = mode.number(zero.item())
        twice = (torch.ones(()) / 3.0000001).item()
        return {
            "value": value,
            "exact": known.value,
            "spread": known.spread,
            "noise": noise.spread,
            "unknown": mode.number(0.125) is None,
            "ambiguous": twice == value and mode.number(twice) is None,
        }


def own_operators(a: torch.Tensor) -> dict[str, Any]:
    """Operators of the script: run once, followed as far as they use torch's operators."""
    library = torch.library.Library("accel_lab_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.define("grow_(Tensor(a!) x) -> ()")
    library.define("opaque(Tensor x) -> Tensor")
    runs = []

    def twice(x):
        runs.append("twice")
        return x.sin() * 2

    def grow(x):
        x.mul_(1.1)

    def opaque(x):
        return torch.from_numpy(x.numpy() * 3)

    for name, function in (("twice", twice), ("grow_", grow), ("opaque", opaque)):
        library.impl(name, function, "CPU")
    operators = torch.ops.accel_lab_test
    with shadow.ShadowMode() as mode:
        b = a.exp()
        result = operators.twice(b)
        operators.grow_(b)
        unknown = operators.opaque(b)
        after = mode.lookup(b), mode.lookup(result), mode.lookup(unknown)
    wide = a.double().exp()
    return {
        "runs": runs,
        "followed": float((after[1] - wide.sin() * 2).abs().max()),
        "written": float((after[0] - wide * 1.1).abs().max()),
        "opaque": after[2] is None,
    }


def branch(a: torch.Tensor) -> dict[str, Any]:
    """An operator that takes functions runs, without a reference."""
    if not hasattr(torch, "cond"):
        return {"runs": True, "reference": False}
    with shadow.ShadowMode() as mode:
        result = torch.cond(torch.tensor(True), lambda x: x.sin(), lambda x: x.cos(), (a,))
        return {"runs": torch.equal(result, a.sin()), "reference": mode.lookup(result) is not None}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    json.dump({"cases": {name: measure(name) for name in CASES}, "special": special()}, sys.stdout)
