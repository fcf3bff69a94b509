"""``accel-lab check``: finds the accelerator constraints that a script violates, before it runs there."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from accel_lab.accelerators.settings import ALIGNED_DIMENSIONS
from accel_lab.cli.job import run_once
from accel_lab.cli.options import ProgramCommand, program_options
from accel_lab.cli.settings import config_option
from accel_lab.cli.streams import print_json
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.judge import signature_of
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Limits
from accel_lab.core.stages import Rung
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.core.untrusted.shapes import Range, Table
from accel_lab.execution.processes import process
from accel_lab.execution.run_folder.lock import held
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.reporting.schema import json_text

SCHEMA = "accel-lab/check/1"
#: Folder, within the run's folder, of the repro scripts.
REPROS = "repros"
#: Error types of the child that mean wrong usage: an unknown setting or adapter.
_USAGE = ("SettingError", "AdapterError")
_CODE = 40
_TEXT = (None, str)
#: Required shape of the child's check.json.
_FOUND = {
    "constraints": [str],
    "graphs": Range(0),
    "not_lowered": [str],
    "violations": [
        {
            **dict.fromkeys(("severity", "constraint", "op", "message", "change"), str),
            **dict.fromkeys(("source", "code", "graph", "node"), _TEXT),
        }
    ],
    "repros": Table(_TEXT),
    "reduced": Table({"said": str, "operators": Range(0), "of": Range(0)}),
}
_MARKS = {"error": "✗", "warning": "!"}


@dataclass(frozen=True, kw_only=True)
class Repro:
    """The repro script of one constraint, and the result of running it again.

    It keeps ``operators`` of the graph's ``of`` operators; both are 0 if it is the whole graph.
    """

    constraint: str
    path: str | None
    verdict: str
    violates: bool = False
    operators: int = 0
    of: int = 0


@click.command(name="check", cls=ProgramCommand)
@program_options
@click.option("--adapter", metavar="NAME", help="The accelerator. [default: the mock]")
@click.option(
    "--constraint", "constraints", metavar="NAME", multiple=True, help="Check only this one. Repeatable."
)
@click.option("--dtype", "dtypes", metavar="NAME", multiple=True, help="A dtype that is allowed. Repeatable.")
@click.option("--deny", "denied", metavar="OP", multiple=True, help="An operator to refuse. Repeatable.")
@click.option("--alignment", metavar="N", help="Elements of which the last dimension must be a multiple.")
@click.option(
    "--aligned-dimensions",
    type=click.Choice(ALIGNED_DIMENSIONS),
    help="The dimensions to which --alignment applies. [default: last]",
)
@click.option(
    "--error",
    "errors",
    metavar="NAME",
    multiple=True,
    help="A constraint whose warnings count as errors, such as layout. Repeatable.",
)
@click.option("--max-memory", metavar="BYTES", help="The device's memory; K, M, G may follow.")
@config_option
@click.option("--strict", is_flag=True, help="Warnings count too; a repro is made of each error and run.")
@click.option("--out", type=click.Path(file_okay=False), help="Where to make the run's folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the violations as JSON.")
def command(
    adapter: str | None,
    constraints: tuple[str, ...],
    dtypes: tuple[str, ...],
    denied: tuple[str, ...],
    alignment: str | None,
    aligned_dimensions: str | None,
    errors: tuple[str, ...],
    max_memory: str | None,
    strict: bool,
    out: str | None,
    as_json: bool,
    config: str | None,  # set_up_mock has read it: see cli/accelerator_settings.py
    **words: Any,
) -> int:
    """Run SCRIPT and check every graph that it compiles against the constraints of an accelerator.

    The graphs run as eager code, so the script ends as it would without the accelerator.

    Exit codes: 0 no violation, 1 violations, 2 wrong usage, 3 the lab could not do it.
    """
    options = {
        "alignment": alignment,
        "aligned_dimensions": aligned_dimensions,
        "max_memory": max_memory,
        "constraints": constraints,
        "dtypes": dtypes,
        "denied": denied,
        "errors": errors,
    }
    chosen = {name: value for name, value in options.items() if value}
    if adapter and chosen:
        raise UsageError("--adapter brings its own constraints: leave the other options out")
    given = {"adapter": adapter, "options": chosen, "repros": strict}
    ran = run_once(command="check", **words, out=out, rung=Rung.DYNAMO, switches=(("check", given),))
    build, workspace, outcome = ran.build, ran.workspace, ran.outcome
    found = _found(outcome)
    with held(workspace.root):
        repros = [_confirmed(name, found, build.python, workspace) for name in found["repros"]]
    ended = signature_of(outcome)
    answer = {
        "schema": SCHEMA,
        "program": ran.program.name,
        "torch": build.torch,
        "accelerator": adapter or "mock",
        **{name: value for name, value in found.items() if name != "reduced"},
        "violations": _merged(found["violations"]),
        "repros": [repro.__dict__ for repro in repros],
        "script_failed": ended.line if ended else None,
        "folder": str(workspace.root),
    }
    write_atomic(workspace.root / "check.json", json_text(answer))
    if as_json:
        print_json(answer)
    else:
        click.echo(describe(answer, repros))
    if ended and not answer["violations"]:
        raise LabError(f"the script failed, and nothing was found until then: {ended.line}")
    counted = [v for v in answer["violations"] if strict or v["severity"] == "error"]
    return int(bool(counted))


def _found(outcome: Outcome) -> dict[str, Any]:
    """Reads the child's check.json. Raises UsageError or LabError if nothing was checked."""
    error = outcome.facts.get("lab_error")
    if error:
        kind = str(error.get("type", "")).rpartition(".")[2]
        raise (UsageError if kind in _USAGE else LabError)(str(error.get("message", "")))
    if not outcome.was_run:
        raise LabError("; ".join(outcome.notes))
    found: dict[str, Any] = ChildFiles(outcome.folder).json("check.json", _FOUND) or {}
    if not found.get("graphs"):
        ended = signature_of(outcome)
        if ended:
            raise LabError(f"the script failed before it compiled anything: {ended.line}")
        raise UsageError("the script compiles nothing with torch.compile: there is nothing to check")
    return found


