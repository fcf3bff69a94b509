"""What the reducer makes of a failing script, beside torch's own minifier: sizes, candidates a second, proof.

    python benchmarks/minimize.py --python PATH [--cases CASE ...] [--for 120] [--limit 240]

A case is a golden case (its name, or the issue's number) or ``host:fault`` of hosts.py. The ratio
compares candidates a second of both tools in this very run: absolute times mean nothing on a shared
machine. Exit code 1 when a repro that the lab emitted does not fail again, 0 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from golden import ROOT, Case, load_cases
from harness import build_of, parse_findings, run_command, run_plain, stop_when_asked
from hosts import FAULTS, split, write_host
from torch_minifier import (
    Failure,
    Minified,
    last_failure,
    run_torch_minifier,
    wanted_modes,
)

#: One bug that torch's minifier can see and one that it cannot, each alone and buried in a host.
DEFAULT_CASES = (
    "196570-outer-loop-fusion",
    "198131-full-slice-copy",
    "mlp200:196570",
    "mlp200:198131",
)
OURS = "accel-lab"
#: The larger of the two repros, where the lab offers both a graph's and a script's.
SECOND = "accel-lab, second"
#: What the lab needs beside the reduction: the baseline, the ladder and the final proof.
BESIDE_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """One failing script. ``marks`` are words that the true culprit's operators leave in a repro."""

    name: str
    script: Path
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    hand: Path | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case and one tool. ``rerun``: the repro, run cold by this benchmark, fails as the script does.

    ``operators`` counts the repro's own graph by graph_size.py; ``nodes_*`` are each tool's own counts.
    """

    case: str
    tool: str
    reason: str = ""
    kind: str = ""
    nodes_before: int | None = None
    nodes_after: int | None = None
    lines_before: int | None = None
    lines_after: int | None = None
    candidates: int | None = None
    seconds: float = 0.0
    wall_s: float = 0.0
    emitted: bool = False
    verified: bool | None = None
    minimal: bool | None = None
    rerun: bool | None = None
    marked: bool | None = None
    operators: dict[str, int] | None = None
    hand_operators: dict[str, int] | None = None
    script: str | None = None
    repro: str | None = None

    @property
    def rate(self) -> float | None:
        """Candidates a second."""
        return self.candidates / self.seconds if self.candidates and self.seconds else None

    def to_json(self) -> dict[str, Any]:
        rate = self.rate
        rounded = {k: round(v, 1) if isinstance(v, float) else v for k, v in asdict(self).items()}
        # A path into a folder that is gone.
        del rounded["script"]
        return {**rounded, "candidates_a_second": round(rate, 3) if rate is not None else None}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asked for."""

    python: str
    cases: tuple[str, ...] = DEFAULT_CASES
    seconds: float = 120.0
    limit_s: float = 240.0
    modes: tuple[tuple[str, int], ...] = ()
    jobs: int = 1
    keep: Path | None = None
    output: Path | None = None


# -- the cases -------------------------------------------------------------------------------------


def find_jobs(names: Sequence[str], folder: Path) -> list[Job]:
    """The scripts of the named cases; hosts are written under ``folder``."""
    known = {case.slug: case for case in load_cases()}
    jobs = []
    for name in names:
        if ":" in name:
            host, fault = split(name)
            jobs.append(
                Job(
                    name=name,
                    script=write_host(host, fault, folder),
                    hand=script_of(known[FAULTS[fault].golden]),
                    marks=FAULTS[fault].marks,
                )
            )
            continue
        matching = [case for slug, case in known.items() if slug == name] or [
            case for slug, case in known.items() if name in slug
        ]
        if len(matching) != 1:
            raise ValueError(f"{name}: {len(matching)} golden cases are called so")
        case = matching[0]
        marks = next((fault.marks for fault in FAULTS.values() if fault.golden == case.slug), ())
        script = script_of(case)
        jobs.append(
            Job(name=case.slug, script=script, args=case.args, env=case.env, hand=script, marks=marks)
        )
    return jobs


def script_of(case: Case) -> Path:
    """The script that a golden case runs."""
    script = Path(case.command[-1])
    if len(case.command) != 1 or not script.is_file():
        raise ValueError(f"{case.slug}: it is not a script alone: {' '.join(case.run)}")
    return script


