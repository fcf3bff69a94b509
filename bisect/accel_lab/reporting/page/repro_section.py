"""Builds the page's section on the smallest repro: the script, how much smaller it is, and the proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.findings import Exhibit, Findings
from accel_lab.reporting import repro_reader
from accel_lab.reporting.repro_reader import Reduced

from .exhibits import View, view, views
from .text_budget import TextBudget

_KINDS = {"graph": "made from the captured graph", "script": "made from the script"}


@dataclass(frozen=True, kw_only=True)
class Script:
    """One repro: ``facts`` are (name, text), ``proof`` sentences; ``code`` is None if the file is gone."""

    kind: str
    path: str
    facts: tuple[tuple[str, str], ...]
    proof: tuple[str, ...]
    standing: str
    verified: bool
    code: View | None
    data: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Section:
    """The data of the section. Without a script, ``why_not`` says why there is none."""

    script: Script | None
    other: Script | None
    exhibits: tuple[View, ...]
    notes: tuple[str, ...]
    why_not: str
    effort: str


def section(
    findings: Findings, run_dir: Path, texts: TextBudget, names: Mapping[str, str] | None = None
) -> Section | None:
    """Returns the section; None if no repro was searched for.

    ``names`` maps paths written by the run to the names shown on this page.
    """
    if findings.repro is None:
        return None
    known = names or {}
    first, second = repro_reader.repro_of(findings, run_dir), repro_reader.other_of(findings, run_dir)
    why = repro_reader.why_not(findings)
    return Section(
        script=_script(first, run_dir, texts, known) if first is not None else None,
        other=_script(second, run_dir, texts, known) if second is not None else None,
        exhibits=tuple(views(repro_reader.exhibits_of(findings), texts)),
        notes=tuple(texts.say(line, limit=2_000) for line in repro_reader.notes_of(findings)),
        why_not="" if first is not None else texts.say(why or "no smaller script was found", limit=2_000),
        effort=_effort(findings),
    )


def shown_path(said: str, names: Mapping[str, str]) -> str:
    """Returns the name of a script for the reader: in the bundle, else its path from the run's folder on."""
    return names.get(said) or repro_reader.short_name(said)


def _script(found: Reduced, run_dir: Path, texts: TextBudget, names: Mapping[str, str]) -> Script:
    path = texts.say(shown_path(found.path, names), limit=1_000)
    facts = []
    if found.lines_after is not None:
        facts.append(("Lines", _shrunk(found.lines_before, found.lines_after)))
    if found.nodes is not None:
        facts.append(("Graph nodes", _shrunk(*found.nodes)))
    if found.verified:
        facts.append(("Run it", texts.say(found.command(path), limit=2_000)))
    text = Exhibit(kind="repro", title=path, text=found.text, language="python")
    return Script(
        kind=_KINDS.get(found.kind, ""),
        path=path,
        facts=tuple(facts),
        proof=tuple(texts.say(line, limit=1_000) for line in (*_shows(found), *found.proof)),
        standing=found.standing,
        verified=found.verified,
        code=view(text, texts) if found.text.strip() else None,
        data=tuple(
            texts.say(name, limit=300) for name, _ in repro_reader.data_files(found.path, run_dir)[:20]
        ),
    )


def _shows(found: Reduced) -> list[str]:
    return [f"It {found.exits}."] if found.verified and found.exits else []


def _shrunk(before: int | None, after: int) -> str:
    return f"{after:,}" if before is None else f"{before:,} → {after:,}"


def _effort(findings: Findings) -> str:
    """Says how many candidates were tried and how long it took; empty if unknown."""
    repro = findings.repro
    if repro is None or not repro.candidates:
        return ""
    tried, seconds = repro.candidates, repro.seconds
    took = f" in {seconds:,.0f} s" if seconds >= 1 else ""
    return f"{tried:,} candidate{'' if tried == 1 else 's'} tried{took}"
