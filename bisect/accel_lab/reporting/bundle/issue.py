"""Builds ISSUE.md: the findings in the fields of PyTorch's torch.compile bug form, within GitHub's limit."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from accel_lab import __version__
from accel_lab.core.findings import Exhibit, Findings, Step
from accel_lab.core.stages import Rung
from accel_lab.core.text import command_line, printable, shorten
from accel_lab.core.verdict import Verdict
from accel_lab.reporting import repro_reader, run_files
from accel_lab.reporting.page.exhibits import view
from accel_lab.reporting.page.text_budget import Redact, TextBudget, keep
from accel_lab.reporting.run_files import cut
from accel_lab.reporting.schema import plain
from accel_lab.reporting.words import terms as words
from accel_lab.reporting.words import versions as since
from accel_lab.reporting.words import workarounds as around
from accel_lab.reporting.words.evidence import sentences

#: GitHub's limit in characters; it counts some twice, as ``length`` does.
LIMIT = 65_536

#: Longer exhibits are only in the report.
EXHIBIT_LINES, EXHIBIT_ROOM, EXHIBIT_ROWS = 60, 5_000, 25


def length(text: str) -> int:
    """Returns the characters as a browser counts them: those beyond the basic plane count twice."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def issue_markdown(
    findings: Findings, run_dir: Path, *, redact: Redact = keep, limit: int = LIMIT, bundle: str = ""
) -> str:
    """Returns the issue's text, within ``limit``: cuts the log first, then exhibit, switches and script."""
    parts = _Parts(findings, run_dir, redact, bundle)
    log_room, script_room, switches, exhibit = 24_000, 40_000, True, True
    while True:
        text = parts.text(log_room, script_room, switches, exhibit)
        if length(text) <= limit:
            return text
        if log_room > 500:
            log_room //= 2
        elif exhibit:
            exhibit = False
        elif switches:
            switches = False
        elif script_room > 500:
            script_room //= 2
        else:
            return cut(text, limit - 80)[: limit // 2] if length(text) > limit else text


class _Parts:
    """The parts of the issue, redacted once and cut to the available room."""

    def __init__(self, findings: Findings, run_dir: Path, redact: Redact, bundle: str) -> None:
        self.findings = findings
        self.redact = redact
        self.bundle = bundle
        self.bad = words.first_bad(findings)
        self.stdin = Path(str(run_files.request_of(run_dir).get("stdin") or "")).name
        found = repro_reader.repro_of(findings, run_dir)
        self.reduced = found if found is not None and found.text.strip() else None
        script = self.reduced.text if self.reduced is not None else run_files.script_text(findings)
        self.script = printable(redact(script, "repro.py"))
        self.log = printable(redact(self._log(run_dir), "ISSUE.md"))

    def text(self, log_room: int, script_room: int, switches: bool, exhibit: bool) -> str:
        blocks = ["### 🐛 Describe the bug", self._describe()]
        folded = self._exhibit() if exhibit else ""
        blocks += [folded] if folded else []
        blocks += ["#### Ablation", self._ladder_table()]
        if self.findings.ablation:
            blocks.append(
                self._switch_table() if switches else "Single switches: see report.html in the bundle."
            )
        blocks += self._around()
        blocks += ["#### Minimal repro", self._repro(script_room)]
        blocks += [
            "### Error logs",
            fenced(cut(self.log, log_room)) if self.log.strip() else "No error is printed.",
        ]
        blocks += ["### Versions", fenced(cut(self._versions(), 6000))]
        return "\n\n".join(blocks) + "\n"

    def _describe(self) -> str:
        findings = self.findings
        lines = [self._say(findings.summary) or "The cause is unknown."]
        for culprit in findings.culprits:
            data = culprit.to_json()
            where = f"{data['side'].replace('_', ' ')}, {data['level']} level"
            part = culprit.component
            name = f", {part.kind} {code(self._plain(part.name))}" if part is not None else ""
            sure = words.confidence_of(culprit)
            lines.append(f"- **{words.STAGES[culprit.stage]}**{name} ({where}; {sure})")
            if part is not None and part.detail:
                lines.append(f"  - {self._say(part.detail)}")
            lines += [f"  - {self._say(line)}" for line in sentences(culprit.evidence)]
        if findings.failure_rate is not None and findings.failure_rate < 1:
            lines.append(f"- It fails in {findings.failure_rate:.0%} of its runs.")
        if findings.witness:
            lines.append(f"- Cross-check: {self._say(findings.witness.words)}")
        lines += [f"- {self._say(line)}" for line in self._since()]
        attached = f" Everything is in the attached `{self.bundle}`." if self.bundle else ""
        lines.append(f"\nFound by accel-lab {__version__}.{attached}")
        return lines[0] + "\n\n" + "\n".join(lines[1:])

    def _since(self) -> list[str]:
        versions = self.findings.versions
        if not versions:
            return []
        headline_text = since.headline(versions)
        judged = [row for row in since.rows_of(versions) if row.mark in (words.GOOD, words.BAD)]
        table = ", ".join(f"{row.torch} {row.mark.words}" for row in judged)
        lines = [f"Over releases of torch: {headline_text}"] if headline_text else []
        lines += [f"Tested: {table}"] if table else []
        return lines + since.notes_of(versions)

    def _around(self) -> list[str]:
        """Lists workarounds that were run, and known failures; empty if there is neither."""
        findings = self.findings
        blocks = [f"- Known: {self._say(around.known_line(one))}" for one in findings.known]
        for one in findings.workarounds:
            language = "sh" if one.where == "shell" else "python"
            blocks.append(f"- {self._say('. '.join([around.head_of(one), *around.notes_of(one)]))}.")
            blocks.append(fenced(self._plain(one.code), language))
        return [f"#### {around.TITLE}", *blocks] if blocks else []

    def _ladder_table(self) -> str:
        rows = ["| backend | result | how it failed |", "| --- | --- | --- |"]
        for step in self.findings.ladder:
            name = words.TORCH_BACKENDS.get(step.rung)
            shown = code(name) if name else step.rung.record.issue or words.torch_backend(step.rung)
            shown = self._cell(step.label) if step.label else shown
            rows.append(f"| {shown} | {self._said(step)} | {self._failure(step)} |")
        return "\n".join(rows) if self.findings.ladder else "No backend was tried."

    def _switch_table(self) -> str:
        mock = any(step.rung is Rung.MOCK for step in self.findings.ablation)
        whose = "the mock accelerator" if mock else "inductor"
        rows = [f"| {whose} with one switch changed | result | how it failed |", "| --- | --- | --- |"]
        for step in self.findings.ablation:
            label = self._cell(f"{step.switch} ({step.label})" if step.label else step.switch)
            rows.append(f"| {label} | {self._said(step)} | {self._failure(step)} |")
        return "\n".join(rows)

    def _said(self, step: Step) -> str:
        mark = words.mark_of(step)
        said = f"{mark.symbol} {words.said_of(step)}"
        return f"**{said}**" if step.verdict is Verdict.BAD else said

    def _failure(self, step: Step) -> str:
        parts = [words.failure_of(step)]
        if step.max_abs_error:
            parts.append(f"max abs error {step.max_abs_error:.3g}")
        parts.append(step.note)
        return self._cell("; ".join(part for part in parts if part))

    def _repro(self, room: int) -> str:
        if not self.script.strip():
            return f"Run: {code(self._plain(self._command()))}."
        lead = f"{self._lead()} Run: {code(self._plain(self._command()))}."
        return f"{lead}\n\n{fenced(cut(self.script, room), 'python')}"

    def _command(self) -> str:
        """Returns the command that runs the script shown, as a user would type it."""
        program = self.findings.program
        words = ["-m", program.module] if program.module else [program.name]
        line = command_line("python", *words, *program.args)
        if self.reduced is not None:
            line = self.reduced.command("repro.py")
        reads = self.stdin and (self.reduced is None or self.reduced.kind == "script")
        return f"{line} < {shlex.quote(self.stdin)}" if reads else line

    def _lead(self) -> str:
        """Says what the script shown is, and how far it was checked."""
        repro = self.reduced
        if repro is None:
            return "The script, not reduced."
        size = f" to {repro.sizes}" if repro.sizes else ""
        if not repro.verified:
            return (
                f"Reduced{size}; not verified: it failed while it was made and was not run again in a fresh "
                "process."
            )
        shows = f"; it {repro.exits}" if repro.exits else "; its exit code does not show the bug"
        minimal = ", 1-minimal" if repro.minimal else ""
        return f"Reduced{size}{minimal} and verified in fresh processes{shows}."

    def _exhibit(self) -> str:
        """Returns the first exhibit that is short enough, folded; empty if there is none."""
        exhibits = [exhibit for culprit in self.findings.culprits for exhibit in culprit.exhibits]
        for exhibit in (*exhibits, *repro_reader.exhibits_of(self.findings)):
            body = self._shown(exhibit)
            if body:
                title = unlinked(shorten(" ".join(self._plain(exhibit.title or exhibit.kind).split()), 400))
                return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"
        return ""

    def _shown(self, exhibit: Exhibit) -> str:
        """Returns an exhibit in Markdown; empty if it is too long for an issue."""
        shown, blocks = view(exhibit, TextBudget(self.redact)), []
        lines = [line.text for line in shown.near or shown.lines]
        if (
            len(lines) > EXHIBIT_LINES
            or sum(map(len, lines)) > EXHIBIT_ROOM
            or len(shown.rows) > EXHIBIT_ROWS
        ):
            return ""
        if exhibit.marked:  # Markdown cannot highlight lines
            lines = [
                f"{'>' if 'mark' in line.name else ' '}{line.number:>4}  {line.text}"
                for line in shown.near or shown.lines
            ]
        if lines:
            language = "" if exhibit.language == "text" or exhibit.marked else exhibit.language
            blocks.append(fenced("\n".join(lines), language))
        if shown.head:
            head = [self._say(cell).replace("\n", " ") for cell in shown.head]
            table = [head, ["---"] * len(head), *([self._cell(cell) for cell in row] for row in shown.rows)]
            blocks.append("\n".join("| " + " | ".join(row) + " |" for row in table))
        return "\n\n".join(blocks)

    def _log(self, run_dir: Path) -> str:
        steps = [
            step for step in (*self.findings.baseline, self.bad) if step is not None and step.outcome.failed
        ]
        for step in steps:
            text = run_files.log_of(step, run_dir, "stderr.txt", 200_000).text
            if text.strip():
                return text
            if step.outcome.raised is not None and step.outcome.raised.text:
                return step.outcome.raised.text
        found = self.findings.signature
        return found.line if found is not None else ""

    def _versions(self) -> str:
        environment = dict(self.findings.environment)
        collected = str(environment.pop("collect_env", "") or "")
        if collected:  # the form asks for it; the rest is what it lacks
            kept = ("cxx", "variables", "accelerators", "warm", "cold_because", "provider")
            rest = {key: environment[key] for key in kept if environment.get(key) not in (None, "", {}, [])}
            rows = [f"{key}: {value}" for key, value in _flat(rest)]
            return self._plain("\n".join([collected.strip(), "", *rows]))
        lines = [f"{key}: {value}" for key, value in _flat(environment)]
        torch, python = words.build_of(self.findings)
        if "torch" not in self.findings.environment and torch:
            lines = [f"torch: {torch}", f"python: {python}", *lines]
        return self._plain("\n".join(lines)) or "unknown"

    def _plain(self, text: str) -> str:
        return printable(self.redact(text, "ISSUE.md"))

    def _say(self, text: str) -> str:
        return prose(cut(self._plain(text), 4000))

    def _cell(self, text: str) -> str:
        flat = " ".join(self._plain(text).split())
        return code(flat if len(flat) <= 160 else flat[:157] + "...", cell=True) if flat else ""


def prose(text: str) -> str:
    """Returns text that GitHub shows as written: no tags, mentions or issue links."""
    text = unlinked(text)
    return re.sub(r"([*`~\[\]|]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def unlinked(text: str) -> str:
    """Escapes HTML, mentions and issue links, for text inside a tag, where Markdown is inactive."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([@#])(?=\w)", r"\1<!-- -->", text)


def code(text: str, *, cell: bool = False) -> str:
    """Returns an inline code span that no backtick inside can close; ``cell`` escapes pipes for a table."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    return fence + pad + (text.replace("|", "\\|") if cell else text) + pad + fence


def fenced(text: str, language: str = "") -> str:
    """Returns a code block that nothing inside the text can close."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def run_text(value: Any) -> str:
    """Returns a value as text for a sentence."""
    return value if isinstance(value, str) else str(plain(value))


def _flat(data: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", run_text(value)))
    return rows
