"""A notebook is run as a script: cells in order, magics left out and said, a strange file is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.errors import UsageError
from accel_lab.core.outcome import Status
from accel_lab.core.probe import Limits, Probe
from accel_lab.execution import notebooks
from accel_lab.execution.notebooks import notebook_warnings, script_of
from accel_lab.execution.prober import Prober
from accel_lab.execution.programs import folder_of, read_program
from accel_lab.request import Request, load_request, opened


def code(source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], **more}


def notebook(*cells: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells, **more}).encode()


TEXT = {"cell_type": "markdown", "source": "# A title\n%not a magic"}


def run(source: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(compile(source.replace("import sys; sys.path[0]", "_ = [0]; _[0]"), "x", "exec"), space)
    return space


def test_code_cells_in_order_each_with_its_number(tmp_path: Path) -> None:
    data = notebook(code(["a = 1\n", "b = 2"]), TEXT, code("c = a + b"), code(""))
    source = script_of(data, tmp_path / "n.ipynb")
    assert run(source)["c"] == 3
    lines = source.splitlines()
    assert lines[lines.index("# cell 3 of n.ipynb") + 1] == "c = a + b"
    assert str(tmp_path) in lines[0] and "cell 2" not in source


def test_format_3_has_worksheets(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "language": "python", "input": ["x = 5\n"]}
    data = json.dumps({"nbformat": 3, "worksheets": [{"cells": [TEXT, cell]}]}).encode()
    assert run(script_of(data, tmp_path / "n.ipynb"))["x"] == 5


MAGICS = """%matplotlib inline
!pip install torch
x = (7
     % 4)
text = '''
%kept
!kept
'''
if x:
    !ls
%time y = x + 1
files = !ls
x?
z = y"""


def test_magics_are_left_out_and_said_and_what_is_python_stays(tmp_path: Path) -> None:
    cells = [code(MAGICS), code("%%bash\nrm -rf /"), code("%%time\nw = z + 1\n"), code("display(w)")]
    (tmp_path / "n.ipynb").write_bytes(notebook(*cells))
    request, folder = opened(
        Request(program=read_program(str(tmp_path / "n.ipynb"), None, ("a",)), out=tmp_path / "out")
    )
    program = request.program
    assert program.path == str(folder / "n.py") and program.origin == str(tmp_path / "n.ipynb")
    assert (program.name, program.args, folder_of(program)) == ("n.ipynb", ("a",), tmp_path)
    space = run(Path(program.path).read_text())
    assert (space["x"], space["y"], space["z"], space["w"]) == (3, 4, 4, 5)
    assert space["text"] == "\n%kept\n!kept\n"
    first, second = notebook_warnings(program)
    assert "n.py" in first
    assert second.startswith("left out of n.ipynb, as only IPython knows it: cell 1, %matplotlib inline;")
    assert second.endswith(" and 3 more")
    (folder / "request.json").write_text(json.dumps(request.to_json()))
    assert load_request(folder).program == program


def test_future_imports_of_later_cells_come_first(tmp_path: Path) -> None:
    data = notebook(code("a = 1"), code("from __future__ import annotations\nb: Nothing = 2"))
    source = script_of(data, tmp_path / "n.ipynb")
    assert source.startswith("from __future__ import annotations\n") and run(source)["b"] == 2


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is not JSON"),
        (b"\xff\xfe{", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "it has no cells"),
        (b'{"cells": 3}', "it has no code cells"),
        (b'{"cells": [3, {"cell_type": "code", "source": {}}, {"cell_type": []}]}', "it has no code cells"),
        (notebook(TEXT), "it has no code cells"),
        (notebook(code("x"), metadata={"kernelspec": {"language": "R"}}), "is a notebook in R"),
        (notebook(code("a = 1"), code("b = 2\nc = = 3")), "cell 2 is not valid Python (line 2 of the cell)"),
        (notebook(code("await x")), "cannot be run as a script"),
    ],
)
def test_a_strange_file_is_one_line(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "n.ipynb"
    path.write_bytes(data)
    with pytest.raises(UsageError) as error:
        read_program(str(path), None, ())
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_huge_file_is_not_read_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "MAX_BYTES", 10)
    with pytest.raises(UsageError, match="MB"):
        script_of(notebook(code("x = 1")), tmp_path / "n.ipynb")


@pytest.mark.torch
@pytest.mark.parametrize("bare", [True, False])
def test_it_runs_in_the_notebooks_folder(torch_python: str, tmp_path: Path, bare: bool) -> None:
    from accel_lab.execution.run_folder.workspace import Workspace

    home = tmp_path / "home"
    home.mkdir()
    (home / "helper_beside.py").write_text("VALUE = 41\n")
    (home / "data.txt").write_text("1")
    text = "import helper_beside\nprint('sum', helper_beside.VALUE + int(open('data.txt').read()))"
    (home / "n.ipynb").write_bytes(notebook(code(text)))
    request, folder = opened(
        Request(program=read_program(str(home / "n.ipynb"), None, ()), out=tmp_path / "out")
    )
    workspace = Workspace(folder, folder_of(request.program))
    with Prober(python=torch_python, workspace=workspace) as prober:
        outcome = prober.ask(
            Probe(program=request.program, limits=Limits(timeout_s=120.0), bare=bare, cold=True)
        )
    assert outcome.status is Status.OK
    assert (Path(outcome.folder) / "stdout.txt").read_text() == "sum 42\n"
