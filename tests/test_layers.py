"""The layers of the design, read from the imports: who may call, print, exit and start processes."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "accel_lab"

# Layer -> the layers that it may import beside itself (DESIGN section 9). `cli` and the two modules that only
# forward (`__init__`: the public names, `__main__`) may import everything.
EVERYTHING = "*"
ARROWS: dict[str, frozenset[str]] = {
    "protocol": frozenset(),  # what lab and child agree on
    "core": frozenset({"protocol"}),
    "search": frozenset({"core"}),
    "reduction": frozenset({"core"}),
    "numerics": frozenset({"core"}),
    # GuardInspector hooks into Dynamo with the code that the child uses, in the process of its caller.
    "inspection": frozenset({"core", "child", "protocol"}),
    "execution": frozenset({"core", "protocol"}),  # it reads what the child writes
    "environments": frozenset({"core"}),
    "reporting": frozenset({"core", "numerics", "inspection"}),
    # The workloads run in the probed interpreter, where what adapters are registered there is asked.
    "workloads": frozenset({"core", "numerics", "accelerators"}),
    # The child runs adapters, the mock among them; neither knows anything of its caller.
    "child": frozenset({"accelerators", "mock", "protocol"}),
    "accelerators": frozenset({"protocol"}),  # not the mock: it is one adapter among others
    "mock": frozenset({"accelerators", "protocol"}),
    # Jobs for the workers of a cluster; a job is a command of the lab, in a process of its own.
    "engine": frozenset({"core", "execution"}),
    # A job takes along what a bundle would pack.
    "triage": frozenset({"core", "execution", "engine", "reporting"}),
    # A web server over what the others leave; the command line is its child.
    "dashboard": frozenset({"core", "execution", "reporting"}),
    "config": frozenset({"core"}),
    # What runs inside somebody's job (the child's code), and the process that runs a capsule by itself.
    "record": frozenset({"core", "child", "execution", "reduction", "minimize"}),
    # The joints put the parts together and know nothing of the command line: `lab` answers the searches'
    # questions with real probes, `minimize` joins the reducer to them, `versions` asks them of many builds of
    # torch, `request` is what a bisection is asked for, `session` is one from options to findings,
    # `completion` adds what a run knows of itself to them.
    "lab": frozenset({"core", "execution", "environments", "numerics", "search"}),
    "minimize": frozenset({"core", "execution", "search", "reduction"}),
    "versions": frozenset({"core", "execution", "environments", "numerics", "search", "lab"}),
    "request": frozenset({"core", "execution", "numerics", "search", "lab", "versions"}),
    "completion": frozenset({"core", "minimize", "execution", "search", "versions"}),
    "workarounds": frozenset({"core", "execution", "search", "versions"}),
    "session": frozenset(
        {
            "workarounds",
            "request",
            "completion",
            "core",
            "execution",
            "environments",
            "numerics",
            "search",
            "reduction",
            "minimize",
            "reporting",
            "config",
            "lab",
            "versions",
        }
    ),
    "cli": frozenset({EVERYTHING}),
    "__init__": frozenset({EVERYTHING}),
    "__main__": frozenset({EVERYTHING}),
}
# torch, what is built on it, and sympy, which torch itself requires and whose expressions its shapes are.
TORCH = frozenset({"torch", "torchvision", "transformers", "triton", "functorch", "sympy"})
TORCH_LAYERS = frozenset({"child", "accelerators", "mock", "workloads", "inspection"})
# What these layers may import from outside; the others may import what pyproject.toml declares.
OUTSIDE: dict[str, frozenset[str]] = {
    "protocol": frozenset(),
    "core": frozenset({"cattrs", "tomli"}),
    **dict.fromkeys(("child", "accelerators", "mock"), TORCH),
    "engine": frozenset({"distributed", "fsspec"}),  # the extra `cluster`
    # The extra of the same name.
    "dashboard": frozenset({"anyio", "jinja2", "sse_starlette", "starlette", "uvicorn"}),
}
PROCESS_MODULE = Path("execution", "processes", "process.py")
PROCESS_IMPORTS = frozenset({"subprocess", "multiprocessing", "pty"})
PROCESS_CALLS = re.compile(
    r"os\.(system|popen|spawn\w+|exec\w+|posix_spawnp?|startfile)|asyncio\.create_subprocess_\w+"
    r"|(\w+\.)*ProcessPoolExecutor"
)
# Names of subprocess that start nothing; any module may speak of them.
PROCESS_WORDS = frozenset(
    {"PIPE", "DEVNULL", "STDOUT", "TimeoutExpired", "CalledProcessError", "SubprocessError"}
)
# The first program in a container, and in a view, becomes or starts the command that either is for.
CONTAINED = (Path("child", "container_init.py"), Path("child", "view.py"))
FORK_CALLS = re.compile(r"os\.fork(pty)?")
EXIT_CALLS = re.compile(r"sys\.exit|os\._exit|os\.abort|exit|quit")
PRINT_CALLS = re.compile(r"print|click\.s?echo")
STREAM_CALLS = re.compile(r"sys\.(__)?std(out|err)(__)?\.(write|writelines|buffer\.write)")
# The child is a program of its own, in another process: it forks the probes, ends them, and writes to the
# script's standard error what Python would have written. It does not print otherwise.
# `python -m accel_lab.record` is what torchrun starts.
PROGRAMS = frozenset({"cli", "child", "record", "__main__"})
PRINTERS = frozenset({"cli"})
# A verdict is proven by its pair of runs, its repeats and its alternatives, and nowhere but there; the enum
# itself is defined beside the stages.
PROOF_MAKERS = frozenset({Path("search", "proof.py"), Path("core", "stages.py")})
# The name under which the copy of the child is imported by the probed interpreter.
CHILD_COPY = "accel_lab_child"
# Only child/torch_internals/ names what is private to torch; of the lab, core/torch_settings.py names
# settings.
PRIVATE_FOLDERS = ("child", "search", "protocol")
PRIVATE_SETTINGS = frozenset(
    {
        *("fx_graph_cache", "enable_autograd_cache", "cpp_wrapper", "allow_buffer_reuse", "graph_partition"),
        *("recompile_limit", "cache_size_limit", "fallback_random", "emulate_precision_casts"),
        *("max_fusion_size", "automatic_dynamic_shapes", "activation_memory_budget"),
    }
)
PRIVATE_WORDS = re.compile(
    r"\btorch(?:[./]\w+)*[./]_(?!_)\w+(?:[./]\w+)*|\b(?:" + "|".join(sorted(PRIVATE_SETTINGS)) + r")\b"
)
PRIVATE_ALLOWED = (
    "torch.utils._pytree",  # what torch's own documentation of modes takes trees apart with
    "torch.utils._python_dispatch.TorchDispatchMode",  # how a mode is written, as documented
)
PRIVATE_FILES = {
    Path("search", "frames.py"): "the files of torch in a traceback, and the stage of each",
    Path(
        "search", "alternatives", "outside_ladder.py"
    ): "entries that scripts call, and files in a traceback",
}
TOP_LEVEL = frozenset(
    {
        *(
            "Makefile",
            "Dockerfile",
            "README.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "LICENSE",
            "pyproject.toml",
        ),
        *("bisect", "docker", "docs", "repros", "benchmarks", "tests"),
    }
)
# Left by the tools and ignored by git; never part of a commit.
LEFT_OVERS = frozenset({"build", "dist", "runs", "__pycache__"})


def layer_of(path: Path) -> str:
    """Return the layer of a module, given its path inside the package."""
    return path.parts[0] if len(path.parts) > 1 else path.stem


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a name or a chain of attributes, else the empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def imports_of(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute dotted name) for all that a module imports, wherever in it."""
    package = (PACKAGE, *path.parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) + 1 - node.level]] if node.level else []
            base += [node.module] if node.module else []
            yield from ((node.lineno, ".".join([*base, alias.name])) for alias in node.names)
        elif isinstance(node, ast.Call) and dotted(node.func) in ("importlib.import_module", "__import__"):
            names = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
            yield from ((node.lineno, name) for name in names if isinstance(name, str))


