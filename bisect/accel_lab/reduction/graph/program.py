"""A captured graph as a straight-line program: inputs, statements, results, and calls.

All classes are immutable; a reduction step makes a new program. Operators are dotted names that plain torch
resolves, so a program can be written as a script, and this module does not need torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from .arguments import Arg, Items, Meta, Ref, TensorMeta, mapped, refs

# -- the program -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Statement:
    """``name = target(args, kwargs)``. ``op`` is function, method, or size (``args[0].shape[args[1]]``)."""

    name: str
    op: str
    target: str
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    meta: Meta = None

    @property
    def uses(self) -> tuple[str, ...]:
        """The names that it reads, without duplicates, in order."""
        every = [*self.args, *(value for _, value in self.kwargs)]
        return tuple(dict.fromkeys(name for arg in every for name in refs(arg)))

    @property
    def has_effect(self) -> bool:
        """Whether it has a side effect."""
        last = self.target.rsplit(".", 1)[-1]
        if self.op == "function" and (last in EFFECTS or _IN_PLACE_OPERATOR.match(self.target)):
            return True
        if any(key == "out" for key, _ in self.kwargs):
            return True
        return last.endswith("_") and not last.endswith("__")

    def with_args(self, change: Callable[[Arg], Arg]) -> Statement:
        """Applies ``change`` to every leaf of the arguments."""
        return replace(
            self,
            args=tuple(mapped(arg, change) for arg in self.args),
            kwargs=tuple((key, mapped(value, change)) for key, value in self.kwargs),
        )


EFFECTS = (
    "setitem",
    "_set_grad_enabled",
    "set_grad_enabled",
    "_enter_autocast",
    "_exit_autocast",
    "manual_seed",
    "_check",
    "_assert",
    "delitem",
)
_IN_PLACE_OPERATOR = re.compile(
    r"operator\.i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift|matmul)$"
)
RANDOM = re.compile(
    r"rand|dropout|bernoulli|normal_|multinomial|exponential_|poisson|gumbel|cauchy_|geometric_"
)


@dataclass(frozen=True, kw_only=True)
class CompileArgs:
    """Arguments of ``torch.compile``; the values in ``options`` are Python source."""

    backend: str = "inductor"
    fullgraph: bool = False
    dynamic: bool | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Function:
    """One compiled function. ``nested`` are the functions passed to its higher-order operators."""

    params: tuple[str, ...]
    body: tuple[Statement, ...]
    result: Arg
    metas: tuple[tuple[str, Meta], ...] = ()
    compile: CompileArgs = field(default_factory=CompileArgs)
    nested: tuple[tuple[str, Function], ...] = ()

    @property
    def results(self) -> tuple[Arg, ...]:
        """The returned values as a tuple."""
        return self.result.items if isinstance(self.result, Items) else (self.result,)

    def meta_of(self, name: str) -> Meta:
        for statement in self.body:
            if statement.name == name:
                return statement.meta
        return dict(self.metas).get(name)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Values stored in an entry of a safetensors file."""

    file: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Made:
    """Values from a constructor; ``kind`` is zeros, ones, full, arange, randn, linspace or literal."""

    kind: str
    value: str = ""


@dataclass(frozen=True, kw_only=True)
class Storage:
    """A flat range of elements that tensors are views of."""

    name: str
    dtype: str
    numel: int
    source: Stored | Made
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class TensorInput:
    """An input tensor: a view of a storage.

    If ``origin`` (size, stride, offset) is set, that view is read first, narrowed to ``size`` and made
    contiguous. ``cast`` is the dtype of a final conversion, or empty.
    """

    storage: str
    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0
    requires_grad: bool = False
    leaf: bool = True
    origin: tuple[tuple[int, ...], tuple[int, ...], int] | None = None
    cast: str = ""

    @property
    def meta(self) -> TensorMeta:
        return TensorMeta(self.size, self.cast or self.dtype, self.stride, "cpu", self.requires_grad)


@dataclass(frozen=True, kw_only=True)
class ScalarInput:
    """A number or another value that can be written as text."""

    value: Arg


