"""Judge the groups of a triage: scripts of known faults, each in several surroundings, triaged together.

    python benchmarks/triage_groups.py [--faults N] [--variants N] [--kinds golden seeded] [-- OPTIONS]

A fault is a golden case (repros/) or a seeded fault of torch's compiler (benchmarks/inductor_faults/). Of a
golden case the variants are its script in generated surroundings (benchmarks/surroundings.py), as far as they
still fail in the same way when run plainly; of a seeded fault they are the scripts that show it, in
surroundings too. OPTIONS go to `accel-lab triage`, `--engine` and `--store` among them. `--faults 40
--variants 5` makes the 200 scripts of the bar.

purity: the part of the grouped scripts whose group is mostly of their own fault. completeness: the part of
all scripts that are in the largest group of their fault. Exit code 1 below 95 % and 90 %.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz import Bench, simple
from golden import ROOT, Case, load_cases
from harness import build_of, missing_modules, run_plain, stop_when_asked
from seeded import FAULTS, Fault
from surroundings import SILENT, SURROUNDINGS, NotSimpleError, surround

PURE, COMPLETE = 0.95, 0.90
_NAMES = [name for name in SURROUNDINGS if name != SILENT]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How well groups fit the truth. ``alone``: scripts in no group, as they were not seen to fail."""

    scripts: int
    faults: int
    groups: int
    purity: float
    completeness: float
    alone: tuple[str, ...]
    mixed: tuple[str, ...]

    @property
    def good(self) -> bool:
        return self.purity >= PURE and self.completeness >= COMPLETE


def judged(truth: Mapping[str, str], groups: Sequence[Sequence[str]]) -> Judged:
    """``truth`` is the fault of each script, ``groups`` are what the triage made of them."""
    grouped = sum(len(members) for members in groups)
    own = [Counter(truth[name] for name in members) for members in groups]
    largest = {fault: max((count[fault] for count in own), default=0) for fault in set(truth.values())}
    together = {name for members in groups for name in members}
    return Judged(
        scripts=len(truth),
        faults=len(largest),
        groups=len(groups),
        purity=sum(max(count.values()) for count in own) / grouped if grouped else 0.0,
        completeness=sum(largest.values()) / len(truth) if truth else 0.0,
        alone=tuple(sorted(set(truth) - together)),
        mixed=tuple(", ".join(sorted(count)) for count in own if len(count) > 1),
    )


def golden_scripts(case: Case, bench: Bench, folder: Path, most: int, seed: int) -> Iterator[Path]:
    """The case's own script, and then variants that fail as it does."""
    source = (case.folder / "repro.py").read_text(encoding="utf-8")
    yield _written(folder / f"{_word(case.slug)}__own.py", source)
    made = 1
    for name in random.Random(seed).sample(_NAMES, len(_NAMES)):
        if made >= most:
            return
        try:
            text = surround(source, name, seed)
        except NotSimpleError:
            continue
        script = _written(folder / f"{_word(case.slug)}__{name}.py", text)
        if why := bench.differs(case, script, name):
            print(f"{script.name}: dropped, {why}", file=sys.stderr, flush=True)
            script.unlink()
            continue
        made += 1
        yield script


def seeded_scripts(fault: Fault, python: str, folder: Path, most: int, seed: int) -> Iterator[Path]:
    """The scripts that show a fault, its patch on top of each; then the same in surroundings.

    In surroundings a script may fail uncompiled: a worker fed by a loader writes to a copy of its input.
    """
    assert fault.patch is not None
    patch = fault.patch.read_text(encoding="utf-8")
    made = 0
    for name in ["", *random.Random(seed).sample(_NAMES, len(_NAMES))]:
        for script in fault.scripts:
            if made >= most:
                return
            source = script.read_text(encoding="utf-8")
            try:
                text = surround(source, name, seed) if name else source
            except NotSimpleError:
                continue
            path = _written(folder / f"{_word(script.stem)}__{name or 'own'}.py", f"{patch}\n\n{text}")
            if run_plain(python, [str(path)], env={"TORCHDYNAMO_DISABLE": "1"}, timeout_s=300).code != 0:
                path.unlink()
                continue
            made += 1
            yield path


