"""Made-up finished runs: a run folder with probe folders, and the Findings that go with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from accel_lab.core.evidence import Evidence
from accel_lab.core.findings import (
    AgreedType,
    Agreement,
    Component,
    CrossCheck,
    Culprit,
    Exhibit,
    Findings,
    ReducedScript,
    Repro,
    ReproProof,
    Step,
)
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.releases.versions import Flip, Tested, Versions
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
    "rich",
    "no_repro",
    "stopped",
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

GRAPH_REPRO = """# Stage at fault: kernel (likely); op aten.div.Tensor_mode (proven).
# Fails on torch 2.13.0+cpu: RuntimeError: kernel said 42 at /home/alice/work/x.py
# It passes with Inductor's final FX graph run by an interpreter.
# Run: python repro.py. Exits with 1 while the bug is there, with 0 when it is gone.
from pathlib import Path

import torch

data = Path(__file__).with_name("inputs.safetensors").read_bytes()  # from /home/alice/data
assert data[:2] == b"\\x08\\x00", data


def f(x):
    return torch.div(x, 3, rounding_mode="floor")


torch.compile(f)(torch.arange(9.0))
raise RuntimeError("kernel said 41 at /home/alice/work/x.py")
"""
SCRIPT_REPRO = """import torch


@torch.compile
def f(x, w):
    return (x @ w).float()