def import_fault(path: Path, name: str, declared: frozenset[str]) -> str | None:
    """Say what is wrong with the import of `name` by the module at `path`, if anything is."""
    layer = layer_of(path)
    top, *rest = name.split(".")
    if top == CHILD_COPY and layer == "child":
        return None
    if top == PACKAGE:
        # The package itself (where it lies, which version it is) is no layer; its public names are one.
        if layer != "child" and rest in ([], ["__version__"]):
            return None
        target = rest[0] if rest else "__init__"
        # A name that is no layer is one of the package's public names.
        target = target if target in ARROWS else "__init__"
        allowed = ARROWS.get(layer, frozenset())
        if target == layer or target in allowed or EVERYTHING in allowed:
            return None
        return f"{layer} must not import {target} of the lab"
    if top == "subprocess" and (not rest or rest[0] in PROCESS_WORDS):
        return None  # what is then used of it, `action_fault` sees
    if top in PROCESS_IMPORTS and path != PROCESS_MODULE:
        return f"only {PROCESS_MODULE} starts processes, so only it imports {top}"
    if top in sys.stdlib_module_names or top == path.stem == "sitecustomize":
        return None
    if top in TORCH:
        fault = f"{layer} must not import {top}: it belongs to the probed environment"
        return None if layer in TORCH_LAYERS else fault
    if top == "click" and layer != "cli":
        return "click is for the command line, so for cli alone"
    if top not in OUTSIDE.get(layer, declared):
        return f"{layer} must not import {top}: not among what this layer may use"
    return None


