"""The code that is put around what a script compiles: a larger module, other regions, a loader's worker.

Each function returns the name to use and the text that defines it; neither uses a word of the script, so
that a healthy part does not call the very operator that is at fault.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

T = TypeVar("T")

#: Healthy layers that keep the shape (4, N), and what they are called in the module.
_LAYERS = (
    ("project", "torch.nn.Linear({n}, {n})"),
    ("norm", "torch.nn.LayerNorm({n})"),
    ("act", "torch.nn.GELU()"),
    ("gate", "torch.nn.Sigmoid()"),
    ("soft", "torch.nn.Softmax(dim=-1)"),
    ("smooth", "torch.nn.Softplus()"),
    ("squash", "torch.nn.Tanh()"),
)
#: What a tensor may pass through on its way without another value coming out.
_EXACT = ("value * self.{gain}", "value.clamp(-1e30, 1e30)", "value + 0", "")
#: Bodies of healthy compiled functions of one float tensor.
_BODIES = (
    "torch.tanh(x) + x.mean()",
    "torch.softmax(x * 2, dim=0)",
    "(x.sin() + 1).sum(dim=0)",
    "torch.sigmoid(x).flip(0)",
    "x.reshape(-1, 2).t().contiguous()",
    "torch.where(x > 0.5, x, x.exp())",
)

_MODULE = """
def {each}(value, layer):
    if isinstance(value, torch.Tensor):
        return layer(value) if value.is_floating_point() else value
    if type(value) in (tuple, list):
        return type(value)({each}(item, layer) for item in value)
    return value


class {cls}(torch.nn.Module):
    def __init__(self):
        super().__init__()
{layers}
        self.{gain} = torch.nn.Parameter(torch.ones(()), requires_grad=False)
        self.register_buffer("features", torch.linspace(-1, 1, 4 * {n}).reshape(4, {n}))
        self.register_buffer("seen", torch.zeros(4, {n}))

    def forward(self, *args, **kwargs):
        hidden = {before}
{inward}
        out = {name}(*args, **kwargs)
        self.seen.copy_({after}.detach())
        return {outward}


{model} = {cls}()
"""

_REGIONS = """
@torch.compile
def {first}(x):
    return {body_one}


@torch.compile
def {second}(x):
    return {body_two}


def {wrapper}(f):
    def call(*args, **kwargs):
        {first}(torch.linspace(0, 1, {n}))
        out = f(*args, **kwargs)
        {second}(torch.linspace(-1, 2, {n}))
        return out

    return call
"""

_LOADER = """
class {cls}(torch.utils.data.Dataset):
    def __init__(self, args):
        self.args = args

    def __len__(self):
        return {n}

    def __getitem__(self, place):
        return self.args


def {wrapper}(f):
    def call(*args, **kwargs):
        rows = torch.utils.data.DataLoader(
            {cls}(args), batch_size=None, num_workers=1, multiprocessing_context="fork"
        )
        for row in rows:
            out = f(*row, **kwargs)
        return out

    return call
"""


def inside_a_module(name: str, used: Collection[str], rng: random.Random) -> tuple[str, str]:
    """A module that calls ``name`` between healthy layers; the name of its one instance."""
    layers = _healthy(_LAYERS, used, rng, 4, key=lambda layer: layer[1])
    n = rng.choice((3, 8, 17))
    cls, model, gain, each = (_free(word, used) for word in ("Model", "model", "gain", "each"))
    inward, outward = rng.choice(_EXACT), rng.choice(_EXACT)
    calls = [f"self.{word}" for word, _ in layers]
    through = f"args = [{each}(value, lambda value: {inward}) for value in args]" if inward else ""
    back = f"{each}(out, lambda value: {outward})" if outward else "out"
    return model, _MODULE.format(
        cls=cls,
        model=model,
        gain=gain,
        each=each,
        name=name,
        n=n,
        layers="\n".join(f"        self.{word} = {layer.format(n=n)}" for word, layer in layers),
        before=_nested(calls[:2], "self.features"),
        after=_nested(calls[2:], "hidden"),
        inward=" " * 8 + (through or "hidden = hidden + 1").format(gain=gain),
        outward=back.format(gain=gain),
    )


def between_regions(used: Collection[str], rng: random.Random) -> tuple[str, str]:
    """Two healthy compiled functions and a wrapper that calls one before and one after what it is given."""
    bodies = _healthy(_BODIES, used, rng, 2, key=str)
    first, second, wrapper = (_free(word, used) for word in ("prepare", "finish", "between"))
    text = _REGIONS.format(
        first=first,
        second=second,
        wrapper=wrapper,
        body_one=bodies[0],
        body_two=bodies[1],
        n=rng.choice((6, 16, 34)),
    )
    return wrapper, text


def fed_by_a_loader(used: Collection[str], rng: random.Random) -> tuple[str, str]:
    """A wrapper that takes the arguments of each call from the worker of a DataLoader."""
    cls, wrapper = _free("Rows", used), _free("fed", used)
    return wrapper, "import torch.utils.data\n" + _LOADER.format(
        cls=cls, wrapper=wrapper, n=rng.choice((1, 2))
    )


def _healthy(
    choices: Sequence[T], used: Collection[str], rng: random.Random, count: int, key: Callable[[T], str]
) -> list[T]:
    """``count`` of the choices that share no operator with the script, where there are as many."""
    common = {"torch", "nn", "x", "n", "dim", "self"}
    lower = {word.lower() for word in used}
    apart = [
        c for c in choices if not {w.lower() for w in re.findall(r"[A-Za-z]\w+", key(c))} - common & lower
    ]
    return rng.sample(apart if len(apart) >= count else list(choices), count)


def _nested(calls: Sequence[str], value: str) -> str:
    for call in calls:
        value = f"{call}({value})"
    return value


def _free(word: str, used: Collection[str]) -> str:
    """The word, or the word with a number, that the script does not use."""
    number = 1
    free = word
    while free in used:
        number += 1
        free = f"{word}{number}"
    return free
