"""Golden cases: what repros/<slug>/expect.toml says, and how findings are graded against it.

Everything here but ``load_case`` is pure, so the grading itself is tested on made-up findings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from accel_lab.core.component_names import same_component

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
    ``change`` names the pieces of torch that the public fix changed, or what brought the failure where that
    is the flip, as ``file::function``; a file of C++ by its path in the public repository.
    ``cannot_tell`` is why no stage may be named, ``component_open`` why no component can be; else they are
    empty, and an answer is demanded. ``says`` are regular expressions that the summary or the advice must
    match on every build. ``on`` holds what is otherwise on one build.
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
    change: tuple[str, ...] = ()
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
    cannot_tell: str = ""
    component_open: str = ""
    says: tuple[str, ...] = ()
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

    def component_on(self, build: str) -> str | None:
        """The component at fault, where it is known; another bug on one build has another one, or none."""
        here = self.on.get(build, {})
        named: str | None = here.get("component", None if "stages" in here else self.component)
        return named

    def cannot_tell_on(self, build: str) -> str:
        """Why the lab may say that it cannot tell; empty where it must name a stage."""
        return str(self.on.get(build, {}).get("cannot_tell", self.cannot_tell))

    def component_open_on(self, build: str) -> str:
        """Why the component cannot be named; empty where it must be."""
        return str(self.on.get(build, {}).get("component_open", self.component_open))


@dataclass(frozen=True, kw_only=True)
class Score:
    """The grade of one bisection; ``wrong_as_proven`` must never be true.

    ``component_right`` is None where the case states no component, where the stage was not named rightly, and
    where the component is open and was not named.
    """

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
    for key in ("stages", "also", "change", "fails_on", "passes_on", "args", "run", "needs", "says"):
        if key in data:
            data[key] = tuple(data[key])
    case = Case(slug=folder.name, folder=folder, **data)
    problem = _problem(case)
    if problem:
        raise ValueError(f"{folder.name}/expect.toml: {problem}")
    return case


#: What a script does: it fails by a fault of the compiler's, passes, differs as it is meant to, or fails in a
#: part of torch that no rung reaches.
STATUSES = ("fails", "passes", "by_design", "outside")
#: What may be otherwise on one build.
ON_BUILD = frozenset({"stages", "also", "component", "cannot_tell", "component_open"})


def _problem(case: Case) -> str:
    """What is wrong with a case; empty if nothing is."""
    named = {*case.stages, *case.also}
    for build, other in case.on.items():
        if set(other) - ON_BUILD:
            return f"unknown keys {sorted(set(other) - ON_BUILD)} on {build}"
        if build not in case.fails_on:
            return f"says what is found on {build}, which is not among the builds that it fails on"
        named |= {*other.get("stages", ()), *other.get("also", ())}
        if "component_open" in other and case.component_on(build) is None:
            return f"a component is open on {build}, and none is stated"
    if named - STAGES:
        return f"no such stage: {sorted(named - STAGES)}"
    if case.status not in STATUSES:
        return f"status is {case.status!r}, want one of {', '.join(STATUSES)}"
    if set(case.fails_on) & set(case.passes_on):
        return "a build both fails and passes"
    if case.component_open and case.component is None:
        return "a component is open, and none is stated"
    reasons = [case.cannot_tell, case.component_open]
    reasons += [
        other[key] for other in case.on.values() for key in ("cannot_tell", "component_open") if key in other
    ]
    if not all(isinstance(reason, str) for reason in reasons):
        return "cannot_tell and component_open say why, in words"
    return ""


def load_cases(root: Path = REPROS, names: Sequence[str] = ()) -> list[Case]:
    """Every case under ``root``, or those with one of ``names``: a whole slug, or a part of several."""
    folders = sorted(path.parent for path in root.glob("*/expect.toml"))
    whole = {folder.name for folder in folders}

    def chosen(slug: str) -> bool:
        return not names or any(slug == name if name in whole else name in slug for name in names)

    return [load_case(folder) for folder in folders if chosen(folder.name)]


def cases_named(names: Sequence[str]) -> list[Case]:
    """The cases with these whole slugs; ends where one of them is none."""
    wanted = set(names)
    cases = [case for case in load_cases() if case.slug in wanted]
    if len(cases) != len(wanted):
        raise SystemExit(f"no such case: {', '.join(sorted(wanted - {case.slug for case in cases}))}")
    return cases


def grade(case: Case, build: str, findings: Mapping[str, Any] | None) -> Score:
    """Compare the findings (the object that ``accel-lab bisect --json`` prints) with the case."""
    if findings is None:
        return Score(grade=Grade.NO_ANSWER, reason="no findings were printed")
    score = _grade_verdict(case, build, findings)
    unsaid = [pattern for pattern in case.says if not re.search(pattern, _words(findings))]
    if score.grade is Grade.RIGHT and unsaid:
        return replace(score, grade=Grade.WRONG, reason=f"does not say {', '.join(map(repr, unsaid))}")
    return score


def _words(findings: Mapping[str, Any]) -> str:
    """The sentences that a user reads first."""
    return "\n".join(map(str, [findings.get("summary", ""), *(findings.get("next_steps") or ())]))


def _grade_verdict(case: Case, build: str, findings: Mapping[str, Any]) -> Score:
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
    if case.status == "by_design":
        if verdict == "by_design":
            return score(Grade.RIGHT)
        if verdict == "inconclusive":
            return score(Grade.CANNOT_TELL)
        return score(Grade.WRONG, "the difference is by design")
    if case.status == "outside":
        if verdict == "inconclusive" and findings.get("outside"):
            return score(Grade.RIGHT)
        return score(Grade.WRONG, "no rung reaches what fails")
    if verdict == "by_design":
        return score(Grade.WRONG, "said to be by design")
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
    component = _component(culprits, stages)
    more: dict[str, Any] = {
        "component": component,
        "component_right": _component_right(case, build, component),
    }
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


def _component(culprits: Sequence[Mapping[str, Any]], stages: Sequence[str]) -> str | None:
    """The component of the first culprit in one of the case's own stages; else of the answer."""
    own = [c for c in culprits if stage_matches(str(c["stage"]), stages)]
    name = ((own or culprits)[0].get("component") or {}).get("name")
    return str(name) if name else None


def _component_right(case: Case, build: str, name: str | None) -> bool | None:
    """Whether the named component is the case's; see :class:`Score` for None."""
    wanted = case.component_on(build)
    if wanted is None:
        return None
    right = name is not None and same_component(wanted, name)
    return right or (None if case.component_open_on(build) else False)
