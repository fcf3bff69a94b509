"""Run by an interpreter that has torch: numeric patterns, uncompiled, in float64 alongside and compiled.

Each case leaves three recordings in a folder of its name: ``plain``, ``exact`` (with the float64 run) and
``got``. A healthy case compiles with Inductor; a planted one runs its wrong twin instead. Prints the names.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CHILD, OUT = Path(sys.argv[1]), Path(sys.argv[2])
SPEC = importlib.util.spec_from_file_location(
    "accel_lab_child", CHILD / "__init__.py", submodule_search_locations=[str(CHILD)]
)
sys.modules["accel_lab_child"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sys.modules["accel_lab_child"])
record = importlib.import_module("accel_lab_child.record.recorder")
shadow = importlib.import_module("accel_lab_child.shadow.mode")

HEALTHY: dict[str, tuple[Any, dict[str, Any]]] = {}
PLANTED: dict[str, tuple[Any, Any, dict[str, Any]]] = {}
BF16, F16, F64 = torch.bfloat16, torch.float16, torch.float64


def healthy(*shapes: Any, **options: Any) -> Callable[[Any], Any]:
    """A function of tensors that Inductor compiles rightly; its result is summed and differentiated."""

    def keep(function: Any) -> Any:
        HEALTHY[function.__name__] = (function, {"shapes": shapes, **options})
        return function

    return keep


def planted(wrong: Any, *shapes: Any, **options: Any) -> Callable[[Any], Any]:
    """A function with a wrong twin."""

    def keep(function: Any) -> Any:
        PLANTED[function.__name__] = (function, wrong, {"shapes": shapes, **options})
        return function

    return keep


# ---- healthy ---------------------------------------------------------------------------------------------


@healthy((16, 65))
def softmax_of_large_scores(a):
    return (a * 40).softmax(-1)


@healthy((8, 64), scale=1e-6)
def layer_norm_of_tiny_values(a):
    return F.layer_norm(a, (64,))


@healthy((40, 37))
def centred(a):
    return a - a.mean(0)


@healthy((40, 37))
def centred_and_summed(a):
    """Exactly zero, but for roundings."""
    return (a - a.mean(0)).sum(0)


@healthy((5000,), offset=1000.0)
def sum_of_centred_large_values(a):
    return (a - a.mean()).sum(), ((a - a.mean()) ** 2).mean()


@healthy((64, 7), offset=3.0, scale=0.0)
def variance_of_a_constant(a):
    return a.var(0), a.std(0, correction=0), (a / 3).var(0, correction=0)


@healthy((2, 3, 12, 12), (4, 3, 3, 3), (4,))
def convolution_before_batch_norm(a, weight, bias):
    """The gradient of the bias is zero, but for roundings."""
    return F.batch_norm(F.conv2d(a, weight, bias), None, None, training=True).tanh()


@healthy((2, 4, 17, 8), (2, 4, 17, 8), (2, 4, 17, 8))
def attention_with_a_mask(q, k, v):
    scores = q @ k.transpose(-1, -2) * 0.35
    scores = scores.masked_fill(torch.ones(17, 17).triu(1).bool(), -1e9)
    return scores.softmax(-1) @ v


@healthy((2, 2, 17, 8))
def fused_attention(a):
    return F.scaled_dot_product_attention(a, a * 0.5, a, is_causal=True)


@healthy((300,), scale=1e-4)
def exp_and_log_near_zero(a):
    # No expm1: the vector code of 2.13.0 takes exp(x) - 1 for it, which is no rounding (mended in 2.14.1).
    return a.exp() - 1, (1 + a).log(), a.log1p(), (1 + a.abs()).sqrt() - 1


@healthy((300,), scale=1e-20)
def tiny_everywhere(a):
    return a * 3, a.sum(), (a * 1e-10).mean(), a.sin() - a * 0.5


@healthy((33, 21))
def zero_gradients(a):
    """Only the shift of a softmax, whose gradient is zero."""
    return (a + a.sum(1, keepdim=True)).softmax(1).sum(1), a.detach()


@healthy((33, 21))
def masked_gradients(a):
    return (a.relu() * (a > 1)).sum(1), F.max_pool1d(a[None], 3)


@healthy((16, 10))
def cross_entropy_of_sure_scores(a):
    scores = torch.cat([a[:, :1] + 30, a[:, 1:]], 1)
    return F.cross_entropy(scores, torch.zeros(16, dtype=torch.int64)), scores.log_softmax(1)


@healthy((64, 64), (64, 64))
def difference_of_products(a, b):
    return a @ b - (b.t() @ a.t()).t(), (a @ b).sum() - (a.sum(0) * b.sum(1)).sum()


@healthy((4096,), dtype=F64)
def float64_cancels(a):
    return (a - a.mean()).sum(), a.var() * 1e-20, (a * 1e8).sin(), a.cumsum(0)


@healthy((3000,))
def running_sums(a):
    return a.cumsum(0), a.logcumsumexp(0), (a * 0.01 + 1).cumprod(0)


@healthy((32, 48), (48, 16), dtype=BF16)
def bfloat16_linear(a, b):
    return F.gelu(a @ b), F.layer_norm(a, (48,)), a.softmax(-1).sum(), (a - a.mean(0)).sum(0)


@healthy((32, 48), (48, 16), dtype=F16)
def float16_linear(a, b):
    return F.silu(a @ b), a.softmax(-1), (a * 1e-4) ** 2, a.var(0)


@healthy((32, 48), (48, 16), (16,), autocast=BF16)
def autocast_loss(a, b, bias):
    return F.cross_entropy((F.gelu(a @ b) + bias).float(), torch.arange(32) % 16)


@healthy((32, 48), (48, 48), (48, 48), (48, 4), autocast=BF16)
def autocast_deep(a, b, c, gate):
    hidden = a
    for _ in range(4):
        hidden = F.layer_norm(hidden + F.gelu(hidden @ b) @ c * 0.1, (48,))
    share = (hidden.float()[:, :, None] * gate).sum(1).softmax(-1)
    return (share[:, :1] * hidden).float().pow(2).mean()


@healthy((24, 30), (30, 30), autocast=BF16)
def autocast_scalar(a, b):
    """One float32 number behind roundings to bfloat16, which may be small by luck."""
    return (a @ b).mean(), ((a @ b).float().std() - 1) * 1e-6


@healthy((40, 24))
def complex_spectrum(a):
    spectrum = torch.fft.fft(a)
    return spectrum, (spectrum * spectrum.conj()).sum(), torch.fft.ifft(spectrum).imag


class Trained(nn.Module):
    """Three steps of Adam with a tiny learning rate."""

    def __init__(self, autocast: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 3))
        self.autocast = autocast

    def forward(self, a):
        with torch.autocast("cpu", BF16) if self.autocast else contextlib.nullcontext():
            return F.mse_loss(self.body(a).float(), a[:, :3] * 2)


@healthy((16, 12), module=lambda: Trained(False), lr=1e-9)
def adam(model, a):
    return model(a)


@healthy((16, 12), module=lambda: Trained(True), lr=1e-4)
def adam_under_autocast(model, a):
    return model(a)


# ---- planted ---------------------------------------------------------------------------------------------


class Changed(torch.autograd.Function):
    """The identity, whose gradient goes through ``change``."""

    @staticmethod
    def forward(ctx, value, change):
        ctx.change = change
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.change(gradient), None


def gated(a, b, c, gate, change):
    hidden = a
    for _ in range(4):
        hidden = F.layer_norm(hidden + F.gelu(hidden @ b) @ c * 0.1, (48,))
    gate = Changed.apply(gate, change)
    with torch.autocast("cpu", enabled=False):
        share = (hidden.float() @ gate).softmax(-1)
    return (share[:, :1] * hidden).float().pow(2).mean()


def gate_case(name: str, change: Any) -> None:
    shapes = ((32, 48), (48, 48), (48, 48), (48, 4))

    def right(*inputs):
        return gated(*inputs, lambda gradient: gradient.clone())

    def wrong(*inputs):
        return gated(*inputs, change)

    right.__name__ = name
    planted(wrong, *shapes, autocast=BF16)(right)


gate_case("gate_off_by_three_percent", lambda gradient: gradient * 1.03)
gate_case("gate_in_bfloat16", lambda gradient: gradient.to(BF16).float())
gate_case("gate_lost", lambda gradient: gradient * 0)
gate_case("gate_of_one_row_lost", lambda gradient: torch.cat([gradient[:1] * 0, gradient[1:]]))


def small(power: float) -> None:
    def right(a):
        return a.sin() * power

    def wrong(a):
        return torch.cat([(a.sin() * power)[:-1], (a.sin() * power)[-1:] * 0.5])

    right.__name__ = f"half_at_{power:.0e}".replace("-", "m")
    planted(wrong, (100,))(right)


for power in (1e-8, 1e-20, 1e-30, 1e-36):
    small(power)


@planted(lambda a: (a.abs().mean() * 0.5e-9).item(), (100,))
def number_of_1em9(a):
    return (a.abs().mean() * 1e-9).item()


@planted(lambda a: torch.fft.fft(a) * 1.001e-12, (100,))
def complex_at_1em12(a):
    return torch.fft.fft(a) * 1e-12


@planted(lambda a: a.sum() * 1e-3 + 1e-9, (100,), dtype=F64)
def float64_off_by_1em9(a):
    return a.sum() * 1e-3


@planted(lambda a: (a.relu() * 1e-8) + (a < 0) * 1e-12, (100,))
def leak_beside_tiny_values(a):
    return a.relu() * 1e-8


def inputs_of(options: dict[str, Any]) -> list[torch.Tensor]:
    torch.manual_seed(3)
    kind = options.get("dtype", torch.float32)
    made = [torch.randn(*shape, dtype=F64) for shape in options["shapes"]]
    made = [t * options.get("scale", 1.0) + options.get("offset", 0.0) for t in made]
    return [t.to(kind).requires_grad_() for t in made]


def run(folder: Path, function: Any, options: dict[str, Any], *, exact: bool) -> None:
    """Call and differentiate a function as a script would, recorded."""
    mode = shadow.ShadowMode(draws=shadow.DRAWS) if exact else None
    recorder = record.Recorder(str(folder), 1 << 26, shadow=mode)
    inputs = inputs_of(options)
    models = [options["module"]()] if "module" in options else []
    optimizer = torch.optim.Adam(models[0].parameters(), lr=options["lr"]) if models else None
    for model in models:
        recorder.watch_module(0, model)
    with mode or contextlib.nullcontext():
        for _ in range(3 if models else 1):
            call = recorder.begin_call(0, "f", tuple(inputs), {})
            with (
                torch.autocast("cpu", options["autocast"])
                if "autocast" in options
                else contextlib.nullcontext()
            ):
                result = function(*models, *inputs)
            recorder.end_call(call, result)
            parts = [
                part for part in (result if isinstance(result, tuple) else (result,)) if differentiable(part)
            ]
            if optimizer is not None:
                optimizer.zero_grad()
            if parts:
                sum(
                    (part * weights(part)).abs().sum() if part.is_complex() else (part * weights(part)).sum()
                    for part in parts
                ).backward()
            if optimizer is not None:
                optimizer.step()
    recorder.finish()


def differentiable(part: Any) -> bool:
    return isinstance(part, torch.Tensor) and part.requires_grad


def weights(part: torch.Tensor) -> torch.Tensor:
    """Fixed weights, so that gradients are not all alike."""
    kind = part.real.dtype if part.is_complex() else part.dtype
    return torch.linspace(0.5, 1.5, max(1, part.numel())).to(kind).reshape(part.shape)


def main() -> None:
    wanted = sys.argv[3:] or [*HEALTHY, *PLANTED]
    for name in wanted:
        if name in HEALTHY:
            function, options = HEALTHY[name]
            other = torch.compile(function)
        else:
            function, other, options = PLANTED[name]
        run(OUT / name / "plain", function, options, exact=False)
        run(OUT / name / "exact", function, options, exact=True)
        run(OUT / name / "got", other, options, exact=False)
        torch._dynamo.reset()
    json.dump({"healthy": list(HEALTHY), "planted": list(PLANTED)}, sys.stdout)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    main()
