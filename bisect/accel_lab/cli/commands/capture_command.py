"""``accel-lab capture``: writes every layer of the compiler for a script into one folder with a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import click

from accel_lab.cli import tlparse
from accel_lab.cli.job import Question, SingleRun, require_run, run_each
from accel_lab.cli.options import ProgramCommand, program_options
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.judge import signature_of
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.stages import Rung
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.inspection import layers
from accel_lab.inspection.captured import Captured, File, Kernel

OWN, MOCK = "own", "mock"
_LAYERS = (("layers", True), ("annotate", True))
_MOCK_LAYERS = (("layers", True), ("mock", {"trace": True, "front_end": "main", "back_end": "main"}))
#: Most bytes of one text, and most files of the mock.
_MOST_BYTES, _MOST_FILES = 4 << 20, 400
#: The mock's texts of one graph, in the order in which it makes them.
_MOCK_TEXTS = ("graph.txt", "loop_ir.txt", "fused.txt", "tiled.txt", "memory_plan.txt", "program.txt")
_SUFFIXES = {"cpp": "cpp", "python": "py"}


@click.command(name="capture", cls=ProgramCommand)
@program_options
@click.option(
    "--backend",
    type=click.Choice([OWN, MOCK]),
    default=OWN,
    show_default=True,
    help="What compiles the graphs: the script's own backend, or the mock accelerator.",
)
@click.option("--out", type=click.Path(file_okay=False), help="Where to make the run's folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(backend: str, out: str | None, as_json: bool, **words: Any) -> int:
    """Run SCRIPT once and write down every layer of the compiler: graphs, loop IR, generated kernels.

    SCRIPT may pass or fail. If it fails, the layers before the failure are kept. If tlparse is installed, the
    script is run once more for tlparse's page.

    Exit codes: 0 done, 1 the script failed, 2 wrong usage, 3 the lab could not do it.
    """
    from accel_lab.reporting.page import capture as page
    from accel_lab.reporting.schema import json_text
    from accel_lab.reporting.words import capture as capture_words

    tool = tlparse.program()
    rung, switches = (Rung.MOCK, _MOCK_LAYERS) if backend == MOCK else (Rung.KERNEL, _LAYERS)
    questions = [Question(rung=rung, switches=switches)]
    if tool is not None:
        traced = switches[1:] if backend == MOCK else ()
        questions.append(Question(rung=rung, switches=(("trace", True), *traced)))
    once, *again = run_each(questions, command="capture", out=out, **words)
    folder = once.workspace.root
    place, note = "", capture_words.NO_TLPARSE
    if tool is not None:
        place, note = tlparse.make_page(tool, Path(again[0].outcome.folder), folder)
    captured = _captured(once, backend, place, (note,) if note else ())
    data = captured.to_json()
    write_atomic(folder / "capture.json", json_text(data))
    page.write(captured, folder)
    if as_json:
        click.echo(json_text(data), nl=False)
    else:
        click.echo(capture_words.terminal(captured))
        click.echo(f"\npage    {folder / 'index.html'}")
        click.echo(f"tlparse {folder / captured.tlparse}\nfolder  {folder}" if place else f"folder  {folder}")
    return int(bool(captured.failed))


def _captured(once: SingleRun, backend: str, page: str, notes: tuple[str, ...]) -> Captured:
    """Copies what the run left into the run's folder.

    Raises LabError or UsageError if nothing was compiled.
    """
    outcome, folder = once.outcome, once.workspace.root
    require_run(outcome)
    files = ChildFiles(outcome.folder)
    found = tuple(layers.read(files))
    ended = signature_of(outcome)
    if not found:
        if ended is not None:
            raise LabError(f"the script failed before anything was compiled: {ended.line}")
        raise UsageError("the script compiles nothing with torch.compile: there is nothing to capture")
    kernels = tuple(Kernel.from_facts(row) for row in outcome.facts.get("kernels") or ())
    code = [
        (f"code/{PurePosixPath(name).name}", "generated wrapper program", name)
        for name in files.names("artifacts/output_code_*.py")
    ]
    mock = [(f"mock/{name}", name, f"mock/{name}") for name in _below(Path(outcome.folder, "mock"))]
    for number, kernel in enumerate(kernels):
        _put(folder / "kernels" / f"kernel_{number}.{_SUFFIXES.get(kernel.language, 'txt')}", kernel.text)
    return Captured(
        program=once.program.name,
        torch=once.build.torch or "",
        backend=backend,
        folder=str(folder),
        failed=ended.line if ended is not None else "",
        layers=found,
        texts=_texts(found, files, folder),
        kernels=kernels,
        code=tuple(_copied(code, files, folder)),
        mock=tuple(_copied(mock, files, folder)),
        tlparse=page,
        notes=notes,
    )


def _texts(found: tuple[layers.Layer, ...], files: ChildFiles, folder: Path) -> dict[int, File]:
    """Copies each layer's text under a name that sorts in compile order; returns the texts by order."""
    texts: dict[int, File] = {}
    for layer in found:
        text = files.head(f"layers/{layer.file}", _MOST_BYTES) if layer.file else None
        if text is None:
            continue
        kind = layer.kind if layer.kind in layers.TITLES else "layer"
        direction = f"_{layer.direction}" if layer.direction in ("forward", "backward") else ""
        path = f"layers/{layer.order:03d}_{kind}{direction}.{'py' if layer.is_graph else 'txt'}"
        _put(folder / path, text)
        texts[layer.order] = File(path=path, title=layer.title, text=text)
    return texts


def _copied(names: list[tuple[str, str, str]], files: ChildFiles, folder: Path) -> Iterator[File]:
    for path, title, name in names:
        text = files.head(name, _MOST_BYTES)
        if text is not None:
            _put(folder / path, text)
            yield File(path=path, title=title, text=text)


def _below(folder: Path) -> list[str]:
    """Lists the regular files below a folder as relative paths, without links, in the mock's order."""
    order = {name: place for place, name in enumerate(_MOCK_TEXTS)}
    found = sorted(
        (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()),
        key=lambda path: (path.parent, order.get(path.name, len(order)), path.name),
    )
    return [path.relative_to(folder).as_posix() for path in found[:_MOST_FILES]]


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text)
