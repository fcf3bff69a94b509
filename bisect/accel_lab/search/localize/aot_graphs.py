"""Names what AOTAutograd or the partitioner got wrong: the operator, a setting, the value that is off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.stages import Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .localization import Candidate, Localization
from .question_budget import Questions, front_of, setting_code, setting_words

#: Settings of AOTAutograd, then those that only the partitioner reads; ``flip`` is the other truth value.
_AOT_SETTINGS: tuple[tuple[str, Any], ...] = (
    ("backward_pass_autocast", "off"),
    ("view_replay_for_aliased_outputs", "flip"),
    ("donated_buffer", "flip"),
    ("guess_tangent_strides_as_outputs", "flip"),
    ("cse", False),
    ("functionalize_rng_ops", "flip"),
)
_PARTITION_SETTINGS: tuple[tuple[str, Any], ...] = (
    ("activation_memory_budget", 1.0),
    ("treat_parameters_as_free_to_save", False),
    ("recompute_views", "flip"),
    ("aggressive_recomputation", "flip"),
    ("ban_recompute_not_in_allowlist", "flip"),
    ("ban_recompute_reductions", "flip"),
    ("ban_recompute_materialized_backward", "flip"),
)


def localize(questions: Questions, stage: Stage, at: Step, raised_in: Component | None) -> Localization:
    """``told`` is what the frames of an exception say."""
    result = Localization()
    operator = _operator(questions, result, raised_in)
    settings = _settings(questions, stage, operator, result)
    value = _value(questions, at, result)
    # The narrowest part that alone cures first; then what an exception's frames say; then what is only seen.
    candidates = [c for c in (operator, settings) if c is not None]
    sole = [c for c in candidates if c.passing_run is not None]
    seen = [Candidate(component=c) for c in (raised_in, value) if c is not None]
    result.take(next(iter([*sole, *seen[: raised_in is not None], *candidates, *seen]), None))
    if stage is Stage.AOT_AUTOGRAD and _of_partitioner(settings):
        result.stage = Stage.PARTITIONER
        result.evidence.append("only the partitioner reads that setting")
    return result


def _of_partitioner(setting: Candidate | None) -> bool:
    return (
        setting is not None
        and setting.passing_run is not None
        and setting.component.name.split("=", 1)[0] in dict(_PARTITION_SETTINGS)
    )


def _operator(questions: Questions, result: Localization, raised_in: Component | None) -> Candidate | None:
    """The operator of the captured graph that must go through AOTAutograd for the failure."""
    control = questions.one({"look": True, "outside": []})
    if control is None or control.verdict is not Verdict.BAD:
        return None  # compiled in parts on real inputs it is another failure, or none
    units: list[dict[str, Any]] = front_of(control).get("units") or []
    units = [u for n, u in enumerate(units) if u["key"] not in {v["key"] for v in units[:n]}]
    if not units:
        return None
    by_key = {unit["key"]: unit for unit in units}
    fixes = questions.single_fixes("outside", list(by_key))
    rows = [(u["target"], u["line"], "cures" * (u["key"] in fixes)) for u in units]
    result.exhibits.append(
        Exhibit(
            kind="operators",
            title="Operators of the captured graphs, each run outside of AOTAutograd",
            rows=(("operator", "line", "left outside"), *rows[:60]),
        )
    )
    if not fixes or (len(units) == 1 and _is_block(units[0])):
        return None  # to leave out all there is says no more than the ladder does
    chosen = [by_key[key] for key in fixes]
    names = list(dict.fromkeys(unit["target"] for unit in chosen))
    lines = list(dict.fromkeys(unit["line"] for unit in chosen))
    kept = [key for key in by_key if key not in fixes]
    alone = questions.one({"outside": kept}) if kept else control
    enough = alone is not None and alone.verdict is Verdict.BAD
    sure = len(fixes) == 1 or (len(names) == 1 and enough)
    what = names[0] if len(names) == 1 else "any one of " + ", ".join(names)
    result.evidence.append(
        f"with only {what} run outside of AOTAutograd it passes"
        + ("; with all others outside it still fails" if enough and kept else "")
    )
    detail = "; ".join([*lines, *([f"raised in {raised_in.name}, {raised_in.detail}"] if raised_in else [])])
    component = Component(
        kind="block" if any(map(_is_block, chosen)) else "op",
        name=shorten(", ".join(names), 120),
        detail=shorten(detail, 300),
    )
    return Candidate(component=component, passing_run=next(iter(fixes.values())) if sure else None)


def _is_block(unit: Mapping[str, Any]) -> bool:
    """Whether it is several operators that cannot be parted, such as those under one mode."""
    return int(unit.get("operators", 1)) > 1


def _settings(
    questions: Questions, stage: Stage, operator: Candidate | None, result: Localization
) -> Candidate | None:
    """A single setting that cures it; where one operator does only the first of each kind are asked."""
    tried: tuple[tuple[str, Any], ...]
    if stage is Stage.PARTITIONER:
        tried = _PARTITION_SETTINGS
    elif operator is not None and operator.passing_run is not None:
        tried = (_PARTITION_SETTINGS[0], _AOT_SETTINGS[0])
    else:
        tried = (_PARTITION_SETTINGS[0], *_AOT_SETTINGS)
    steps = questions.ask([{"functorch": {key: value}} for key, value in tried])
    passing = [
        (setting, step) for setting, step in zip(tried, steps, strict=False) if step.verdict is Verdict.GOOD
    ]
    if not passing:
        return None
    names = [setting_words(*setting) for setting, _ in passing]
    result.evidence.append(f"with only torch._functorch.config.{' or '.join(names)} it passes")
    component = Component(
        kind="setting",
        name=shorten(", ".join(names), 120),
        detail="torch._functorch.config",
        cure=setting_code("torch._functorch.config", *passing[0][0]),
    )
    return Candidate(component=component, passing_run=passing[0][1] if len(passing) == 1 else None)


_PHASES: Mapping[str, tuple[str, str]] = {
    "output": ("output", "{path}"),
    "grad": ("gradient", "{path}"),
    "leaf_grad": ("gradient", "{path}"),
    "input_grad": ("gradient", "{path}"),
    "mutated_input": ("mutation", "write to {path}"),
    "buffer": ("mutation", "buffer {path}"),
    "parameter": ("mutation", "parameter {path}"),
}


def _value(questions: Questions, at: Step, result: Localization) -> Component | None:
    """The first output, gradient or written input that differs, and the direction that makes it."""
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
    direction = "the forward graph" if forward else "the backward graph (all outputs agree)"
    result.evidence.append(f"{first.line}: made by {direction}")
    rows = [(d.phase, d.path, d.line) for d in seen]
    result.exhibits.append(
        Exhibit(kind="values", title="Values that differ", rows=(("phase", "value", "how"), *rows[:30]))
    )
    return Component(kind=kind, name=words.format(path=first.path), detail=shorten(first.line, 300))
