"""Golden cases: what repros/<slug>/expect.toml says, and how findings are graded against it.

Everything here but ``load_case`` is pure, so the grading itself is tested on made-up findings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    try:
        import tomli as tomllib
    except ImportError as error:  # pragma: no cover - depends on the interpreter
        raise SystemExit("expect.toml needs Python 3.11, or tomli on 3.10: pip install tomli") from error

ROOT = Path(__file__).resolve().parent.parent
REPROS = ROOT / "repros"

#: The stages that ``kernel`` stands for when the kernel stage could not be split.
KERNEL_PARTS = frozenset({"lowering", "scheduler", "codegen", "runtime"})
STAGES = KERNEL_PARTS | {
    "kernel",
    "eager",
    "dynamo",
    "aot_autograd",
    "meta_kernel",
    "partitioner",
    "decomposition",
    "fx_passes",
    "environment",
}


class Grade(str, Enum):
    """What an answer is worth.

    COARSE: ``kernel`` where one of its parts is the truth: right, not fine enough.
    PARTIAL: a true fault, but not every fault that the script has.
    """

    RIGHT = "right"
    COARSE = "coarse"
    PARTIAL = "partial"
    WRONG = "wrong"
    CANNOT_TELL = "cannot tell"
    NO_ANSWER = "no answer"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Case:
    """One folder of repros/. ``run`` is what follows the options: a script, or ``-m module args``.

    ``needs`` are modules that the probed interpreter must have; where it lacks one, the case is not run.
    """

    slug: str
    folder: Path
    title: str
    symptom: str
    status: str
    stages: tuple[str, ...]
    issue: int | None = None
    also: tuple[str, ...] = ()
    component: str | None = None
    fails_on: tuple[str, ...] = ()
    passes_on: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    run: tuple[str, ...] = ("repro.py",)
    env: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    score: bool = True
    core: bool = False
    exact: bool = False
    flaky: bool = False
    note: str = ""
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """``run`` with the case's own files as absolute paths."""
        return [str(self.folder / word) if (self.folder / word).is_file() else word for word in self.run]

    def fails(self, build: str) -> bool | None:
        """Whether the case fails on a build of torch; None where nobody has run it."""
        if build in self.fails_on:
            return True
        return False if build in self.passes_on else None

    def stages_on(self, build: str) -> tuple[str, ...]:
        """The acceptable stages; a build can have its own (``[on."2.13.0"]``): another bug, one exit code."""
        return tuple(self.on.get(build, {}).get("stages", self.stages))

    def also_on(self, build: str) -> tuple[str, ...]:
        """The stages of further, independent faults that must be named as well."""
        return tuple(self.on.get(build, {}).get("also", self.also))


@dataclass(frozen=True, kw_only=True)
class Score:
    """The grade of one bisection; ``wrong_as_proven`` must never be true."""

    grade: Grade
    answer: str = ""
    confidence: str = ""
    wrong_as_proven: bool = False
    component: str | None = None
    component_right: bool | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "grade": self.grade.value}


def release(version: str) -> str:
    """``2.13.0+cpu`` is release 2.13.0."""
    return version.split("+")[0].strip()


def load_case(folder: Path) -> Case:
    """Read ``expect.toml``; a key that nobody knows, or a stage that is none, is an error."""
    data = tomllib.loads((folder / "expect.toml").read_text(encoding="utf-8"))
    unknown = set(data) - {f for f in Case.__dataclass_fields__ if f not in ("slug", "folder")}
    if unknown:
        raise ValueError(f"{folder.name}/expect.toml: unknown keys {sorted(unknown)}")
    for key in ("stages", "also", "fails_on", "passes_on", "args", "run", "needs"):
        if key in data:
            data[key] = tuple(data[key])
    case = Case(slug=folder.name, folder=folder, **data)
    named = set(case.stages) | set(case.also)
    for override in case.on.values():
        named |= set(override.get("stages", ())) | set(override.get("also", ()))
    if not named <= STAGES:
        raise ValueError(f"{folder.name}/expect.toml: no such stage: {sorted(named - STAGES)}")
    if case.status not in ("fails", "passes", "outside"):
        raise ValueError(
            f"{folder.name}/expect.toml: status is {case.status!r}: want fails, passes or outside"
        )
    if set(case.fails_on) & set(case.passes_on):
        raise ValueError(f"{folder.name}/expect.toml: a build both fails and passes")
    return case


