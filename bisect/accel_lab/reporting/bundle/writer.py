"""Writes bundle.zip: all that a maintainer needs to see the failure and run it again; reproducible bytes."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accel_lab import __version__
from accel_lab.core.findings import Findings
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.reporting import repro_reader as reduced
from accel_lab.reporting import run_files
from accel_lab.reporting.page.report import render_html
from accel_lab.reporting.redact.redactor import Redactor
from accel_lab.reporting.redact.review import Left, left_in
from accel_lab.reporting.schema import findings_json, json_text, plain

from .entries import ARTIFACT_LIMIT, LOG_LIMIT, LOGS, REPORT, TOKENISE_LIMIT, Entries, decoded
from .expected import expectation, message_rules, shown_by
from .issue import issue_markdown
from .limits import LIMIT_BYTES, shown_name
from .project import ExternalFile
from .project_copy import project_of
from .readme import Contents, readme
from .size_budget import Dropped, Entry, Packed, choose
from .sources import ORIGINAL, repro_sources, rerun_files

SCHEMA = "accel-lab/bundle/1"
MANIFEST = "MANIFEST.json"

#: Percentage of the limit that the data files of one reduced script may take.
_DATA_SHARE = 60
#: Maximum left-out files named in the manifest.
_NAMED = 1_000
#: The earliest time that a zip can store: bundles carry no timestamps.
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is run again.

    ``smallest``: the smallest verified repro, else the program itself. ``whole``: includes all small files of
    the project's folder, not only those that a run opened.
    """

    smallest: bool = True
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class BundleReport:
    """What was written: path, size in bytes, files, dropped files, and the number of redactions.

    ``digest`` covers everything that a re-run depends on. ``missing`` are files of it that did not fit: name
    in the bundle and path here. ``apart`` are files that the program read elsewhere. ``reduced``: the re-run
    uses a reduced script. ``hangs_s``: for a hang, the seconds that a re-run waits.
    """

    path: Path
    size: int
    sha256: str
    files: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    redactions: int
    warnings: tuple[str, ...]
    digest: str = ""
    missing: tuple[tuple[str, Path], ...] = ()
    apart: tuple[ExternalFile, ...] = ()
    reduced: bool = False
    watched: bool = False
    left: tuple[Left, ...] = ()
    hangs_s: float | None = None


def write_bundle(
    findings: Findings,
    run_dir: Path,
    path: Path,
    *,
    script_text: str | None = None,
    redactor: Redactor | None = None,
    limit_bytes: int = LIMIT_BYTES,
    choice: Choice = Choice(),
    checked: str = "",
) -> BundleReport:
    """Writes the bundle atomically.

    ``script_text`` replaces the script on disk, for a run whose script has changed since. ``checked`` is the
    result of a test run, for the bundle's README.
    """
    maker = _Maker(findings, run_dir, redactor or Redactor.for_this_machine(), script_text, choice, checked)
    data, files, dropped = maker.make(limit_bytes)
    write_atomic(path, data)
    return BundleReport(
        path=path,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        files=tuple(files),
        dropped=tuple(dropped),
        redactions=sum(row["count"] for row in maker.redactor.ledger()),
        warnings=tuple(maker.warnings + maker.redactor.warnings),
        digest=maker.digest,
        missing=tuple(maker.missing),
        apart=tuple(maker.project.apart),
        reduced=maker.reduced,
        watched=maker.project.watched,
        left=tuple(maker.left(files)),
        hangs_s=maker.expected["timeout_s"] if maker.expected["status"] == "timeout" else None,
    )


