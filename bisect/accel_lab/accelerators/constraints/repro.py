"""Writes a violation as a standalone script: Dynamo's graph, on inputs of the same size, stride and dtype.

The graph can be reduced to the violating operators first (:mod:`.reduced_graph`). The script needs torch and
accel-lab. It exits with 1 if the constraint is violated, with 0 if it is not. This module does not run it.
"""

from __future__ import annotations

import inspect
import keyword
import pprint
import re
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .catalogue import Violation
from .values import number

#: Names that fx-generated code uses without importing them, and the line that defines each.
_BUILT_IN = {
    "torch": "import torch",
    "device": "from torch import device",
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "NoneType = type(None)",
    "fx_pytree": "import torch.fx._pytree as fx_pytree",
    "pytree": "import torch.utils._pytree as pytree",
}
_SCRIPT = '''\
"""{head}

Exits with 1 while the constraint is violated, with 0 when it is not.
"""

import os
import sys

os.environ.update(
{environment}
)

import torch
{imports}
{backend_import}
from accel_lab.accelerators.constraints.catalogue import ConstraintError


def tensor(size, stride, dtype, requires_grad=False):
    """A tensor of this layout; a constraint looks at no values."""
    extent = 1 + sum((n - 1) * step for n, step in zip(size, stride)) if 0 not in size else 0
    made = torch.zeros(extent, dtype=dtype).as_strided(size, stride)
    return made.requires_grad_(requires_grad)


{classes}

model = {main}()
inputs = [
{inputs}
]


def run():
    with torch.set_grad_enabled({grad}):
        results = torch.compile(model, backend={backend})(*inputs)
    results = torch.utils._pytree.tree_leaves(results)
    wanted = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [torch.ones_like(r) for r in wanted])


def violations(error):
    """Those of the error or of what it was raised for."""
    while error is not None and not isinstance(error, ConstraintError):
        error = error.__cause__ or error.__context__ or getattr(error, "inner_exception", None)
    return error.violations if error is not None else ()


try:
    run()
except Exception as error:
    found = violations(error)
    if not found:
        raise
    for violation in found:
        sys.stdout.write("violates " + violation.line + "\\n")
    sys.exit({constraint!r} in {{violation.constraint for violation in found}})
sys.stdout.write("no violation\\n")
'''


class CannotWrite(Exception):
    """Raised if a graph cannot be written as a script; the message says why."""


@dataclass(frozen=True, kw_only=True)
class ReproTarget:
    """How a repro script sets up the accelerator in strict mode: import, backend expression, variables.

    ``accelerator`` is its name for readers. ``constraint_variable`` is the environment variable that selects
    the constraint to check; another constraint could end the run first. No script is written unless
    ``wanted``.
    """

    accelerator: str
    backend_import: str
    backend: str
    environment: Mapping[str, str]
    constraint_variable: str
    wanted: bool = True

    def variables(self, constraint: str) -> dict[str, str]:
        """Returns the environment variables under which only this constraint is checked."""
        return {**self.environment, self.constraint_variable: constraint}


def write_repro(
    folder: str | None,
    graph_module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    violation: Violation,
    target: ReproTarget | None,
    *,
    about: str = "",
) -> str:
    """Writes the script. Returns where it is, or why there is none, as a sentence; "" if none is wanted.

    ``about`` is added to the script's docstring.
    """
    if target is not None and not target.wanted:
        return ""
    try:
        text = repro_script(graph_module, inputs, violation, target, about)
        place = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="accel-lab-repro-"))
        place.mkdir(parents=True, exist_ok=True)
        path = free_name(place, f"violates_{violation.constraint}")
        path.write_text(text, "utf-8", "backslashreplace")
    except (CannotWrite, OSError) as error:
        return f"no repro could be made: {error}"
    return f"repro: {path}"


def free_name(folder: Path, stem: str) -> Path:
    """Returns a path ``stem.py`` or ``stem_N.py`` that does not exist yet."""
    stem = re.sub(r"[^\w-]", "_", stem)
    names = (folder / f"{stem}{f'_{n}' if n else ''}.py" for n in range(10000))
    return next(path for path in names if not path.exists())