def action_fault(path: Path, node: ast.AST) -> str | None:
    """Say which act this is that the layer must leave to another, if it is one."""
    layer = layer_of(path)
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if dotted(raised) == "SystemExit" and layer not in PROGRAMS:
            return f"{layer} must not end the process: only cli does"
    if isinstance(node, ast.Attribute):
        owner, _, name = dotted(node).partition(".")
        if owner == "subprocess" and name not in PROCESS_WORDS and path != PROCESS_MODULE:
            return f"only {PROCESS_MODULE} starts processes, so only it uses subprocess.{name}"
        if (
            owner == PACKAGE
            and layer not in ("cli", "__init__", "__main__")
            and not re.match("__|[^.]+[.]", name)
        ):
            return f"{layer} must not use {PACKAGE}.{name}: a public name of the lab"
    if isinstance(node, ast.alias) and node.name == "subprocess" and node.asname and path != PROCESS_MODULE:
        return "subprocess under another name cannot be followed"
    if not isinstance(node, ast.Call):
        return None
    name = dotted(node.func)
    if EXIT_CALLS.fullmatch(name) and layer not in PROGRAMS:
        return f"{layer} must not call {name}: only cli exits"
    if PRINT_CALLS.fullmatch(name) and layer not in PRINTERS:
        return f"{layer} must not call {name}: only cli prints"
    if STREAM_CALLS.fullmatch(name) and layer not in PROGRAMS:
        return f"{layer} must not call {name}: only cli writes to the terminal"
    if PROCESS_CALLS.fullmatch(name) and path not in (PROCESS_MODULE, *CONTAINED):
        return f"{layer} must not call {name}: only {PROCESS_MODULE} starts processes"
    if FORK_CALLS.fullmatch(name) and path != PROCESS_MODULE and layer != "child":
        return f"{layer} must not call {name}: only the child forks"
    return None


