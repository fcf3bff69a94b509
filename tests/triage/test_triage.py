"""A triage asks each content once, keeps every answer, groups the faults and says what has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.cli.commands import triage_command
from accel_lab.cli.main import main
from accel_lab.core.errors import UsageError
from accel_lab.reporting.page.triage import render
from accel_lab.reporting.words.triage import lines_of
from accel_lab.triage.faults import group
from accel_lab.triage.jobs import ERROR, Fault, Job, Result, read_result, run_job
from accel_lab.triage.scripts import Script, find_scripts
from accel_lab.triage.triage import Plan, compared, kept_results, last_triage, run

Ask = Callable[[Job], Result]


def place_with(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def fault(stage: str = "dynamo", **changes: Any) -> Fault:
    return Fault(stage=stage, component="op aten.add", signature="exception ValueError boom", **changes)


def result(name: str, found: Fault | None, **changes: Any) -> Result:
    script = Script(path=f"/x/{name}", name=name, sha256=name)
    return Result(key=name, script=script, verdict="fails" if found else "passes", fault=found, **changes)


class Bisections:
    """Stands for the bisections: a script fails in the stage that its first line names."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, job: Job) -> Result:
        self.asked.append(job.script.name)
        word = Path(job.script.path).read_text().split()[1]
        folder = Path(job.folder) / "runs" / "one"
        folder.mkdir(parents=True)
        (folder / "report.json").write_text("{}")
        if word == ERROR:
            return Result(key=job.key, script=job.script, verdict=ERROR, said="no torch")
        found = None if word == "fine" else fault(word)
        verdict = "fails" if found else "passes"
        return Result(key=job.key, script=job.script, verdict=verdict, fault=found, run=str(folder), lines=9)


def triage(place: Path, folder: Path, ask: Ask, known: dict[str, Result] | None = None) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    found = find_scripts(place)
    plan = Plan(place=str(place), folder=folder, cwd=str(place), options=("--quiet",), found=found)
    with ThreadPoolExecutor(max_workers=2) as engine:
        made = run(plan, engine, ask, known=known or {})
    (folder / "triage.json").write_text(json.dumps(made))
    return made