def repro_script(
    graph_module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    violation: Violation,
    target: ReproTarget | None,
    about: str = "",
) -> str:
    """Returns the script's text. Raises CannotWrite."""
    if target is None:
        raise CannotWrite("a constraint passed as a Python object has no name that a script can use")
    writer = _Writer()
    main = writer.module(graph_module, "Region")
    lines = [f"    {writer.value(value)}," for value in inputs]
    where = f" at {violation.source}" if violation.source else ""
    head = f"Violates the constraint {violation.constraint} of {target.accelerator}: {violation.op}{where}."
    head += f"\n\n{about}" if about else ""
    return _SCRIPT.format(
        head=head.replace("\\", "/").replace('"""', "'''"),
        environment=textwrap.indent(pprint.pformat(target.variables(violation.constraint)), "    "),
        backend_import=target.backend_import,
        backend=target.backend,
        imports="\n".join(sorted(writer.imports)),
        classes="\n\n".join(writer.classes),
        main=main,
        inputs="\n".join(lines),
        grad=torch.is_grad_enabled(),
        constraint=violation.constraint,
    )


class _Writer:
    """Collects the classes and imports that a graph's code needs."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.classes: list[str] = []
        self.names: set[str] = set()

    def module(self, graph_module: torch.fx.GraphModule, name: str) -> str:
        """Writes a graph and its nested graphs as classes. Returns its class name."""
        while name in self.names:
            name += "_"
        self.names.add(name)
        held = [f"        self.{path} = {text}" for path, text in self._held(graph_module, name)]
        code = graph_module.graph.python_code("self")
        for used, thing in code.globals.items():
            if re.search(rf"\b{re.escape(used)}\b", code.src):
                self._import(used, thing)
        body = "\n".join(f"    {line}" if line else "" for line in code.src.strip().splitlines())
        start = ["    def __init__(self):", "        super().__init__()", *held, ""]
        self.classes.append("\n".join([f"class {name}(torch.nn.Module):", *start, body, ""]))
        return name

    def _held(self, graph_module: torch.fx.GraphModule, name: str) -> list[tuple[str, str]]:
        """Attributes and modules that the graph's code reads, as (name, expression)."""
        found: dict[str, str] = {}
        for node in graph_module.graph.nodes:
            if node.op not in ("get_attr", "call_module") or node.target in found:
                continue
            path = str(node.target)
            if (
                not all(part.isidentifier() and not keyword.iskeyword(part) for part in path.split("."))
                or "." in path
            ):
                raise CannotWrite(f"the graph reads {path} from a nested module")
            value = getattr(graph_module, path)
            if isinstance(value, torch.fx.GraphModule):
                found[path] = f"{self.module(value, f'{name}_{path}')}()"
            elif isinstance(value, torch.nn.Module):
                found[path] = self._standard(value)
            elif isinstance(value, torch.nn.Parameter):
                found[path] = f"torch.nn.Parameter({self.value(value.detach())}, {value.requires_grad})"
            else:
                found[path] = self.value(value)
        return list(found.items())

    def _standard(self, module: torch.nn.Module) -> str:
        if type(module).__module__.startswith("torch.nn.modules.") and not list(module.children()):
            return f"torch.nn.{module!r}"
        raise CannotWrite(f"the graph calls module {type(module).__name__}, whose code is not in the graph")

    def value(self, value: Any) -> str:
        """Returns the expression for an input or an attribute. Raises CannotWrite."""
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided:
                raise CannotWrite(f"a {value.layout} tensor is among the inputs")
            numbers = [[number(entry) for entry in entries] for entries in (value.shape, value.stride())]
            if any(None in entries for entries in numbers):
                raise CannotWrite("the size of an input depends on data")
            grad = ", True" if value.requires_grad else ""
            return f"tensor({tuple(numbers[0])}, {tuple(numbers[1])}, {value.dtype}{grad})"
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            hint = getattr(value.node, "hint", None)
            if hint is None:
                raise CannotWrite("a number among the inputs depends on data")
            return repr(hint)
        if value is None or isinstance(value, (bool, int, float, str)):
            return f"float({str(value)!r})" if isinstance(value, float) else repr(value)
        raise CannotWrite(f"an input is a {type(value).__name__}")

    def _import(self, name: str, thing: Any) -> None:
        if name in _BUILT_IN:
            if name != "torch":
                self.imports.add(_BUILT_IN[name])
            return
        if inspect.ismodule(thing):
            self.imports.add(f"import {thing.__name__} as {name}")
            return
        place, called = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
        if not place or place == "__main__" or not called.isidentifier():
            raise CannotWrite(f"the graph calls {name}, a function of the program")
        if place.partition(".")[0] not in ("torch", "math", "operator", "_operator", "builtins", "typing"):
            raise CannotWrite(f"the graph calls {place}.{called}, which is not torch's")
        self.imports.add(f"from {place} import {called} as {name}")
