"""Puts what a script compiles into other surroundings: the script stays one that a user could have written.

A script is taken where it compiles one function or module that it names at module level, as
``torch.compile(fn)`` or with the decorator. The source is changed as a tree, seeded; whether the result still
fails in the same way is for a run to say (``fuzz.py``).
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from surrounding_code import between_regions, fed_by_a_loader, inside_a_module

#: Calls of torch that make a tensor of the default float type, and those that do so only from floats.
_FLOATS = frozenset({"linspace", "logspace", "ones", "zeros", "rand", "randn", "empty", "eye"})
_BY_VALUE = frozenset({"arange", "full", "tensor"})


class NotSimpleError(ValueError):
    """The script cannot be put there; the message says why."""


@dataclass(kw_only=True)
class Script:
    """A script's tree, the name that it compiles, the statement that makes that, and what compiles it."""

    tree: ast.Module
    name: str
    made: ast.stmt
    compiled: list[ast.Call]

    @property
    def used(self) -> set[str]:
        """Every word of the script: new names and healthy operators keep clear of them."""
        return set(re.findall(r"\w+", ast.unparse(self.tree)))

    def insert_after_made(self, text: str) -> None:
        """Add statements behind the one that makes what is compiled."""
        place = self.tree.body.index(self.made) + 1
        self.tree.body[place:place] = ast.parse(text).body


def surround(source: str, surrounding: str, seed: int) -> str:
    """The script in one of the :data:`SURROUNDINGS`; the same for the same seed."""
    script = read(source)
    SURROUNDINGS[surrounding](script, random.Random(f"{surrounding} {seed}"))
    return ast.unparse(ast.fix_missing_locations(script.tree)) + "\n"


def read(source: str) -> Script:
    """Parse a script and find what it compiles; a decorator becomes a call, which means the same."""
    tree = ast.parse(source)
    _without_decorators(tree)
    compiled = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_compile(node.func)]
    names = {node.args[0].id for node in compiled if node.args and isinstance(node.args[0], ast.Name)}
    named = [node for node in compiled if node.args and isinstance(node.args[0], ast.Name)]
    if len(names) != 1 or len(named) != len(compiled):
        raise NotSimpleError("it does not compile one thing that has a name")
    name = names.pop()
    made = [statement for statement in tree.body if _makes(statement, name)]
    if not made or any(not _is_own_compile(other, name) for other in made[1:]):
        raise NotSimpleError(f"{name} is not made once, at module level")
    return Script(tree=tree, name=name, made=made[0], compiled=compiled)


def _is_compile(node: ast.expr) -> bool:
    return ast.unparse(node) == "torch.compile"


