"""Renders findings as plain text: tables and one paragraph. Prints nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tabulate import tabulate

from accel_lab.core.findings import Culprit, Exhibit, Findings, Step
from accel_lab.core.text import control, printable, shorten
from accel_lab.core.verdict import Verdict
from accel_lab.reporting import repro_reader
from accel_lab.reporting.words import summary, terms, versions
from accel_lab.reporting.words import workarounds as around
from accel_lab.reporting.words.evidence import line_of

_CODES = {"good": "32", "bad": "31", "different": "33", "skip": "36", "na": "2", "bold": "1"}


#: The column on how a step failed is useless below this width.
_LEAST_ROOM = 24
#: A repro of up to this many lines is shown whole.
_SCREEN = 40


def paint(text: str, name: str, colour: bool) -> str:
    """Returns the text in a mark's colour (or ``bold``) for ``core.text.for_terminal``, or unchanged."""
    if not (colour and text):
        return text
    return control(f"\x1b[{_CODES[name]}m") + text + control("\x1b[0m")


def one_line(text: str, width: int) -> str:
    """Returns the text on one line of at most ``width`` characters, without control characters."""
    flat = " ".join(printable(text).split())
    return shorten(flat, max(width, 3))


def ladder_table(findings: Findings, *, colour: bool = False, unicode: bool = True, width: int = 100) -> str:
    """Renders the ladder, one row per rung, in the order in which the compiler works."""
    rows = [
        [
            _verdict_words(step, unicode),
            step.rung.value,
            terms.TORCH_BACKENDS.get(step.rung, step.label),
            f"{step.outcome.seconds:.1f}",
            _remark(step, findings),
        ]
        for step in findings.ladder
    ]
    table = _table(["verdict", "rung", "torch's backend", "seconds", "how it failed"], rows, width)
    return _painted(table, findings.ladder, unicode) if colour else table


def ablation_table(
    findings: Findings, *, colour: bool = False, unicode: bool = True, width: int = 100
) -> str:
    """Renders the switches that were changed one at a time, with the effect of each on the failure."""
    rows = [
        [
            _verdict_words(step, unicode),
            one_line(step.switch, 40),
            one_line(step.label, 40),
            f"{step.outcome.seconds:.1f}",
            _remark(step, findings),
        ]
        for step in findings.ablation
    ]
    table = _table(["verdict", "switch", "what it does", "seconds", "how it failed"], rows, width)
    return _painted(table, findings.ablation, unicode) if colour else table


def culprit_line(culprit: Culprit) -> str:
    """Describes a culprit in one line: stage, component, side, level and confidence."""
    data = culprit.to_json()
    name = terms.STAGES[culprit.stage]
    if culprit.component is not None:
        name += f", {culprit.component.kind} {culprit.component.name}"
    side = data["side"].replace("_", " ")
    return f"{name} ({side}, {data['level']} level; {terms.confidence_of(culprit)})"


def paragraph(findings: Findings, *, colour: bool = False, width: int = 100) -> str:
    """Renders the answer: the verdict, the summary, the culprits, the warnings and what to do next."""
    mark = {"fails": "bad", "passes": "good", "by_design": "good"}.get(findings.verdict, "skip")
    head = paint(terms.verdict_of(findings), mark, colour)
    blocks = [f"{head}  {one_line(findings.program.name, width)}"]
    if findings.summary:
        blocks.append(wrapped(findings.summary, width))
    if len(findings.culprits) > 1:
        blocks.append(
            "\n".join(
                wrapped(f"fault {number}: {culprit_line(culprit)}", width, hang="  ")
                for number, culprit in enumerate(findings.culprits, 1)
            )
        )
    exhibits = [exhibit for culprit in findings.culprits for exhibit in culprit.exhibits]
    if exhibits:
        blocks.append("\n".join(_exhibit_lines(exhibits, width)))
    if findings.warnings:
        blocks.append(
            "\n".join(wrapped(f"note: {line_of(line)}", width, hang="  ") for line in findings.warnings)
        )
    if findings.unasked:
        left = "\n".join(wrapped(f"- {line}", width, hang="  ") for line in summary.unasked_lines(findings))
        blocks.append(wrapped(summary.left_unasked(findings), width) + "\n" + left)
    if findings.next_steps:
        steps = "\n".join(wrapped(f"- {line}", width, hang="  ") for line in findings.next_steps)
        blocks.append(paint("What to do next", "bold", colour) + "\n" + steps)
    return "\n\n".join(blocks)


def repro_block(findings: Findings, *, colour: bool = False, width: int = 100) -> str:
    """Renders the smallest repro: its size, path, proof, and its text if that fits on a screen."""
    if findings.repro is None:
        return ""
    repro, other = repro_reader.repro_of(findings), repro_reader.other_of(findings)
    notes = [wrapped(f"note: {line}", width, hang="  ") for line in repro_reader.notes_of(findings)]
    if repro is None:
        why = repro_reader.why_not(findings) or "no smaller script was found"
        return "\n".join([wrapped(f"No smaller repro: {why}", width, hang="  "), *notes])
    standing = (
        ("1-minimal" if repro.minimal else "may still get smaller") if repro.verified else "not verified"
    )
    lines = [
        paint("Smallest repro", "bold", colour)
        + "  "
        + printable("; ".join(filter(None, (repro.sizes, standing)))),
        printable(repro.path),
    ]
    if repro.proof:
        lines.append(wrapped("proof: " + "; ".join(repro.proof), width, hang="  "))
    elif not repro.verified:
        lines.append(wrapped(repro.standing, width, hang="  "))
    script = printable(repro.text).strip("\n").splitlines()
    if script and len(script) <= _SCREEN:
        lines += ["", *script, ""]
    if other is not None:
        name = " ".join(filter(None, ("the other repro:", other.kind, other.path)))
        lines.append(printable(name + (f"  ({other.sizes})" if other.sizes else "")))
    lines += [*_exhibit_lines(repro_reader.exhibits_of(findings), width), *notes]
    return "\n".join(lines).rstrip("\n")


