"""``accel-lab diff``: compares what a script's compiled regions compute in two ways, value by value."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.job import Question, SingleRun, require_run, run_each
from accel_lab.cli.options import ProgramCommand, program_options
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.judge import signature_of
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.stages import LADDER, Rung
from accel_lab.numerics import recording
from accel_lab.numerics.depth import Depth, Operator
from accel_lab.numerics.pairs import Pair, arrays, by_error, differing, pairs
from accel_lab.numerics.recording import Recording
from accel_lab.numerics.tolerances import ComparisonConfig
from accel_lab.search.accelerator.replacements import Replacement, switches
from accel_lab.search.localize.divergence import AS_IS, KEPT, Compared

SCHEMA = "accel-lab/diff/1"
#: Most tensors with a picture; those that differ come first.
MOST_PICTURES = 6
FLOAT64 = "fp64"
#: Common names of rungs.
_NAMES = {"eager": Rung.UNCOMPILED, "inductor": Rung.KERNEL, "mock": Rung.MOCK}
_WAYS = [*_NAMES, *(rung.value for rung in LADDER if rung not in (Rung.UNCOMPILED, Rung.KERNEL))]


@click.command(name="diff", cls=ProgramCommand)
@program_options
@click.option(
    "--reference",
    type=click.Choice([FLOAT64, *_WAYS]),
    default="eager",
    show_default=True,
    help="The run to measure against.",
)
@click.option(
    "--test",
    type=click.Choice(_WAYS),
    default="inductor",
    show_default=True,
    help="The run that is measured.",
)
@click.option("--runs", type=click.IntRange(1, 100), default=1, show_default=True, help="Runs of --test.")
@click.option("--signed-zero", is_flag=True, help="Count -0.0 against 0.0 as a difference.")
@click.option("--pictures/--no-pictures", default=True, help="Draw the errors.")
@click.option(
    "--layers/--no-layers",
    default=None,
    help="Compare inductor operator by operator with float64, which costs one or two more runs. "
    "[default: where values differ]",
)
@click.option("--out", type=click.Path(file_okay=False), help="Where to make the run's folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(
    reference: str,
    test: str,
    runs: int,
    signed_zero: bool,
    pictures: bool,
    layers: bool | None,
    out: str | None,
    as_json: bool,
    **words: Any,
) -> int:
    """Run SCRIPT twice and compare the values of its compiled regions.

    The outputs, gradients, buffers and parameters of every region of the unmodified script are compared. With
    eager or fp64 as the reference, a float64 run of the same operators decides what counts as a difference.

    Exit codes: 0 all values agree, 1 some differ, 2 wrong usage, 3 the lab could not do it.
    """
    if reference == test:
        raise UsageError(f"--reference and --test are both {test}: there is nothing to compare")
    if layers and test != "inductor":
        raise UsageError(f"--layers looks into the kernels of inductor, and --test is {test}")
    against = _question(reference)
    tested = [_question(test, attempt) for attempt in range(runs)]
    looking = _Comparison(
        names=(reference, *[test] * runs),
        config=ComparisonConfig(signed_zero=signed_zero),
        layers=layers if layers is not None else None if test == "inductor" else False,
    )
    ran = run_each(
        [against, *tested], command="diff", next_questions=looking.next_questions, out=out, **words
    )
    diff = _answer(looking.found, ran[: runs + 1], reference, test)
    deep = looking.depth(ran)
    diff["layers"] = None if deep is None else deep.to_json()
    diff["failures"] += looking.unseen(ran)
    folder = ran[0].workspace.root
    _write(diff, looking.pictures(deep) if pictures else [], folder)
    _show(diff, folder, as_json=as_json)
    return int(diff["summary"]["differ"] > 0)


class _Comparison:
    """The recorded values of the runs, and the decision whether to compare operator by operator.

    ``names`` are the runs' names, the reference first. ``layers`` of None means: only if a value differs.
    """

    def __init__(self, *, names: tuple[str, ...], config: ComparisonConfig, layers: bool | None) -> None:
        self._names = names
        self._config = config
        self._layers = layers
        self._recordings: list[Recording] = []
        self.found: list[Pair] = []

    def next_questions(self, ran: list[SingleRun]) -> list[Question]:
        """Compares the values, then asks for all intermediate values, then for those between fused kernels.

        The last run is made only if materialized intermediates agree but the outputs do not.
        """
        count = len(self._names)
        if len(ran) == count:
            both = zip(ran, self._names, strict=True)
            self._recordings = [_recording(once, name) for once, name in both]
            want, *got = self._recordings
            self.found = pairs(
                got[0], want, self._config, against_float64=self._names[0] == FLOAT64, more=got[1:]
            )
            wanted = any(differing(self.found)) if self._layers is None else self._layers
            return [Question(rung=Rung.KERNEL, switches=KEPT)] if wanted else []
        look = ran[-1].outcome
        if len(ran) > count + 1 or not look.was_run:
            return []
        if Compared.of(look).first is None and any(differing(self.found)):
            return [Question(rung=Rung.KERNEL, switches=AS_IS)]
        return []

    def depth(self, ran: list[SingleRun]) -> Depth | None:
        """Returns the comparison operator by operator, or None if none was made."""
        looks = [Compared.of(once.outcome) for once in ran[len(self._names) :]]
        shown = [look for look in looks if look.rows]
        if not shown:
            return None
        chosen = next((look for look in shown if look.first is not None), shown[0])
        note = ""
        if len(looks) == 2:
            note = "no operator differs when every intermediate is materialized"
            note += "; the values between fused kernels are shown" if chosen is looks[-1] else ""
        return Depth(
            operators=tuple(Operator.from_row(row) for row in chosen.rows), call=chosen.call, note=note
        )

    def unseen(self, ran: list[SingleRun]) -> list[str]:
        """Returns why there is no comparison operator by operator, if one was asked for."""
        looks = [once.outcome for once in ran[len(self._names) :]]
        if not looks or any(Compared.of(look).rows for look in looks):
            return []
        why = "; ".join(looks[0].notes) or "no value between the operators could be compared"
        return [f"no per-operator comparison: {why}"]

    def pictures(self, deep: Depth | None) -> list[Any]:
        """Plots the errors over the run, over the operators, and of the tensors that differ most."""
        from accel_lab.reporting.page import depth_plot

        want, got = self._recordings[0], self._recordings[1]
        made = _pictures(self.found, got, want, float64=self._names[0] == FLOAT64)
        picture = None if deep is None else depth_plot.over_operators(deep)
        return made if picture is None else [made[0], picture, *made[1:]] if made else [picture]


def _question(name: str, attempt: int = 0) -> Question:
    """Returns the run for a name; eager is also run in float64, which decides what counts as different."""
    if name in (FLOAT64, "eager"):
        return Question(rung=Rung.UNCOMPILED, switches=(("shadow", True),), attempt=attempt)
    rung = _NAMES.get(name) or Rung(name)
    return Question(
        rung=rung, switches=switches(Replacement.MAIN) if rung is Rung.MOCK else (), attempt=attempt
    )


def _recording(once: SingleRun, name: str) -> Recording:
    """Loads what a run recorded. Raises LabError or UsageError if it recorded nothing."""
    outcome = once.outcome
    require_run(outcome, name)
    found = recording.load(outcome.folder)
    if not found.entries:
        ended = signature_of(outcome)
        if ended is not None:
            raise LabError(f"{name} failed before a compiled region returned anything: {ended.line}")
        raise UsageError("the script compiles nothing with torch.compile: there is nothing to compare")
    return found


def _answer(found: Sequence[Pair], ran: Sequence[SingleRun], reference: str, test: str) -> dict[str, Any]:
    different = list(differing(found))
    worst = next(iter(by_error(found)), None)
    judged = reference in (FLOAT64, "eager")
    names = [reference, *[test] * (len(ran) - 1)]
    failures = {
        f"{name} failed: {ended.line}; what it computed until then was compared"
        for once, name in zip(ran, names, strict=True)
        if (ended := signature_of(once.outcome)) is not None
    }
    return {
        "schema": SCHEMA,
        "program": ran[0].program.name,
        "torch": ran[0].build.torch,
        "reference": reference,
        "test": test,
        "runs": len(ran) - 1,
        "rule": "a value differs if it is further from a float64 run than eager's own error explains"
        if judged
        else f"a value differs beyond torch.testing's relative tolerances, widened; {reference} is trusted",
        "failures": sorted(failures),
        "summary": {
            "values": len(found),
            "differ": len(different),
            "first": f"{different[0].place}: {different[0].comparison.detail}" if different else None,
            "worst": worst.place if worst is not None and worst.metrics and worst.metrics.different else None,
        },
        "rows": [pair.to_json() for pair in found],
        "folder": str(ran[0].workspace.root),
    }


def _pictures(found: Sequence[Pair], got: Recording, want: Recording, *, float64: bool) -> list[Any]:
    from accel_lab.reporting.page import diff_plots

    made = [diff_plots.over_depth(found)]
    chosen = sorted(by_error(found), key=lambda pair: pair.comparison.same)[:MOST_PICTURES]
    for number, pair in enumerate(chosen, 1):
        both = arrays(got, want, pair.key, against_float64=float64)
        if both is not None and both[0].shape == both[1].shape:
            made.append(diff_plots.of_tensor(f"value-{number}", pair, *both))
    return [picture for picture in made if picture is not None]


def _write(diff: dict[str, Any], pictures: Sequence[Any], folder: Path) -> None:
    from accel_lab.reporting.page import diff as diff_page
    from accel_lab.reporting.schema import json_text

    write_atomic(folder / "diff.json", json_text(diff))
    diff_page.write(diff, pictures, folder)


def _show(diff: dict[str, Any], folder: Path, *, as_json: bool) -> None:
    from accel_lab.reporting.schema import json_text
    from accel_lab.reporting.words import diff as diff_words

    if as_json:
        click.echo(json_text(diff), nl=False)
        return
    click.echo(diff_words.text(diff, min(shutil.get_terminal_size((120, 24)).columns, 160)))
    for name in ("diff.html", "diff.json", "pictures"):
        click.echo(f"{name:10s} {folder / name}")