def check_schema(made: dict[str, Any]) -> None:
    text = resources.files("accel_lab.reporting").joinpath("triage.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    jsonschema.validate(made, json.loads(text), jsonschema.Draft202012Validator)


def test_scripts_become_faults_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    texts = {"a": "# dynamo", "b": "# fx_passes", "c": "# dynamo\n1", "same_as_a": "# dynamo", "d": "# fine"}
    place, ask = place_with(tmp_path / "in", **texts), Bisections()
    made = triage(place, tmp_path / "one", ask)
    check_schema(made)
    assert sorted(ask.asked) == ["a.py", "b.py", "c.py", "d.py"] and made["asked"] == 4
    members = {fault["stage"]: fault["members"] for fault in made["faults"]}
    assert members == {"dynamo": ["a.py", "c.py", "same_as_a.py"], "fx_passes": ["b.py"]}
    assert lines_of(made)[0] == "5 scripts, 2 distinct faults."
    again = triage(place, tmp_path / "two", ask, kept_results(tmp_path / "one"))
    assert len(ask.asked) == 4 and (again["asked"], again["reused"]) == (0, 4)
    assert again["faults"] == made["faults"]


def test_what_the_lab_could_not_do_and_what_is_gone_is_asked_again(tmp_path: Path) -> None:
    place, ask = place_with(tmp_path / "in", a="# error", b="# dynamo", c="# fine"), Bisections()
    made = triage(place, tmp_path / "one", ask)
    check_schema(made)
    assert "a.py: no torch" in lines_of(made)
    gone = next(Path(row["run"]) for row in made["scripts"] if row["script"] == "b.py")
    (gone / "report.json").unlink()
    with (tmp_path / "one" / "results.jsonl").open("a") as stream:
        stream.write('{"key": "torn')
    ask.asked.clear()
    triage(place, tmp_path / "two", ask, kept_results(tmp_path / "one"))
    assert sorted(ask.asked) == ["a.py", "b.py"]


def test_a_triage_that_is_cut_off_keeps_what_was_answered(tmp_path: Path) -> None:
    place, ask = place_with(tmp_path / "in", a="# dynamo", b="# dynamo\n2"), Bisections()

    def killed(job: Job) -> Result:
        if ask.asked:
            raise KeyboardInterrupt
        return ask(job)

    plan = Plan(place="x", folder=tmp_path, cwd="x", options=(), found=find_scripts(place))
    with ThreadPoolExecutor(max_workers=1) as engine, pytest.raises(KeyboardInterrupt):
        run(plan, engine, killed, known={})
    assert [one.script.name for one in kept_results(tmp_path).values()] == ask.asked == ["a.py"]


def test_what_changed_since_the_last_triage_of_the_place(tmp_path: Path) -> None:
    place, ask = place_with(tmp_path / "in", a="# dynamo", b="# fx_passes", c="# fine"), Bisections()
    first = triage(place, tmp_path / "t1", ask)
    place_with(place, b="# fine", d="# lowering")
    (place / "c.py").unlink()
    second = compared(triage(place, tmp_path / "t2", ask), tmp_path / "t1")
    check_schema(second)
    changes = second["changes"]
    assert (changes["new_scripts"], changes["gone_scripts"]) == (["d.py"], ["c.py"])
    assert changes["changed_scripts"] == [{"script": "b.py", "before": "fails", "now": "passes"}]
    gone = [fault["id"] for fault in first["faults"] if fault["stage"] == "fx_passes"]
    assert [fault["id"] for fault in changes["gone_faults"]] == gone
    assert "gone fault: Inductor's FX passes: op aten.add" in lines_of(second)[-4]
    assert "new fault: Inductor's lowering: op aten.add" in render(second, tmp_path).replace("&#39;", "'")
    folders = [tmp_path / "t1", tmp_path / "t2", tmp_path / "in"]
    (tmp_path / "t1" / "triage.json").write_text(json.dumps({**first, "time": "2020"}))
    assert last_triage(folders, str(place)) == tmp_path / "t2"
    assert last_triage(folders, "/elsewhere") is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "g1", "g2"])), max_size=12))
def test_groups_are_a_partition_and_the_same_in_any_order(marks: list[tuple[str, str]]) -> None:
    results = [
        result(str(n), fault(stage, graph=graph), lines=n % 5) for n, (stage, graph) in enumerate(marks)
    ]
    groups = group(results)
    members = [sorted(member.script.name for member in one.members) for one in groups]
    together = [name for one in members for name in one]
    assert sorted(together) == sorted(one.script.name for one in results)
    backwards = [sorted(member.script.name for member in one.members) for one in group(results[::-1])]
    assert sorted(members) == sorted(backwards)
    for one in groups:
        assert one.smallest.lines == min(member.lines or 0 for member in one.members)


def test_the_same_smallest_graph_joins_two_stages() -> None:
    results = [result("a", fault("fx_passes", graph="g")), result("b", fault("decomposition", graph="g"))]
    assert len(group(results)) == 1
    assert len(group([replace(one, fault=replace(one.fault or fault(), graph="")) for one in results])) == 2


@pytest.mark.parametrize(
    ("message", "alike"), [("AssertionError order is wrong", True), ("AssertionError", False)]
)
def test_a_place_in_the_script_tells_faults_apart_only_where_no_message_does(
    message: str, alike: bool
) -> None:
    one, two = (
        Fault(stage="dynamo", component=part, signature=f"exception {message}")
        for part in ("line a.py:6", "frame use")
    )
    assert (one.identity == two.identity) is alike
    assert replace(one, component="function polyfill").identity != one.identity


