"""The localization score: bisect every golden case and count how often the right stage is named.

    python benchmarks/localize.py --python PATH [--python PATH ...] [--save] [--compare] [NAME ...]

Exit code 1 when a scored case is given a wrong stage, or with ``--compare`` another verdict than the
committed table has, 0 otherwise.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import golden_table
import workarounds
from golden import REPROS, Case, Grade, Score, grade, load_cases, stage_matches
from harness import (
    build_of,
    missing_modules,
    run_bisect,
    run_plain,
    run_torch_bisector,
    stop_when_asked,
)

#: The verdicts that are committed.
TABLE = Path(__file__).resolve().parent / "golden_table.tsv"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case on one build: the grade, what it cost, and what a plain run and torch's bisector said."""

    slug: str
    build: str
    scored: bool
    score: Score
    want: tuple[str, ...]
    probes: int = 0
    seconds: float = 0.0
    plain_s: float | None = None
    exit_code: int | None = None
    torch_answer: str | None = None
    torch_right: bool | None = None
    torch_s: float | None = None
    error: str = ""
    around: workarounds.Row | None = None

    @property
    def ratio(self) -> float | None:
        """Wall time of the bisection, without workarounds, over that of a plain run, both measured here."""
        return self.seconds / self.plain_s if self.plain_s else None

    def to_json(self) -> dict[str, Any]:
        data = {**self.__dict__, "score": self.score.to_json(), "want": list(self.want)}
        del data["around"]
        return {**data, "ratio": round(self.ratio, 2) if self.ratio is not None else None}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asked for."""

    pythons: tuple[str, ...]
    names: tuple[str, ...] = ()
    repros: Path = REPROS
    jobs: int = 1
    timeout_s: float = 900.0
    plain: bool = False
    torch_bisector: bool = False
    workarounds: bool = False
    bisector_timeout_s: float = 420.0
    output: Path | None = None
    save: bool = False
    compare: bool = False
    table: Path = TABLE


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """The score in numbers: over the scored rows, and over all that ran for wrong answers told as proven."""
    scored = [row for row in rows if row.scored]
    counts = {g.value: sum(row.score.grade is g for row in scored) for g in Grade}
    ratios = [row.ratio for row in rows if row.ratio is not None]
    asked = [row for row in scored if row.torch_answer is not None]
    known = [row.score.component_right for row in scored if row.score.component_right is not None]
    return {
        "cases": len(rows),
        "scored": len(scored),
        "grades": counts,
        "wrong": [f"{row.slug} on {row.build}" for row in scored if row.score.grade is Grade.WRONG],
        "wrong_as_proven": [f"{row.slug} on {row.build}" for row in rows if row.score.wrong_as_proven],
        "components": {"right": sum(known), "known": len(known)},
        "not_the_component": [
            f"{row.slug} on {row.build}" for row in scored if row.score.component_right is False
        ],
        "seconds": round(sum(row.seconds for row in rows), 1),
        "median_ratio": round(statistics.median(ratios), 2) if ratios else None,
        "worst_ratio": round(max(ratios), 2) if ratios else None,
        "torch_bisector": {
            "asked": len(asked),
            "right": sum(row.torch_right is True for row in asked),
            "seconds": round(sum(row.torch_s or 0.0 for row in asked), 1),
        }
        if asked
        else None,
    }


def exit_code(rows: Sequence[Row]) -> int:
    """1 for a wrong stage in a scored case, or one told as proven in any; "cannot tell" is only counted."""
    wrong = [row for row in rows if row.scored and row.score.grade is Grade.WRONG]
    return 1 if wrong or any(row.score.wrong_as_proven for row in rows) else 0


def torch_verdict(case: Case, build: str, answer: str) -> bool:
    """Whether torch's own answer is right, by the same measure as ours."""
    if case.fails(build) is False:
        return answer == "passes"
    return stage_matches(answer, case.stages_on(build) + case.also_on(build))


def measure(case: Case, python: str, build: str, options: Options) -> Row:
    """Bisect one case on one build."""
    found = run_bisect(
        python,
        case.command,
        args=case.args,
        env=case.env,
        timeout_s=options.timeout_s,
        workarounds=options.workarounds,
    )
    score = grade(case, build, found.findings)
    plain_s = None
    if options.plain:
        # A script that hangs costs its timeout; the same limit that the lab was given is the fair one.
        plain_s = run_plain(python, case.command, env=case.env, timeout_s=plain_limit(case.args)).seconds
    answer = seconds = right = None
    if options.torch_bisector:
        answer, ended = run_torch_bisector(
            python, case.command, env=case.env, timeout_s=options.bisector_timeout_s
        )
        seconds, right = ended.seconds, torch_verdict(case, build, answer)
    tail = found.ended.stderr.strip().splitlines()
    findings = found.findings or {}
    asked = workarounds.asked_of(case, build) if options.workarounds and findings else None
    return Row(
        slug=case.slug,
        build=build,
        scored=case.score,
        score=score,
        want=case.stages_on(build) if case.fails(build) is not False else ("passes",),
        probes=probes_of(findings),
        seconds=found.ended.seconds - (findings.get("seconds") or {}).get("workarounds", 0.0),
        plain_s=plain_s,
        exit_code=found.ended.code,
        torch_answer=answer,
        torch_right=right,
        torch_s=seconds,
        error=tail[-1][:200] if tail and found.findings is None else "",
        around=workarounds.row_of("golden", asked, build, findings) if asked is not None else None,
    )


def probes_of(findings: Mapping[str, Any]) -> int:
    """The runs of the bisection, without those that tried workarounds and known failures."""
    kinds: Mapping[str, int] = findings.get("probes_by_kind") or {}
    return int(findings.get("probes", 0)) - kinds.get("workarounds", 0) - kinds.get("known", 0)


