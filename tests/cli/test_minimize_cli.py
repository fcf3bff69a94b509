"""``accel-lab minimize`` and ``bisect --minimize-for`` on a real torch, through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

# pytorch#198131, which every release so far has, buried in a model: what is kept is the value that the
# input gets only later.
HOST = '''
"""A small model with a wrong number in the middle."""
import torch

class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.second = torch.nn.Linear(width, width)

    def forward(self, x, seen):
        y = torch.relu(self.first(x))
        seen[:] = x[:]
        x.add_(1)
        z = self.second(y) + x
        return torch.tanh(z) + 0.5

def main():
    torch.manual_seed(0)
    blocks = Block(8)
    x = torch.randn(4, 8)
    print("running on", x.shape)
    with torch.no_grad():
        want, got = torch.zeros(4, 8), torch.zeros(4, 8)
        blocks(x.clone(), want)
        torch.compile(blocks)(x.clone(), got)
    torch.testing.assert_close(got, want)
    print("all good")

if __name__ == "__main__":
    main()
'''


def run(folder: Path, *words: str, timeout: float = 900.0) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bisect"), "ACCEL_LAB_HOME": str(folder / "home")}
    return subprocess.run(
        [sys.executable, "-m", "accel_lab", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def plain(python: str, script: str) -> int:
    return subprocess.run([python, script], capture_output=True, timeout=600, check=False).returncode


@pytest.mark.torch
@pytest.mark.slow
def test_a_fault_in_a_model_becomes_a_few_lines(tmp_path: Path, torch_python: str) -> None:
    script = tmp_path / "host.py"
    script.write_text(HOST)
    done = run(tmp_path, "minimize", "--for", "60s", "--json", "--python", torch_python, str(script))
    if done.returncode == 0 and json.loads(done.stdout)["verdict"] == "passes":
        pytest.skip("this torch has the fault of pytorch#198131 mended")
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    repro = found["repro"]
    assert found["culprit"]["stage"] == "fx_passes"
    assert repro["verified"] and repro["proof"]["plain"] == "exit 1"
    assert repro["graph"] and repro["script"]
    both = [repro, *([repro["other"]] if repro["other"] else [])]
    graph = next(row for row in both if row["kind"] == "graph")
    assert graph["nodes_after"] <= 4 < graph["nodes_before"]
    for row in both:
        text = Path(row["script"]).read_text()
        assert "accel" not in text.replace("accel-lab", "") and text.startswith("# Stage at fault: fx_passes")
        assert plain(torch_python, row["script"]) == 1
    assert plain(torch_python, repro["min_good"]) == 0
    again = run(tmp_path, "minimize", "--json", "--resume", found["artifacts"])
    assert again.returncode == 1, again.stderr
    told = json.loads(again.stdout)["repro"]
    assert Path(told["script"]).read_text() == Path(repro["script"]).read_text()


@pytest.mark.parametrize(
    "words,says",
    [
        (("minimize",), "name a script"),
        (("minimize", "--for", "soon", "x.py"), "is not a time"),
        (("minimize", "no.json"), "cannot be read"),
        (("minimize", "broken.json"), "is not a captured graph"),
        (("bisect", "--minimize-for", "-3", "x.py"), "is not a time"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    (tmp_path / "broken.json").write_text("{}")
    done = run(tmp_path, *words, timeout=60)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