def load_cases(root: Path = REPROS, names: Sequence[str] = ()) -> list[Case]:
    """Every case under ``root``, or those with one of ``names``: a whole slug, or a part of several."""
    folders = sorted(path.parent for path in root.glob("*/expect.toml"))
    whole = {folder.name for folder in folders}

    def chosen(slug: str) -> bool:
        return not names or any(slug == name if name in whole else name in slug for name in names)

    return [load_case(folder) for folder in folders if chosen(folder.name)]


def grade(case: Case, build: str, findings: Mapping[str, Any] | None) -> Score:
    """Compare the findings (the object that ``accel-lab bisect --json`` prints) with the case."""
    if findings is None:
        return Score(grade=Grade.NO_ANSWER, reason="no findings were printed")
    expected = case.fails(build)
    if expected is None:
        expected = case.status != "passes"
    verdict = findings.get("verdict")
    culprits = _culprits(findings)
    stages, also = case.stages_on(build), case.also_on(build)
    proven = [c["stage"] for c in culprits if c.get("confidence") == "proven"]
    allowed = (stages + also) if expected else ()
    wrong_as_proven = any(not stage_matches(stage, allowed) for stage in proven)
    answer = str(culprits[0]["stage"]) if culprits else str(verdict)
    confidence = str(culprits[0].get("confidence", "")) if culprits else ""

    def score(value: Grade, reason: str = "", **more: Any) -> Score:
        return Score(
            grade=value,
            answer=answer,
            confidence=confidence,
            wrong_as_proven=wrong_as_proven,
            reason=reason,
            **more,
        )

    if not expected:
        if verdict == "passes" and not culprits:
            return score(Grade.RIGHT)
        if verdict == "inconclusive":
            return score(Grade.CANNOT_TELL, "the script does not fail")
        return score(Grade.WRONG, "a culprit was named, and the script does not fail")
    if case.status == "outside":
        # No stage is the answer: what fails is not compiled by torch.compile, and that is what must be said.
        if findings.get("outside") and verdict == "inconclusive" and not culprits:
            return score(Grade.RIGHT)
        return score(Grade.WRONG, "want: outside the ladder")
    if verdict == "passes":
        # A flaky script can pass every run of the baseline; that is bad luck, not a wrong stage.
        if case.flaky:
            return score(Grade.CANNOT_TELL, "no run of the baseline failed")
        return score(Grade.WRONG, "said not to fail")
    if verdict == "inconclusive" or not culprits or confidence == "inconclusive":
        return score(Grade.CANNOT_TELL)
    named = [str(c["stage"]) for c in culprits]
    if not stage_matches(named[0], stages + also):
        return score(Grade.WRONG, f"want {' or '.join(stages)}")
    component = (culprits[0].get("component") or {}).get("name")
    more: dict[str, Any] = {"component": component, "component_right": _same_component(case, component)}
    wanted = (stages, *((stage,) for stage in also))
    missing = ["/".join(group) for group in wanted if not any(stage_matches(n, group) for n in named)]
    if missing:
        return score(Grade.PARTIAL, f"did not name {', '.join(missing)}", **more)
    if named[0] not in stages + also and named[0] == "kernel":
        return score(Grade.COARSE, f"want {' or '.join(stages)}", **more)
    return score(Grade.RIGHT, **more)


def stage_matches(answer: str, allowed: Iterable[str]) -> bool:
    """Whether a stage is among the acceptable ones; ``kernel`` and its parts stand for one another."""
    allowed = set(allowed)
    if answer in allowed:
        return True
    if answer == "kernel":
        return bool(allowed & KERNEL_PARTS)
    return answer in KERNEL_PARTS and "kernel" in allowed


def _culprits(findings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All culprits that name a stage, the answer first."""
    rows = list(findings.get("culprits") or ())
    if not rows and findings.get("culprit"):
        rows = [findings["culprit"]]
    return [row for row in rows if row and row.get("stage")]


def _same_component(case: Case, name: str | None) -> bool | None:
    """Whether the named component is the case's; None where either is unknown."""
    if case.component is None or not name:
        return None
    wanted, got = _word(case.component), _word(name)
    return wanted in got or got in wanted


def _word(name: str) -> str:
    """``aten.avg_pool2d_backward.default`` and ``avg_pool2d_backward`` are the same operator."""
    name = re.sub(r"^(?:torch\.ops\.)?(?:aten\.)?", "", name.lower().replace("::", "."))
    return re.sub(r"\.(?:default|tensor|scalar|out|self)$", "", name)
