"""Made-up finished runs: a run folder with probe folders, and the Findings that go with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from accel_lab.core.findings import Component, Culprit, Findings, Step
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.signature import Signature, normalise
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict

SHAPES = (
    "kernel",
    "passes",
    "values",
    "flaky",
    "environment",
    "cannot_tell",
    "signal",
    "two_faults",
    "bare_bones",
)

SCRIPT = '''"""Fails in Inductor."""
import torch


@torch.compile
def f(x, w):
    return (x @ w).float()  # see alice@acme-corp.com


# data once lay in /home/alice/data
print(f(torch.ones(3, 3), torch.ones(3, 3)), "2.13.0+cpu")
raise RuntimeError("kernel said 42 at /home/alice/work/x.py")
'''

DYNAMO = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[3, 3]", L_w_: "f32[3, 3]"):
        # File: /home/alice/work/repro.py:7 in f, code: return (x @ w).float()
        matmul: "f32[3, 3]" = L_x_ @ L_w_
        float_1: "f32[3, 3]" = matmul.float()
        return (float_1,)
"""
DECOMP = """class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[3, 3]", arg1_1: "f32[3, 3]"):
        mm: "f32[3, 3]" = torch.ops.aten.mm.default(arg0_1, arg1_1)
        neg: "f32[3, 3]" = torch.ops.aten.neg.default(mm)
        neg_1: "f32[3, 3]" = torch.ops.aten.neg.default(neg)
        return (neg_1,)
"""
POST_GRAD = """class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[3, 3]", arg1_1: "f32[3, 3]"):
        mm: "f32[3, 3]" = torch.ops.aten.mm.default(arg0_1, arg1_1)
        return (mm,)
"""
OUTPUT_CODE = '''# AOT ID: ['0_inference']
import torch
async_compile = AsyncCompile()
cpp_fused_0 = async_compile.cpp_pybinding(['const float*', 'float*'], """
#include "/tmp/torchinductor_alice/pi/cpp_prefix.h"
extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
{
    for (int64_t x0 = 0; x0 < 9L; x0 += 1L) { out_ptr0[x0] = in_ptr0[x0]; }
}
""")
'''
TRACE = """Traceback (most recent call last):
  File "/home/alice/work/repro.py", line 12, in <module>
    raise RuntimeError("kernel said 42 at /home/alice/work/x.py")
RuntimeError: kernel said 42 at /home/alice/work/x.py
"""

_RAISED = Raised(
    type="RuntimeError",
    message="kernel said 42 at /home/alice/work/x.py",
    frames=(
        Frame(file="repro.py", line=12, function="<module>"),
        Frame(file="torch/x.py", line=3, function="run"),
    ),
    text=TRACE,
)
_SIGNATURE = Signature(
    kind="exception", type="RuntimeError", message=normalise(_RAISED.message), frames=("<module>", "run")
)
_OTHER = Signature(kind="exception", type="AssertionError", message="expected size <n>", frames=("check",))

_GRAPHS = {
    Rung.DYNAMO: {"dynamo_graph_0.py": DYNAMO},
    Rung.AOT: {"dynamo_graph_0.py": DYNAMO, "aot_forward_0.py": DECOMP},
    Rung.PARTITION: {"dynamo_graph_0.py": DYNAMO, "aot_forward_0.py": DECOMP},
    Rung.DECOMP: {"dynamo_graph_0.py": DYNAMO, "aot_forward_0.py": DECOMP},
    Rung.FX: {"dynamo_graph_0.py": DYNAMO, "aot_forward_0.py": DECOMP, "post_grad_0.py": POST_GRAD},
    Rung.KERNEL: {
        "dynamo_graph_0.py": DYNAMO,
        "aot_forward_0.py": DECOMP,
        "post_grad_0.py": POST_GRAD,
        "output_code_0.py": OUTPUT_CODE,
        "kernel_0.cpp": "int main() { return 0; }\n",
    },
}


