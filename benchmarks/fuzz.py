"""Fuzz the truth: put known faults into generated surroundings, bisect them there, and score the answers.

    python benchmarks/fuzz.py [--python PATH] [--cases NAME ...] [--surroundings NAME ...] [--most N]

A script counts only if, plainly run, it still fails in the same way as its golden case does, with and without
torch.compile; a silent one if it ends well and the case's own comparison of values fails. Exit code 1 for an
answer that is wrong as proven, or more than one in twenty wrong at all.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from golden import Case, Grade, Score, grade, load_cases, release
from harness import (
    ProcessExit,
    build_of,
    missing_modules,
    run_bisect,
    run_plain,
    stop_when_asked,
    torch_version,
)
from surroundings import SILENT, SURROUNDINGS, NotSimpleError, surround

#: Cases whose plain run takes longer than this are not worth a place in a sample.
PLAIN_S = 120.0
#: So many seeds are tried for one case in one of the surroundings until one still fails in the same way.
TRIES = 2
MOST_WRONG = 1 / 20


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a plain run ended, without what differs from run to run or from place to place."""

    code: int | None
    error: str

    @classmethod
    def of(cls, ended: ProcessExit) -> Ending:
        return cls(code=ended.code, error=error_of(ended.stderr) if ended.code else "")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case in one of the surroundings; ``dropped`` says why there is no score."""

    case: str
    surrounding: str
    seed: int
    build: str
    dropped: str = ""
    score: Score | None = None
    probes: int = 0
    seconds: float = 0.0

    @property
    def told(self) -> str:
        """The answer or the reason for none, in a few words."""
        if self.score is None:
            return f"dropped, {self.dropped}"
        return f"{self.score.grade} ({self.score.answer} {self.score.confidence})"

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "score": self.score.to_json() if self.score else None}


@dataclass(kw_only=True)
class Bench:
    """The interpreters and folders of one session; plain runs of the unchanged cases are kept."""

    python: str
    build: str
    healthy: str = ""
    healthy_build: str = ""
    timeout_s: float = 900.0
    keep: Path | None = None
    known: dict[tuple[str, str, bool], Ending] = field(default_factory=dict)

    def plain(self, case: Case, script: Path, *, eager: bool, python: str = "") -> Ending:
        """How a script ends for its user, or with nothing compiled."""
        env = {**case.env, "TORCHDYNAMO_DISABLE": "1"} if eager else case.env
        return Ending.of(run_plain(python or self.python, [str(script)], env=env, timeout_s=PLAIN_S))

    def original(self, case: Case, *, eager: bool) -> Ending:
        key = (case.slug, self.python, eager)
        if key not in self.known:
            self.known[key] = self.plain(case, case.folder / "repro.py", eager=eager)
        return self.known[key]

    def differs(self, case: Case, script: Path, surrounding: str) -> str:
        """Why the script does not show the case's fault; empty if it does, as far as plain runs tell."""
        want = self.original(case, eager=False)
        if surrounding == SILENT:
            if not re.match(r"AssertionError: (?:Tensor-likes|Scalars) are not", want.error):
                return "the case does not fail by a comparison of values"
            want = Ending(code=0, error="")
        ending = self.plain(case, script, eager=False)
        if ending.code is None:
            return "is not done in time"
        if ending != want:
            return "fails otherwise, or not at all"
        if self.plain(case, script, eager=True) != self.original(case, eager=True):
            return "ends otherwise with nothing compiled"
        if not self.healthy or case.fails(self.healthy_build) is not False:
            return ""
        mended = self.plain(case, script, eager=False, python=self.healthy).code == 0
        return "" if mended else "fails where the fault is mended"


def error_of(stderr: str) -> str:
    """The type and first line of the last exception that was printed, without numbers and names of graphs."""
    after = stderr.rpartition("Traceback (most recent call last):")[2]
    line = next((line for line in after.splitlines() if re.match(r"[A-Za-z_][\w.]*(?::|$)", line)), "")
    return re.sub(r"0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?|'[^']*'", "N", line)[:200]


def work(cases: Iterable[Case], names: Sequence[str], seed: int) -> list[tuple[Case, str]]:
    """The pairs to try, in a seeded order in which each case comes once before any comes again."""
    rng = random.Random(seed)
    chosen = list(cases)
    rng.shuffle(chosen)
    turns = [rng.sample(list(names), len(names)) for _ in chosen]
    return [(case, turn[n]) for n in range(len(names)) for case, turn in zip(chosen, turns, strict=True)]


def simple(case: Case, build: str) -> str:
    """Why a case is not taken; empty if it is."""
    if case.run != ("repro.py",) or not case.score or case.flaky:
        return "not a plain script with a known truth"
    if case.fails(build) is not True:
        return f"does not fail on {build}"
    if "--timeout" in case.args:
        return "hangs"
    try:
        for surrounding in ("regions", "no_grad"):
            surround((case.folder / "repro.py").read_text(encoding="utf-8"), surrounding, 0)
    except NotSimpleError as error:
        return str(error)
    return ""