def _without_decorators(tree: ast.Module) -> None:
    """``@torch.compile`` over ``def fn`` becomes ``fn = torch.compile(fn)`` after it."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        body.append(statement)
        if not isinstance(statement, ast.FunctionDef) or not statement.decorator_list:
            continue
        outer = statement.decorator_list[0]
        call = outer if isinstance(outer, ast.Call) else ast.Call(func=outer, args=[], keywords=[])
        if _is_compile(call.func) and not call.args:
            del statement.decorator_list[0]
            value = ast.Call(
                func=call.func,
                args=[ast.Name(id=statement.name, ctx=ast.Load())],
                keywords=call.keywords,
            )
            body.append(ast.Assign(targets=[ast.Name(id=statement.name, ctx=ast.Store())], value=value))
    tree.body = body
    ast.fix_missing_locations(tree)


def _makes(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.FunctionDef):
        return statement.name == name
    return isinstance(statement, ast.Assign) and [ast.unparse(t) for t in statement.targets] == [name]


def _is_own_compile(statement: ast.stmt, name: str) -> bool:
    """``fn = torch.compile(fn)``"""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and _is_compile(value.func) and ast.unparse(value.args[0]) == name


# -- the surroundings ------------------------------------------------------------------------------


def in_module(script: Script, rng: random.Random) -> None:
    """The function is called by a larger module, with healthy layers before and after."""
    model, text = inside_a_module(script.name, script.used, rng)
    for node in _loads_outside(script):
        node.id = model
    script.insert_after_made(text)


def between(script: Script, rng: random.Random) -> None:
    """Each call comes between the calls of two other compiled functions, which are healthy."""
    wrapper, text = between_regions(script.used, rng)
    _wrap_compiled(script, wrapper, text)


def from_loader(script: Script, rng: random.Random) -> None:
    """The arguments of each call come from the worker of a DataLoader."""
    wrapper, text = fed_by_a_loader(script.used, rng)
    _wrap_compiled(script, wrapper, text)


def dynamic(script: Script, rng: random.Random) -> None:
    """Compiled with ``dynamic=True``."""
    for call in script.compiled:
        if any(keyword.arg == "dynamic" for keyword in call.keywords):
            raise NotSimpleError("it says itself whether shapes are dynamic")
        call.keywords.append(ast.keyword(arg="dynamic", value=ast.Constant(value=True)))


def bf16(script: Script, rng: random.Random) -> None:
    """The float tensors that the script makes outside what it compiles are bfloat16."""
    inside = set(ast.walk(script.made))
    found = [
        node
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Call) and node not in inside and _makes_floats(node)
    ]
    if not found:
        raise NotSimpleError("it makes no float tensors whose type could be another one")
    for call in found:
        call.keywords.append(ast.keyword(arg="dtype", value=ast.parse("torch.bfloat16", mode="eval").body))


def no_grad(script: Script, rng: random.Random) -> None:
    """From the first use of ``torch.compile`` on, all that the script does is done under ``no_grad``."""
    body = script.tree.body
    first = next((n for n, statement in enumerate(body) if _compiles(statement)), None)
    if first is None:
        raise NotSimpleError("it compiles nothing at module level")
    with_it = ast.parse("with torch.no_grad():\n    pass").body[0]
    assert isinstance(with_it, ast.With)
    with_it.body = body[first:]
    script.tree.body = [*body[:first], with_it]


def silent(script: Script, rng: random.Random) -> None:
    """What the script compares with ``assert_close`` is printed, and nobody notices that it is wrong."""
    found = []

    class Printing(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
            return node

        def visit_Expr(self, node: ast.Expr) -> ast.stmt:
            call = node.value
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "torch.testing.assert_close":
                found.append(call)
                return ast.Expr(
                    value=ast.Call(func=ast.Name(id="print", ctx=ast.Load()), args=call.args, keywords=[])
                )
            return node

    script.tree = Printing().visit(script.tree)
    if not found:
        raise NotSimpleError("it does not compare values with assert_close")
    if any(call.keywords for call in found):
        raise NotSimpleError("it compares by tolerances of its own")


SURROUNDINGS: dict[str, Callable[[Script, random.Random], None]] = {
    "module": in_module,
    "regions": between,
    "dynamic": dynamic,
    "bf16": bf16,
    "no_grad": no_grad,
    "loader": from_loader,
    "silent": silent,
}
#: A script there ends well, with wrong numbers.
SILENT = "silent"


def _loads_outside(script: Script) -> Iterator[ast.Name]:
    """Where the compiled name is used as a whole, outside the statement that makes it."""
    inside = set(ast.walk(script.made))
    owners = {node.value for node in ast.walk(script.tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.Name) or node.id != script.name or node in inside or node in owners:
            continue
        if isinstance(node.ctx, ast.Load):
            yield node


def _wrap_compiled(script: Script, wrapper: str, text: str) -> None:
    """Give what ``torch.compile`` returns to a function of the new text."""
    calls = set(script.compiled)

    class Wrapping(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            if node not in calls:
                return node
            return ast.Call(func=ast.Name(id=wrapper, ctx=ast.Load()), args=[node], keywords=[])

    Wrapping().visit(script.tree)
    script.insert_after_made(text)


def _compiles(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return False
    return any(isinstance(node, ast.Call) and _is_compile(node.func) for node in ast.walk(statement))


def _makes_floats(call: ast.Call) -> bool:
    """Whether a call makes a tensor of the default float type."""
    if not (isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "torch"):
        return False
    if any(keyword.arg == "dtype" for keyword in call.keywords):
        return False
    if call.func.attr in _FLOATS:
        return True
    text = " ".join(map(ast.unparse, call.args))
    return call.func.attr in _BY_VALUE and bool(re.search(r"\d\.\d*|\bfloat\(", text)) and "True" not in text
