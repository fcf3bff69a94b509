"""Writes a program as a standalone script that exits with 1 if it fails and with 0 if it passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_lab.reduction.problem import Candidate

from .arguments import Meta, Name, Ref, TensorMeta
from .inputs import LOADER, load_text, written_inputs
from .load import short_name
from .program import RANDOM, Call, CompileArgs, Function, Program, ScalarInput, TensorInput, stored_files
from .text import Names, Written, folded, written_function

DIFFERS = "the compiled function returns other values than the uncompiled one"
SILENT = "the uncompiled function raises, the compiled one does not"


@dataclass(frozen=True, kw_only=True)
class Check:
    """How the script fails. ``kind`` is raises, values, or eager_raises (only the uncompiled one raises).

    ``tolerance`` is (rtol, atol); None means the defaults of ``torch.testing.assert_close``. ``dtype``,
    ``stride`` and ``device`` are compared if true. ``header`` is a comment at the top.
    """

    kind: str = "values"
    tolerance: tuple[float, float] | None = None
    dtype: bool = True
    stride: bool = False
    header: str = ""


def emit(program: Program, check: Check) -> Candidate:
    """Returns the script and the files that it reads."""
    source = _Script(program, check).text()
    files = {name: Path(program.files[name]) for name in sorted(stored_files(program))}
    return Candidate(source, files)


class _Script:
    def __init__(self, program: Program, check: Check) -> None:
        self._program = program
        self._check = check
        self._loads = False
        self._compares = check.kind == "values"
        count = len(program.functions)
        self._functions = ["f"] if count == 1 else [f"f{i}" for i in range(count)]

    def text(self) -> str:
        program = self._program
        written = [
            written_function(name, function, _param_metas(program, index))
            for index, (name, function) in enumerate(zip(self._functions, program.functions, strict=True))
        ]
        run = self._run()
        blocks = [self._head(written)]
        if self._loads:
            blocks.append(LOADER.rstrip())
        blocks += ["\n".join(each.lines) for each in written]
        blocks.append("\n".join(run))
        blocks.append("\n".join(self._checking()))
        return "\n\n\n".join(block for block in blocks if block) + "\n"

    # -- the top -------------------------------------------------------------------------------

    def _head(self, written: Sequence[Written]) -> str:
        modules = {module for each in written for module in each.modules}
        lines = [f"# {line}".rstrip() for line in self._check.header.splitlines()]
        standard = sorted(m for m in modules if m in ("math", "operator"))
        if self._loads:
            standard += ["json"]
        if self._check.kind == "eager_raises":
            standard += ["sys"]
        lines += [f"import {module}" for module in sorted(standard)]
        if self._loads:
            lines += ["from pathlib import Path"]
        lines += ["", "import torch"] if standard else ["import torch"]
        if "F" in modules:
            lines.append("import torch.nn.functional as F")
        deeper = {m for m in modules if m.startswith("torch.")}
        if self._random and self._inductor:
            deeper.add("torch._inductor.config")
        lines += [f"import {module}" for module in sorted(deeper)]
        after: list[str] = []
        if self._program.default_dtype != "float32":
            after.append(f"torch.set_default_dtype(torch.{self._program.default_dtype})")
        if self._random and self._inductor:
            after.append("torch._inductor.config.fallback_random = True  # draw the numbers that eager draws")
        return "\n".join([*lines, "", *after] if after else lines)

    @property
    def _random(self) -> bool:
        return self._check.kind != "raises" and any(
            RANDOM.search(statement.target) for f in self._program.functions for statement in f.body
        )

    @property
    def _inductor(self) -> bool:
        return any(f.compile.backend == "inductor" for f in self._program.functions)

    # -- the run -------------------------------------------------------------------------------

    def _run(self) -> list[str]:
        program = self._program
        single = len(program.calls) == 1
        settings = program.calls[0].settings
        lines = ["@torch.inference_mode()"] if settings.inference else []
        if not settings.grad and not settings.inference:
            lines = ["@torch.no_grad()"]
        lines.append(f"def run({', '.join(self._functions)}):")
        body = ["torch.manual_seed(0)"]
        several = self._compares and not single
        if several:
            body.append("results = []")
        for call in program.calls:
            body += self._call(call, single)
        if several:
            body.append("return results")
        return [*lines, *("    " + line if line else "" for line in body)]

    def _call(self, call: Call, single: bool) -> list[str]:
        function = self._program.functions[call.function]
        names = Names()
        params = [names.define(p, short_name(p)) for p in function.params]
        written = written_inputs(call, params, self._program.default_dtype)
        self._loads = self._loads or written.loads
        given = [
            _scalar(value) if isinstance(value, ScalarInput) else name
            for name, value in zip(params, call.inputs, strict=True)
        ]
        lines = list(written.lines)
        wanted = function.result is not None and (self._compares or call.backward is not None)
        made = "out = " if wanted else ""
        call_lines = folded(f"{made}{self._functions[call.function]}({', '.join(given)})")
        if call.settings.autocast:
            withs = ", ".join(f"torch.autocast({d!r}, dtype=torch.{t})" for d, t in call.settings.autocast)
            lines += [f"with {withs}:", *("    " + text for text in call_lines)]
        else:
            lines += call_lines
        lines += self._backward(call, function)
        result = self._results(call, function, params) if self._compares else "()"
        if result == "()":
            return lines
        if single:
            bare = result[1:-1] if result.startswith("(") else result
            lines += folded(f"return {bare if len(bare) < 80 else result}")
        else:
            lines += folded(f"results.append({result})")
        return lines

    def _backward(self, call: Call, function: Function) -> list[str]:
        if call.backward is None:
            return []
        outputs = _outputs_with_grad(call, function)
        if isinstance(call.backward, tuple):
            known = {gradient.output: gradient for gradient in call.backward}
            pairs = [(text, known[position]) for position, text in outputs if position in known]
            if not pairs:
                return []
            self._loads = True
            grads = [load_text(g.source, g.dtype, g.size) for _, g in pairs]
            if len(pairs) == 1:
                return folded(f"{pairs[0][0]}.backward({grads[0]})")
            given = ", ".join(text for text, _ in pairs)
            return folded(f"torch.autograd.backward([{given}], [{', '.join(grads)}])")
        if not outputs:
            return []
        if call.backward == "ones":
            if len(outputs) == 1:
                return [f"{outputs[0][1]}.backward(torch.ones_like({outputs[0][1]}))"]
            texts = [text for _, text in outputs]
            ones = ", ".join(f"torch.ones_like({text})" for text in texts)
            return folded(f"torch.autograd.backward([{', '.join(texts)}], [{ones}])")
        if len(outputs) == 1:
            return [f"{outputs[0][1]}.sum().backward()"]
        return folded("(" + " + ".join(f"{text}.sum()" for _, text in outputs) + ").backward()")

    def _results(self, call: Call, function: Function, params: Sequence[str]) -> str:
        compare = self._program.compare
        pieces = ["out"] if "outputs" in compare and function.result is not None else []
        tensors = [
            (name, value)
            for name, value in zip(params, call.inputs, strict=True)
            if isinstance(value, TensorInput)
        ]
        if "grads" in compare and call.backward is not None:
            pieces += [f"{name}.grad" for name, value in tensors if value.requires_grad and value.leaf]
        if "inputs" in compare:
            pieces += [name for name, _ in tensors]
        if len(pieces) == 1:
            return pieces[0]
        return "(" + ", ".join(pieces) + ")"

    # -- the check -----------------------------------------------------------------------------

    def _checking(self) -> list[str]:
        plain = f"run({', '.join(self._functions)})"
        compiled = ", ".join(
            _compiled(name, function.compile)
            for name, function in zip(self._functions, self._program.functions, strict=True)
        )
        compiled = f"run({compiled})"
        if self._check.kind == "raises":
            return [f"{plain}  # works uncompiled", *folded(compiled)]
        if self._check.kind == "eager_raises":
            return [
                *("try:", f"    {plain}", "except Exception as error:", "    print('uncompiled:', error)"),
                *("else:", "    sys.exit(0)"),
                *("try:", *("    " + line for line in folded(compiled))),
                *("except Exception:", "    sys.exit(0)"),
                f'sys.exit("{SILENT}")',
            ]
        options = ""
        if self._check.tolerance is not None:
            options += f", rtol={self._check.tolerance[0]!r}, atol={self._check.tolerance[1]!r}"
        options += ", equal_nan=True"
        if not self._check.dtype:
            options += ", check_dtype=False"
        if self._check.stride:
            options += ", check_stride=True"
        return [
            f"want = {plain}",
            *folded(f"got = {compiled}"),
            'print("uncompiled:", want)',
            'print("compiled:  ", got)',
            *folded(f'torch.testing.assert_close(got, want{options}, msg="{DIFFERS}")'),
        ]


def _compiled(name: str, arguments: CompileArgs) -> str:
    texts = [name]
    if arguments.backend != "inductor":
        texts.append(f"backend={arguments.backend!r}")
    if arguments.fullgraph:
        texts.append("fullgraph=True")
    if arguments.dynamic is not None:
        texts.append(f"dynamic={arguments.dynamic}")
    if arguments.options:
        inner = ", ".join(f"{key!r}: {value}" for key, value in arguments.options)
        texts.append(f"options={{{inner}}}")
    return f"torch.compile({', '.join(texts)})"


def _scalar(value: ScalarInput) -> str:
    return value.value.text if isinstance(value.value, Name) else repr(value.value)


def _param_metas(program: Program, index: int) -> dict[str, TensorMeta]:
    for call in program.calls:
        if call.function == index:
            pairs = zip(program.functions[index].params, call.inputs, strict=True)
            return {name: value.meta for name, value in pairs if isinstance(value, TensorInput)}
    return {}


def _outputs_with_grad(call: Call, function: Function) -> list[tuple[int, str]]:
    """Returns position and text of the outputs that can receive a gradient."""
    single = isinstance(function.result, Ref)
    inputs = dict(zip(function.params, call.inputs, strict=True))
    found: list[tuple[int, str]] = []
    for position, output in enumerate(function.results):
        if not isinstance(output, Ref):
            continue
        given = inputs.get(output.name)
        meta: Meta = given.meta if isinstance(given, TensorInput) else function.meta_of(output.name)
        if isinstance(meta, TensorMeta) and meta.requires_grad:
            found.append((position, "out" if single else f"out[{position}]"))
    return found
