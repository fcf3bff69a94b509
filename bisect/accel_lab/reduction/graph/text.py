"""Writes a program's function as readable Python: infix operators, short names."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .arguments import Arg, Items, Name, Ref, Slice, Table, TensorMeta, refs
from .load import short_name
from .program import Function, Statement

WIDTH = 100

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
_IN_PLACE = {
    f"i{name.rstrip('_')}": f"{sign}="
    for name, sign in _INFIX.items()
    if sign not in ("==", "!=", "<", "<=", ">", ">=")
}
_PREFIX = {"neg": "-", "pos": "+", "inv": "~", "invert": "~", "not_": "not "}
_OURS = ("torch", "F", "f", "run", "math", "operator", "load", "fn", "results", "want", "got", "json", "sys")
_TAKEN = frozenset((*keyword.kwlist, *dir(builtins), *_OURS, "Path", "out", "base"))


class Names:
    """Gives every value a unique short name."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._used = set(taken)
        self._of: dict[str, str] = {}

    def define(self, name: str, wish: str) -> str:
        wish = re.sub(r"_\d+$", "", wish).strip("_") or "x"
        if not wish.isidentifier() or wish in _TAKEN:
            wish = wish + "_" if (wish + "_").isidentifier() and len(wish) > 1 else "x"
        chosen, number = wish, 1
        while chosen in self._used or chosen in _TAKEN:
            chosen = f"{wish.rstrip('_')}{number}"
            number += 1
        self._used.add(chosen)
        self._of[name] = chosen
        return chosen

    def same(self, name: str, other: str) -> None:
        """Makes ``name`` an alias of the value ``other``."""
        self._of[name] = self._of.get(other, other)

    def __getitem__(self, name: str) -> str:
        return self._of.get(name, name)


@dataclass
class Written:
    """A function's lines, and the modules that they need."""

    lines: list[str] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)


def written_function(name: str, function: Function, metas: Mapping[str, TensorMeta]) -> Written:
    """Writes the ``def`` of a function; ``metas`` describe its parameters."""
    return _Writer(function, metas).write(name, "")


