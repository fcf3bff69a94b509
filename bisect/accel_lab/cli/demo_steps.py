"""The steps of the tour as data: what each shows, its command, and the exit codes that it must end with."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import accel_lab
from accel_lab.core.errors import LabError
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError

#: The mock's fault that is switched on for the whole tour.
FAULT = "exp_tail_wrong"
SHIPPED = Path(accel_lab.__file__).parent / "workloads" / "attention_demo.py"
#: Name of the script's copy in the tour's folder, where none of the lab's modules is next to it.
SCRIPT = "attention.py"
_LINES = 24


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the tour.

    ``words`` returns the command's words for the tour's folder. ``ends`` are the exit codes that mean
    success. ``after`` returns texts to print from what the command left.
    """

    title: str
    why: str
    words: Callable[[Path], Sequence[str]]
    ends: tuple[int, ...]
    after: Callable[[Path], Sequence[str]] = lambda folder: ()

    def line(self, folder: Path) -> str:
        """The command as the user would type it."""
        return f"MOCK_FAULTS={FAULT} " + shlex.join(["accel-lab", *self.words(folder)])


def newest(folder: Path, name: str) -> Path:
    """Returns the newest file that matches a pattern in the runs of a folder.

    Raises LabError if none does.
    """
    found = sorted(folder.glob(f"*/{name}"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise LabError(f"the step before left no {name} below {folder}: run accel-lab demo again")
    return found[-1]


def _layers(folder: Path) -> Sequence[str]:
    """Returns the first lines of two of the mock's layers."""
    texts = []
    for name in ("fused.txt", "memory_plan.txt"):
        file = newest(folder / "layers", f"**/{name}")
        try:
            lines = (ChildFiles(file.parent).text(name) or "").splitlines()
        except UntrustedFileError:
            continue
        more = f"\n  ... {len(lines) - _LINES} more lines" if len(lines) > _LINES else ""
        texts.append(f"{name}:\n" + "\n".join(f"  {line}" for line in lines[:_LINES]) + more)
    return texts


STEPS: tuple[Step, ...] = (
    Step(
        title="Constraints",
        why="Which constraints of the device does the script violate? Checked before it runs: here, the last "
        "dimension must be a multiple of 32.",
        words=lambda folder: [
            "check",
            "--alignment",
            "32",
            "--out",
            str(folder / "check"),
            str(folder / SCRIPT),
        ],
        ends=(1,),
    ),
    Step(
        title="Layers",
        why="The script on the mock accelerator. Every layer of its compiler is written as text: the "
        "graph, the loop IR before and after fusion, tiles, the memory plan, the spec of each kernel, each "
        "transfer. The script fails: its results are wrong.",
        words=lambda folder: [
            "capture",
            "--backend",
            "mock",
            "--out",
            str(folder / "layers"),
            str(folder / SCRIPT),
        ],
        ends=(1,),
        after=_layers,
    ),
    Step(
        title="Difference",
        why="How wrong, and where? The accelerator's values against eager's and a float64 run's.",
        words=lambda folder: ["diff", "--test", "mock", "--out", str(folder / "diff"), str(folder / SCRIPT)],
        ends=(1,),
    ),
    Step(
        title="Ladder and smallest repro",
        why="Which part is at fault? Front end, back end and transfers are replaced one at a time; the "
        "replacement that fixes it is proven, the first wrong kernel is named, and the script is minimized.",
        words=lambda folder: [
            *("bisect", "--accelerator", "mock", "--minimize-for", "20", "--no-verify"),
            *("--out", str(folder / "bisect"), str(folder / SCRIPT)),
        ],
        ends=(1,),
    ),
    Step(
        title="Bundle",
        why="What a maintainer gets. It is checked, unpacked into an empty folder and run again there.",
        words=lambda folder: [
            *("verify", "--yes", "--provider", "local"),
            str(newest(folder / "bisect", "bundle.zip")),
        ],
        ends=(0,),
    ),
)