def workarounds_block(findings: Findings, *, colour: bool = False, width: int = 100) -> str:
    """Renders known failures, then each workaround with its code, its run and its cost."""
    blocks = []
    for known in findings.known:
        head = f"{around.KNOWN_TITLE}  {around.known_line(known)}"
        text = wrapped(head, width, hang="  ")
        blocks.append(paint(around.KNOWN_TITLE, "bold", colour) + text.removeprefix(around.KNOWN_TITLE))
    if findings.workarounds:
        lines = [paint(around.TITLE, "bold", colour)]
        for number, one in enumerate(findings.workarounds, 1):
            lines += [*([""] if number > 1 else []), wrapped(f"{number}. {around.head_of(one)}", width)]
            lines += ["", *(f"     {line}" for line in printable(one.code).splitlines()), ""]
            lines += [wrapped(f"   {note}", width, hang="     ") for note in around.notes_of(one)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def versions_block(
    findings: Findings, *, colour: bool = False, unicode: bool = True, width: int = 100
) -> str:
    """Renders the line of releases: the flips in one line, notes, and a row for each release run."""
    if not findings.versions:
        return ""
    title = "Since when"
    head = wrapped(f"{title}  {versions.headline(findings.versions)}", width, hang="  ")
    head = paint(title, "bold", colour) + head.removeprefix(title)
    notes = [wrapped(f"- {line}", width, hang="  ") for line in versions.notes_of(findings.versions)]
    asked = [row for row in versions.rows_of(findings.versions) if row.mark is not versions.UNASKED]
    rows = [
        [
            f"{row.mark.symbol if unicode else row.mark.ascii} {row.mark.words}",
            one_line(row.torch, 20),
            one_line(row.number or row.where, 40),
            row.runs,
            one_line(row.why, 400),
        ]
        for row in asked
    ]
    measured = any(row.number for row in asked)
    table = _table(["verdict", "torch", "measured" if measured else "stage", "runs", "remark"], rows, width)
    lines = table.splitlines()
    if colour:
        for place, row in enumerate(asked, 2):
            said = rows[place - 2][0]
            lines[place] = paint(said, row.mark.name, True) + lines[place][len(said) :]
    return "\n".join([head, *notes, "", *lines])


def _exhibit_lines(exhibits: Sequence[Exhibit], width: int) -> list[str]:
    """Points to the exhibits in the report, one line each."""
    return [one_line(f"see report.html: {e.title or e.kind}", width) for e in exhibits]


def _verdict_words(step: Step, unicode: bool) -> str:
    mark = terms.mark_of(step)
    return f"{mark.symbol if unicode else mark.ascii} {terms.said_of(step)}"


def _painted(table: str, steps: Sequence[Step], unicode: bool) -> str:
    """Adds colour after the layout of the columns, so that escapes do not count as width."""
    lines = table.splitlines()
    for row, step in enumerate(steps, 2):
        said = _verdict_words(step, unicode)
        lines[row] = paint(said, terms.mark_of(step).name, True) + lines[row][len(said) :]
    return "\n".join(lines)


def _remark(step: Step, findings: Findings) -> str:
    """Says how a step failed; the target failure is shown once, in the summary."""
    known = step.verdict is Verdict.BAD and findings.signature is not None
    parts = ["the same failure" if known else terms.failure_of(step)]
    if step.max_abs_error:
        parts.append(f"max abs error {step.max_abs_error:.3g}")
    parts.append(step.note)
    return "; ".join(part for part in parts if part)


def _table(headers: Sequence[str], rows: list[list[str]], width: int) -> str:
    """Fits a table into the width: the last column is cut; if too narrow, the third column is dropped."""
    if not rows:
        return ""
    room = width - _width(headers[:-1], [row[:-1] for row in rows]) - 2
    if room < _LEAST_ROOM:
        rows, headers = [row[:2] + row[3:] for row in rows], [*headers[:2], *headers[3:]]
        room = width - _width(headers[:-1], [row[:-1] for row in rows]) - 2
    rows = [[*row[:-1], one_line(row[-1], max(room, _LEAST_ROOM))] for row in rows]
    if not any(row[-1] for row in rows):
        rows, headers = [row[:-1] for row in rows], headers[:-1]
    return "\n".join(line.rstrip() for line in _lines(headers, rows))


def _width(headers: Sequence[str], rows: list[list[str]]) -> int:
    return max(len(line) for line in _lines(headers, rows))


def _lines(headers: Sequence[str], rows: list[list[str]]) -> list[str]:
    return tabulate(rows, headers=list(headers), tablefmt="simple", disable_numparse=True).splitlines()


def wrapped(text: str, width: int, hang: str = "") -> str:
    """Wraps each line of the text at spaces to ``width``; a longer word, such as a path, stays whole."""
    lines = printable(text).splitlines() or [""]
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)
        for line in lines
    )