def code_faults(root: Path) -> list[str]:
    """Return what the modules of the package under `root` import or do against the design."""
    source = root / "bisect" / PACKAGE
    declared = declared_imports((root / "pyproject.toml").read_text("utf-8"))
    faults = []
    for file in sorted(source.rglob("*.py")):
        path = file.relative_to(source)
        tree = ast.parse(file.read_text("utf-8"), str(file))
        if layer_of(path) not in ARROWS:
            faults.append(f"{path}: {layer_of(path)} is no layer of the design")
            continue
        for line, name in imports_of(tree, path):
            if fault := import_fault(path, name, declared):
                faults.append(f"{path}:{line}: {fault}")
        for node in ast.walk(tree):
            if fault := action_fault(path, node):
                faults.append(f"{path}:{getattr(node, 'lineno', 0)}: {fault}")
        if path not in PROOF_MAKERS:
            faults += [f"{path}:{line}: only search/proof.py makes PROVEN" for line in proofs_made(tree)]
    return faults


def proofs_made(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that make `Confidence.PROVEN`; to compare with it or to look words up is free."""
    read: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            read |= {id(inner) for inner in ast.walk(node)}
        elif isinstance(node, ast.Dict):
            read |= {id(key) for key in node.keys if key is not None}
    for node in ast.walk(tree):
        made = isinstance(node, ast.Attribute) and dotted(node) == "Confidence.PROVEN"
        spelt = isinstance(node, ast.Call) and dotted(node.func) == "Confidence"
        if (made or spelt) and id(node) not in read:
            yield getattr(node, "lineno", 0)


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, name) for all that a module names of torch's private modules and settings.

    Docstrings and comments may cite a file of torch.
    """
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [dotted(node)] if dotted(node) else []
            names += [node.attr] if node.attr in PRIVATE_SETTINGS else []
        elif isinstance(node, ast.keyword) and node.arg in PRIVATE_SETTINGS:
            names = [node.arg]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            names = PRIVATE_WORDS.findall(node.value)
        for name in names:
            if PRIVATE_WORDS.fullmatch(name) and not name.startswith(PRIVATE_ALLOWED):
                yield getattr(node, "lineno", 0), name


def private_faults(root: Path) -> list[str]:
    """Return where a file names what is private to torch, outside of the places that are for it."""
    source = root / "bisect" / PACKAGE
    faults = []
    for folder in PRIVATE_FOLDERS:
        for file in sorted((source / folder).rglob("*.py")):
            path = file.relative_to(source)
            if path in PRIVATE_FILES or path.parts[:2] == ("child", "torch_internals"):
                continue
            tree = ast.parse(file.read_text("utf-8"), str(file))
            faults += [f"{path}:{line}: {name} is private to torch" for line, name in private_names(tree)]
    return faults


def declared_imports(pyproject: str) -> frozenset[str]:
    """Return the runtime dependencies' import names, which for all of ours are the distributions' names.

    Read by a pattern because `tomllib` came with Python 3.11 and the lab runs on 3.10.
    """
    block = re.search(r"^dependencies = \[(.*?)^\]", pyproject, re.MULTILINE | re.DOTALL)
    return frozenset(re.findall(r'"([A-Za-z0-9_]+)', block.group(1))) if block else frozenset()


def tree_faults(root: Path) -> list[str]:
    """Return what lies in the tree under `root` where the design does not allow it."""
    faults = [
        f"{name}: no entry of the top level"
        for name in sorted(entry.name for entry in root.iterdir())
        if not name.startswith(".") and name not in TOP_LEVEL | LEFT_OVERS and not name.endswith(".egg-info")
    ]
    for folder in ("bisect", "docker"):
        if (root / folder / "__init__.py").exists():
            faults.append(f"{folder}/__init__.py: makes a package that shadows another of the name {folder}")
    for entry in sorted((root / "bisect").rglob("*")):
        is_module = entry.suffix == ".py" or (entry.is_dir() and (entry / "__init__.py").exists())
        if is_module and entry.stem in sys.stdlib_module_names:
            faults.append(f"{entry.relative_to(root)}: named after a module of the standard library")
    return faults


def test_code_keeps_to_the_layers() -> None:
    assert code_faults(ROOT) == []


def test_only_one_place_names_what_is_private_to_torch() -> None:
    assert private_faults(ROOT) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("from torch._inductor import ir", "torch._inductor.ir"),
        ("import torch._dynamo.config as c", "torch._dynamo.config"),
        ("import torch\ntorch._C._nn", "torch._C._nn"),
        ("sys.modules.get('torch._dynamo.utils')", "torch._dynamo.utils"),
        ("area = 'torch/_functorch/partitioners'", "torch/_functorch/partitioners"),
        ("from torch.utils._mode_utils import no_dispatch", "torch.utils._mode_utils.no_dispatch"),
        ("dict(fx_graph_cache=False)", "fx_graph_cache"),
        ("x = {'cpp_wrapper': False}", "cpp_wrapper"),
        ("config.allow_buffer_reuse = False", "allow_buffer_reuse"),
    ],
)
def test_a_private_name_of_torch_is_a_fault(small_tree: Path, text: str, says: str) -> None:
    file = small_tree / "bisect" / PACKAGE / "child" / "hooks.py"
    file.write_text(f'"""Relies on torch._dynamo."""\nfrom torch.utils._pytree import tree_map\n{text}\n')
    assert any(fault.endswith(f"{says} is private to torch") for fault in private_faults(small_tree))
    file.write_text('"""Relies on torch._dynamo."""\nfrom torch.utils._pytree import tree_map\n')
    assert private_faults(small_tree) == []