def _merged(violations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merges equal violations at one line of the script, with the number of graphs in ``count``."""
    rows: dict[Any, dict[str, Any]] = {}
    for violation in violations:
        key = tuple(violation[name] for name in ("severity", "constraint", "op", "source", "message"))
        row = rows.setdefault(key, {**violation, "count": 0})
        row["count"] += 1
    return sorted(rows.values(), key=lambda row: row["severity"])


def describe(answer: dict[str, Any], repros: Sequence[Repro]) -> str:
    """Returns the text for the terminal: the table, the repros, and whether the script failed."""
    rows = answer["violations"]
    errors = sum(row["severity"] == "error" for row in rows)
    graphs = f"{answer['graphs']} graph" + ("s" if answer["graphs"] != 1 else "")
    what = f"{answer['program']} on {answer['accelerator']}, {graphs} (torch {answer['torch']})"
    if not rows:
        return f"NO VIOLATIONS  {what}\nchecked: {', '.join(answer['constraints'])}"
    head = "VIOLATES" if errors else "WARNINGS"
    warnings = len(rows) - errors
    lines = [
        f"{head}  {what}: {errors} violation{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    ]
    table = tabulate(
        [
            (
                f"{_MARKS.get(row['severity'], '')} {row['constraint']}",
                row["op"],
                _where(row),
                row["message"],
                row["change"],
            )
            for row in rows
        ],
        headers=("constraint", "op", "where", "what", "required change"),
        maxcolwidths=[None, 24, _CODE, 44, 40],
    )
    lines += ["", table]
    for repro in repros:
        size = f", with {repro.operators} of {repro.of} operators" if repro.of else ""
        place = f"  {repro.path}" if repro.path else ""
        lines.append(f"repro of {repro.constraint}: {repro.verdict}{size}{place}")
    lines += answer.get("not_lowered", ())
    if answer["script_failed"]:
        lines.append(f"the script failed: {answer['script_failed']}; what it compiled until then was checked")
    return "\n".join(lines)


def _where(row: dict[str, Any]) -> str:
    """Returns ``script.py:12`` with the line's text, or the graph and node if the line is unknown."""
    if not row["source"]:
        return f"{row['graph']} {row['node']}"
    file, _, line = row["source"].rpartition(":")
    code = row["code"] if len(row["code"]) <= _CODE else row["code"][: _CODE - 1] + "…"
    return f"{os.path.basename(file)}:{line}\n{code}".strip()


def _confirmed(constraint: str, found: dict[str, Any], python: str, workspace: Workspace) -> Repro:
    """Returns the repro of the violating operators if it still violates, else that of the whole graph."""
    part = found["reduced"].get(constraint)
    if part is not None:
        small = _again(constraint, part["said"], python, workspace)
        if small.violates:
            return replace(small, operators=part["operators"], of=part["of"])
    return _again(constraint, str(found["repros"][constraint] or ""), python, workspace)


def _again(constraint: str, said: str, python: str, workspace: Workspace) -> Repro:
    """Runs a repro in its own process and checks that it violates the same constraint."""
    left = Path(said.removeprefix("repro: "))
    # The child may only name a file of its own: a path outside the run's folder is not run.
    if not said.startswith("repro: ") or not left.resolve().is_relative_to(workspace.root.resolve()):
        return Repro(constraint=constraint, path=None, verdict=said or "none was made")
    text = ChildFiles(left.parent).text(left.name)
    if text is None:
        return Repro(constraint=constraint, path=None, verdict="none was made")
    folder = workspace.root / REPROS
    folder.mkdir(exist_ok=True)
    path = folder / f"{left.stem}.py"
    write_atomic(path, text)
    place = left.with_suffix("")
    for sub in ("cwd", "cache"):
        (place / sub).mkdir(parents=True, exist_ok=True)
    library = str(workspace.library.parent)
    paths = [library, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    ended = process.run(
        [python, str(path)],
        cwd=place / "cwd",
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(place / "cache"),
        },
        stdout=place / "stdout.txt",
        stderr=place / "stderr.txt",
        limits=Limits(timeout_s=300.0),
        marker=f"repro-{uuid.uuid4().hex}",
    )
    printed = (ChildFiles(place).text("stdout.txt") or "").splitlines()
    made = Repro(constraint=constraint, path=str(path), verdict="")
    if ended.exit_code == 1 and any(line.startswith(f"violates {constraint}:") for line in printed):
        return replace(made, verdict="rerun: violates the same constraint", violates=True)
    return replace(made, verdict=f"rerun: does not violate it ({ended.summary})")
