"""Workers that answer from a table, and an interpreter that is a script: the benchmark without torch."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from accel_lab.core.benchmark import Benchmark, Reply
from accel_lab.workloads import measure, registry

#: What a worker tells of a measurement that went well.
FACTS: dict[str, Any] = {
    "part": "",
    "notes": [],
    "machine": {"torch": "2.99.0", "threads": 2},
    "parameters": 108_224,
    "import_s": 4.5,
    "first_call_s": 2.02,
    "memory": {
        "kind": "resident in the process",
        "imports_mb": 600.0,
        "first_call_mb": 700.0,
        "steady_mb": 650.0,
    },
    "graphs": 1,
    "graph_breaks": {},
    "samples_ms": [20.0, 22.0, 19.0, 21.0, 30.0],
    "eager_samples_ms": [10.0, 10.5, 9.5, 11.0, 10.0],
    "distances": [
        {
            "name": "output",
            "reason": "",
            "dtype": "float32",
            "shape": [2, 4],
            "to_eager": 1e-7,
            "to_float64": 2e-7,
            "eager_to_float64": 2.5e-7,
            "magnitude": 3.0,
        }
    ],
}
DESCRIBED = {"part": "", "notes": [], "adapters": ["toy"], "device_ready": True}
WRONG = {**FACTS["distances"][0], "name": "output.0", "to_eager": 0.5, "to_float64": 0.5}

#: Question -> facts that differ from FACTS, or, with a part, all facts; "ended" says how it ended.
Answers = dict[str, dict[str, Any]]

RICH: Answers = {
    "bert-eager": {"eager_samples_ms": []},
    "bert-inductor": {"kernels": 12, "graphs": 3, "graph_breaks": {"call to print\n  Explanation: no": 2}},
    "bert-mock": {
        "kernels": 40,
        "violations": {"shape alignment": 3, "dtype": 1},
        "fallbacks": {"aten.embedding.default": 2},
        "parts_ms": {"kernels": 15.0, "to_device": 5.0, "lower": 0.0, "host": 0.01},
        "notes": ["1 more graph(s) were compiled after the first call"],
    },
    "bert-aot": {"distances": [WRONG]},
    "ssm-mock": {
        "part": "backend",
        "error": {"type": "Unavailable", "message": "this accel-lab has no mock", "unavailable": True},
    },
    "ssm-inductor": {"part": "first call", "import_s": 9.0, "ended": "timed out after 9 s"},
}


def facts_for(answers: Answers, name: str) -> dict[str, Any]:
    if name == "describe":
        return {**DESCRIBED, **answers.get(name, {})}
    given = answers.get(name, {})
    # A worker that came to an early end tells nothing of what follows.
    return dict(given) if given.get("part") else {**FACTS, **given}


def asker(answers: Answers) -> measure.Ask:
    """A worker that answers from the table."""

    def ask(name: str, job: dict[str, Any]) -> Reply:
        facts = facts_for(answers, name)
        return Reply(facts=facts, ended=facts.pop("ended", ""), seconds=3.0, folder=f"rows/{name}")

    return ask


def benchmark(answers: Answers | None = None, packages: tuple[str, ...] = ("transformers",)) -> Benchmark:
    """All models under all of the lab's own backends, by the table; ResNet-18 lacks its package."""
    settings = measure.Settings(size="small", runs=5)
    models = registry.choose_models((), True)
    ask = asker(RICH if answers is None else answers)
    rows = measure.run(models, registry.choose_backends((), ()), settings, packages, ask)
    return Benchmark(
        settings=settings.to_json(),
        environment={"python": "3.11.9", "torch": "2.99.0", "packages": {}, "variables": {}, "threads": 2},
        titles={model.name: model.title for model in models},
        rows=[row for row, _ in rows],
        artifacts="/nowhere",
        seconds=12.0,
        complete=True,
    )


_PYTHON = """#!{python} -IS
import json, os, sys, time
table = json.loads(open({table!r}).read())
if sys.argv[-1] == "doctor":
    print(json.dumps(table["doctor"]))
elif sys.argv[1:3] == ["-m", "accel_lab.workloads.worker"]:
    job = json.loads(open(sys.argv[3]).read())
    name = os.path.basename(os.path.dirname(sys.argv[3]))
    open({asked!r}, "a").write(json.dumps({{"name": name, **job}}) + "\\n")
    facts = table["answers"].get(name, table["answers"]["*"])
    if name == table["interrupt"]:
        os.kill(os.getppid(), 2)
        time.sleep(60)
    open(job["answer"], "w").write(json.dumps(facts))
    sys.exit(facts.get("exit", 0))
else:
    sys.exit("not a question of the benchmark: " + repr(sys.argv))
"""


class FakePython:
    """A program that answers like an interpreter with torch; what it was asked is in ``asked``."""

    def __init__(self, folder: Path, answers: Answers | None = None, **table: Any) -> None:
        self.path = folder / "python"
        self._asked = folder / "asked.jsonl"
        answers = answers or {}
        full = {name: facts_for(answers, name) for name in answers}
        told = {"python": "3.11.9", "torch": "2.99.0", "cpus": 2, "variables": {}}
        table = {
            "doctor": {**told, "packages": {"torch": "2.99.0", "transformers": "5", "torchvision": "1"}},
            "interrupt": "",
            **table,
            "answers": {"describe": DESCRIBED, "*": FACTS, **full},
        }
        (folder / "table.json").write_text(json.dumps(table))
        source = _PYTHON.format(
            python=sys.executable, table=str(folder / "table.json"), asked=str(self._asked)
        )
        self.path.write_text(source)
        os.chmod(self.path, 0o755)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """Every job that was asked, with its name."""
        if not self._asked.exists():
            return []
        return [json.loads(line) for line in self._asked.read_text().splitlines()]