print(f(torch.ones(3, 3), torch.ones(3, 3)))
raise RuntimeError("kernel said 40 at /home/alice/work/x.py")
"""
MIN_GOOD = GRAPH_REPRO.replace('rounding_mode="floor"', 'rounding_mode="trunc"').replace("raise ", "# raise ")
KERNEL = "\n".join(
    [
        '#include "/tmp/torchinductor_alice/pi/cpp_prefix.h"',
        'extern "C" void kernel(const float* in_ptr0, float* out_ptr0)',
        "{",
        *(f"    auto tmp{n} = at::vec::Vectorized<float>::loadu(in_ptr0 + {n}L, 8);" for n in range(140)),
        "    for (int64_t x0 = 0; x0 < 9L; x0 += 1L) {",
        "        auto tmp140 = in_ptr0[x0] / static_cast<float>(3);  // aten.div.Tensor_mode",
        "        out_ptr0[x0] = std::trunc(tmp140);  // aten.div.Tensor_mode",
        "    }",
        "}",
        "// end of /home/alice/kernel",
    ]
)
EXHIBITS = (
    Exhibit(
        kind="kernel",
        title="The generated kernel; the marked lines come from aten.div.Tensor_mode",
        text=KERNEL,
        language="cpp",
        marked=(145, 146),
    ),
    Exhibit(
        kind="graph_change",
        title="What the pass changed: /home/alice/graph",
        text="--- before\n+++ after\n@@ -1,3 +1,2 @@\n mm = aten.mm(a, b)\n-neg = aten.neg(mm)\n+return mm",
        language="diff",
    ),
    Exhibit(
        kind="divergence",
        title="First wrong value: div (aten.div.Tensor_mode); its inputs agree",
        text="compared with float64, node by node",
        rows=(
            ("node", "op", "max abs error", "differs"),
            ("arg0", "placeholder", "0", "no"),
            ("div", "aten.div.Tensor_mode", "1", "yes"),
            ("sum_1", "aten.sum.default", "9", "yes, from alice@acme-corp.com"),
        ),
    ),
    Exhibit(
        kind="source",
        title="The line of the script",
        text="def f(x):\n    y = x / 3  # alice\n    return y.floor()",
        language="python",
        marked=(2,),
    ),
)

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
            if rung in (Rung.MOCK, Rung.ACCELERATOR):
                continue  # another way down, not a step of this ladder
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
                evidence=(
                    Evidence.said("The fx rung passes and the kernel rung fails."),
                    Evidence.said("With fusion off it passes."),
                ),
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
        found.witness = CrossCheck(name="torch compiler bisector", agrees=True, words="it agrees")
        found.confidence = 0.999
        found.failure_rate = 1.0
        return found

    def _passes(self) -> Findings:
        found = self._base("passes", [self.step(Rung.KERNEL, Verdict.GOOD, bare=True)], self.ladder(None))
        found.agreement = Agreement(
            types=(
                AgreedType(dtype="bfloat16", tensors=2, greatest=3e-3, tolerance=0.03125),
                AgreedType(dtype="float32", tensors=10, greatest=2.5e-7, tolerance=1.5e-5),
            ),
            others=1,
            factor=3.0,
        )
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
        found.versions = Versions(
            tested=(
                Tested(torch="2.6.0", verdict=Verdict.GOOD, status=Status.OK),
                Tested(torch="2.13.0", verdict=Verdict.BAD, status=Status.OK),
            ),
            flips=(Flip(after="2.6.0", at="2.13.0", kind="introduced"),),
        )
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
                evidence=(Evidence.said("ModuleNotFoundError: No module named 'no_such_module'"),),
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
            Culprit(stage=Stage.DECOMPOSITION, confidence=Confidence.LIKELY, evidence=(Evidence.said("b"),))
        )
        return found

    def _rich(self) -> Findings:
        """Everything that the component search and the reducer can add."""
        found = self._two_faults()
        found.culprits[0] = Culprit(
            stage=Stage.KERNEL,
            confidence=Confidence.LIKELY,
            component=Component(
                kind="op",
                name="aten.div.Tensor_mode",
                detail="With only this op run by its eager kernel it passes.",
                confidence=Confidence.PROVEN,
            ),
            evidence=(Evidence.said("The fx rung passes and the kernel rung fails."),),
            exhibits=EXHIBITS,
        )
        graph, script = (self.repro("graph", GRAPH_REPRO), self.repro("script", SCRIPT_REPRO))
        good = self.run_dir / "repro" / "graph" / "min-good"
        good.mkdir()
        (good / "repro.py").write_text(MIN_GOOD, encoding="utf-8")
        for folder in (good, good.parent):
            (folder / "inputs.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      alice\xff")
        diff = Exhibit(
            kind="min_good",
            title="The nearest script that passes, against the one that fails",
            text='--- passes.py\n+++ fails.py\n@@ -12 +12 @@\n-    "trunc"\n+    "floor"  # alice',
            language="diff",
        )
        found.repro = Repro(
            graph=graph.script,
            candidates=431,
            seconds=64.2,
            min_good=str(good / "repro.py"),
            other=replace(script, minimal=False),
            exhibits=(diff,),
            notes=["the backward graph was left out at /home/alice/work"],
        )
        found.repro.offer(replace(graph, nodes_before=120, nodes_after=2))
        return found

    def repro(self, kind: str, text: str) -> ReducedScript:
        """One reduced script on disk, and what the reduction says of it."""
        folder = self.run_dir / "repro" / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "repro.py").write_text(text, encoding="utf-8")
        return ReducedScript(
            kind=kind,
            script=str(folder / "repro.py"),
            lines_before=34,
            lines_after=9,
            verified=True,
            proof=ReproProof(
                plain="exit 1",
                bad="bad",
                good="good",
                words=[
                    "a plain run in a fresh process failed in the same way",
                    "at kernel: fails in the same way; at fx: passes",
                ],
            ),
            minimal=True,
        )

    def _no_repro(self) -> Findings:
        found = self._kernel()
        found.repro = Repro(why_not="the failure rate is too low")
        return found

    def _stopped(self) -> Findings:
        """A reduction that was cut off: the smallest program so far, not run again."""
        found = self._kernel()
        folder = self.run_dir / "reduce" / "script"
        folder.mkdir(parents=True)
        (folder / "best.py").write_text(SCRIPT_REPRO, encoding="utf-8")
        (folder / "answers.jsonl").write_text("alice", encoding="utf-8")
        found.repro = Repro(
            script=str(folder / "best.py"), kind="script", notes=["stopped: the smallest program so far"]
        )
        return found

    def _bare_bones(self) -> Findings:
        return Findings(program=Program(module="pytest", args=("-q", "t.py::test")))
