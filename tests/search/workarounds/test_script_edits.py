"""Edits of a script: what is added, where, and that nothing else changes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from accel_lab.search.workarounds.script_edits import (
    cloned_arguments,
    compiled_functions,
    disabled,
    paste,
    with_argument,
)

SCRIPT = '''"""A script."""
from __future__ import annotations
import torch  # the library


@torch.compile
def f(x):
    return g(x) + 1  # ä


def g(x):
    return x.sin()


class M:
    @torch.compile(mode="max-autotune", fullgraph=True)
    def call(self, x):
        return x

h = torch.compile(g, dynamic=True)
'''


def test_lines_are_pasted_below_the_import_of_torch() -> None:
    edited = paste(SCRIPT, ["torch.x = 1", "torch.y = 2"])
    assert edited is not None
    assert edited.lines == ("torch.x = 1", "torch.y = 2")
    assert edited.text.replace("torch.x = 1\ntorch.y = 2\n", "") == SCRIPT
    assert edited.text.splitlines()[2:5] == ["import torch  # the library", "torch.x = 1", "torch.y = 2"]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = 1\n", ["import torch", "torch.x = 1", "x = 1"]),
        ('"""Doc."""\nimport model\n', ['"""Doc."""', "import torch", "torch.x = 1", "import model"]),
        ("from torch import nn\n", ["from torch import nn", "import torch", "torch.x = 1"]),
        ("import torch as t", ["import torch as t", "import torch", "torch.x = 1"]),
        ("from __future__ import annotations\n", ["from __future__ import annotations", "import torch",
                                                   "torch.x = 1"]),
    ],
)  # fmt: skip
def test_torch_is_imported_where_the_script_has_no_such_name(source: str, lines: list[str]) -> None:
    edited = paste(source, ["torch.x = 1"])
    assert edited is not None and edited.text.splitlines() == lines


def test_what_is_no_python_is_not_changed() -> None:
    assert paste("def f(:\n", ["x"]) is None
    assert with_argument("def f(:\n", "dynamic", "True") is None
    assert disabled("def f(:\n", "f") is None
    assert compiled_functions("def f(:\n") == []


def test_an_argument_goes_into_every_compile() -> None:
    edited = with_argument(SCRIPT, "dynamic", "False")
    assert edited is not None
    assert "@torch.compile(dynamic=False)\ndef f" in edited.text
    assert "@torch.compile(mode='max-autotune', fullgraph=True, dynamic=False)" in edited.text
    assert "h = torch.compile(g, dynamic=False)" in edited.text
    assert "return g(x) + 1  # ä" in edited.text
    assert len(edited.lines) == 3


def test_another_backend_is_given_no_mode_of_inductors() -> None:
    edited = with_argument(SCRIPT, "backend", "'aot_eager'")
    assert edited is not None
    assert "@torch.compile(fullgraph=True, backend='aot_eager')" in edited.text


@pytest.mark.parametrize(
    "source",
    ["import re\nre.compile('x')\n", "import torch\nmodel.compile()\n", "compile('1', 'f', 'eval')\n", "x=1"],
)
def test_a_script_without_torch_compile_gets_no_argument(source: str) -> None:
    assert with_argument(source, "dynamic", "True") is None


def test_compile_is_found_under_other_names() -> None:
    source = "import torch as t\nfrom torch import compile as c\nt.compile(f)\nc(g)\n"
    edited = with_argument(source, "dynamic", "True")
    assert edited is not None
    assert edited.text.splitlines()[2:] == ["t.compile(f, dynamic=True)", "c(g, dynamic=True)"]


def test_a_function_inside_is_disabled_next_to_it_and_a_compiled_one_outside() -> None:
    inner, outer = disabled(SCRIPT, "g"), disabled(SCRIPT, "f")
    assert inner is not None and outer is not None
    assert "@torch.compiler.disable\ndef g(x):" in inner.text
    assert "@torch.compiler.disable\n@torch.compile\ndef f(x):" in outer.text
    assert inner.lines == ("@torch.compiler.disable", "def g(x):")
    method = disabled(SCRIPT, "call")
    assert method is not None and "    @torch.compiler.disable\n    @torch.compile(mode" in method.text
    for edited in (inner, outer, method):
        ast.parse(edited.text)


def test_no_function_is_guessed_among_several() -> None:
    assert disabled(SCRIPT + "\ndef g(x):\n    return x\n", "g") is None
    assert disabled(SCRIPT, "nothing") is None


def test_compiled_functions_are_those_that_a_decorator_or_a_call_names() -> None:
    assert sorted(compiled_functions(SCRIPT)) == ["call", "f", "g"]


def mapped(kind: type, function: Callable[[int], str], values: Any) -> Any:
    assert kind is int
    if isinstance(values, dict):
        return {key: function(value) for key, value in values.items()}
    return tuple(function(value) for value in values)


#: As much of torch as the wrapper uses; tensors are numbers.
PAPER_TORCH = SimpleNamespace(
    Tensor=int,
    clone=lambda number: f"clone of {number}",
    utils=SimpleNamespace(_pytree=SimpleNamespace(tree_map_only=mapped)),
)
DECORATED = """import torch

@torch.compile(dynamic=True)
def add(x, y):
    return x.add_(1) + y

twice = torch.compile(lambda x, y: x.mul_(2) + y)
"""


def test_compiled_callables_get_clones_of_their_arguments() -> None:
    edited = cloned_arguments(DECORATED)
    assert edited is not None
    assert "@own_memory\n@torch.compile(dynamic=True)\ndef add" in edited.text
    assert "twice = own_memory(torch.compile(lambda x, y: x.mul_(2) + y))" in edited.text
    assert edited.lines[0] == "def own_memory(compiled):" and "@own_memory" in edited.lines
    made: dict[str, Any] = {"torch": PAPER_TORCH}
    exec(edited.text.split("@own_memory")[0].replace("import torch", ""), made)
    seen = made["own_memory"](lambda *args, **kwargs: (args, kwargs))(1, 2, key=3)
    assert seen == (("clone of 1", "clone of 2"), {"key": "clone of 3"})


@pytest.mark.parametrize("source", ["import torch\n", "import torch\nprint(torch.compile)\n", "def f(:"])
def test_a_script_without_torch_compile_has_no_arguments_to_clone(source: str) -> None:
    assert cloned_arguments(source) is None