class _Maker(Entries):
    def __init__(
        self,
        findings: Findings,
        run_dir: Path,
        redactor: Redactor,
        script_text: str | None,
        choice: Choice,
        checked: str,
    ) -> None:
        super().__init__(findings, run_dir, redactor)
        self.script_text = script_text
        self.choice = choice
        self.checked = checked
        self.project = project_of(findings, run_dir, whole=choice.whole)
        self.warnings: list[str] = []
        self.expected: dict[str, Any] = {}
        self.missing: list[tuple[str, Path]] = []
        self.digest = ""
        self.reduced = False

    def make(self, limit: int) -> tuple[bytes, list[str], list[Dropped]]:
        """Returns the zip's bytes, the names in it, and what is not in it."""
        self._collect(limit)
        last = [self._expected([]), self._readme([]), self._ledger()]
        entries = [*self.entries.values(), *last]
        # The manifest names every file, kept or not, and expected.json those of the re-run, so room for a row
        # each is reserved.
        rows = 2 * len(entries) + min(len(self.left_out), _NAMED)
        names = sum(len(e.name.encode(errors="replace")) for e in entries)
        reserve = 4_000 + 260 * rows + 3 * names
        kept, dropped = choose(entries, limit - reserve)
        dropped = sorted([*self.left_out, *dropped], key=lambda d: d.name)
        kept = self._told(kept, dropped, last)
        manifest = self._manifest(kept, dropped)
        files = [*kept, Packed(entry=manifest, size=0, stored=False)]
        return _zip(files), sorted(p.entry.name for p in files), dropped

    def _told(self, kept: list[Packed], dropped: list[Dropped], last: list[Entry]) -> list[Packed]:
        """Rebuilds the entries that describe the others, now that the kept ones are known."""
        names = {entry.name for entry in last}
        kept = [packed for packed in kept if packed.entry.name not in names]
        here = {packed.entry.name for packed in kept}
        gone = [row for row in self.expected["run"]["files"] if row[0] not in here]
        places = {
            ORIGINAL + self.redactor.text(m.name, "MANIFEST.json"): m.origin or m.path
            for m in self.project.members
        }
        self.missing = [(name, places[name]) for name, _ in gone if name in places]
        again = [self._expected(gone), self._readme(dropped), self._ledger()]
        self.digest = self._digest([p.entry for p in kept] + again[:1])
        return [*kept, *(Packed(entry=entry, size=0, stored=False) for entry in again)]

    def _digest(self, entries: list[Entry]) -> str:
        """Returns the hash of everything that a re-run depends on."""
        sources = {name for name, _ in self.expected["run"]["files"]}
        sources |= {"expected.json", "rerun.py", self.expected["run"]["stdin"]}
        digest = hashlib.sha256()
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name in sources:
                digest.update(
                    f"{entry.name}\0{len(entry.data)}\0".encode("utf-8", "backslashreplace") + entry.data
                )
        return digest.hexdigest()

    def _expected(self, gone: list[list[str]]) -> Entry:
        sizes = {ORIGINAL + m.name: m.size for m in self.project.members}
        missing = [{"path": name, "size": sizes.get(name, 0)} for name, _ in gone]
        data = {**self.expected, "missing": missing, **message_rules()}
        return Entry(name="expected.json", data=json_text(data).encode())

    def _ledger(self) -> Entry:
        return Entry(name="LEDGER.json", data=json_text({"replaced": self.redactor.ledger()}).encode())

    def _readme(self, dropped: list[Dropped]) -> Entry:
        contents = Contents(
            project=self.project,
            expected=self.expected,
            reduced=self.reduced,
            dropped=dropped,
            missing=[name for name, _ in self.missing],
            checked=self.checked,
        )
        return Entry(
            name="README.md",
            data=self.redactor.text(readme(contents), "README.md").encode("utf-8", "backslashreplace"),
        )

    def left(self, files: Iterable[str]) -> list[Left]:
        """Returns private-looking text that was left in; report.html only repeats it, so it is skipped."""
        own = {"LEDGER.json", MANIFEST, "report.html", *(entry.name for entry in rerun_files())}
        texts = {
            name: self.entries[name].data.decode("utf-8", "replace")
            for name in sorted(files, key=_nearness)
            if name not in own and name in self.entries and b"\0" not in self.entries[name].data
        }
        return left_in(texts, self.redactor.names)

    def _collect(self, limit: int) -> None:
        """Collects every file that the bundle could have, redacted."""
        sources = repro_sources(
            self.findings,
            self.run_dir,
            self.project,
            script_text=self.script_text,
            room=limit * _DATA_SHARE // 100,
            smallest=self.choice.smallest,
        )
        self.reduced = sources.run_again is not None
        found = moved(self.findings, sources.names)
        self.left_out += sources.left_out
        self.warnings += sources.warnings
        for name, text in sources.files.items():
            self.redactor.learn(text, name)
        self.redactor.learn_value(findings_json(found))
        for file in sources.data:
            self.redactor.learn(decoded(file.data) or "", file.name)
        for _, step in self._rows():
            for artifact in run_files.artifacts_of(step, self.run_dir):
                found_text = run_files.read_text(artifact.path, ARTIFACT_LIMIT)
                slow = found_text.size > TOKENISE_LIMIT
                self.redactor.learn(found_text.text, "" if slow else artifact.name)
            for log in LOGS:
                self.redactor.learn(run_files.log_of(step, self.run_dir, log, LOG_LIMIT).text)
        for name, text in sources.files.items():
            self._add(self.redactor.text(name, "MANIFEST.json"), self.redactor.any(text, name))
        for file in sources.data:
            self._add_data(file)
        publish = self.redactor.message
        expected = expectation(found, sources.run_again, publish, args=sources.args, printed=self._printed())
        shown = self.redactor.value({**expected, "run": sources.run}, "expected.json")
        texts = {key: expected[key] for key in ("message", "inner")}  # redacted before they were normalised
        self.expected = {**shown, **texts}
        for entry in rerun_files():
            self.entries[entry.name] = entry
            self.folded.add(entry.name)
        self._add(
            "report.json", json_text(self.redactor.value(_portable(found, sources.names), "report.json"))
        )
        self._add(
            "environment.json", json_text(self.redactor.value(plain(found.environment), "environment.json"))
        )
        issue = issue_markdown(found, self.run_dir, redact=self._redact_issue, bundle="bundle.zip")
        self._add("ISSUE.md", issue)
        html = render_html(found, self.run_dir, redact=self._redact_html, names=sources.names)
        self._add("report.html", html, rank=REPORT)
        self._changes()
        self._backport()
        self._accelerator()
        self._steps()

    def _changes(self) -> None:
        """Adds the smallest difference of torch's sources at each flip that has one."""
        flips = self.findings.versions.flips if self.findings.versions else ()
        texts = [flip.change.diff for flip in flips if flip.change is not None and flip.change.diff]
        if texts:
            self._add("change.diff", self.redactor.text("\n".join(texts), "change.diff") + "\n", rank=REPORT)

    def _backport(self) -> None:
        """Adds the import hook with a later release's fix, if the user's script passes with it."""
        if not any(one.kind == "backport" for one in self.findings.workarounds):
            return
        try:
            text = ChildFiles(self.run_dir / "backport").text("torch_backport.py")
        except UntrustedFileError:
            return
        if text is not None:
            name = "backport/torch_backport.py"
            self._add(name, self.redactor.text(text, name), rank=REPORT)

    def _printed(self) -> str:
        """Returns the end of the failing run's standard output."""
        step = shown_by(self.findings)
        if step is None:
            return ""
        return run_files.log_of(step, self.run_dir, "stdout.txt", LOG_LIMIT).text

    def _manifest(self, kept: list[Packed], dropped: list[Dropped]) -> Entry:
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "accel_lab": __version__,
            "findings": "report.json",
            "files": [
                {
                    "path": p.entry.name,
                    "size": len(p.entry.data),
                    "sha256": hashlib.sha256(p.entry.data).hexdigest(),
                }
                for p in kept
            ],
            "dropped": [
                {"path": shown_name(d.name), "size": d.size, "reason": d.reason} for d in dropped[:_NAMED]
            ],
        }
        rest = Counter(d.reason for d in dropped[_NAMED:])
        content["dropped"] += [
            {"path": f"{count:,} more files", "size": 0, "reason": reason} for reason, count in rest.items()
        ]
        return Entry(name=MANIFEST, data=json_text(content).encode())


