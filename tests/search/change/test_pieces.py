"""Sources as pieces: every mix of two versions is a module, and each piece stands where it belongs."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.search.change.companions import closure, files_of, module_of
from accel_lab.search.change.pieces import Versions

BASE = '''
"""Text of the module."""
import math
from torch import nn

LIMIT = 3


@register(aten.celu)
def celu(x, alpha=1.0):
    # negative side
    return x / alpha


class Lowering(Base):
    """Text."""

    name = "old"

    def run(self, x):
        return x + LIMIT

    def gone(self):
        return 0


def last(): return 1
'''
OTHER = '''
"""Text of the module."""
import math
from torch import nn
from ._helpers import safe_div

LIMIT = 4


def guard(alpha):
    return alpha != 0


@register(aten.celu)
def celu(x, alpha=1.0):
    # negative side, and another comment
    return safe_div(x, alpha) if guard(alpha) else x


class Lowering(Base):
    """Text."""

    name = "new"

    def before(self):
        return 1

    def run(self, x):
        return x - LIMIT


def last(): return 1
'''
VERSIONS = Versions.parse("torch/_decomp/d.py", BASE, OTHER)


def test_the_pieces_that_differ_are_named() -> None:
    assert VERSIONS.changed == (
        "LIMIT",
        "celu",
        "Lowering.name",
        "Lowering.run",
        "Lowering.gone",
        "from ._helpers import safe_div",
        "guard",
        "Lowering.before",
    )
    assert VERSIONS.added == {"from ._helpers import safe_div", "guard", "Lowering.before"}


def test_no_piece_gives_the_base_and_all_give_the_other() -> None:
    assert ast.dump(ast.parse(VERSIONS.mixed(()))) == ast.dump(ast.parse(BASE))
    assert ast.dump(ast.parse(VERSIONS.mixed(VERSIONS.changed))) == ast.dump(ast.parse(OTHER))


@given(st.sets(st.sampled_from(VERSIONS.changed)))
def test_every_mix_parses_and_holds_what_was_chosen(chosen: set[str]) -> None:
    mixed = ast.parse(VERSIONS.mixed(chosen))
    functions = {n.name: ast.unparse(n) for n in ast.walk(mixed) if isinstance(n, ast.FunctionDef)}
    assert ("safe_div(x" in functions["celu"]) is ("celu" in chosen)
    assert ("guard" in functions) is ("guard" in chosen)
    assert ("gone" in functions) is ("Lowering.gone" not in chosen)
    (lowering,) = (n for n in mixed.body if isinstance(n, ast.ClassDef))
    members = [n.name for n in lowering.body if isinstance(n, ast.FunctionDef)]
    assert ("before" in members) is ("Lowering.before" in chosen)
    assert functions["run"].endswith("x - LIMIT") is ("Lowering.run" in chosen)


def test_comments_alone_are_no_change() -> None:
    versions = Versions.parse("m.py", "def f():\n    return 1\n", "# why\ndef f():\n\n    return 1  # one\n")
    assert versions.changed == ()


def test_a_member_and_a_statement_of_one_name_are_two_pieces() -> None:
    text = "class C:\n    x = 1\n\n\nC.x = 2\n"
    versions = Versions.parse("m.py", text, text.replace("2", "3"))
    assert versions.changed == ("C.x#2",)
    assert ast.dump(ast.parse(versions.mixed(("C.x#2",)))) == ast.dump(ast.parse(text.replace("2", "3")))


def test_statements_on_one_line_stay_together() -> None:
    versions = Versions.parse("m.py", "a = 1; b = 2\nc = 3\n", "a = 1; b = 5\nc = 3\n")
    assert versions.changed == ("a",)
    assert versions.mixed(("a",)) == "a = 1; b = 5\nc = 3\n"


def test_what_a_piece_needs_travels_with_it() -> None:
    helpers = Versions.parse(
        "torch/_decomp/_helpers.py", "def other(): ...\n", "def other(): ...\n\n\ndef safe_div(x, y): ...\n"
    )
    modules = {versions.path: versions for versions in (VERSIONS, helpers)}
    found = closure({VERSIONS.path: frozenset({"celu"})}, modules.get)
    assert found[VERSIONS.path] == {"celu", "guard", "from ._helpers import safe_div"}
    assert found[helpers.path] == {"safe_div"}


def test_an_attribute_of_an_imported_module_travels_too() -> None:
    user = Versions.parse(
        "torch/_inductor/lowering.py",
        "from . import config\n\n\ndef f():\n    return 1\n",
        "from . import config\n\n\ndef f():\n    return config.new_flag\n",
    )
    config = Versions.parse("torch/_inductor/config.py", "old = 1\n", "old = 1\nnew_flag = True\n")
    modules = {versions.path: versions for versions in (user, config)}
    found = closure({user.path: frozenset({"f"})}, modules.get)
    assert found == {user.path: {"f"}, config.path: {"new_flag"}}


def test_paths_and_modules() -> None:
    assert module_of("torch/_refs/__init__.py") == "torch._refs"
    assert module_of("torch/_decomp/decompositions.py") == "torch._decomp.decompositions"
    assert "torch/_refs/__init__.py" in files_of("torch._refs")


@pytest.mark.parametrize("name", ["argparse", "dataclasses", "asyncio.tasks"])
def test_a_large_real_module_comes_back_as_it_was(name: str) -> None:
    source = inspect.getsource(importlib.import_module(name))
    other = source.replace("return", "return ", 5) + "\nadded = 1\n"
    versions = Versions.parse("m.py", source, other)
    assert ast.dump(ast.parse(versions.mixed(()))) == ast.dump(ast.parse(source))
    mixed = versions.mixed(()).splitlines()
    assert [line for line in mixed if line.strip()] == [line for line in source.splitlines() if line.strip()]
