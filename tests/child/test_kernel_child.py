"""Kernels on a real torch: which line is whose, what may be kept apart, which buffer goes wrong first."""

from __future__ import annotations

import os
import signal
import subprocess
from ctypes.util import find_library
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.execution.prober import Prober
from accel_lab.execution.sanitizer import compiler_words, libraries

pytestmark = pytest.mark.torch

_ASKED = subprocess.run(compiler_words(os.environ), capture_output=True, text=True, check=False)
HAVE_SANITIZER = _ASKED.returncode == 0 and bool(libraries(_ASKED.stdout))

HEALTHY = """
import torch

def fn(x, w):
    y = torch.cos(x @ w)
    return torch.erf(torch.exp(y)), torch.sin(y), (y * 2).sum(0)

torch.manual_seed(0)
x, w = torch.rand(32, 32), torch.rand(32, 32)
torch.testing.assert_close(torch.compile(fn)(x, w), fn(x, w), rtol=1e-4, atol=1e-4)
"""
WRONG = (
    """
from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides

CppOverrides.erf = staticmethod(lambda x: f"std::erf({x}) + decltype({x})(1)")
CppVecOverrides.erf = staticmethod(lambda x: f"({x}.erf() + decltype({x})(1))")
"""
    + HEALTHY
)
DYING = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "runtime_error"
print(torch.compile(lambda t: torch.relu(t) * 2)(torch.linspace(-1, 1, 32)))
"""


#: The store of a loop's tail writes a whole vector, past the end of what it has.
OVERRUN = """
import torch
from torch._inductor.codegen import cpp

original = cpp.CppVecKernel._get_store_line

def whole(self, *args, **kwargs):
    kept = self.num_elems, self.tail_size
    self.num_elems, self.tail_size = self.tiling_factor, None
    try:
        return original(self, *args, **kwargs)
    finally:
        self.num_elems, self.tail_size = kept