def _nearness(name: str) -> tuple[int, str]:
    """Sorts files that a person wrote before generated ones."""
    return 0 if name == "repro.py" else 2 if "/" not in name or name.startswith("artifacts/") else 1, name


def _portable(findings: Findings, names: Mapping[str, str]) -> dict[str, Any]:
    """Returns the findings with paths of this run replaced by the bundle's own files."""
    data = findings_json(findings)
    data.update(artifacts="artifacts", report="report.html", bundle=None)
    repro = data["repro"]
    for row in (repro, repro.get("other") if isinstance(repro, dict) else None):
        for key in ("script", "graph", "min_good"):
            if isinstance(row, dict) and row.get(key) is not None:
                row[key] = names.get(str(row[key]))
    return data


def moved(findings: Findings, names: Mapping[str, str]) -> Findings:
    """Returns the findings with paths of reduced scripts in their text replaced by the bundle's names."""

    def said(line: str) -> str:
        for path, name in names.items():
            for old in (path, reduced.short_name(path)):
                new = name.replace("\\", r"\\")
                line = re.sub(rf"(?<![\w./-]){re.escape(old)}(?![\w/-])", new, line)
        return line

    return replace(
        findings,
        summary=said(findings.summary),
        next_steps=[said(line) for line in findings.next_steps],
    )


def _zip(files: list[Packed]) -> bytes:
    """Zips reproducibly: fixed order, times, permissions and compression level."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for packed in sorted(files, key=lambda p: p.entry.name):
            info = zipfile.ZipInfo(packed.entry.name, _EPOCH)
            info.create_system = 3
            info.external_attr = (0o100755 if packed.entry.executable else 0o100644) << 16
            method = zipfile.ZIP_STORED if packed.stored else zipfile.ZIP_DEFLATED
            archive.writestr(info, packed.entry.data, compress_type=method, compresslevel=9)
    return stream.getvalue()