class FakeRun:
    """Builds one run below ``root``; ``findings`` and ``run_dir`` are what reporting takes."""

    def __init__(self, root: Path, shape: str = "kernel", script: str = SCRIPT) -> None:
        self.root = root
        self.run_dir = root / "run"
        (self.run_dir / "probes").mkdir(parents=True)
        self.script = root / "repro.py"
        self.script.write_text(script, encoding="utf-8", errors="surrogateescape")
        digest = hashlib.sha256(self.script.read_bytes()).hexdigest()
        self.program = Program(path=str(self.script), sha256=digest)
        self.count = 0
        self.findings: Findings = getattr(self, f"_{shape}")()

    def step(
        self,
        rung: Rung,
        verdict: Verdict,
        *,
        outcome: Outcome | None = None,
        signature: Signature | None = None,
        switch: str = "",
        label: str = "",
        files: dict[str, str] | None = None,
        bare: bool = False,
        runs: int = 1,
        failures: int | None = None,
        note: str = "",
        max_abs_error: float | None = None,
    ) -> Step:
        """One row with its probe folder on disk."""
        self.count += 1
        switches = ((switch, False),) if switch else ()
        probe = Probe(program=self.program, rung=rung, switches=switches, bare=bare, attempt=self.count)
        folder = self.run_dir / "probes" / probe.key
        (folder / "artifacts").mkdir(parents=True)
        for name, text in (_GRAPHS.get(rung, {}) if files is None and not bare else files or {}).items():
            (folder / "artifacts" / name).write_text(text, encoding="utf-8")
        failed = verdict in (Verdict.BAD, Verdict.DIFFERENT)
        if outcome is None:
            outcome = Outcome(
                status=Status.EXCEPTION if failed else Status.OK,
                exit_code=1 if failed else 0,
                raised=_RAISED if failed else None,
                seconds=0.5 + self.count / 8,
                torch="2.13.0+cpu",
                python="3.11.7",
                warm=not bare,
            )
        outcome = replace(outcome, folder=str(folder))
        (folder / "stdout.txt").write_text(
            "tensor([[3.]])\n" if verdict is Verdict.GOOD else "", encoding="utf-8"
        )
        (folder / "stderr.txt").write_text(outcome.raised.text if outcome.raised else "", encoding="utf-8")
        (folder / "outcome.json").write_text(json.dumps(outcome.to_json()), encoding="utf-8")
        if signature is None and failed:
            signature = _SIGNATURE if verdict is Verdict.BAD else _OTHER
        return Step(
            rung=rung,
            switch=switch,
            label=label,
            verdict=verdict,
            outcome=outcome,
            signature=signature,
            runs=runs,
            failures=failures if failures is not None else int(failed) * runs,
            note=note,
            max_abs_error=max_abs_error,
        )

    def ladder(self, first_bad: Rung | None) -> list[Step]:
        """All rungs, failing from ``first_bad`` on."""
        steps, verdict = [], Verdict.GOOD
        for rung in Rung:
            if rung is first_bad:
                verdict = Verdict.BAD
            if rung in (Rung.LOOPS, Rung.SCHEDULED):
                outcome = Outcome(status=Status.NOT_APPLICABLE, torch="2.13.0+cpu", python="3.11.7")
                steps.append(
                    self.step(rung, Verdict.SKIP, outcome=outcome, note="no interpreter for this op")
                )
            else:
                steps.append(self.step(rung, verdict))
        return steps

    def _base(self, verdict: str, baseline: list[Step], ladder: list[Step]) -> Findings:
        return Findings(
            program=self.program,
            verdict=verdict,
            baseline=baseline,
            signature=baseline[0].signature,
            ladder=ladder,
            environment={
                "torch": "2.13.0+cpu",
                "python": "3.11.7",
                "platform": "Linux-6.1-x86_64",
                "executable": "/home/alice/venv/bin/python",
                "packages": {"numpy": "1.26.2", "nvidia-curand-cu12": "10.3.5.147"},
                "compiler": {"path": "g++", "version": "12.2.0"},
            },
            artifacts=str(self.run_dir / "probes"),
            seconds_total=31.25,
            seconds_probes=24.5,
            probes={"cold": 2, "warm": len(ladder)},
        )

    def _kernel(self) -> Findings:
        baseline = [self.step(Rung.KERNEL, Verdict.BAD, bare=True, runs=2, failures=2)]
        found = self._base("fails", baseline, self.ladder(Rung.KERNEL))
        found.ablation = [
            self.step(Rung.KERNEL, Verdict.GOOD, switch="fusion", label="no fusion"),
            self.step(Rung.KERNEL, Verdict.BAD, switch="vectorise", label="no vectorisation"),
            self.step(Rung.KERNEL, Verdict.DIFFERENT, switch="inplace", label="no in-place buffers"),
        ]
        found.culprits = [
            Culprit(
                stage=Stage.KERNEL,
                confidence=Confidence.PROVEN,
                component=Component(kind="switch", name="fusion", detail="passes with fusion off"),
                evidence=("The fx rung passes and the kernel rung fails.", "With fusion off it passes."),
            )
        ]
        found.summary = (
            "Inductor's kernel stage is at fault: the final graph is right when it is run in eager mode, and "
            "the kernels generated from it raise RuntimeError. Without fusion the failure is gone."
        )
        found.next_steps = [
            "Work around it with torch._inductor.config.max_fusion_size = 1.",
            "Send the bundle.",
        ]
        found.warnings = ["torch.export is not covered."]
        found.witness = {"tool": "torch compiler bisector", "stage": "inductor", "agrees": True}
        found.confidence = 0.999
        found.failure_rate = 1.0
        return found

    def _passes(self) -> Findings:
        found = self._base("passes", [self.step(Rung.KERNEL, Verdict.GOOD, bare=True)], self.ladder(None))
        found.summary = "The script does not fail: every rung passes."
        return found

    def _values(self) -> Findings:
        ok = Outcome(status=Status.OK, exit_code=0, seconds=1.0, torch="2.13.0+cpu", python="3.11.7")
        wrong = Signature(kind="values", message="output <n> of region f differs")
        ladder = self.ladder(None)[:-1]
        ladder.append(
            self.step(Rung.KERNEL, Verdict.BAD, outcome=ok, signature=wrong, max_abs_error=float("inf"))
        )
        baseline = [self.step(Rung.KERNEL, Verdict.BAD, outcome=ok, signature=wrong, bare=True)]
        found = self._base("fails", baseline, ladder)
        found.culprits = [Culprit(stage=Stage.CODEGEN, confidence=Confidence.LIKELY)]
        found.summary = "The numbers are wrong from the kernel stage on."
        found.versions = {
            "tested": [
                {"torch": "2.6.0", "verdict": "good", "status": "ok"},
                {"torch": "2.13.0", "verdict": "bad", "status": "ok"},
            ],
            "flips": [{"after": "2.6.0", "at": "2.13.0", "kind": "introduced"}],
            "last_good": "2.6.0",
            "first_bad": "2.13.0",
            "skipped": [],
        }
        return found

    def _flaky(self) -> Findings:
        baseline = [self.step(Rung.KERNEL, Verdict.BAD, bare=True, runs=10, failures=7)]
        found = self._base("fails", baseline, self.ladder(Rung.KERNEL))
        found.ladder[-1] = replace(found.ladder[-1], runs=6, failures=4)
        found.failure_rate = 0.7
        found.confidence = 0.995
        found.culprits = [Culprit(stage=Stage.KERNEL, confidence=Confidence.LIKELY)]
        found.summary = "It fails in 7 of 10 runs; the kernel stage is at fault with 99.5 % confidence."
        return found

    def _environment(self) -> Findings:
        found = self._base(
            "fails", [self.step(Rung.KERNEL, Verdict.BAD, bare=True)], self.ladder(Rung.UNCOMPILED)
        )
        found.culprits = [
            Culprit(
                stage=Stage.ENVIRONMENT,
                confidence=Confidence.PROVEN,
                component=Component(kind="module", name="no_such_module"),
                evidence=("ModuleNotFoundError: No module named 'no_such_module'",),
            )
        ]
        found.summary = "The environment is at fault: the module no_such_module is not installed."
        return found

    def _cannot_tell(self) -> Findings:
        ladder = self.ladder(Rung.FX)
        ladder[-1] = self.step(Rung.KERNEL, Verdict.SKIP, note="another failure got in the way")
        found = self._base("inconclusive", [self.step(Rung.KERNEL, Verdict.BAD, bare=True)], ladder)
        found.culprits = [Culprit(stage=Stage.FX_PASSES, confidence=Confidence.INCONCLUSIVE)]
        found.summary = "Cannot tell: the ladder fails at fx and not above it."
        return found

    def _signal(self) -> Findings:
        crash = Outcome(status=Status.SIGNAL, signal=11, seconds=2.0, torch="2.13.0+cpu", python="3.11.7")
        signature = Signature(kind="signal", type="SIGSEGV", frames=("at::native::add",))
        ladder = self.ladder(None)[:-1]
        ladder.append(self.step(Rung.KERNEL, Verdict.BAD, outcome=crash, signature=signature))
        baseline = [self.step(Rung.KERNEL, Verdict.BAD, outcome=crash, signature=signature, bare=True)]
        found = self._base("fails", baseline, ladder)
        found.culprits = [Culprit(stage=Stage.RUNTIME, confidence=Confidence.LIKELY)]
        found.summary = "A generated kernel crashes."
        return found

    def _two_faults(self) -> Findings:
        found = self._kernel()
        found.culprits.append(
            Culprit(stage=Stage.DECOMPOSITION, confidence=Confidence.LIKELY, evidence=("b",))
        )
        return found

    def _bare_bones(self) -> Findings:
        return Findings(program=Program(module="pytest", args=("-q", "t.py::test")))