def code_lines(source: str) -> int:
    """Lines that are neither empty nor a comment, the same measure for every script."""
    return sum(1 for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def has_marks(source: str, marks: Sequence[str]) -> bool | None:
    """Whether a repro still holds the culprit's operators; None where nobody knows what they are."""
    if not marks:
        return None
    return any(
        mark in line for line in source.splitlines() if not line.lstrip().startswith("#") for mark in marks
    )


# -- one case --------------------------------------------------------------------------------------


def graph_size(python: str, script: Path, env: Mapping[str, str]) -> dict[str, int] | None:
    """Operators of a script's graphs, by running it on a counting backend."""
    counter = str(Path(__file__).resolve().parent / "graph_size.py")
    ended = run_plain(python, [counter, str(script)], env=env, timeout_s=600)
    try:
        data = json.loads(ended.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def measure(job: Job, options: Options, tell: Callable[[Row], None]) -> list[Row]:
    """Every tool on one case, one after the other."""
    plain = run_plain(options.python, [str(job.script)], env=job.env, timeout_s=600)
    if plain.code == 0:
        raise SystemExit(f"{job.name}: the script does not fail on this build")
    failure = last_failure(plain.stderr)
    rows = []
    for work in (ours, *(torch_with(mode) for mode in options.modes)):
        for row in work(job, options, plain.code, failure):
            rows.append(row)
            tell(row)
    return rows


def ours(job: Job, options: Options, code: int | None, failure: Failure | None) -> list[Row]:
    """``accel-lab minimize`` from this checkout; what it emits is then run cold by the benchmark itself."""
    folder = Path(tempfile.mkdtemp(prefix="accel-lab-minimize-"))
    words = ["--json", "--no-bundle", "-q", "--python", options.python, "--for", f"{options.seconds:g}s"]
    path = os.pathsep.join(p for p in (str(ROOT / "bisect"), os.environ.get("PYTHONPATH", "")) if p)
    try:
        command = [*words, "--out", str(folder / "out"), *job.args, str(job.script)]
        ended = run_command(
            [sys.executable, "-m", "accel_lab", "minimize", *command],
            env={**os.environ, **job.env, "PYTHONPATH": path},
            timeout_s=options.seconds + BESIDE_S,
            cwd=str(folder),
        )
        findings = parse_findings(ended.stdout)
        before = code_lines(job.script.read_text(encoding="utf-8"))
        tail = ended.stderr.strip().splitlines()
        last = tail[-1][:200] if tail else ""
        error = last if ended.code is not None else "stopped at the limit"
        rows = rows_of(job, findings, error, ended.seconds, before)
        return [_checked(row, job, options, code, failure) for row in rows]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def rows_of(
    job: Job, findings: Mapping[str, Any] | None, error: str, wall_s: float, lines_before: int
) -> list[Row]:
    """The findings' ``repro`` as a row, and the other repro, where two are offered, as a second one."""
    repro = (findings or {}).get("repro")
    if not isinstance(repro, Mapping):
        reason = error if findings is None else f"no repro in the findings ({findings.get('verdict')})"
        return [
            Row(
                case=job.name,
                tool=OURS,
                reason=reason or "no findings",
                wall_s=wall_s,
                lines_before=lines_before,
            )
        ]
    notes = [*([repro["why_not"]] if repro.get("why_not") else []), *repro.get("notes", ())]
    first: dict[str, Any] = {
        "reason": "; ".join(str(note) for note in notes),
        "candidates": repro.get("candidates"),
        "seconds": float(repro.get("seconds") or 0.0),
        "wall_s": wall_s,
    }
    other = repro.get("other")
    shown = [(OURS, repro, first), *([(SECOND, other, {})] if isinstance(other, Mapping) else [])]
    return [
        Row(
            case=job.name,
            tool=tool,
            kind=str(product.get("kind") or ""),
            nodes_before=product.get("nodes_before"),
            nodes_after=product.get("nodes_after"),
            lines_before=lines_before,
            lines_after=product.get("lines_after"),
            emitted=bool(product.get("script")),
            verified=product.get("verified"),
            minimal=product.get("minimal"),
            script=product.get("script"),
            **more,
        )
        for tool, product, more in shown
    ]


def _checked(row: Row, job: Job, options: Options, code: int | None, failure: Failure | None) -> Row:
    """Run an emitted repro as its reader would: no environment of the case, no arguments, a cold cache."""
    if not row.emitted or row.script is None:
        return row
    script = Path(row.script)
    if not script.is_file():
        return replace(row, rerun=False, reason=f"{row.reason}; the script is not there".removeprefix("; "))
    source = script.read_text(encoding="utf-8")
    if options.keep is not None:
        place = options.keep / job.name.replace(":", "-") / row.kind
        shutil.copytree(script.parent, place, dirs_exist_ok=True)
    again = run_plain(options.python, [str(script)], env={}, timeout_s=600)
    seen = last_failure(again.stderr) if again.code else None
    same = fails_again(code, failure, again.code, seen)
    reason = row.reason
    if not same:
        told = seen.line if seen is not None else f"exit {again.code}"
        reason = f"{reason}; run again: {told}".removeprefix("; ")
    return replace(
        row,
        rerun=same,
        reason=reason,
        marked=has_marks(source, job.marks),
        lines_after=code_lines(source),
        operators=graph_size(options.python, script, {}),
        hand_operators=graph_size(options.python, job.hand, job.env) if job.hand else None,
        repro=source,
    )


def fails_again(
    code: int | None, failure: Failure | None, code_again: int | None, again: Failure | None
) -> bool:
    """The same exit status and the same exception; where the script itself exited 0, 1 now."""
    if code == 0:
        return code_again == 1
    if failure is None:
        return code_again == code
    return code_again == code and again is not None and again.kind == failure.kind


def torch_with(mode: tuple[str, int]) -> Callable[[Job, Options, int | None, Failure | None], list[Row]]:
    """torch's minifier in one of its modes, in the shape of ``ours``."""

    def work(job: Job, options: Options, code: int | None, failure: Failure | None) -> list[Row]:
        found = run_torch_minifier(
            options.python, job.script, mode, failure=failure, env=job.env, limit_s=options.limit_s
        )
        return [torch_row(job, found)]

    return work


def torch_row(job: Job, found: Minified) -> Row:
    """An attempt of torch's minifier as a row."""
    return Row(
        case=job.name,
        tool=f"torch {found.mode}",
        reason=found.reason,
        kind="graph" if found.repro is not None else "",
        nodes_before=found.nodes_before,
        nodes_after=found.nodes_after,
        lines_before=code_lines(job.script.read_text(encoding="utf-8")),
        lines_after=found.lines_after,
        candidates=found.candidates,
        seconds=found.seconds,
        wall_s=found.wall_s,
        emitted=found.repro is not None,
        minimal=found.finished,
        rerun=found.rerun,
        marked=has_marks(found.repro, job.marks) if found.repro is not None else None,
        repro=found.repro,
    )


# -- the summary -----------------------------------------------------------------------------------


def speed_ratios(rows: Sequence[Row]) -> dict[str, float]:
    """Per case: our candidates a second over those of torch's isolating mode, its quicker level."""
    ratios = {}
    for mine in rows:
        if mine.tool != OURS or mine.rate is None:
            continue
        theirs = [
            row.rate
            for row in rows
            if row.case == mine.case and row.tool.startswith("torch aot/") and row.rate is not None
        ]
        if theirs:
            ratios[mine.case] = round(mine.rate / max(theirs), 1)
    return ratios


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """The goals in numbers, and each mode of torch's by what could be used of it."""
    mine = [row for row in rows if row.tool == OURS]
    emitted = [row for row in rows if row.tool in (OURS, SECOND) and row.emitted]
    again = [row for row in emitted if row.rerun]
    ratios = speed_ratios(rows)
    sized = [row for row in mine if row.operators and row.hand_operators]
    modes = sorted({row.tool for row in rows if row.tool not in (OURS, SECOND)})
    return {
        "cases": len(mine),
        "emitted": len(emitted),
        "fail_again": len(again),
        "fail_again_share": round(len(again) / len(emitted), 3) if emitted else None,
        "not_again": [f"{row.case} ({row.kind})" for row in emitted if not row.rerun],
        "without_culprit": [f"{row.case} ({row.kind})" for row in emitted if row.marked is False],
        "speed_ratio": ratios,
        "median_speed_ratio": round(statistics.median(ratios.values()), 1) if ratios else None,
        "operators": _medians(sized),
        "torch": {
            mode: {
                "asked": sum(row.tool == mode for row in rows),
                "repros": sum(row.tool == mode and row.emitted for row in rows),
                "usable": sum(row.tool == mode and row.rerun is True for row in rows),
                "with_culprit": sum(
                    row.tool == mode and row.rerun is True and row.marked is True for row in rows
                ),
            }
            for mode in modes
        },
    }


def _medians(rows: Sequence[Row]) -> dict[str, Any] | None:
    """The median size of our repros' graphs and of the hand-written scripts', counted the same way."""
    if not rows:
        return None
    return {
        level: {
            "ours": statistics.median((row.operators or {}).get(level, 0) for row in rows),
            "by_hand": statistics.median((row.hand_operators or {}).get(level, 0) for row in rows),
        }
        for level in ("dynamo", "aten")
    }


def exit_code(rows: Sequence[Row]) -> int:
    """1 when an emitted repro of ours does not fail again."""
    return 1 if any(row.tool in (OURS, SECOND) and row.emitted and not row.rerun for row in rows) else 0


HEAD = ("case", "tool", "nodes", "lines", "operators", "candidates", "s", "per s", "fails again", "remarks")


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    again = {True: "yes", False: "NO", None: ""}[row.rerun]
    if row.rerun and row.marked is False:
        again = "yes, culprit lost"
    sizes = ""
    if row.operators and row.hand_operators:
        sizes = f"{row.operators['aten']} (by hand {row.hand_operators['aten']})"
    remarks = [row.kind, "1-minimal" if row.minimal and row.emitted else "", row.reason]
    return (
        row.case,
        row.tool,
        from_to(row.nodes_before, row.nodes_after),
        from_to(row.lines_before, row.lines_after),
        sizes,
        "" if row.candidates is None else str(row.candidates),
        f"{row.seconds:.0f}" if row.seconds else "",
        f"{row.rate:.2f}" if row.rate is not None else "",
        again,
        "; ".join(remark.replace("|", "/") for remark in remarks if remark),
    )


def from_to(before: int | None, after: int | None) -> str:
    """``62 → 3``; one of the two may be unknown."""
    if before is None and after is None:
        return ""
    return f"{'?' if before is None else before} → {'?' if after is None else after}"


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [HEAD, tuple("---" for _ in HEAD), *(cells(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# -- the command -----------------------------------------------------------------------------------


def collect(options: Options, tell: Callable[[Row], None] = lambda row: None) -> list[Row]:
    """Every case with every tool; ``tell`` is called as each row is done."""
    with tempfile.TemporaryDirectory(prefix="accel-lab-hosts-") as folder:
        jobs = find_jobs(options.cases, Path(folder))

        def one(job: Job) -> list[Row]:
            return measure(job, options, tell)

        if options.jobs == 1:
            return [row for job in jobs for row in one(job)]
        with ThreadPoolExecutor(options.jobs) as pool:
            return [row for rows in pool.map(one, jobs) for row in rows]


def parse(argv: Sequence[str]) -> Options:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases", nargs="+", default=list(DEFAULT_CASES), metavar="CASE", help="golden cases, or host:fault"
    )
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--for", type=float, default=120.0, dest="seconds", help="seconds for our reduction")
    parser.add_argument(
        "--limit", type=float, default=240.0, help="seconds for each step of torch's minifier"
    )
    parser.add_argument("--skip-torch", action="store_true", help="run accel-lab alone")
    parser.add_argument(
        "--torch-modes", nargs="+", default=[], metavar="MODE", help="aot/2 aot/4 dynamo/2 dynamo/4"
    )
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time; ratios are only fair with 1")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy our repros here")
    parser.add_argument("--json", type=Path, dest="output", help="write the rows and the summary here")
    given = parser.parse_args(argv)
    try:
        modes = () if given.skip_torch else tuple(wanted_modes(given.torch_modes))
    except ValueError as error:
        parser.error(str(error))
    return Options(
        python=given.python,
        cases=tuple(given.cases),
        seconds=given.seconds,
        limit_s=given.limit,
        modes=modes,
        jobs=max(1, given.jobs),
        keep=given.keep,
        output=given.output,
    )


def main(argv: Sequence[str]) -> int:
    """Measure, print, write, and say by the exit code whether a repro of ours did not hold."""
    options = parse(argv)
    build = build_of(options.python)

    def tell(row: Row) -> None:
        print("  ".join(cell for cell in cells(row) if cell), file=sys.stderr, flush=True)

    try:
        rows = collect(options, tell)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    summary = summarise(rows)
    print(table(rows))
    print(json.dumps(summary, indent=1))
    if options.output is not None:
        data = {
            "schema": "accel-lab/minimize-benchmark/1",
            "torch": build,
            "summary": summary,
            "rows": [row.to_json() for row in rows],
        }
        options.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return exit_code(rows)


if __name__ == "__main__":
    stop_when_asked()
    sys.exit(main(sys.argv[1:]))
