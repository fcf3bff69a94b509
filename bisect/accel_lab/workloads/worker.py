"""Measures one model under one backend in its own process: ``python -m accel_lab.workloads.worker JOB``.

The answer file always has the current part, so that a killed process still reports where it was. Memory and
the first call are measured before any other run of the model can warm up or fill anything. Timed calls
alternate with eager calls of the same model, so that a busy machine slows both.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from typing import Any

LEAST_RUNS = 3
#: Modules that torch imports at the first compilation; imported earlier to keep them out of the first call.
PARTS = ("torch._dynamo", "torch._functorch.aot_autograd")
INDUCTOR = ("torch._inductor.compile_fx", "torch._inductor.codegen.cpp")


class Answer:
    """The facts so far, written atomically after each part."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.facts: Any = {"notes": []}

    def enter(self, part: str) -> None:
        self.facts["part"] = part
        self.write()

    def write(self) -> None:
        draft = self._path + ".part"
        with open(draft, "w", encoding="utf-8") as stream:
            json.dump(self.facts, stream)
        os.replace(draft, self._path)


def main(path: str) -> None:
    """Runs the job in a file. The result is in the answer file, not in the exit code."""
    with open(path, encoding="utf-8") as stream:
        job = json.load(stream)
    answer = Answer(job["answer"])
    try:
        if job["ask"] == "describe":
            describe(job, answer)
        else:
            measure(job, answer)
        answer.facts["part"] = ""
    except BaseException as error:
        # Dynamo's first line only names the backend; the second has the error.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        answer.facts["error"] = {
            "type": type(error).__name__,
            "message": " ".join(lines[:2])[:2000],
            "text": "".join(traceback.format_exception(type(error), error, error.__traceback__))[-20000:],
            "unavailable": type(error).__name__ == "Unavailable",
        }
    answer.write()


def describe(job: Any, answer: Answer) -> None:
    """Reports what the lab needs for planning: the adapters, and whether the device is available."""
    from accel_lab.accelerators.discovery import registered

    answer.facts["adapters"] = sorted(registered())
    if job["device"] == "cuda":
        import torch

        answer.facts["device_ready"] = bool(torch.cuda.is_available())


def measure(job: Any, answer: Answer) -> None:
    """Makes all measurements of one model and backend."""
    facts = answer.facts
    answer.enter("import")
    began = time.perf_counter()
    from accel_lab.workloads import backends, meters

    target = job["backend"]["target"]
    # An optimizer's first step imports Dynamo too.
    parts = PARTS if target or job["train"] else ()
    for name in (*parts, *(INDUCTOR if target == "inductor" else ())):
        importlib.import_module(name)
    # Creating a model imports its library; this keeps its memory and time out of the model's.
    importlib.import_module(job["model"]["module"]).make("small")
    facts["import_s"] = time.perf_counter() - began
    facts["machine"] = meters.machine(job["device"])

    answer.enter("backend")
    compiled, report_of = _compiler(job["backend"])
    answer.enter("build")
    clock, memory = meters.Clock(job["device"]), meters.Memory(job["device"])
    facts["memory"] = {"kind": memory.kind, "imports_mb": memory.now_mb()}
    subject = Subject(job)
    facts["parameters"] = sum(p.numel() for p in subject.model.parameters())
    call = compiled(subject.model)
    step = subject.stepper(call)

    answer.enter("first call")
    memory.reset()
    facts["first_call_s"] = clock.seconds(step)
    facts["memory"]["first_call_mb"] = memory.peak_mb()
    facts["graphs"] = meters.graphs()
    found = backends.statistics(report_of)
    found.pop("seconds", None)
    facts.update(found)
    answer.enter("warm-up")
    memory.reset()
    for _ in range(job["warmup"]):
        step()
    clock.wait()
    facts["memory"]["steady_mb"] = memory.peak_mb()
    if not memory.resets:
        facts["notes"].append("this system cannot reset the peak of memory: it is that of the whole process")

    answer.enter("timed calls")
    eager = subject.stepper(subject.model) if target else None
    before = backends.statistics(report_of).get("seconds")
    facts["samples_ms"], facts["eager_samples_ms"] = _samples(job, clock, step, eager)
    after = backends.statistics(report_of).get("seconds")
    if before is not None and after is not None:
        calls = len(facts["samples_ms"])
        facts["parts_ms"] = {part: (after[part] - before.get(part, 0.0)) / calls * 1e3 for part in after}

    answer.enter("comparison")
    _compare(job, subject, call, facts)

    answer.enter("counters")
    later = meters.graphs() - facts["graphs"]
    if later:
        facts["notes"].append(f"{later} more graph(s) were compiled after the first call")
    facts["graphs"] += later
    facts["graph_breaks"] = meters.graph_breaks()
    if target == "inductor":
        facts["kernels"] = meters.generated_kernels()
    if target and not facts["graphs"]:
        facts["notes"].append("no graph was captured; the model ran eagerly")


