"""Adds a value check to a script with silently wrong values, so that its exit code shows the failure.

Every ``torch.compile`` is replaced by a function that also runs the uncompiled original on copies of the
arguments and compares. A run must show whether the result still fails.
"""

from __future__ import annotations

import ast

from accel_lab.reduction.graph.emit import DIFFERS

_NAME = "checked_compile"
_FUNCTION = '''
def checked_compile(f=None, **options):
    """torch.compile, and a comparison of every call with the same call uncompiled."""
    if f is None:
        return lambda function: checked_compile(function, **options)
    compiled, original = torch.compile(f, **options), f
    if isinstance(f, torch.nn.Module):
        original = copy.deepcopy(f)

    def call(*args, **kwargs):
        again, again_named = copy.deepcopy((args, kwargs))
        state = torch.get_rng_state()
        expected = original(*again, **again_named)
        torch.set_rng_state(state)
        actual = compiled(*args, **kwargs)
        for got, want in ((actual, expected), (args, again)):
            torch.testing.assert_close(
                got, want, rtol={rtol!r}, atol={atol!r}, equal_nan=True, msg={says!r}
            )
        return actual

    return call
'''


def with_check(source: str, *, rtol: float, atol: float) -> str | None:
    """Returns the script with the check; None if it does not use ``torch.compile`` by that name.

    The tolerances are those of ``torch.testing.assert_close``.
    """
    tree = ast.parse(source)
    renamer = _Renamer()
    tree = ast.fix_missing_locations(renamer.visit(tree))
    if not renamer.renamed:
        return None
    added = ast.parse("import copy\n" + _FUNCTION.format(rtol=rtol, atol=atol, says=DIFFERS)).body
    place = _after_imports(tree)
    tree.body[place:place] = added
    return ast.unparse(tree)


class _Renamer(ast.NodeTransformer):
    renamed = 0

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "compile" and isinstance(node.value, ast.Name) and node.value.id == "torch":
            self.renamed += 1
            return ast.copy_location(ast.Name(id=_NAME, ctx=ast.Load()), node)
        return node


def _after_imports(tree: ast.Module) -> int:
    """Returns the index after the leading imports and the docstring."""
    place = 0
    for number, node in enumerate(tree.body):
        leading = isinstance(node, (ast.Import, ast.ImportFrom)) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )
        if not leading:
            break
        place = number + 1
    return place
