"""Localizes a fault within AOTAutograd or the partitioner: an operator, a setting, a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.stages import Stage
from accel_lab.core.text import shorten
from accel_lab.core.torch_settings import FUNCTORCH, OF_AOT, OF_PARTITIONER, Setting
from accel_lab.core.verdict import Verdict

from .localization import Candidate, Localization
from .question_budget import Questions, front_of


def localize(questions: Questions, stage: Stage, at: Step, raised_in: Component | None) -> Localization:
    """Localizes the fault; ``raised_in`` is the function that raised, from its frames."""
    result = Localization()
    operator = _operator(questions, result, raised_in)
    settings = _settings(questions, stage, operator, result)
    value = _value(questions, at, result)
    # Preference: the narrowest part that alone fixes it, then an exception's frames, then mere observations.
    candidates = [c for c in (operator, settings) if c is not None]
    sole = [c for c in candidates if c.passing_run is not None]
    seen = [Candidate(component=c) for c in (raised_in, value) if c is not None]
    result.take(next(iter([*sole, *seen[: raised_in is not None], *candidates, *seen]), None))
    if stage is Stage.AOT_AUTOGRAD and _of_partitioner(settings):
        result.stage = Stage.PARTITIONER
        result.evidence.append(Evidence.of(EvidenceKind.PARTITIONER_SETTING))
    return result


def _of_partitioner(setting: Candidate | None) -> bool:
    return (
        setting is not None
        and setting.passing_run is not None
        and setting.component.name.split("=", 1)[0] in {one.key for one in OF_PARTITIONER}
    )


def _operator(questions: Questions, result: Localization, raised_in: Component | None) -> Candidate | None:
    """Returns the operator of the captured graph whose run outside AOTAutograd fixes the failure."""
    control = questions.one({"look": True, "outside": []})
    if control is None or control.verdict is not Verdict.BAD:
        return None  # compiled in parts on real inputs, it does not show the same failure
    units: list[dict[str, Any]] = front_of(control).get("units") or []
    units = [u for n, u in enumerate(units) if u["key"] not in {v["key"] for v in units[:n]}]
    if not units:
        return None
    by_key = {unit["key"]: unit for unit in units}
    fixes = questions.single_fixes("outside", list(by_key))
    rows = [(u["target"], u["line"], "passes" * (u["key"] in fixes)) for u in units]
    result.exhibits.append(
        Exhibit(
            kind="operators",
            title="Operators of the captured graphs, each run outside of AOTAutograd",
            rows=(("operator", "line", "with it outside"), *rows[:60]),
        )
    )
    if not fixes or (len(units) == 1 and _is_block(units[0])):
        return None  # leaving out everything says no more than the ladder does
    chosen = [by_key[key] for key in fixes]
    names = list(dict.fromkeys(unit["target"] for unit in chosen))
    lines = list(dict.fromkeys(unit["line"] for unit in chosen))
    kept = [key for key in by_key if key not in fixes]
    alone = questions.one({"outside": kept}) if kept else control
    enough = alone is not None and alone.verdict is Verdict.BAD
    sure = len(fixes) == 1 or (len(names) == 1 and enough)
    result.evidence.append(
        Evidence.of(EvidenceKind.OPERATOR_OUTSIDE_AOT, operators=names, others_fail=enough and bool(kept))
    )
    detail = "; ".join([*lines, *([f"raised in {raised_in.name}, {raised_in.detail}"] if raised_in else [])])
    component = Component(
        kind="block" if any(map(_is_block, chosen)) else "op",
        name=shorten(", ".join(names), 120),
        detail=shorten(detail, 300),
    )
    return Candidate(component=component, passing_run=next(iter(fixes.values())) if sure else None)


def _is_block(unit: Mapping[str, Any]) -> bool:
    """Whether the unit is several inseparable operators, such as those under one mode."""
    return int(unit.get("operators", 1)) > 1


def _settings(
    questions: Questions, stage: Stage, operator: Candidate | None, result: Localization
) -> Candidate | None:
    """Returns a setting that fixes the failure; if an operator does, only one setting of each kind is run."""
    tried: tuple[Setting, ...]
    if stage is Stage.PARTITIONER:
        tried = OF_PARTITIONER
    elif operator is not None and operator.passing_run is not None:
        tried = (OF_PARTITIONER[0], OF_AOT[0])
    else:
        tried = (OF_PARTITIONER[0], *OF_AOT)
    steps = questions.ask([{"functorch": {one.key: one.value}} for one in tried])
    passing = [
        (setting, step) for setting, step in zip(tried, steps, strict=False) if step.verdict is Verdict.GOOD
    ]
    if not passing:
        return None
    names = [setting.words for setting, _ in passing]
    result.evidence.append(Evidence.of(EvidenceKind.SETTING_FIXES, namespace=FUNCTORCH, settings=names))
    component = Component(
        kind="setting",
        name=shorten(", ".join(names), 120),
        detail=FUNCTORCH,
        cure=passing[0][0].code,
    )
    return Candidate(component=component, passing_run=passing[0][1] if len(passing) == 1 else None)


_PHASES: Mapping[str, tuple[str, str]] = {
    "output": ("output", "{path}"),
    "grad": ("gradient", "{path}"),
    "parameter_grad": ("gradient", "{path}"),
    "leaf_grad": ("gradient", "{path}"),
    "input_grad": ("gradient", "{path}"),
    "mutated_input": ("mutation", "write to {path}"),
    "buffer": ("mutation", "buffer {path}"),
    "parameter": ("mutation", "parameter {path}"),
}


def _value(questions: Questions, at: Step, result: Localization) -> Component | None:
    """Returns the first output, gradient or mutated input that differs."""
    runner = questions.runner
    if runner.baseline.uncompiled is None:
        return None
    wrong = runner.lab.differences(at.outcome, runner.baseline.uncompiled, runner.baseline.reference)
    seen: Sequence[Any] = [d for d in wrong if d.phase in _PHASES]
    if not seen:
        return None
    first = seen[0]
    kind, words = _PHASES[first.phase]
    forward = any(d.phase in ("output", "mutated_input") for d in seen)
    result.evidence.append(
        Evidence.of(
            EvidenceKind.VALUE_OF_GRAPH,
            name=first.name,
            call=first.call,
            phase=first.phase,
            path=first.path,
            how=first.comparison.detail or first.comparison.reason,
            forward=forward,
        )
    )
    rows = [(d.phase, d.path, d.line) for d in seen]
    result.exhibits.append(
        Exhibit(
            kind="values",
            title="Values that differ between compiled and uncompiled",
            rows=(("phase", "value", "how"), *rows[:30]),
        )
    )
    return Component(kind=kind, name=words.format(path=first.path), detail=shorten(first.line, 300))
