"""Normalises pieces to ignore rewrites without effect, which a release makes in many places.

One torch release turned all its ``assert`` statements into ``if`` with ``raise``, and annotations are
rewritten all the time. A third of the functions that differ between 2.13.0 and 2.14.1 differ only in that.
"""

from __future__ import annotations

import ast

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def shape_of(text: str) -> str:
    """Returns a normal form that ignores comments, layout and how an assertion is written.

    It also drops the message of an assertion and the annotations of functions without a decorator, as nothing
    reads them (``torch.library`` and others read the annotations of what they decorate). It accepts an
    indented class member and the first line of a class. Text that is not Python is returned unchanged.
    """
    for source in (text, f"if True:\n{text}", f"{text}\n    pass"):
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        return "\n".join(ast.dump(_Plain().visit(stmt)) for stmt in tree.body)
    return text


class _Plain(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        return ast.If(test=_negated(node.test), body=[ast.Raise(exc=_assertion())], orelse=[])

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(made, ast.Name) and made.id == "AssertionError" and node.cause is None:
            return ast.Raise(exc=_assertion())
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _negated(node.operand) if isinstance(node.op, ast.Not) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if not node.decorator_list:
            node.returns = None
            args = node.args
            for one in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
                if one is not None:
                    one.annotation = None
        return node


def _assertion() -> ast.expr:
    return ast.Call(func=ast.Name(id="AssertionError", ctx=ast.Load()), args=[], keywords=[])


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        return ast.Compare(left=test.left, ops=[_OPPOSITE[type(test.ops[0])]()], comparators=test.comparators)
    return ast.UnaryOp(op=ast.Not(), operand=test)