def _compiler(backend: Any) -> Any:
    """(function that wraps a model for this backend, source of the backend's statistics)."""
    if not backend["target"]:
        return (lambda model: model), None
    import torch

    from accel_lab.workloads import backends

    chosen, report_of = backends.find(backend)
    return (lambda model: torch.compile(model, backend=chosen)), report_of


class Subject:
    """The model and its inputs, created deterministically from the seed."""

    def __init__(self, job: Any) -> None:
        import torch

        self._job = job
        self.train = bool(job["train"])
        workload = importlib.import_module(job["model"]["module"])
        torch.manual_seed(job["seed"])
        dtype = getattr(torch, job["dtype"])
        self.model = workload.make(job["size"]).to(device=job["device"], dtype=dtype).train(self.train)
        generator = torch.Generator().manual_seed(job["seed"])
        inputs, self.targets = workload.batch(job["size"], generator)
        self.inputs = [self._placed(value, dtype) for value in inputs]
        self.targets = self._placed(self.targets, None)
        self._loss = workload.loss

    def _placed(self, value: Any, dtype: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._placed(item, dtype) for item in value]
        return value.to(device=self._job["device"], dtype=dtype if value.is_floating_point() else None)

    def to_float64(self) -> None:
        """Converts the model and its inputs to float64, in place; the values stay the same."""
        import torch

        self.model.double()
        self.inputs = [self._placed(value, torch.float64) for value in self.inputs]

    def stepper(self, call: Any) -> Any:
        """Returns the timed function: a forward pass without gradients, or a training step with SGD."""
        import torch

        if not self.train:

            def forward() -> None:
                with torch.no_grad():
                    call(*self.inputs)

            return forward
        optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            self._loss(call(*self.inputs), self.targets).backward()
            optimizer.step()

        return step

    def results(self, call: Any) -> Any:
        """Returns all result tensors of one call, by name: outputs; in training also loss and gradients."""
        import torch

        from accel_lab.workloads import distances

        if not self.train:
            with torch.no_grad():
                return dict(distances.named_tensors(call(*self.inputs)))
        self.model.zero_grad(set_to_none=True)
        outputs = call(*self.inputs)
        loss = self._loss(outputs, self.targets)
        loss.backward()
        found = dict(distances.named_tensors(outputs))
        found["loss"] = loss
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None:
                found["gradient of " + name] = parameter.grad
        return {name: tensor.detach() for name, tensor in found.items()}


def _samples(job: Any, clock: Any, step: Any, eager: Any) -> Any:
    """Milliseconds of each timed call and of the interleaved eager call, up to the time limit."""
    ours: Any = []
    theirs: Any = []
    if eager is not None:
        eager()  # its own warm-up
    end = time.perf_counter() + job["budget_s"]
    while len(ours) < job["runs"] and (len(ours) < LEAST_RUNS or time.perf_counter() < end):
        ours.append(clock.milliseconds(step))
        if eager is not None:
            theirs.append(clock.milliseconds(eager))
    return ours, theirs


def _compare(job: Any, subject: Subject, call: Any, facts: Any) -> None:
    """Compares the results with eager's and a float64 run's, all with the seeded weights."""
    from accel_lab.workloads import distances

    fresh = Subject(job)
    subject.model.load_state_dict(fresh.model.state_dict())
    got = subject.results(call)
    want = fresh.results(fresh.model)
    fresh.to_float64()
    facts["distances"] = distances.rows(got, want, fresh.results(fresh.model))


if __name__ == "__main__":
    main(sys.argv[1])