Input = TensorInput | ScalarInput


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Thread state around a call; ``autocast`` holds pairs of device and dtype."""

    grad: bool = True
    inference: bool = False
    autocast: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """A gradient passed to the backward for output ``output``."""

    output: int
    size: tuple[int, ...]
    dtype: str
    source: Stored


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a function. ``backward`` is None, ``sum`` (of all outputs), ``ones``, or the gradients."""

    function: int
    storages: tuple[Storage, ...] = ()
    inputs: tuple[Input, ...] = ()
    settings: Settings = field(default_factory=Settings)
    backward: str | tuple[Gradient, ...] | None = None
    values: tuple[tuple[str, Stored], ...] = ()

    def storage(self, name: str) -> Storage:
        return next(storage for storage in self.storages if storage.name == name)

    def sharers(self, name: str) -> int:
        """Number of inputs that are views of a storage."""
        return sum(isinstance(i, TensorInput) and i.storage == name for i in self.inputs)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Calls of functions in order. ``compare`` says what is compared: outputs, grads, inputs."""

    functions: tuple[Function, ...]
    calls: tuple[Call, ...]
    default_dtype: str = "float32"
    compare: frozenset[str] = frozenset(("outputs", "grads", "inputs"))
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        """Number of statements over all functions."""
        return sum(len(f.body) + sum(len(g.body) for _, g in f.nested) for f in self.functions)


# -- edits ------------------------------------------------------------------------------------------


def with_function(program: Program, index: int, function: Function) -> Program:
    functions = list(program.functions)
    functions[index] = function
    return replace(program, functions=tuple(functions))


def substituted(function: Function, values: Mapping[str, Arg]) -> Function:
    """Replaces references by other arguments, in the body and in the result."""

    def change(arg: Arg) -> Arg:
        seen: set[str] = set()
        while isinstance(arg, Ref) and arg.name in values and arg.name not in seen:
            seen.add(arg.name)
            arg = values[arg.name]
        return arg

    body = tuple(statement.with_args(change) for statement in function.body)
    return replace(function, body=body, result=mapped(function.result, change))


def live(function: Function) -> tuple[Statement, ...]:
    """Returns the statements that the result or a side effect needs."""
    needed = set(refs(function.result))
    kept: list[Statement] = []
    for statement in reversed(function.body):
        if statement.name in needed or statement.has_effect:
            needed.update(statement.uses)
            kept.append(statement)
    return tuple(reversed(kept))


def tidy(program: Program) -> Program:
    """Removes unused statements, parameters, nested functions and storages."""
    functions, keep = [], []
    for function in program.functions:
        body = live(function)
        used = {name for statement in body for name in statement.uses} | set(refs(function.result))
        keep.append([index for index, name in enumerate(function.params) if name in used])
        functions.append(
            replace(
                function,
                body=body,
                params=tuple(function.params[i] for i in keep[-1]),
                nested=tuple((name, inner) for name, inner in function.nested if name in used),
            )
        )
    calls = []
    for call in program.calls:
        inputs = tuple(call.inputs[i] for i in keep[call.function])
        names = {i.storage for i in inputs if isinstance(i, TensorInput)}
        storages = tuple(storage for storage in call.storages if storage.name in names)
        backward = call.backward
        if not any(isinstance(i, TensorInput) and i.requires_grad for i in inputs):
            backward = None
        calls.append(replace(call, inputs=inputs, storages=storages, backward=backward))
    return replace(program, functions=tuple(functions), calls=tuple(calls))


def is_closed(function: Function) -> bool:
    """Whether every name is defined before it is used."""
    known = {*function.params, *(name for name, _ in function.nested)}
    for statement in function.body:
        if not known.issuperset(statement.uses):
            return False
        known.add(statement.name)
    return known.issuperset(refs(function.result))


def stored_files(program: Program) -> set[str]:
    """Returns the safetensors files that the program reads."""
    sources: list[Stored | Made] = []
    for call in program.calls:
        sources += [storage.source for storage in call.storages]
        if isinstance(call.backward, tuple):
            sources += [gradient.source for gradient in call.backward]
    return {source.file for source in sources if isinstance(source, Stored)}