cpp.CppVecKernel._get_store_line = whole
torch.compile(lambda t: torch.exp(torch.sin(t)))(torch.rand(17))
"""


def ask(prober: Prober, folder: Path, text: str, **switches: Any) -> Outcome:
    path = folder / "script.py"
    path.write_text(text)
    program = Program(path=str(path), sha256=str(folder))
    probe = Probe(program=program, limits=Limits(timeout_s=200.0), rung=Rung.KERNEL)
    return prober.ask(replace(probe, switches=tuple(switches.items())))


def lines_of(outcome: Outcome, operator: str) -> list[str]:
    """The lines of all kernels that were written for an operator."""
    return [
        kernel["text"].splitlines()[line - 1].strip()
        for kernel in outcome.facts["kernels"]
        for key, lines in kernel["origins"].items()
        if f"target={operator}#" in key
        for line in lines
    ]


def test_lines_are_marked_by_the_node_that_they_were_written_for(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, HEALTHY, annotate=True)
    assert outcome.status is Status.OK, outcome.raised
    for name in ("erf", "exp", "sin", "cos"):
        lines = lines_of(outcome, f"aten.{name}.default")
        assert any(f"{name}(" in line for line in lines), (name, lines)
        others = {"erf(", "exp(", "sin(", "cos("} - {f"{name}("}
        assert not any(other in line for line in lines for other in others)
    assert not any("/*@" in kernel["text"] for kernel in outcome.facts["kernels"])


def test_a_kernel_that_ends_the_process_is_still_told_of(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, DYING, annotate=True)
    assert outcome.status is not Status.OK
    assert any("throw" in line for line in lines_of(outcome, "aten.relu.default"))


@pytest.mark.skipif(not HAVE_SANITIZER, reason="the C++ compiler here has no address sanitizer")
def test_the_line_that_writes_past_the_end_is_told(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, OVERRUN, annotate=True, sanitize=True)
    report = outcome.facts["sanitizer"]
    assert (report["kind"], report["access"]) == ("heap-buffer-overflow", "WRITE")
    assert report["where"] == "0 bytes to the right of 68-byte region"
    kernel = next(kernel for kernel in outcome.facts["kernels"] if kernel["file"] == report["file"])
    line = kernel["text"].splitlines()[report["line"] - 1].strip()
    assert ".store(out_ptr0" in line
    assert line in lines_of(outcome, "aten.exp.default")


@pytest.mark.skipif(not HAVE_SANITIZER, reason="the C++ compiler here has no address sanitizer")
def test_a_healthy_kernel_has_nothing_to_report(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, HEALTHY, sanitize=True)
    assert outcome.status is Status.OK, outcome.notes
    assert "sanitizer" not in outcome.facts


@pytest.mark.skipif(find_library("c_malloc_debug") is None, reason="glibc's checks are not installed")
def test_the_allocators_checks_show_a_stray_write_that_does_no_harm(prober: Prober, tmp_path: Path) -> None:
    """One element too many stays within the block that 17 of them are given; it is seen when it is freed."""
    script = OVERRUN.replace("= self.tiling_factor, None", "= self.num_elems + 1, self.tail_size")
    script = script.replace("torch.compile(", "kept = torch.compile(")
    assert ask(prober, tmp_path, script).status is Status.OK
    prober.check_heap(True)
    try:
        outcome = ask(prober, tmp_path, script, annotate=True)
    finally:
        prober.check_heap(False)
    assert (outcome.status, outcome.signal) == (Status.SIGNAL, signal.SIGABRT)
    assert outcome.facts["heap_check"] == "free(): invalid pointer"
    assert any("exp" in key for key in outcome.facts["applied"]["lowerings"])


def test_what_was_fused_is_told_and_can_be_kept_apart(prober: Prober, tmp_path: Path) -> None:
    fused = ask(prober, tmp_path, HEALTHY).facts["applied"]["fusions"]
    pair = next(key for key in fused if "aten.erf.default" in key and "aten.sin.default" in key)
    apart = ask(prober, tmp_path, HEALTHY, off={"fusions": [pair]})
    assert apart.status is Status.OK, apart.raised
    assert pair not in apart.facts["applied"].get("fusions", [])


def test_memory_that_is_written_over_is_told_and_can_be_kept(prober: Prober, tmp_path: Path) -> None:
    text = HEALTHY.replace("torch.cos(x @ w)", "torch.cos(x @ w) @ w").replace("torch.erf(", "torch.neg(")
    reused = ask(prober, tmp_path, text).facts["applied"]["reuses"]
    kept = ask(prober, tmp_path, text, off={"reuses": reused})
    assert kept.status is Status.OK, kept.raised
    assert not set(reused) & set(kept.facts["applied"].get("reuses", []))


def test_the_first_buffer_that_goes_wrong_is_found(prober: Prober, tmp_path: Path) -> None:
    apart = {"max_fusion_size": 1, "inplace_buffers": False, "allow_buffer_reuse": False}
    outcome = ask(prober, tmp_path, WRONG, divergence={"realize": True}, inductor=apart)
    found = outcome.facts["divergence"]
    assert found["problems"] == []
    (graph,) = found["graphs"]
    assert [row["node"] for row in graph["rows"] if row["differs"]] == ["erf"]
    (erf,) = (row for row in graph["rows"] if row["node"] == "erf")
    assert erf["inputs"] == ["exp"] and erf["error"] == pytest.approx(1.0, abs=1e-5)


def test_no_buffer_of_a_healthy_script_differs(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, HEALTHY, divergence={"realize": False})
    assert outcome.status is Status.OK, outcome.raised
    (graph,) = outcome.facts["divergence"]["graphs"]
    assert len(graph["rows"]) >= 3
    assert not any(row["differs"] for row in graph["rows"])


def test_strict_flags_hold_over_those_of_the_script(prober: Prober, tmp_path: Path) -> None:
    script = (Path(__file__).parents[2] / "repros" / "inject-runtime-flags" / "repro.py").read_text()
    assert ask(prober, tmp_path, script).status is Status.EXCEPTION
    assert ask(prober, tmp_path, script, strict_math=True).status is Status.OK


def test_a_mixed_header_is_found_before_the_releases_own(prober: Prober, tmp_path: Path) -> None:
    header = tmp_path / "mixed.h"
    header.write_text("#error the mixed header\n")
    mixed = {"served": {}, "watched": {}, "headers": {"torch/include/ATen/cpu/vec/vec.h": str(header)}}
    outcome = ask(prober, tmp_path, HEALTHY, mixed_sources=mixed)
    assert outcome.status is Status.EXCEPTION and outcome.raised is not None
    assert "the mixed header" in outcome.raised.message
