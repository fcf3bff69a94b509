"""``accel-lab bundle``: writes an earlier run's bundle again, or first shows possibly private words in it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.bundle_check import BundleCheck, write_checked_bundle
from accel_lab.cli.commands.report_command import any_run, find_run, only_read
from accel_lab.cli.finish import elsewhere, report_left, sum_up, write_files
from accel_lab.cli.options import Number
from accel_lab.cli.streams import is_terminal, print_json
from accel_lab.core.errors import UsageError
from accel_lab.core.text import printable
from accel_lab.execution.run_folder.lock import held
from accel_lab.execution.run_folder.marker import made_by
from accel_lab.reporting.bundle.limits import LIMIT_BYTES
from accel_lab.reporting.bundle.writer import BundleReport
from accel_lab.reporting.redact.review import Left, count_words
from accel_lab.reporting.runs.kept_run import kept_run

#: Longer word lists are refused: such a file is probably not a word list.
_MOST_WORDS, _MOST_BYTES = 2_000, 1_000_000
#: Commands whose runs have a verdict; below, the advice for runs of other commands.
_BUNDLED = frozenset({"bisect", "minimize"})
_INSTEAD = {
    "triage": "each of its faults has one, which triage.html names",
    "matrix": "`accel-lab bisect --versions SPEC SCRIPT` makes one",
    "demo": "the bisection in its folder has one",
}


@click.command(name="bundle")
@click.argument("run")
@click.option(
    "--output",
    type=click.Path(dir_okay=False),
    help="Where to write it. [default: bundle.zip in the run's folder]",
)
@click.option("--limit-mb", type=Number(0.1, 1e6), default=LIMIT_BYTES / 1e6, show_default=True)
@click.option(
    "--verify",
    is_flag=True,
    help="Run it once from a clean folder first, which runs the program of RUN: only for a run of your own.",
)
@click.option(
    "--review",
    is_flag=True,
    help="Show the words that look like names, machines or keys and would be left in it. It is written only "
    "after a yes on the terminal, or with --redact-words.",
)
@click.option(
    "--redact-words",
    "words_file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Take these words out as well, wherever they occur in a text: one a line; - is standard input.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written, and what was left, as JSON.")
def command(
    run: str,
    output: str | None,
    limit_mb: float,
    verify: bool,
    review: bool,
    words_file: str | None,
    as_json: bool,
) -> int:
    """Write the bundle of RUN (a folder, or a name from `accel-lab list`)."""
    words = _words_of(words_file) if words_file is not None else []
    folder = _with_verdict(run)
    path = Path(output) if output else folder / "bundle.zip"
    limit = int(limit_mb * 1e6)
    with held(folder), tempfile.TemporaryDirectory(prefix="accel-lab-") as drafts:
        # A bundle under review stays in a temporary folder until the user agrees.
        place = Path(drafts, "bundle.zip") if review else path
        with only_read(folder) as findings:
            if review:
                sum_up(findings)
            else:
                write_files(findings, folder, bundle=False)
        made, said = write_checked_bundle(
            findings, folder, place, verify=verify, limit_bytes=limit, words=words
        )
        if review and not as_json:
            _show_left(made.left)
        written = not review or words_file is not None or (not as_json and _agreed(path))
        if review and written:
            write_files(findings, folder, bundle=False)
            _moved(place, path)
    made = replace(made, path=path)
    if as_json:
        print_json(_as_json(made, said, written))
    elif written:
        _show_made(made, said)
        if not review:
            report_left(made, folder)
    else:
        click.echo(
            "Nothing was written. Put the words to take out into a file, one a line, and go on with "
            "--redact-words FILE; an empty file leaves all of them in."
        )
    return 0


def _with_verdict(name: str) -> Path:
    """Returns the folder of a run that has a verdict; raises UsageError for any other run."""
    folder = any_run(name)
    run = kept_run(folder, made_by(folder))
    kind = run.kind if run is not None else made_by(folder)
    if kind in _BUNDLED or not kind:
        return find_run(name)
    instead = _INSTEAD.get(kind, "`accel-lab bisect SCRIPT` makes one")
    raise UsageError(
        f"{name} is a run of `accel-lab {kind}`, and a bundle holds a failure with its verdict: {instead}"
    )


def _moved(draft: Path, path: Path) -> None:
    """Copies the draft into place atomically."""
    part = path.with_name(path.name + ".part")
    shutil.copyfile(draft, part)
    part.replace(path)


def _words_of(file: str) -> list[str]:
    """Reads the words of a file, one a line; blank lines are skipped."""
    with click.open_file(file, "rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    words = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    if len(data) > _MOST_BYTES or len(words) > _MOST_WORDS:
        raise UsageError(f"{file} holds more than {_MOST_WORDS:,} words: one word a line is wanted")
    for word in words:
        if len(word) < 3:
            raise UsageError(f"{word!r} in {file} is too short: words of fewer than 3 letters match too much")
    return words


def _agreed(path: Path) -> bool:
    """Whether the user confirms on the terminal; false if there is no terminal."""
    return is_terminal() and click.confirm(f"Write {path} as it is?", default=False)


def _show_left(left: tuple[Left, ...]) -> None:
    click.echo(count_words(len(left)).capitalize() + (":" if left else "."))
    for row in left:
        place = f"{row.file}:{row.line}" if row.line else f"{row.file} (its name)"
        more = f" and {row.places - 1} more" if row.places > 1 else ""
        click.echo(
            f"  {row.kind:6s} {printable(row.word)}  {printable(place)}{more}: {printable(row.context)}"
        )


def _show_made(made: BundleReport, said: BundleCheck) -> None:
    size, count = made.size / 1e6, len(made.files)
    click.echo(f"{made.path}  {size:.2f} MB, {count} files, {made.redactions} replacements")
    click.echo(f"  {said.words}")
    for d in made.dropped:
        click.echo(f"  left out: {d.name} ({d.reason})")
    for warning in [*elsewhere(made), *made.warnings]:
        click.echo(f"  note: {warning}")


def _as_json(made: BundleReport, said: BundleCheck, written: bool) -> dict[str, Any]:
    return {
        "path": str(made.path),
        "written": written,
        "bytes": made.size,
        "sha256": made.sha256,
        "dropped": [{"name": d.name, "why": d.reason} for d in made.dropped],
        "redactions": made.redactions,
        "warnings": [*elsewhere(made), *made.warnings],
        "check": said.to_json(),
        "left": [
            {
                "file": row.file,
                "line": row.line,
                "word": row.word,
                "kind": row.kind,
                "places": row.places,
                "context": row.context,
            }
            for row in made.left
        ],
    }