def one(bench: Bench, case: Case, surrounding: str, seed: int) -> Row:
    """Make the script, see that it still fails in the same way, bisect it and grade the answer."""
    row = Row(case=case.slug, surrounding=surrounding, seed=seed, build=bench.build)
    ending = bench.original(case, eager=False)
    if ending.code in (0, None):
        why = "ends well: its fault is silent" if ending.code == 0 else "is not done in time"
        return replace(row, dropped=f"the case itself {why}")
    folder = Path(tempfile.mkdtemp(prefix="accel-lab-fuzz-"))
    source = (case.folder / "repro.py").read_text(encoding="utf-8")
    why = ""
    try:
        for attempt in range(TRIES):
            script = folder / f"{case.slug}_{surrounding}_{seed + attempt}.py"
            try:
                text = surround(source, surrounding, seed + attempt)
            except NotSimpleError as error:
                why = str(error)
                break
            script.write_text(text, encoding="utf-8")
            why = bench.differs(case, script, surrounding)
            if not why:
                return scored(bench, case, script, replace(row, seed=seed + attempt))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(row, dropped=why)


def scored(bench: Bench, case: Case, script: Path, row: Row) -> Row:
    """The row with the grade of a bisection; the script and what the run left are kept where asked."""
    out = None
    if bench.keep is not None:
        bench.keep.mkdir(parents=True, exist_ok=True)
        shutil.copy(script, bench.keep / script.name)
        out = str(bench.keep / script.stem)
    found = run_bisect(
        bench.python, [str(script)], args=case.args, env=case.env, timeout_s=bench.timeout_s, out=out
    )
    return replace(
        row,
        score=grade(case, bench.build, found.findings),
        probes=int((found.findings or {}).get("probes", 0)),
        seconds=round(found.ended.seconds, 1),
    )


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Counts of grades, of components, and of what was dropped and why."""
    kept = [row for row in rows if row.score is not None]
    scores = [row.score for row in rows if row.score is not None]
    known = [s.component_right for s in scores if s.component_right is not None and s.grade is Grade.RIGHT]
    return {
        "scripts": len(kept),
        "grades": dict(Counter(score.grade.value for score in scores)),
        "wrong": [_name(row) for row in kept if row.score and row.score.grade is Grade.WRONG],
        "wrong_as_proven": [_name(row) for row in kept if row.score and row.score.wrong_as_proven],
        "components": {"right": sum(known), "known": len(known)},
        "dropped": dict(Counter(f"{row.surrounding}: {row.dropped}" for row in rows if row.dropped)),
    }


def exit_code(rows: Sequence[Row]) -> int:
    """1 for an answer that is wrong as proven, and for more than one in twenty that are wrong or missing."""
    scores = [row.score for row in rows if row.score is not None]
    wrong = sum(score.grade in (Grade.WRONG, Grade.NO_ANSWER) for score in scores)
    return int(any(score.wrong_as_proven for score in scores) or wrong > MOST_WRONG * len(scores))


def table(rows: Sequence[Row]) -> str:
    """One line for each script that was bisected."""
    lines = []
    for row in rows:
        if row.score is None:
            continue
        score = row.score
        part = {True: "", False: " NOT THE COMPONENT", None: ""}[score.component_right]
        lines.append(
            f"{score.grade.value:11s} {row.case:34s} {row.surrounding:8s} {row.seed:5d} {score.answer:14s} "
            f"{score.confidence:12s} {row.probes:3d} probes  {score.component or '-'}{part}"
            + (" WRONG AS PROVEN" if score.wrong_as_proven else "")
        )
    return "\n".join(lines)


def _name(row: Row) -> str:
    return f"{row.case} in {row.surrounding} {row.seed} on {row.build}"


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter to probe")
    parser.add_argument("--healthy", default="", help="another one, where mended cases must pass as well")
    parser.add_argument("--cases", nargs="*", default=[], metavar="NAME", help="cases, or parts of names")
    parser.add_argument("--surroundings", nargs="*", default=list(SURROUNDINGS), choices=list(SURROUNDINGS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=0, help="bisect so many scripts at most; 0 is all")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one bisection")
    parser.add_argument("--save", type=Path, help="write the rows here as JSON, as they come")
    parser.add_argument("--keep", type=Path, help="keep the scripts and what the bisections leave here")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Make, check, bisect and grade; print the table and the counts."""
    given = parse(argv)
    build = build_of(given.python)
    bench = Bench(
        python=given.python,
        build=build,
        healthy=given.healthy,
        healthy_build=release(torch_version(given.healthy)) if given.healthy else "",
        timeout_s=given.timeout,
        keep=given.keep,
    )
    cases = [case for case in load_cases(names=given.cases) if not simple(case, build)]
    cases = [case for case in cases if not missing_modules(given.python, case.needs)]
    rows: list[Row] = []
    for case, surrounding in work(cases, given.surroundings, given.seed):
        if given.most and sum(row.score is not None for row in rows) >= given.most:
            break
        row = one(bench, case, surrounding, given.seed * 100)
        rows.append(row)
        print(f"{_name(row)}: {row.told}", file=sys.stderr, flush=True)
        if given.save is not None:
            data = {
                "schema": "accel-lab/fuzz/1",
                "summary": summarise(rows),
                "rows": [row.to_json() for row in rows],
            }
            given.save.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(table(rows))
    print(json.dumps(summarise(rows), indent=1))
    return exit_code(rows)


if __name__ == "__main__":
    stop_when_asked()
    sys.exit(main(sys.argv[1:]))