def plain_limit(args: Sequence[str], default_s: float = 300.0) -> float:
    """The ``--timeout`` among a case's options, which is also the limit for its plain run."""
    for word, value in pairwise(args):
        if word == "--timeout":
            return float(value)
    return default_s


def line(row: Row) -> golden_table.Line:
    """The row's line in the committed table."""
    return golden_table.Line(
        case=row.slug,
        build=row.build,
        want="/".join(row.want),
        stage=row.score.answer or "-",
        # A component may be a path; where the checkout lies is nobody's business.
        component=(row.score.component or "-").replace(f"{REPROS.parent}/", ""),
        confidence=row.score.confidence or "-",
        probes=row.probes,
        ratio=golden_table.coarse(row.ratio),
    )


def keep(rows: Sequence[Row], options: Options) -> int:
    """Tell what changed against the committed table, and write it, as asked; 1 where a verdict changed."""
    lines = [line(row) for row in rows]
    code = 0
    if options.compare:
        changes = golden_table.compared(golden_table.read(options.table), lines)
        print(changes.text)
        code = int(bool(changes.verdicts))
    if options.save:
        save(lines, options)
    return code


def save(lines: Sequence[golden_table.Line], options: Options) -> None:
    """Put the lines into the table in place of those of the same case and build."""
    cases = {case.slug for case in load_cases(options.repros)}
    golden_table.write(options.table, golden_table.merged(golden_table.read(options.table), lines, cases))


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table; ``*`` marks a case that is not scored, ``+`` where torch's bisector is right."""
    told = f" ({row.score.confidence})" if row.score.confidence else ""
    mark = (" PROVEN WRONG" if row.score.wrong_as_proven else "") + ("" if row.scored else " *")
    torch = "" if row.torch_answer is None else f"{row.torch_answer or '?'} {'+' if row.torch_right else '-'}"
    return (
        row.slug,
        row.build,
        "/".join(row.want),
        row.score.answer + told,
        row.score.grade.value + mark,
        str(row.probes),
        f"{row.seconds:.0f}",
        f"{row.ratio:.1f}" if row.ratio is not None else "",
        torch,
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as fixed-width text."""
    head = ("case", "build", "want", "answer", "grade", "probes", "s", "x plain", "torch's")
    body = [cells(row) for row in rows]
    widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *body)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def collect(options: Options, tell: Callable[[Row], None] = lambda row: None) -> list[Row]:
    """Every chosen case on every build where somebody has run it; ``tell`` is called as each row is done."""
    cases = load_cases(options.repros, options.names)
    work: list[tuple[Case, str, str]] = []
    for python in options.pythons:
        build = build_of(python)
        known = [case for case in cases if case.fails(build) is not None]
        work += [(case, python, build) for case in known if not missing_modules(python, case.needs)]

    def one(item: tuple[Case, str, str]) -> Row:
        row = measure(*item, options)
        tell(row)
        return row

    if options.jobs == 1:
        return [one(item) for item in work]
    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(one, work))


def parse(argv: Sequence[str]) -> Options:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a case, or a part of the names of several")
    parser.add_argument("--python", action="append", default=[], help="an interpreter with torch; repeatable")
    parser.add_argument("--repros", type=Path, default=REPROS, help="where the cases lie (default: repros/)")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time; ratios are only fair with 1")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one bisection")
    parser.add_argument("--plain", action="store_true", help="time a plain run of each case as well")
    parser.add_argument("--torch-bisector", action="store_true", help="run torch's own bisector as well")
    parser.add_argument(
        "--workarounds", action="store_true", help="look for workarounds; save their rows too"
    )
    parser.add_argument("--bisector-timeout", type=float, default=420.0, help="seconds for torch's bisector")
    parser.add_argument("--save", action="store_true", help="update the table's rows; implies --plain")
    parser.add_argument("--compare", action="store_true", help="say what changed against the table")
    parser.add_argument("--table", type=Path, default=TABLE, help=f"the table ({TABLE.name} by default)")
    parser.add_argument("--json", type=Path, dest="output", help="write the rows and the summary here")
    given = parser.parse_args(argv)
    return Options(
        pythons=tuple(given.python or [sys.executable]),
        names=tuple(given.names),
        repros=given.repros,
        jobs=max(1, given.jobs),
        timeout_s=given.timeout,
        plain=given.plain or given.save,
        torch_bisector=given.torch_bisector,
        workarounds=given.workarounds,
        bisector_timeout_s=given.bisector_timeout,
        output=given.output,
        save=given.save,
        compare=given.compare,
        table=given.table,
    )


def main(argv: Sequence[str]) -> int:
    """Measure, print, write, and say by the exit code whether a stage was wrong."""
    options = parse(argv)
    saving = Lock()

    def tell(row: Row) -> None:
        text = f"{row.slug} on {row.build}: {row.score.grade} ({row.score.answer})"
        print(text, file=sys.stderr, flush=True)
        if options.save and not options.compare:  # a run that is stopped loses nothing
            with saving:
                save([line(row)], options)
                if row.around is not None:
                    workarounds.save(workarounds.TABLE, row.around)

    rows = collect(options, tell)
    summary = summarise(rows)
    print(table(rows))
    print(json.dumps(summary, indent=1))
    if options.output is not None:
        data = {"schema": "accel-lab/localize/1", "summary": summary, "rows": [row.to_json() for row in rows]}
        options.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return max(exit_code(rows), keep(rows, options))


if __name__ == "__main__":
    stop_when_asked()
    sys.exit(main(sys.argv[1:]))