def test_tree_keeps_to_the_layout() -> None:
    assert tree_faults(ROOT) == []


def test_there_is_something_to_check() -> None:
    assert len(list((ROOT / "bisect" / PACKAGE).rglob("*.py"))) > 10
    assert {"click", "numpy", "jinja2"} <= declared_imports((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture
def small_tree(tmp_path: Path) -> Path:
    """Make a tree that keeps all the rules, for a test to break one."""
    modules = {
        "__init__.py": '__version__ = "0"\n',
        "core/__init__.py": "",
        "core/probe.py": "import json\nfrom . import errors\n",
        "numerics/compare.py": "import numpy\nfrom accel_lab.core.probe import Probe\n",
        "execution/processes/process.py": "import subprocess\nsubprocess.run([])\nfrom ...core import x\n",
        "execution/prober.py": "import accel_lab, subprocess\naccel_lab.__file__, subprocess.PIPE\n",
        "child/serve.py": "import os, sys, torch\nos.fork() or os._exit(0)\nsys.stderr.write('x')\n",
        "reporting/page.py": "from accel_lab import __version__\nimport accel_lab.numerics.compare\n",
        "session.py": "from accel_lab import lab\nfrom accel_lab.reporting.page.report import render\n",
        "cli/main.py": "import click, sys\nfrom accel_lab.execution import process\nsys.exit(print())\n",
    }
    files = {
        "pyproject.toml": '[project]\ndependencies = [\n    "click>=8",\n    "numpy>=1.26",\n]\n',
        "docker/Dockerfile": "",
        ".ci/run": "",
        "build/left_over.txt": "",
        **{f"bisect/{PACKAGE}/{name}": text for name, text in modules.items()},
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_a_tree_that_keeps_the_rules_has_no_fault(small_tree: Path) -> None:
    assert code_faults(small_tree) + tree_faults(small_tree) == []


@pytest.mark.parametrize(
    ("module", "text", "says"),
    [
        ("core/probe.py", "from accel_lab.numerics import compare", "core must not import numerics"),
        ("core/probe.py", "import numpy", "core must not import numpy"),
        ("core/probe.py", "def f():\n    from ..execution.x import y", "core must not import execution"),
        (
            "search/ladder.py",
            "import accel_lab.execution.processes.process",
            "search must not import execution",
        ),
        ("execution/prober.py", "from .. import environments", "execution must not import environments"),
        ("execution/prober.py", "from accel_lab.environments import *", "must not import environments"),
        ("environments/uv_env.py", "from accel_lab.execution import process", "must not import execution"),
        ("numerics/compare.py", "import torch.nn as nn", "numerics must not import torch"),
        ("reporting/page.py", "from torch import nn", "reporting must not import torch"),
        ("reporting/page.py", "import importlib\nimportlib.import_module('torch')", "must not import torch"),
        ("reporting/page.py", "from accel_lab.cli.main import main", "reporting must not import cli"),
        ("reporting/page.py", "from accel_lab import bisect_script", "reporting must not import __init__"),
        ("reporting/page.py", "import click", "for cli alone"),
        ("reporting/page.py", "import pandas", "must not import pandas"),
        ("child/serve.py", "import numpy", "child must not import numpy"),
        ("child/serve.py", "from accel_lab.core import probe", "child must not import core"),
        ("child/serve.py", "from accel_lab import __version__", "child must not import __init__"),
        ("search/ladder.py", "from accel_lab.lab import LocalLab", "search must not import lab"),
        ("lab.py", "from accel_lab import session", "lab must not import session"),
        ("session.py", "from accel_lab.cli import main", "session must not import cli"),
        ("mock/device.py", "from accel_lab.child import serve", "mock must not import child"),
        ("search/ladder.py", "print('x')", "search must not call print"),
        ("child/serve.py", "print('x')", "child must not call print"),
        ("search/ladder.py", "import sys\nsys.stderr.write('x')", "search must not call sys.stderr.write"),
        ("search/ladder.py", "import sys\nsys.exit(1)", "search must not call sys.exit"),
        ("search/ladder.py", "raise SystemExit(1)", "search must not end the process"),
        (
            "search/ladder.py",
            "import accel_lab\naccel_lab.bisect_script()",
            "must not use accel_lab.bisect_script",
        ),
        ("environments/uv_env.py", "import subprocess\nsubprocess.run([])", "so only it uses subprocess.run"),
        ("environments/uv_env.py", "import subprocess as s", "another name"),
        ("environments/uv_env.py", "import multiprocessing", "so only it imports multiprocessing"),
        ("child/serve.py", "from subprocess import Popen", "so only it imports subprocess"),
        ("execution/prober.py", "import os\nos.execv('x', [])", "must not call os.execv"),
        ("execution/prober.py", "import os\nos.fork()", "only the child forks"),
        ("search/ladder.py", "found = Confidence.PROVEN", "only search/proof.py makes PROVEN"),
        ("search/ladder.py", "f(confidence=Confidence.PROVEN if x else y)", "only search/proof.py makes"),
        ("session.py", "found = Confidence('proven')", "only search/proof.py makes PROVEN"),
        ("helpers/things.py", "", "helpers is no layer"),
        ("helpers.py", "", "helpers is no layer"),
    ],
)
def test_a_wrong_arrow_or_act_is_a_fault(small_tree: Path, module: str, text: str, says: str) -> None:
    file = small_tree / "bisect" / PACKAGE / module
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")
    faults = code_faults(small_tree)
    assert len(faults) == 1
    assert faults[0].startswith(module)
    assert says in faults[0]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("setup.py", "no entry of the top level"),
        ("notes/plan.md", "no entry of the top level"),
        ("bisect/__init__.py", "shadows"),
        ("docker/__init__.py", "shadows"),
        ("bisect/random.py", "named after"),
        ("bisect/json/__init__.py", "named after"),
        ("bisect/accel_lab/numerics/statistics.py", "named after"),
    ],
)
def test_a_misplaced_file_is_a_fault(small_tree: Path, name: str, says: str) -> None:
    (small_tree / name).parent.mkdir(exist_ok=True)
    (small_tree / name).touch()
    faults = tree_faults(small_tree)
    assert len(faults) == 1
    assert says in faults[0]
