"""Sources as pieces: every mix of two versions is a module, and each piece stands where it belongs."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.search.change.calls import fitted
from accel_lab.search.change.companions import Names, closure, files_of, module_of
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
VERSIONS = Versions.of("torch/_decomp/d.py", BASE, OTHER)


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
    versions = Versions.of("m.py", "def f():\n    return 1\n", "# why\ndef f():\n\n    return 1  # one\n")
    assert versions.changed == ()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("assert x, 'no x'", "if not x: raise AssertionError('x is missing')"),
        ("assert not x", "if x: raise AssertionError"),
        ("assert x is not None", "if x is None:\n        raise AssertionError('none')"),
        ("assert not (a or b)", "if a or b: raise AssertionError()"),
    ],
)
def test_an_assertion_written_otherwise_is_no_change(one: str, two: str) -> None:
    old, new = f"def f(x: int, a, b):\n    {one}\n", f"def f(x: str, a, b) -> None:\n    {two}\n"
    assert Versions.of("m.py", old, new).changed == ()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("assert x", "if x: raise AssertionError"),
        ("assert x == 1", "if x == 1: raise AssertionError"),
        ("assert x", "if not x: raise ValueError"),
        ("raise AssertionError", "raise AssertionError from None"),
    ],
)
def test_another_condition_or_exception_is_a_change(one: str, two: str) -> None:
    versions = Versions.of("m.py", f"def f(x):\n    {one}\n", f"def f(x):\n    {two}\n")
    assert versions.changed == ("f",)


def test_annotations_of_what_is_decorated_count() -> None:
    old = "@custom_op('lib::f')\ndef f(x: int): ...\n"
    assert Versions.of("m.py", old, old.replace("int", "str")).changed == ("f",)


def test_a_member_and_a_statement_of_one_name_are_two_pieces() -> None:
    text = "class C:\n    x = 1\n\n\nC.x = 2\n"
    versions = Versions.of("m.py", text, text.replace("2", "3"))
    assert versions.changed == ("C.x#2",)
    assert ast.dump(ast.parse(versions.mixed(("C.x#2",)))) == ast.dump(ast.parse(text.replace("2", "3")))


def test_statements_on_one_line_stay_together() -> None:
    versions = Versions.of("m.py", "a = 1; b = 2\nc = 3\n", "a = 1; b = 5\nc = 3\n")
    assert versions.changed == ("a",)
    assert versions.mixed(("a",)) == "a = 1; b = 5\nc = 3\n"


def test_what_a_piece_needs_travels_with_it() -> None:
    helpers = Versions.of(
        "torch/_decomp/_helpers.py", "def other(): ...\n", "def other(): ...\n\n\ndef safe_div(x, y): ...\n"
    )
    modules = {versions.path: versions for versions in (VERSIONS, helpers)}
    found = closure({VERSIONS.path: frozenset({"celu"})}, modules.get)
    assert found[VERSIONS.path] == {"celu", "guard", "from ._helpers import safe_div"}
    assert found[helpers.path] == {"safe_div"}


def test_an_attribute_of_an_imported_module_travels_too() -> None:
    user = Versions.of(
        "torch/_inductor/lowering.py",
        "from . import config\n\n\ndef f():\n    return 1\n",
        "from . import config\n\n\ndef f():\n    return config.new_flag\n",
    )
    config = Versions.of("torch/_inductor/config.py", "old = 1\n", "old = 1\nnew_flag = True\n")
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
    versions = Versions.of("m.py", source, other)
    assert ast.dump(ast.parse(versions.mixed(()))) == ast.dump(ast.parse(source))
    mixed = versions.mixed(()).splitlines()
    assert [line for line in mixed if line.strip()] == [line for line in source.splitlines() if line.strip()]


GRAPH = """
class Graph:
    def __init__(self):
        self.nodes = []

    def compile(self, tx):
        self.emit(tx)

    def emit(self, tx):
        return lower(tx)


def lower(tx):
    return tx


def sync(tx, before, has_argument):
    return has_argument


def method(tx):
    sync(tx, 0, True)
"""
NEXT = """
class Graph:
    def __init__(self):
        self.nodes = []
        self.generators = []

    def compile(self, tx):
        self.close()
        self.emit(tx)

    def close(self):
        self.generators.clear()

    def emit(self, tx):
        return lower(tx, strict=True)


def lower(tx, *, strict=False):
    return tx


def sync(tx, before):
    return True


def method(tx):
    sync(tx, 0)
