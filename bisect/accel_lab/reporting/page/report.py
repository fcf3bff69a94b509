"""Renders report.html: one file without scripts or external resources; the verdict, then the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accel_lab.core.findings import Considered, Findings, Step
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.signature import Signature, normalise
from accel_lab.core.text import command_line
from accel_lab.core.verdict import Verdict
from accel_lab.core.workarounds import Workaround
from accel_lab.reporting import repro_reader, run_files
from accel_lab.reporting.run_files import Artifact
from accel_lab.reporting.words import evidence, summary, terms, versions
from accel_lab.reporting.words import workarounds as around

from .exhibits import views
from .files import page
from .ladder_picture import by_height, draw
from .repro_section import section
from .text_budget import TEXT_LIMIT, Redact, Shown, TextBudget, keep
from .versions_section import versions_view

MAX_FILES = 40
#: A fact with more characters gets double width.
WIDE = 28


def write_html(findings: Findings, run_dir: Path, path: Path) -> None:
    """Writes the report atomically."""
    write_atomic(path, render_html(findings, run_dir))


def render_html(
    findings: Findings,
    run_dir: Path,
    *,
    redact: Redact = keep,
    names: Mapping[str, str] | None = None,
) -> str:
    """Returns the report as text; ``names`` maps paths of reduced scripts to the names shown."""
    return page("report.html.j2", "report.css", **_View(findings, run_dir, redact, names or {}).build())


class _View:
    """Collects the template's data: plain strings, redacted, cleaned and cut."""

    def __init__(self, findings: Findings, run_dir: Path, redact: Redact, names: Mapping[str, str]) -> None:
        self.findings = findings
        self.run_dir = run_dir
        self.names = names
        self.texts = TextBudget(redact)
        self.say = self.texts.say
        self._pairs = self.texts.pairs

    def build(self) -> dict[str, Any]:
        findings, good, bad = self.findings, terms.last_good(self.findings), terms.first_bad(self.findings)
        witness = findings.witness.to_json() if findings.witness else {}
        witness.pop("words", None)
        return {
            "name": self.say(findings.program.name),
            "verdict": terms.verdict_of(findings),
            "mark": {"fails": terms.BAD, "passes": terms.GOOD, "by_design": terms.GOOD}.get(
                findings.verdict, terms.SKIP
            ),
            "summary": self.say(findings.summary) or "No summary was written.",
            "facts": self._facts(),
            "wide": WIDE,
            "next_steps": [self.say(line) for line in findings.next_steps],
            "warnings": [self.say(evidence.line_of(line)) for line in findings.warnings],
            "unasked": [self.say(line) for line in summary.unasked_lines(findings)],
            "unasked_because": summary.left_unasked(findings),
            # Built first, so that it gets what it needs of the page's budget.
            "repro": section(findings, self.run_dir, self.texts, self.names),
            "around": [self._workaround(one) for one in findings.workarounds],
            "known": [self.say(around.known_line(one)) for one in findings.known],
            "picture": draw(findings),
            "ladder": [self._row(step) for step in by_height(findings)],
            "ablation": [self._row(step) for step in findings.ablation],
            "culprits": [self._culprit(number) for number in range(len(findings.culprits))],
            "cross_check": self.say(findings.witness.words if findings.witness else ""),
            "witness": self._pairs(witness),
            "versions": versions_view(findings.versions, self.texts),
            "error": self._error(bad),
            "diffs": [shown for shown in (self._error_diff(good, bad), self._graph_diff(good, bad)) if shown],
            "pair": (good.rung.value, bad.rung.value) if good and bad else None,
            "code": self._code(bad or (findings.ladder[-1] if findings.ladder else None)),
            "environment": self._pairs({k: v for k, v in findings.environment.items() if k != "collect_env"}),
            "again": self._again(good, bad),
            "schema": findings.to_json()["schema"],
        }

    def _facts(self) -> list[tuple[str, str]]:
        findings = self.findings
        facts: list[tuple[str, str]] = []
        if findings.culprit is not None:
            data = findings.culprit.to_json()
            facts.append(("Stage", terms.STAGES[findings.culprit.stage]))
            facts.append(("Where", f"{data['side'].replace('_', ' ')}, {data['level']} level"))
            if findings.culprit.component is not None:
                facts.append(("Component", terms.component_of(findings.culprit)))
            facts.append(("Confidence", self._confidence(data["confidence"])))
        if versions.headline(findings.versions):
            facts.append(("Since when", versions.headline(findings.versions)))
        repro = repro_reader.repro_of(findings, self.run_dir)
        if repro is not None and repro.sizes:
            facts.append(("Smallest repro", repro.sizes))
        if findings.signature is not None:
            facts.append(("Failure", terms.brief_failure(findings.signature)))
        if findings.failure_rate is not None and findings.failure_rate < 1:
            facts.append(("Fails in", f"{findings.failure_rate:.0%} of its runs"))
        facts += [
            (name, said)
            for name, said in zip(("Torch", "Python"), terms.build_of(findings), strict=True)
            if said
        ]
        facts.append(("Probes", f"{sum(findings.probes.values())} in {findings.seconds_total:.1f} s"))
        return [(name, self.say(text, limit=400)) for name, text in facts]

    def _workaround(self, one: Workaround) -> dict[str, Any]:
        return {
            "head": self.say(around.head_of(one), limit=400),
            "kind": one.kind,
            "code": self.say(one.code, limit=8_000),
            "notes": [self.say(line, limit=400) for line in around.notes_of(one)],
        }

    def _confidence(self, word: str) -> str:
        number = self.findings.confidence
        return f"{word}, {number:.1%}" if number is not None else word

    def _row(self, step: Step) -> dict[str, Any]:
        mark = terms.mark_of(step)
        same = step.verdict is Verdict.BAD and self.findings.signature is not None
        remarks = ["the same failure" if same else terms.failure_of(step), step.note]
        if step.max_abs_error:
            remarks.insert(1, f"largest absolute error {step.max_abs_error:.3g}")
        return {
            "mark": mark,
            "said": terms.said_of(step),
            "rung": step.rung.value,
            "runs": terms.runs_of(step),
            "torch": terms.torch_backend(step.rung),
            "switch": self.say(step.switch, limit=200),
            "label": self.say(step.label, limit=200),
            "seconds": f"{step.outcome.seconds:.1f}",
            "remark": self.say("; ".join(part for part in remarks if part), limit=600),
        }

    def _culprit(self, index: int) -> dict[str, Any]:
        culprit = self.findings.culprits[index]
        part = culprit.component
        return {
            "stage": terms.STAGES[culprit.stage],
            "confidence": culprit.confidence.value,
            "component": self.say(f"{part.kind} {part.name}", limit=400) if part else "",
            "component_confidence": part.confidence.value if part else "",
            "detail": self.say(part.detail) if part else "",
            "evidence": [self.say(line) for line in evidence.sentences(culprit.evidence)],
            "exhibits": views(culprit.exhibits, self.texts),
            "alternatives": [
                (terms.alternative(row.name), "open" if row.open else "ruled out", self._why(row))
                for row in culprit.alternatives
            ],
        }

    def _why(self, row: Considered) -> str:
        return self.say(evidence.words_of(row.why))

    def _error(self, bad: Step | None) -> dict[str, Any] | None:
        step = next((s for s in self.findings.baseline if s.outcome.failed), bad)
        signature = self.findings.signature or (step.signature if step else None)
        if step is None and signature is None:
            return None
        trace = ""
        if step is not None:
            trace = run_files.log_of(step, self.run_dir, "stderr.txt", TEXT_LIMIT).text
            if not trace.strip() and step.outcome.raised is not None:
                trace = step.outcome.raised.text
        return {
            "signature": self._pairs(_signature_rows(signature)) if signature else [],
            "trace": self.texts.block("What was printed", trace, open=True),
        }

    def _error_diff(self, good: Step | None, bad: Step | None) -> Shown | None:
        """Returns the diff of the two rungs' output, with numbers and paths removed."""
        if good is None or bad is None:
            return None
        one, two = (self._printed(step) for step in (good, bad))
        return self.texts.diff(
            f"What was printed: {good.rung} (passes) against {bad.rung} (fails)",
            (one, str(good.rung)),
            (two, str(bad.rung)),
        )

    def _printed(self, step: Step) -> list[str]:
        texts = [
            run_files.log_of(step, self.run_dir, name, TEXT_LIMIT).text
            for name in ("stdout.txt", "stderr.txt")
        ]
        if not any(texts) and step.outcome.raised is not None:
            texts = [step.outcome.raised.text]
        return [normalise(line) for line in self.say("\n".join(texts)).splitlines() if line.strip()]

    def _graph_diff(self, good: Step | None, bad: Step | None) -> Shown | None:
        """Returns the diff of the last graph of the good rung and that of the bad one."""
        if good is None or bad is None:
            return None
        one, two = _graph_pair(
            run_files.artifacts_of(good, self.run_dir), run_files.artifacts_of(bad, self.run_dir)
        )
        if one is None or two is None:
            return None
        texts = [
            self.say(run_files.read_text(a.path, TEXT_LIMIT).text, a.name).splitlines() for a in (one, two)
        ]
        return self.texts.diff(
            f"The graph: {good.rung} (passes) against {bad.rung} (fails)",
            (texts[0], f"{good.rung}/{one.name}"),
            (texts[1], f"{bad.rung}/{two.name}"),
        )

    def _code(self, step: Step | None) -> dict[str, Any]:
        """Returns the graphs and the generated code of one rung, generated code first."""
        if step is None:
            return {"rung": "", "files": [], "more": 0}
        artifacts = sorted(run_files.artifacts_of(step, self.run_dir), key=lambda a: (a.is_graph, a.name))
        files = []
        for artifact in artifacts[:MAX_FILES]:
            if self.texts.spent:
                break
            text = run_files.read_text(artifact.path, 4 * TEXT_LIMIT).text
            files.append(
                self.texts.block(f"{artifact.name} ({_size(artifact.size)})", text, file=artifact.name)
            )
        shown = [file for file in files if file is not None]
        return {"rung": step.rung.value, "files": shown, "more": len(artifacts) - len(files)}

    def _again(self, good: Step | None, bad: Step | None) -> list[tuple[str, str]]:
        program = self.findings.program
        target = [program.path] if program.path is not None else ["-m", program.module]
        call = [*target, *program.args]
        rows = [
            ("The plain run", command_line("python", *call)),
            ("The whole bisection", command_line("accel-lab", "bisect", *call)),
        ]
        repro = repro_reader.repro_of(self.findings, self.run_dir)
        if repro is not None:
            rows.insert(0, ("The smallest repro", repro.command(self.names.get(repro.path, repro.path))))
        if program.path is not None:
            extra = f' ARGS="{" ".join(program.args)}"' if program.args else ""
            rows.append(("The same by make", f"make bisect SCRIPT={program.path}{extra}"))
        for step, word in ((good, "passes"), (bad, "fails")):
            name = terms.TORCH_BACKENDS.get(step.rung) if step is not None else None
            if name is not None:
                rows.append((f"By hand, {word}", f'torch.compile(..., backend="{name}")'))
        return [(name, self.say(text, limit=2000)) for name, text in rows]


def _signature_rows(signature: Signature) -> dict[str, Any]:
    """Returns the signature as rows: the message as raised, and as compared if that differs."""
    row = signature.to_json()
    said = row.pop("said", "") or row["message"]
    compared = {"compared as": row["message"]} if row["message"] != said else {}
    return {"kind": row["kind"], "type": row["type"], "message": said, **compared, "frames": row["frames"]}


def _graph_pair(good: list[Artifact], bad: list[Artifact]) -> tuple[Artifact | None, Artifact | None]:
    """Returns the deepest graph of each; for the bad rung the next kind, else the one of the same name."""
    one, two = _deepest(good), _deepest(bad)
    if one is not None and two is not None and one.kind != two.kind:
        return one, two
    same = [a for a in bad if one is not None and a.name == one.name]
    return one, same[0] if same else two


def _deepest(artifacts: list[Artifact]) -> Artifact | None:
    for kind in reversed(run_files.GRAPHS):
        for artifact in artifacts:
            if artifact.kind == kind:
                return artifact
    return next((a for a in artifacts if a.is_graph), None)


def _size(size: int) -> str:
    return f"{size:,} bytes" if size < 10_000 else f"{size / 1000:,.0f} kB"