def made(given: argparse.Namespace, folder: Path, known: Path) -> dict[str, str]:
    """Write the scripts; the fault of each by its file's name.

    ``known`` keeps that after each fault, so that making them can be stopped and gone on with.
    """
    build = build_of(given.python)
    bench = Bench(python=given.python, build=build)
    cases = [
        case for case in load_cases(names=given.cases) if not (simple(case, build) or case.args or case.env)
    ]
    cases = [case for case in cases if not missing_modules(given.python, case.needs)]
    seeded = [fault for fault in FAULTS.values() if not fault.on_mock and fault.scripts]
    chosen: list[Case | Fault] = [
        *(cases if "golden" in given.kinds else ()),
        *(seeded if "seeded" in given.kinds else ()),
    ]
    random.Random(given.seed).shuffle(chosen)
    truth: dict[str, str] = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
    for one in chosen:
        if len(set(truth.values())) >= given.faults:
            break
        name = one.slug if isinstance(one, Case) else one.name
        if name in truth.values():
            continue
        if isinstance(one, Case):
            if bench.original(one, eager=False).code in (0, None):
                continue
            scripts = list(golden_scripts(one, bench, folder, given.variants, given.seed))
        else:
            scripts = list(seeded_scripts(one, given.python, folder, given.variants, given.seed))
        truth.update({script.name: name for script in scripts})
        known.write_text(json.dumps(truth, indent=1), encoding="utf-8")
        print(f"{name}: {len(scripts)} scripts", file=sys.stderr, flush=True)
    for script in folder.glob("*.py"):
        if script.name not in truth:  # of a fault at which an earlier run was stopped
            script.unlink()
    return truth


def triaged(given: argparse.Namespace, place: Path, out: Path) -> dict[str, Any]:
    """What ``accel-lab triage`` makes of the scripts."""
    command = [sys.executable, "-m", "accel_lab", "triage", str(place), "--python", given.python]
    command += ["--out", str(out), "--json", *given.options]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bisect")}
    ended = subprocess.run(command, stdout=subprocess.PIPE, env=env, check=False)
    if ended.returncode not in (0, 1, 125):
        raise SystemExit(f"accel-lab triage ended with exit code {ended.returncode}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def told(result: Judged, triage: Mapping[str, Any]) -> str:
    """The result as text."""
    lines = [
        f"{result.scripts} scripts of {result.faults} faults, {result.groups} groups, "
        f"{triage['seconds']:.0f} s",
        f"purity        {result.purity:7.1%}  (bar {PURE:.0%})",
        f"completeness  {result.completeness:7.1%}  (bar {COMPLETE:.0%})",
        *(f"in no group: {name}" for name in result.alone),
        *(f"one group of: {names}" for names in result.mixed),
    ]
    return "\n".join(lines)


def _word(slug: str) -> str:
    return slug.replace("-", "_")


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def main(argv: Sequence[str]) -> int:
    """Make the scripts, triage them, judge the groups."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--variants", type=int, default=5, help="scripts of one fault, at most")
    parser.add_argument("--kinds", nargs="*", default=["golden", "seeded"], choices=["golden", "seeded"])
    parser.add_argument(
        "--cases", nargs="*", default=[], metavar="NAME", help="golden cases, or parts of names"
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter to probe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--keep",
        type=Path,
        help="keep the scripts, the truth and the triage here; made scripts are used again",
    )
    parser.add_argument("options", nargs="*", help="options of accel-lab triage, after --")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="accel-lab-groups-") as name:
        folder = given.keep or Path(name)
        place = folder / "scripts"
        place.mkdir(parents=True, exist_ok=True)
        truth = made(given, place, folder / "truth.json")
        if not truth:
            raise SystemExit("no script could be made: choose other cases")
        triage = triaged(given, place, folder)
        result = judged(truth, [fault["members"] for fault in triage["faults"]])
    print(told(result, triage))
    return 0 if result.good else 1


if __name__ == "__main__":
    stop_when_asked()
    sys.exit(main(sys.argv[1:]))