def test_a_module_beside_a_script_is_part_of_it(tmp_path: Path) -> None:
    place = place_with(tmp_path / "in", a="import helper\n", helper="x = 1\n", other="import sys\n")
    before = {script.name: script.sha256 for script in find_scripts(place).scripts}
    (place / "helper.py").write_text("x = 2\n")
    after = {script.name: script.sha256 for script in find_scripts(place).scripts}
    assert [name for name in before if before[name] != after[name]] == ["a.py", "helper.py"]


def test_a_list_names_scripts_as_seen_from_it_and_a_bad_one_is_said(tmp_path: Path) -> None:
    place_with(tmp_path / "in", a="1\n", b="((")
    listing = tmp_path / "list.txt"
    listing.write_text("# mine\nin/a.py\n\nin/b.py\nin/none.py\n")
    found = find_scripts(listing)
    assert [script.name for script in found.scripts] == ["in/a.py"] and len(found.refused) == 2
    listing.write_text("# nothing\n")
    with pytest.raises(UsageError, match="no script to bisect"):
        find_scripts(listing)


def test_a_report_becomes_a_result_and_a_graph_elsewhere_is_not_read(tmp_path: Path) -> None:
    graph = tmp_path / "graph.py"
    graph.write_text("# a comment\nf()\n")
    report = {
        "verdict": "fails",
        "culprit": {"stage": "fx_passes", "confidence": "proven", "component": {"kind": "pass", "name": "p"}},
        "baseline": {"signature": {"kind": "values", "type": "values", "message": "f.output"}},
        "versions": {"flips": [{"kind": "introduced", "at": "2.6.0"}]},
        "repro": {"script": "s.py", "lines_after": 7, "graph": str(graph)},
    }
    (tmp_path / "report.json").write_text(json.dumps(report))
    script = Script(path="/x/a.py", name="a.py", sha256="0")
    job = Job(key="k", script=script, options=(), folder=str(tmp_path), cwd=str(tmp_path))
    found = read_result(job, tmp_path)
    assert found.fault is not None and found.fault.graph and found.lines == 7
    assert (found.fault.component, found.fault.signature) == ("pass p", "values values")
    assert found.fault.flips == ("introduced 2.6.0",)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "report.json").write_text(json.dumps(report))
    inside = read_result(job, tmp_path / "run")
    assert inside.fault is not None and inside.fault.graph == ""


def test_a_lab_that_cannot_bisect_is_a_result_with_its_last_words(tmp_path: Path) -> None:
    script = Script(path=str(place_with(tmp_path / "in", a="1\n") / "a.py"), name="a.py", sha256="0")
    options = ("--python", "/no/such/python")
    job = Job(key="k", script=script, options=options, folder=str(tmp_path / "k"), cwd=str(tmp_path))
    found = run_job(job)
    assert found.verdict == ERROR and "is not an interpreter that can be run" in found.said


def test_the_command_runs_resumes_and_ends_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, ask = place_with(tmp_path / "in", a="# dynamo", b="# fine"), Bisections()
    monkeypatch.setattr(triage_command, "run_job", lambda job, stop: ask(job))

    def call(*words: str) -> int | str | None:
        with pytest.raises(SystemExit) as ended:
            main(["triage", *words])
        return ended.value.code

    out = str(tmp_path / "out")
    assert call(str(place), "--out", out, "--json") == 1
    made = json.loads(capsys.readouterr().out)
    check_schema(made)
    assert Path(made["artifacts"], "triage.html").is_file()
    assert call("--resume", made["artifacts"], "--out", out) == 1
    assert call(str(place), "--out", out) == 1 and len(ask.asked) == 2
    assert "2 scripts, 1 distinct fault." in capsys.readouterr().out
    assert call() == 2 and call("--resume", str(place)) == 2
    assert call(str(place), "--resume", made["artifacts"]) == 2
