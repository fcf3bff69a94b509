"""The terminal's texts: aligned, within the width, coloured only when asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import AgreedType, Agreement, Component, Considered, Culprit, Findings, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Program
from accel_lab.core.signature import Signature, normalise
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import for_terminal
from accel_lab.core.verdict import Verdict
from accel_lab.core.workarounds import Checked, Cost, KnownFailure, Workaround
from accel_lab.reporting.bundle.issue import issue_markdown
from accel_lab.reporting.page.report import render_html
from accel_lab.reporting.schema import load_schema, report_json
from accel_lab.reporting.tables import findings as terminal
from accel_lab.reporting.words import terms as words
from accel_lab.reporting.words.summary import next_steps, summarise
from accel_lab.search.proof import qualify
from fakes_run import EXHIBITS, GRAPH_REPRO, SCRIPT_REPRO, SHAPES, FakeRun


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_wider_than_the_terminal(tmp_path: Path, shape: str) -> None:
    findings = FakeRun(tmp_path, shape).findings
    text = "\n".join(
        [
            terminal.ladder_table(findings),
            terminal.ablation_table(findings),
            terminal.paragraph(findings),
        ]
    )
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text


def test_a_narrow_terminal_loses_a_column_and_not_the_failure(tmp_path: Path) -> None:
    table = terminal.ladder_table(FakeRun(tmp_path, "kernel").findings, width=80)
    assert "backend" not in table
    assert "the same failure" in table
    assert max(map(len, table.splitlines())) <= 80


def test_ladder_table(tmp_path: Path) -> None:
    lines = terminal.ladder_table(FakeRun(tmp_path, "flaky").findings).splitlines()
    assert lines[0].split() == ["verdict", "rung", "torch's", "backend", "seconds", "how", "it", "failed"]
    assert lines[2].startswith("✓ passes ")
    assert "uncompiled" in lines[2]
    assert lines[-1].startswith("✗ fails (4 of 6 runs)  kernel      inductor")
    assert lines[-1].endswith("the same failure")


def test_colour_changes_no_column(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "kernel").findings
    plain = terminal.ladder_table(findings)
    coloured = for_terminal(terminal.ladder_table(findings, colour=True))
    assert "\x1b[31m✗ fails\x1b[0m" in coloured
    for code in ("\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_ascii_terminals_get_ascii(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "kernel").findings
    text = terminal.ladder_table(findings, unicode=False) + terminal.ablation_table(findings, unicode=False)
    assert text.isascii()
    assert "x fails" in text


def test_paragraph_says_the_verdict_first(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "two_faults").findings
    lines = terminal.paragraph(findings).splitlines()
    assert lines[0] == "FAILS  repro.py"
    assert lines[2].startswith("Inductor's kernel stage is at fault")
    assert "fault 2: a decomposition (front end, graph level; likely)" in lines
    assert lines[-1] == "- Send the bundle."


def test_a_component_with_another_confidence_says_so(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "rich").findings
    said = "op aten.div.Tensor_mode (back end, kernel level; stage likely, op proven)"
    assert terminal.culprit_line(findings.culprits[0]).endswith(said)
    part = findings.culprits[0].component
    assert part is not None
    same = replace(findings.culprits[0], component=replace(part, confidence=Confidence.LIKELY))
    assert terminal.culprit_line(same).endswith("(back end, kernel level; likely)")


def test_exhibits_are_named_and_not_shown(tmp_path: Path) -> None:
    text = terminal.paragraph(FakeRun(tmp_path, "rich").findings)
    for exhibit in EXHIBITS:
        assert f"see report.html: {exhibit.title}" in text.splitlines()
    assert "Vectorized" not in text


def test_repro_block_shows_the_script_itself(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    text = terminal.repro_block(run.findings)
    lines = text.splitlines()
    assert lines[0] == "Smallest repro  9 lines (from 34), 2 graph nodes (from 120); 1-minimal"
    assert lines[1] == str(run.run_dir / "repro/graph/repro.py")
    assert lines[2].startswith("proof: a plain run in a fresh process failed in the same way; at kernel")
    assert "\n" + GRAPH_REPRO in text
    assert f"the other repro: script {run.run_dir / 'repro/script/repro.py'}  (9 lines (from 34))" in lines
    assert lines[-2:] == [
        "see report.html: The nearest script that passes, against the one that fails",
        "note: the backward graph was left out at /home/alice/work",
    ]
    coloured = for_terminal(terminal.repro_block(run.findings, colour=True))
    assert "\x1b[1mSmallest repro\x1b[0m" in coloured


def test_a_long_repro_is_named_only(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    run.repro("graph", "x = 1\n" * 60)
    text = terminal.repro_block(run.findings)
    assert "x = 1" not in text
    assert "repro/graph/repro.py" in text


def test_repro_block_without_a_repro(tmp_path: Path) -> None:
    assert terminal.repro_block(FakeRun(tmp_path, "kernel").findings) == ""
    (tmp_path / "none").mkdir()
    assert terminal.repro_block(FakeRun(tmp_path / "none", "no_repro").findings) == (
        "No smaller repro: the failure rate is too low"
    )


def test_a_stopped_reduction_is_not_called_verified(tmp_path: Path) -> None:
    text = terminal.repro_block(FakeRun(tmp_path, "stopped").findings)
    assert text.splitlines()[0] == "Smallest repro  not verified"
    assert "was not run again in a fresh process" in " ".join(text.split())
    assert SCRIPT_REPRO.strip() in text


def test_escapes_in_a_repro_do_not_reach_the_terminal(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    run.repro("graph", "x = '\x1b[2J\x07'  # \u202e\n")
    assert run.findings.repro is not None
    run.findings.repro.notes = ["\x1b]0;title\x07"]
    assert not set(terminal.repro_block(run.findings)) & set("\x1b\x07\u202e")


def test_summary_names_component_and_repro(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    text = summarise(run.findings)
    assert "The op aten.div.Tensor_mode is proven: the failure disappears when only it is left out" in text
    assert text.endswith("The smallest script that shows it has 9 lines (of 34): repro/graph/repro.py.")
    assert ".." not in text
    steps = next_steps(run.findings)
    assert f"python {run.run_dir}/repro/graph/repro.py exits 1 while the bug is there" in steps
    assert steps[-1].startswith("Attach the bundle")


@pytest.mark.parametrize(
    ("kind", "pair"),
    [
        ("op", "the failure disappears when only it is left out and returns with it"),
        ("guard", "the failure disappears when the code is recompiled whenever that value changes"),
        ("setting", "the failure disappears with only that setting changed"),
        (
            "line",
            "the failure disappears when Dynamo's trace ends before it and returns when it ends after it",
        ),
    ],
)
def test_a_proven_component_tells_what_its_pair_of_runs_changed(tmp_path: Path, kind: str, pair: str) -> None:
    findings = FakeRun(tmp_path, "rich").findings
    part = Component(kind=kind, name="x", confidence=Confidence.PROVEN)
    findings.culprits[0] = replace(findings.culprits[0], component=part, confidence=Confidence.LIKELY)
    assert f"The {kind} x is proven: {pair}." in summarise(findings)


def test_a_likely_culprit_says_what_is_open_and_a_check_of_exact_numbers_is_doubted(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "kernel").findings
    doubt = Evidence.of(EvidenceKind.REFUSES_ROUNDINGS, runs=2)
    ruled_out = Considered(name="x", open=False, why=Evidence.of(EvidenceKind.NO_OUTPUTS_MERGED))
    considered = [ruled_out, Considered(name="rounding", open=True, why=doubt)]
    assert "Not proven" not in summarise(findings)
    findings.culprits[0] = qualify(findings.culprits[0], considered)
    text = summarise(findings)
    assert "(likely)" in text and "Not proven: the compiled values are not further from a float64 run" in text
    assert any(line.startswith("First let the check allow other numbers") for line in next_steps(findings))


def test_no_workaround_is_told_that_was_not_run(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "rich").findings
    part = Component(kind="frame", name="f", cure="torch.compiler.disable on f")
    findings.culprits[0] = replace(findings.culprits[0], component=part)
    findings.workarounds = []
    assert not any("passes" in line or "Until" in line for line in next_steps(findings))
    assert terminal.workarounds_block(findings) == ""


WAYS = [
    Workaround(
        kind="release",
        code='pip install "torch==2.9.0"',
        where="shell",
        words="the first release that has the fix",
        verified=Checked.RELEASE,
    ),
    Workaround(
        kind="fallback",
        code="import torch.a\ntorch.a.b()",
        where="paste",
        words="aten.x runs as the eager operator",
        verified=Checked.PLAIN,
        cost=Cost(of="region", seconds=1.5e-3, eager=3e-3, failing=2e-5, runs=9),
    ),
    Workaround(
        kind="backend",
        code="torch.compile(f, backend='aot_eager')",
        where="edit",
        words="Inductor makes no kernels",
        verified=Checked.VALUES,
        cost=Cost(of="run", seconds=12.34),
    ),
]


def test_workarounds_are_told_with_their_runs_and_costs(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "rich").findings
    findings.workarounds = list(WAYS)
    findings.known = [
        KnownFailure(entry="1-x", title="Wrong x", issue=1, match="same op", shown="exit 1", fixed_in="2.9.0")
    ]
    text = terminal.workarounds_block(findings)
    for said in (
        "Known failure  Wrong x (pytorch#1): same op. The catalogue's own script",
        "It does not fail on torch 2.9.0.",
        '1. The first release that has the fix (in a shell)\n\n     pip install "torch==2.9.0"\n',
        "     import torch.a\n     torch.a.b()\n",
        "takes 1.5 ms against 3 ms in eager mode (0.50x), 20 µs with the",
        "failing compile, median of 9 interleaved",
        "Cost: the whole script takes 12.3 s, one run",
        "its values agree with an uncompiled run's",
    ):
        assert said in text or said in " ".join(text.split()), said
    assert next_steps(findings)[0].startswith('Until it is fixed: pip install "torch==2.9.0"')
    html = render_html(findings, tmp_path)
    assert "<h2>Workarounds</h2>" in html and "torch.a.b()" in html
    issue = issue_markdown(findings, tmp_path)
    assert "#### Workarounds" in issue and "```python\nimport torch.a\ntorch.a.b()\n```" in issue
    jsonschema.validate(json.loads(report_json(findings)), load_schema())


def test_summary_claims_nothing_of_an_unverified_repro(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "stopped")
    assert "so far, and was not run again in a fresh process: reduce/script/best.py." in summarise(
        run.findings
    )
    assert not [line for line in next_steps(run.findings) if line.startswith("python ")]


def test_a_repro_whose_exit_code_tells_nothing_is_not_said_to_exit_1(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    assert run.findings.repro is not None
    for plain, said in (
        ("exit 0", None),
        ("timeout", None),
        ("signal 11", "dies by signal 11"),
        ("exit 3", "exits 3"),
    ):
        run.findings.repro.proof.plain = plain
        lines = [line for line in next_steps(run.findings) if line.startswith("python ")]
        assert (said is None and not lines) or (said is not None and said in lines[0]), plain


def test_escapes_of_a_hostile_script_do_not_reach_the_terminal(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "kernel").findings
    evil = Signature(kind="exception", type="E", message="\x1b[2J\x1b]0;title\x07 \x9b31m \x00 gone\u202e")
    findings.ladder[-1] = replace(findings.ladder[-1], signature=evil)
    findings.summary = "\x1b[31mred\x1b[0m \x07bell"
    text = terminal.ladder_table(findings) + terminal.paragraph(findings)
    assert not set(text) & set("\x1b\x07\x9b\x00\u202e")


def test_every_rung_and_stage_has_words() -> None:
    assert set(words.RUNS) == set(Rung)
    assert set(words.STAGES) == set(Stage)


RUNGS = (Rung.DECOMP, Rung.FX, Rung.KERNEL)


def failing_run(numbers: Sequence[str], *, rungs: Sequence[str] = (), random: bool = False) -> Findings:
    """A baseline whose runs say these numbers, and rungs that do."""

    def step(rung: Rung, number: str) -> Step:
        said = f"AssertionError: step 0: {number}"
        signature = Signature(kind="exception", type="X", message=normalise(said), said=said)
        outcome = Outcome(status=Status.EXCEPTION, facts={"random": random})
        return Step(rung=rung, verdict=Verdict.BAD, outcome=outcome, signature=signature)

    baseline = [step(Rung.KERNEL, number) for number in numbers]
    ladder = [step(rung, number) for rung, number in zip(RUNGS, rungs, strict=False)]
    return Findings(
        program=Program(path="/x.py"), verdict="fails", signature=baseline[0].signature, baseline=baseline,
        ladder=ladder, culprits=[Culprit(stage=Stage.CODEGEN, confidence=Confidence.LIKELY)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (failing_run(["1.5", "1.6"]), "differ from run to run"),
        (failing_run(["1.5", "1.5"]), None),
        (failing_run(["1.5"], rungs=["1.5", "1.6", "1.7"], random=True), "differ at each of the 3 rungs"),
        (failing_run(["1.5"], rungs=["1.5", "1.6", "1.7"]), None),
        (failing_run(["1.5"], rungs=["1.5", "1.6", "1.6"], random=True), None),
    ],
)
def test_numbers_that_differ_where_the_failure_is_the_same_are_a_clue(
    found: Findings, words: str | None
) -> None:
    said = summarise(found)
    assert (words in said) if words else ("numbers in its message" not in said)


def test_failing_tests_are_what_fails() -> None:
    found = failing_run(["1.5"])
    said = "tests/t.py::test_a[long] fails with AssertionError: 1 != 2"
    found.signature = Signature(kind="exit", type="exit 1", message="m", said=said)
    assert f" The script fails: {said}." in summarise(found)


def test_what_agrees_means(tmp_path: Path) -> None:
    found = FakeRun(tmp_path, "passes").findings
    said = summarise(found)
    assert (
        "agrees with an uncompiled run: no number is further from a float64 run than 3 times eager's own"
        in said
    )
    assert "2 tensors of bfloat16: greatest difference 0.003, tolerance 0.031" in said
    assert "10 tensors of float32: greatest difference 2.5e-07, tolerance 1.5e-05" in said
    assert "1 other value compared exactly" in said
    equal = AgreedType(dtype="float32", tensors=1, greatest=0.0, tolerance=1.3e-6)
    found.agreement = Agreement(types=(equal,))
    assert "(1 tensor of float32: all equal, tolerance 1.3e-06)" in summarise(found)
    assert "float64" not in summarise(found)
    found.agreement = Agreement(types=(), others=2)
    assert "2 values compared exactly" in summarise(found)
    found.agreement = None
    assert "agrees" not in summarise(found)