"""


@pytest.mark.parametrize(
    ("piece", "travels"),
    [
        ("Graph.compile", {"Graph.close", "Graph.__init__"}),
        ("Graph.emit", {"lower"}),
        ("lower", set()),
        ("sync", set()),
        ("method", {"sync"}),
    ],
)
def test_members_new_arguments_and_callers_travel(piece: str, travels: set[str]) -> None:
    versions = Versions.of("torch/_dynamo/graph.py", GRAPH, NEXT)
    found = closure({versions.path: frozenset({piece})}, {versions.path: versions}.get, Names([versions]))
    assert found[versions.path] - {piece} == travels


@pytest.mark.parametrize(
    ("base", "other", "mixed"),
    [
        ("def f(a, b):\n    return b", "def f(a):\n    return 1", "def f(a, b):\n    return 1"),
        (
            "    def f(\n        self, a, b: int\n    ):\n        return b",
            "    def f(self, a):\n        return 1",
            "    def f(\n        self, a, b: int\n    ):\n        return 1",
        ),
        (
            "def f(a, *, b) -> int:\n    return b",
            "def f(a) -> str:\n    # why\n    return 1",
            "def f(a, *, b) -> int:\n    # why\n    return 1",
        ),
        ("def f(a, b):\n    return b", "def f(b, c):\n    return 1", "def f(b, c):\n    return 1"),
        ("def f(a, b): return b", "def f(a): return 1", "def f(a): return 1"),
        ("def f(a):\n    return a", "def f(a, b):\n    return b", "def f(a, b):\n    return b"),
    ],
)
def test_a_function_that_takes_less_keeps_what_its_callers_hand_over(
    base: str, other: str, mixed: str
) -> None:
    assert fitted(base, other, base.startswith(" ")) == mixed


def test_of_many_methods_of_one_name_the_class_that_is_called_travels() -> None:
    def source(release: int) -> str:
        wide = ", wide=False" if release == 2 else ""
        classes = [
            f"class C{n}:\n    def create(self, x{wide}):\n        return {release}\n" for n in range(20)
        ]
        given = ", wide=True" if release == 2 else ""
        return "\n\n".join([*classes, f"def lower(x):\n    return C7.create(x{given})\n"])

    versions = Versions.of("torch/_inductor/ir.py", source(1), source(2))
    found = closure({versions.path: frozenset({"lower"})}, {versions.path: versions}.get, Names([versions]))
    assert found[versions.path] == {"lower", "C7.create"}


def test_callers_travel_where_more_is_demanded() -> None:
    versions = Versions.of("torch/_dynamo/graph.py", NEXT, GRAPH)
    found = closure({versions.path: frozenset({"sync"})}, {versions.path: versions}.get, Names([versions]))
    assert found[versions.path] == {"sync", "method"}


def test_a_line_of_a_piece_needs_only_what_it_uses() -> None:
    versions = Versions.of("torch/_dynamo/graph.py", GRAPH, NEXT)
    text = "\n\ndef sync(tx, before, has_argument):\n    return True"
    found = closure(
        {versions.path: frozenset({"sync"})},
        {versions.path: versions}.get,
        Names([versions]),
        {(versions.path, "sync"): text},
    )
    assert found[versions.path] == {"sync"}


TABLE = """
class Random:
    def call(self, name):
        return None
"""
METHODS = """
class Random:
    def sample(self, k):
        return k

    methods = {"sample": Method(sample)}
"""


@pytest.mark.parametrize(
    ("base", "other", "piece", "travels"),
    [
        (METHODS, TABLE, "Random.sample", {"Random.methods"}),
        (TABLE, METHODS, "Random.methods", {"Random.sample"}),
        (TABLE, METHODS, "Random.sample", set()),
    ],
)
def test_a_table_in_a_class_goes_and_comes_with_its_methods(
    base: str, other: str, piece: str, travels: set[str]
) -> None:
    versions = Versions.of("torch/_dynamo/misc.py", base, other)
    found = closure({versions.path: frozenset({piece})}, {versions.path: versions}.get, Names([versions]))
    assert found[versions.path] - {piece} == travels


LISTED = "from torch._dynamo.exc import (\n    Unsupported,\n    {names},\n)\n{more}"
LONG = ",\n    ".join(f"unimplemented_for_reason_number_{n}" for n in range(8))


def test_a_new_name_in_a_long_list_of_imports_travels_and_the_bases_names_stay() -> None:
    """The statement's key is the same in both: pytorch's lists of imports are longer than a key."""
    base = LISTED.format(names=LONG, more="def f():\n    return Unsupported\n")
    other = LISTED.format(
        names=f"{LONG.replace('_number_7', '_number_9')},\n    raised",
        more="def f():\n    return raised\n",
    )
    versions = Versions.of("torch/_dynamo/x.py", base, other)
    chosen = closure(
        {versions.path: frozenset({"f"})}, lambda path: versions if path == versions.path else None
    )
    text = versions.mixed(chosen[versions.path])
    assert "return raised" in text and "_number_7" in text and "    Unsupported," in text
    names = {
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {"raised", "unimplemented_for_reason_number_7", "Unsupported"} <= names


def test_a_name_that_only_type_checkers_see_is_not_there_at_run_time() -> None:
    base = "if TYPE_CHECKING:\n    from torch._ops import OpOverload\n\n\ndef f(x):\n    return x\n"
    other = "from torch._ops import OpOverload\n\n\ndef f(x):\n    return isinstance(x, OpOverload)\n"
    versions = Versions.of("torch/_dynamo/x.py", base, other)
    chosen = closure(
        {versions.path: frozenset({"f"})}, lambda path: versions if path == versions.path else None
    )
    assert versions.mixed(chosen[versions.path]).count("import OpOverload") == 2


def test_overloads_are_not_taken_for_the_function() -> None:
    plain = "def f(x):\n    return x\n"
    typed = "@typing.overload\ndef f(x: int) -> int: ...\n@overload\ndef f(x: str) -> str: ...\n"
    versions = Versions.of("torch/f.py", plain, typed + plain.replace("return x", "return +x"))
    assert versions.mixed(["f"]) == plain.replace("return x", "return +x")