class _Writer:
    def __init__(
        self, function: Function, metas: Mapping[str, TensorMeta], outer: _Writer | None = None
    ) -> None:
        self._function = function
        self._metas = dict(metas)
        self._out: Written = outer._out if outer else Written()
        self._names: Names = Names(() if outer is None else outer._names._used)
        self._open: list[tuple[str, str]] = []

    def write(self, name: str, indent: str) -> Written:
        function = self._function
        params = [self._names.define(p, short_name(p)) for p in function.params]
        self._line(indent, f"def {name}({', '.join(params)}):")
        inner = indent + "    "
        for label, nested in function.nested:
            own = self._names.define(label, label)
            _Writer(nested, {}, self).write(own, inner)
        last = self._last_uses()
        for position, statement in enumerate(function.body):
            inner = self._statement(statement, inner, last.get(statement.name, -1) > position)
        inner = indent + "    "
        if function.result is not None:
            self._line(inner, f"return {self._arg(function.result, bare=True)}")
        return self._out

    def _last_uses(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for position, statement in enumerate(self._function.body):
            for name in statement.uses:
                last[name] = position
        for name in refs(self._function.result):
            last[name] = len(self._function.body)
        return last

    def _line(self, indent: str, text: str) -> None:
        self._out.lines.extend(folded(indent + text))

    def _statement(self, statement: Statement, indent: str, used: bool) -> str:
        target = statement.target
        if target.endswith("._enter_autocast"):
            self._line(indent, f"with torch.autocast({self._autocast(statement)}):")
            self._open.append((statement.name, indent))
            return indent + "    "
        if target.endswith("._exit_autocast"):
            return self._closed(statement, indent)
        if statement.op == "function" and target.startswith("operator."):
            done = self._in_place(statement, indent)
            if done:
                return indent
        text = self._expression(statement)
        if isinstance(statement.meta, TensorMeta):
            self._metas[statement.name] = statement.meta
        if used:
            text = f"{self._names.define(statement.name, statement.name)} = {text}"
        self._line(indent, text)
        return indent

    def _autocast(self, statement: Statement) -> str:
        keys = ("device_type", "dtype", "enabled", "cache_enabled")
        values = [*statement.args, *(value for _, value in statement.kwargs)]
        texts = [
            f"{key}={self._arg(value)}" for key, value in zip(keys, values, strict=False) if value is not None
        ]
        return ", ".join([texts[0].split("=", 1)[1], *texts[1:]]) if texts else "'cpu'"

    def _closed(self, statement: Statement, indent: str) -> str:
        opened = set(statement.uses)
        if any(name in opened for name, _ in self._open):
            if self._out.lines[-1].rstrip().endswith(":"):
                self._line(indent, "pass")
            while self._open:
                name, indent = self._open.pop()
                if name in opened:
                    break
        return indent

    def _in_place(self, statement: Statement, indent: str) -> bool:
        """Writes ``x[i] = y`` or, for tensors, ``x += y``, whose result keeps the name of ``x``."""
        name = statement.target.removeprefix("operator.")
        first = statement.args[0] if statement.args else None
        if name == "setitem":
            owner, index, value = statement.args
            self._line(indent, f"{self._arg(owner)}[{self._index(index)}] = {self._arg(value)}")
            return True
        if name in _IN_PLACE and isinstance(first, Ref) and isinstance(statement.meta, TensorMeta):
            self._line(indent, f"{self._arg(first)} {_IN_PLACE[name]} {self._arg(statement.args[1])}")
            self._names.same(statement.name, first.name)
            return True
        return False

    def _expression(self, statement: Statement) -> str:
        args = statement.args
        if statement.op == "size":
            return f"{self._arg(args[0])}.shape[{self._arg(args[1])}]"
        if statement.op == "method":
            owner, *rest = args
            return (
                f"{self._operand(owner)}.{statement.target}({self._call_args(tuple(rest), statement.kwargs)})"
            )
        target = statement.target
        module, _, name = target.rpartition(".")
        if module == "operator" and not statement.kwargs:
            plain = name if name in _INFIX else _infix_of_in_place(name)
            if plain in _INFIX and len(args) == 2:
                return f"{self._operand(args[0])} {_INFIX[plain]} {self._operand(args[1])}"
            if name in _PREFIX and len(args) == 1:
                return f"{_PREFIX[name]}{self._operand(args[0])}"
            if name == "getitem":
                return f"{self._operand(args[0])}[{self._index(args[1])}]"
        if target == "builtins.getattr" and isinstance(args[1], str) and args[1].isidentifier():
            return f"{self._operand(args[0])}.{args[1]}"
        return f"{self._target(target)}({self._call_args(args, statement.kwargs)})"

    def _target(self, target: str) -> str:
        if target == "torch._C._set_grad_enabled":
            return "torch.set_grad_enabled"
        root = target.split(".", 1)[0]
        if root == "builtins":
            return target.removeprefix("builtins.")
        if target.startswith("torch.nn.functional."):
            self._out.modules.add("F")
            return "F." + target.removeprefix("torch.nn.functional.")
        if root != "torch":
            self._out.modules.add(root)
        elif target.startswith(("torch._functorch", "torch._higher_order_ops")):
            self._out.modules.add(target.rpartition(".")[0])
        return target

    def _call_args(self, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...]) -> str:
        return ", ".join(
            [self._arg(a) for a in args] + [f"{key}={self._arg(value)}" for key, value in kwargs]
        )

    def _operand(self, arg: Arg) -> str:
        text = self._arg(arg)
        return text if isinstance(arg, (Ref, Items)) or text.replace(".", "").isalnum() else f"({text})"

    def _index(self, arg: Arg) -> str:
        if isinstance(arg, Items) and arg.kind == "tuple" and arg.items:
            return ", ".join(self._arg(item) for item in arg.items) + ("," if len(arg.items) == 1 else "")
        return self._arg(arg)

    def _arg(self, arg: Arg, bare: bool = False) -> str:
        if isinstance(arg, Ref):
            return self._names[arg.name]
        if isinstance(arg, Name):
            return arg.text
        if isinstance(arg, Slice):
            start, stop, step = ("" if a is None else self._arg(a) for a in (arg.start, arg.stop, arg.step))
            return f"{start}:{stop}" + (f":{step}" if step else "")
        if isinstance(arg, Table):
            return "{" + ", ".join(f"{self._arg(k)}: {self._arg(v)}" for k, v in arg.items) + "}"
        if isinstance(arg, Items):
            inner = ", ".join(_full(item, self._arg(item)) for item in arg.items)
            if arg.kind == "list":
                return f"[{inner}]"
            inner += "," if len(arg.items) == 1 else ""
            return inner if bare and arg.items else f"({inner})"
        return repr(arg)


def _full(arg: Arg, text: str) -> str:
    return f"slice{text.replace(':', ', ')}" if isinstance(arg, Slice) and not text else text


def _infix_of_in_place(name: str) -> str:
    plain = name.removeprefix("i")
    return plain if plain in _INFIX else plain + "_"


def folded(line: str) -> list[str]:
    """Breaks a line that is too long after commas inside its first bracket."""
    if len(line) <= WIDTH or "(" not in line:
        return [line]
    head, _, rest = line.partition("(")
    indent = " " * (len(line) - len(line.lstrip()))
    close = rest.rfind(")")
    inside, tail = rest[:close], rest[close:]
    lines, current = [head + "("], indent + "    "
    for piece in re.split(r"(?<=,) (?![^\[\]]*\])", inside):
        if len(current) + len(piece) > WIDTH and current.strip():
            lines.append(current.rstrip())
            current = indent + "    "
        current += piece + " "
    return [*lines, current.rstrip(), indent + tail]
