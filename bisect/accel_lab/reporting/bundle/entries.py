"""Collects the files that a bundle could have, redacted and ranked by use; ``size_budget`` chooses."""

from __future__ import annotations

import re
from pathlib import Path

from accel_lab.core.findings import Findings, Step
from accel_lab.core.text import printable
from accel_lab.core.verdict import Verdict
from accel_lab.reporting import run_files
from accel_lab.reporting.redact.redactor import Redactor
from accel_lab.reporting.schema import json_text, plain
from accel_lab.reporting.words import terms

from .size_budget import Dropped, Entry, entry_name
from .sources import Data

LOGS = ("stderr.txt", "stdout.txt")
LOG_LIMIT = 400_000
ARTIFACT_LIMIT = 4_000_000
TOKENISE_LIMIT = 300_000

# Ranks: the highest is dropped first.
_REQUIRED, REPORT, _NEEDED, _CULPRIT, _CULPRIT_LOG, _FAILING, _PASSING, _SWITCH, _LOG, _BESIDE = range(10)


class Entries:
    """Collects what a run left in ``run_dir``: artifacts, logs and outcomes of every step."""

    def __init__(self, findings: Findings, run_dir: Path, redactor: Redactor) -> None:
        self.findings = findings
        self.run_dir = run_dir
        self.redactor = redactor
        self.left_out: list[Dropped] = []
        self.entries: dict[str, Entry] = {}
        self.folded: set[str] = {"ledger.json", "manifest.json", "readme.md"}

    def _redact_issue(self, text: str, file: str) -> str:
        return (
            self.redactor.python(text, "ISSUE.md")
            if file.endswith(".py")
            else self.redactor.text(text, "ISSUE.md")
        )

    def _redact_html(self, text: str, file: str) -> str:
        if file.endswith(".py"):
            return self.redactor.python(text, "report.html")
        return self.redactor.text(text, "report.html")

    def _steps(self) -> None:
        """Adds the artifacts and logs of every step, in folders by rung."""
        bad, good = terms.first_bad(self.findings), terms.last_good(self.findings)
        taken: dict[str, int] = {}
        for name, step in self._rows():
            base = "artifacts/" + _file_name(self.redactor.text(name, "MANIFEST.json"))
            taken[base] = taken.get(base, 0) + 1
            folder = base if taken[base] == 1 else f"{base}-{taken[base]}"
            self._step(folder, step, near=step is bad or step is good)

    def _rows(self) -> list[tuple[str, Step]]:
        rows = [("baseline", step) for step in self.findings.baseline]
        rows += [(step.rung.value, step) for step in self.findings.ladder]
        return rows + [(f"switch-{step.switch}", step) for step in self.findings.ablation]

    def _step(self, folder: str, step: Step, *, near: bool) -> None:
        rank = _CULPRIT if near else _SWITCH if step.switch else _FAILING
        if rank == _FAILING and step.verdict is Verdict.GOOD:
            rank = _PASSING
        for artifact in run_files.artifacts_of(step, self.run_dir):
            label = self.redactor.text(artifact.name, "MANIFEST.json")
            name = folder + "/" + "/".join(_file_name(part) for part in label.split("/"))
            text = run_files.read_text(artifact.path, ARTIFACT_LIMIT)
            if "\0" in text.text:
                reason = "not a text, so nothing private can be taken out of it"
                self.left_out.append(Dropped(name=name, size=text.size, reason=reason))
                continue
            if text.cut:
                self._was_cut(name, text.size)
            # The tokeniser is slow and nobody runs a large artifact, so it is redacted as plain text.
            redact = self.redactor.any if text.size <= TOKENISE_LIMIT else self.redactor.text
            self._add(name, redact(text.text, name), rank=rank)
        for log in LOGS:
            text = run_files.log_of(step, self.run_dir, log, LOG_LIMIT)
            if not text.text:
                continue
            if text.cut:
                self._was_cut(f"{folder}/{log}", text.size)
            shown = printable(text.text)
            self._add(
                f"{folder}/{log}",
                self.redactor.text(shown, f"{folder}/{log}"),
                rank=_CULPRIT_LOG if near else _LOG,
            )
        # The opened files are private; the packed ones among them are in the manifest.
        facts = {key: value for key, value in step.outcome.facts.items() if key != "opened"}
        outcome = plain({**step.outcome.to_json(), "folder": folder, "facts": facts})
        self._add(
            f"{folder}/outcome.json",
            json_text(self.redactor.value(outcome, f"{folder}/outcome.json")),
            rank=_FAILING,
        )

    def _accelerator(self) -> None:
        """Adds the files that explain a run on an accelerator: transfers, plans, kernels, versions."""
        for artifact in run_files.accelerator_files(self.run_dir):
            name = "accelerator/" + "/".join(_file_name(part) for part in artifact.name.split("/"))
            text = run_files.read_text(artifact.path, ARTIFACT_LIMIT)
            if text.cut:
                self._was_cut(name, text.size)
            # Kernels are data: a tokeniser would spend minutes on the bytes in them.
            self._add(name, self.redactor.text(text.text, name), rank=_CULPRIT)

    def _add_data(self, file: Data) -> None:
        """Adds a file that the program runs or reads: text is redacted, other data is copied as it is."""
        name = self.redactor.text(file.name, "MANIFEST.json")
        text = decoded(file.data)
        redact = self.redactor.any if len(file.data) <= TOKENISE_LIMIT else self.redactor.text
        data = file.data if text is None else redact(text, name).encode()
        if file.needed:
            rank = _REQUIRED
        else:
            rank = {"": _CULPRIT, "listed": _FAILING, "beside": _BESIDE}.get(file.why, _NEEDED)
        self._add_bytes(name, data, rank=rank)

    def _was_cut(self, name: str, size: int) -> None:
        self.left_out.append(Dropped(name=name, size=size, reason="the middle was cut out"))

    def _add(self, name: str, text: str, *, rank: int = _REQUIRED) -> None:
        self._add_bytes(name, text.encode("utf-8", "backslashreplace"), rank=rank)

    def _add_bytes(self, name: str, data: bytes, *, rank: int) -> None:
        name = entry_name(name)
        if name.casefold() in self.folded:
            reason = "another file has this name, but for upper and lower case"
            self.left_out.append(Dropped(name=name, size=len(data), reason=reason))
            return
        self.folded.add(name.casefold())
        self.entries[name] = Entry(name=name, data=data, rank=rank)


def _file_name(text: str) -> str:
    """Returns a file name that every file system accepts."""
    name = re.sub(r"[^A-Za-z0-9._+=-]+", "_", text).strip(".")[:100]
    return name or "_"


def decoded(data: bytes) -> str | None:
    """Returns the bytes as UTF-8 text; None if they are not text."""
    try:
        return data.decode("utf-8") if b"\0" not in data else None
    except UnicodeDecodeError:
        return None
