"""report.html and ISSUE.md: verdict first, everything escaped, one file, within their sizes."""

from __future__ import annotations

import html.parser
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.evidence import Evidence
from accel_lab.core.findings import (
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
from accel_lab.core.outcome import Raised
from accel_lab.core.probe import Program
from accel_lab.core.releases.versions import Flip, Versions
from accel_lab.core.releases.versions import Tested as Row
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.reporting import run_files
from accel_lab.reporting.bundle.issue import LIMIT, code, fenced, issue_markdown, length, prose
from accel_lab.reporting.page.exhibits import View, view
from accel_lab.reporting.page.ladder_picture import WIDTH, draw
from accel_lab.reporting.page.report import render_html, write_html
from accel_lab.reporting.page.text_budget import TEXT_LIMIT, TOTAL_LIMIT, TextBudget, keep
from fakes_run import EXHIBITS, GRAPH_REPRO, SCRIPT, SHAPES, FakeRun

HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}{% raw %}"
VOID = {"meta", "link", "rect", "line", "br", "img", "hr"}


class Page(html.parser.HTMLParser):
    """Tags, attributes and text of a page; refuses tags that do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(run: FakeRun) -> Page:
    return Page(render_html(run.findings, run.run_dir))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_one_offline_page(tmp_path: Path, shape: str) -> None:
    run = FakeRun(tmp_path, shape)
    path = tmp_path / "report.html"
    write_html(run.findings, run.run_dir, path)
    page = Page(path.read_text(encoding="utf-8"))
    assert not {"script", "iframe", "object", "img", "form"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name != "style"
            assert name not in ("href", "src") or value == "data:,"
    assert "url(" not in page.text
    assert not list(tmp_path.glob("*.part"))
    assert Page(render_html(run.findings, run.run_dir)).text == page.text


def test_policy_allows_nothing_but_the_pages_own_style(tmp_path: Path) -> None:
    page = page_of(FakeRun(tmp_path))
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_verdict_comes_first(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    text = page_of(run).text
    text = text[text.index("accel-lab bisect report") :]
    order = [
        "✗ FAILS",
        run.findings.summary,
        "Confidence",
        "What to do next",
        "The ladder",
        "One switch",
        "Evidence",
    ]
    order += [
        "Cross-check with another tool",
        "The failure",
        "Last good rung",
        "Code and graphs",
        "How to run",
        "Environment",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("passes", "✓ PASSES"),
        ("cannot_tell", "? CANNOT TELL"),
        ("bare_bones", "? CANNOT TELL"),
        ("environment", "the environment"),
        ("flaky", "70% of its runs"),
        ("values", "introduced in 2.13.0 (good: 2.6.0)"),
        ("signal", "SIGSEGV"),
        ("two_faults", "2 independent faults"),
    ],
)
def test_shapes_say_what_they_are(tmp_path: Path, shape: str, words: str) -> None:
    assert words in page_of(FakeRun(tmp_path, shape)).text


def test_diffs_and_code_of_the_failing_rung(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    decomp = next(s for s in run.findings.ladder if s.rung is Rung.DECOMP)
    run.findings.ladder = [decomp if s.rung is Rung.FX else s for s in run.findings.ladder]
    text = page_of(run).text
    assert "What was printed: decomp (passes) against kernel (fails)" in text
    assert "+RuntimeError: kernel said <n> at <path>/x.py" in text
    assert "--- decomp/aot_forward_0.py" in text
    assert '-        neg: "f32[3, 3]" = torch.ops.aten.neg.default(mm)' in text
    assert text.index("output_code_0.py (") < text.index("post_grad_0.py (")
    assert 'extern "C" void kernel' in text


def poisoned(tmp_path: Path) -> FakeRun:
    """A run with the same hostile text in every field that holds text."""
    bad = HOSTILE
    run = FakeRun(tmp_path, "rich")
    old = run.findings
    assert old.repro is not None
    run.repro("graph", bad)
    (run.run_dir / "repro" / "graph" / "<b>&.bin").write_text(bad, encoding="utf-8")
    hostile = (
        Exhibit(
            kind=bad,
            title=bad,
            text=f"{bad}\n" * 60,
            language="cpp",
            marked=(2, 99),
            rows=((bad, bad), (bad,), (bad, bad, bad)),
        ),
        Exhibit(kind=bad, title=bad, text=f"+{bad}", language="diff"),
    )
    signature = Signature(kind="exception", type=bad, message=bad, frames=(bad,))

    def poison(step: Step) -> Step:
        raised = Raised(type=bad, message=bad, text=bad) if step.outcome.raised else None
        folder = Path(step.outcome.folder)
        for name in ("stdout.txt", "stderr.txt"):
            (folder / name).write_text(bad, encoding="utf-8")
        for path in (folder / "artifacts").iterdir():
            path.write_text(bad + path.name, encoding="utf-8")
        outcome = replace(step.outcome, raised=raised, torch=bad, python=bad, notes=(bad,))
        changed = {"switch": bad, "label": bad} if step.switch else {}
        return replace(step, outcome=outcome, signature=step.signature and signature, note=bad, **changed)

    run.findings = Findings(
        program=Program(path=f"/x/{bad}.py", args=(bad,)),
        verdict="fails",
        baseline=[poison(step) for step in old.baseline],
        signature=signature,
        ladder=[poison(step) for step in old.ladder],
        ablation=[poison(step) for step in old.ablation],
        culprits=[
            replace(
                old.culprits[0],
                component=Component(kind=bad, name=bad, detail=bad),
                evidence=(Evidence.said(bad),),
                exhibits=hostile,
            )
        ],
        witness=CrossCheck(name=bad, words=bad),
        summary=bad,
        next_steps=[bad],
        warnings=[bad],
        environment={bad: {bad: bad}, "list": [bad]},
        versions=Versions(
            tested=(Row(torch=bad, verdict=Verdict.BAD, why=bad),),
            flips=(Flip(after=bad, at=bad, kind=bad),),
        ),
        repro=replace(
            old.repro, why_not=bad, proof=ReproProof(plain=bad, words=[bad]), exhibits=hostile, notes=[bad]
        ),
        probes={bad: 1},
    )
    return run


def test_hostile_text_in_every_field_stays_text(tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    clean = FakeRun(tmp_path / "clean", "rich")
    (tmp_path / "evil").mkdir()
    run = poisoned(tmp_path / "evil")
    text = render_html(run.findings, run.run_dir)
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in page_of(clean).tags}
    assert "<script" not in text
    assert "<img" not in text
    assert page.text.count("<script>alert(1)</script>") > 30
    assert "{{7*7}}" in page.text
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)


def test_unprintable_characters_become_visible(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    run.findings.summary = "nul \x00 esc \x1b[31mred\x1b[0m surrogate \ud800 bidi \u202e end"
    text = page_of(run).text
    assert "nul \\u0000 esc red surrogate \\ud800 bidi \\u202e end" in text
    write_html(run.findings, run.run_dir, tmp_path / "r.html")


def test_the_page_is_bounded(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    for step in run.findings.ladder:
        folder = Path(step.outcome.folder)
        (folder / "stderr.txt").write_text("x" * 3_000_000, encoding="utf-8")
        for number in range(60):
            (folder / "artifacts" / f"output_code_{number}.py").write_text(
                f"{number}\n" * 100_000, encoding="utf-8"
            )
    run.findings.summary = "s" * 500_000
    run.findings.environment = {f"key{n}": "v" * 20_000 for n in range(10)}
    text = render_html(run.findings, run.run_dir)
    assert len(text) < TOTAL_LIMIT + 1_000_000
    assert "characters left out ..." in text
    assert re.search(r"\d+ more in the run folder", text)


@pytest.mark.parametrize("shape", ["kernel", "rich", "stopped"])
def test_redaction_reaches_every_part(tmp_path: Path, shape: str) -> None:
    run = FakeRun(tmp_path, shape)
    secret = "alice"
    plain = render_html(run.findings, run.run_dir)
    assert secret in plain
    shown = render_html(run.findings, run.run_dir, redact=lambda text, file: text.replace(secret, "user1"))
    assert secret not in shown


def test_a_moved_run_folder_is_found(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    before = render_html(run.findings, run.run_dir)
    moved = run.run_dir.rename(tmp_path / "elsewhere")
    assert render_html(run.findings, moved) == before


def test_links_out_of_the_run_folder_are_not_followed(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    secret = tmp_path / "secret.txt"
    secret.write_text("do not show", encoding="utf-8")
    step = run.findings.ladder[-1]
    artifacts = Path(step.outcome.folder, "artifacts")
    (artifacts / "output_code_9.py").symlink_to(secret)
    (artifacts / "sub").symlink_to(tmp_path, target_is_directory=True)
    names = [artifact.name for artifact in run_files.artifacts_of(step, run.run_dir)]
    assert "output_code_0.py" in names
    assert not any("9" in name or "sub" in name for name in names)
    Path(step.outcome.folder, "stderr.txt").unlink()
    Path(step.outcome.folder, "stderr.txt").symlink_to(secret)
    assert "do not show" not in render_html(run.findings, run.run_dir)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "bare_bones"])
def test_picture_holds_every_rung_once_and_stays_inside(tmp_path: Path, shape: str) -> None:
    run = FakeRun(tmp_path, shape)
    picture = draw(run.findings)
    assert picture is not None
    other_ways = (Rung.MOCK, Rung.ACCELERATOR)
    wanted = [r.value for r in reversed(Rung) if r not in other_ways]
    assert [s.rung for s in picture.stairs] == wanted
    for above, below in zip(picture.stairs, picture.stairs[1:], strict=False):
        assert above.y + above.height < below.y
    assert all(
        s.x >= 0 and s.x + s.width <= WIDTH and s.y + s.height <= picture.height for s in picture.stairs
    )
    assert sum(s.first_bad for s in picture.stairs) == (0 if shape == "passes" else 1)
    kernels = [s for s in picture.stairs if picture.divide_y is not None and s.y < picture.divide_y]
    assert [s.rung for s in kernels] == ["kernel", "scheduled", "loops"]


def test_the_rows_of_an_accelerator_stand_in_their_order(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "kernel")
    rows = [
        run.step(Rung.UNCOMPILED, Verdict.GOOD),
        replace(run.step(Rung.ACCELERATOR, Verdict.GOOD), label="its graphs, run by torch on the host"),
        replace(run.step(Rung.ACCELERATOR, Verdict.BAD), label="chip as it is"),
    ]
    found = replace(run.findings, ladder=rows)
    picture = draw(found)
    assert picture is not None
    assert [s.adds for s in picture.stairs[:2]] == ["chip as it is", "its graphs, run by torch on the host"]
    page = render_html(found, run.run_dir)
    assert "its graphs, run by torch on the host" in page and "chip as it is" in page


def test_cut_keeps_both_ends_and_says_so() -> None:
    text = run_files.cut("a" * 1000 + "z" * 1000, 300)
    assert text.startswith("a" * 200)
    assert text.endswith("z" * 100)
    assert "[... 1,700 characters left out ...]" in text
    assert run_files.cut("short", 300) == "short"


def test_issue_fills_the_fields_of_the_form(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    text = issue_markdown(run.findings, run.run_dir)
    headings = [line for line in text.splitlines() if line.startswith("#") and not line.startswith("# ")]
    assert headings == [
        "### 🐛 Describe the bug",
        "#### Ablation",
        "#### Minimal repro",
        "### Error logs",
        "### Versions",
    ]
    assert f"```python\n{SCRIPT}```" in text
    for name in ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor"):
        assert text.count(f"| `{name}` |") == 1
    assert "| `inductor` | **✗ fails** | `RuntimeError: kernel said <n> at <path>/x.py` |" in text
    assert "| `fusion (no fusion)` | ✓ passes |  |" in text
    assert "torch: 2.13.0+cpu" in text


@pytest.mark.parametrize("shape", SHAPES)
def test_issue_of_every_shape(tmp_path: Path, shape: str) -> None:
    run = FakeRun(tmp_path, shape)
    text = issue_markdown(run.findings, run.run_dir)
    assert "### Versions" in text
    assert length(text) <= LIMIT


def test_the_repro_comes_right_after_the_verdict(tmp_path: Path) -> None:
    text = page_of(FakeRun(tmp_path, "rich")).text
    text = text[text.index("accel-lab bisect report") :]
    order = [
        "✗ FAILS",
        "9 lines (from 34), 2 graph nodes (from 120)",
        "What to do next",
        "Smallest repro\n",
        "repro/graph/repro.py made from the captured graph; 431 candidates tried in 64 s verified",
        "34 → 9",
        "120 → 2",
        "python repro/graph/repro.py",
        "# Stage at fault: kernel (likely); op aten.div.Tensor_mode (proven).",
        "It exits 1 while the bug is there.",
        "a plain run in a fresh process failed in the same way",
        "It is 1-minimal",
        "It reads inputs.safetensors.",
        "The other repro, made from the script: repro/script/repro.py",
        "it may still get smaller",
        "The nearest script that passes, against the one that fails",
        "the backward graph was left out",
        "The ladder",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    gone = FakeRun(tmp_path / "gone" if (tmp_path / "gone").mkdir() is None else tmp_path, "rich")
    (gone.run_dir / "repro" / "graph" / "repro.py").unlink()
    assert "Its file is gone." in page_of(gone).text


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("no_repro", "There is none: the failure rate is too low."),
        ("stopped", "not verified"),
        ("stopped", "It was seen to fail while it was made; it was not run again in a fresh process."),
    ],
)
def test_a_missing_or_unproven_repro_is_told(tmp_path: Path, shape: str, words: str) -> None:
    text = page_of(FakeRun(tmp_path, shape)).text
    assert words in text
    assert "1-minimal" not in text


def test_no_reduction_no_section(tmp_path: Path) -> None:
    assert "Smallest repro" not in page_of(FakeRun(tmp_path, "kernel")).text


def test_a_bundles_page_names_the_bundles_files(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    assert run.findings.repro is not None
    text = Page(
        render_html(run.findings, run.run_dir, names={str(run.findings.repro.script): "repro.py"})
    ).text
    assert "Run it" + "python repro.py" in text.replace("\n", "")
    assert "repro/graph/repro.py" not in text


def test_exhibits_of_a_culprit(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    html = render_html(run.findings, run.run_dir)
    page = Page(html)
    assert "Component: op aten.div.Tensor_mode proven" in page.text
    for exhibit in EXHIBITS:
        assert exhibit.title in page.text
    marked = re.findall(r'<span class="same mark" data-n="(\d+)">', html)
    # Near the marks, in the whole kernel, and in the source.
    assert marked == ["145", "146", "145", "146", "2"]
    assert "The whole text (149 lines)" in page.text
    assert '<span class="minus">-neg = aten.neg(mm)</span>' in html
    assert "<th>max abs error</th>" in html
    assert "<td>aten.div.Tensor_mode</td>" in html


def shown(text: str, **fields: Any) -> View:
    return view(Exhibit(kind="k", title="t", text=text, **fields), TextBudget(keep))


def test_short_exhibits_are_open_and_long_ones_folded() -> None:
    text = "\n".join(f"line {n}" for n in range(1, 101))
    assert shown("a\nb", language="cpp").open
    folded = shown(text)
    assert (folded.open, folded.near, folded.numbered) == (False, (), False)
    marked = shown(text, marked=(1, 50, 100))
    assert [line.number for line in marked.near if "mark" in line.name] == ["1", "50", "100"]
    gaps = [line.text for line in marked.near if line.name == "gap"]
    assert gaps == ["[... 36 lines ...]", "[... 37 lines ...]"]
    numbers = [int(line.number) for line in marked.near if line.number]
    assert numbers == [*range(1, 8), *range(44, 57), *range(94, 101)]
    assert not shown("", rows=(("a",), *((str(n),) for n in range(99)))).open_table
    assert shown("", rows=(("a", "b"), ("1",))).rows == (("1", ""),)


def test_marks_that_are_true_no_more_are_dropped() -> None:
    texts = TextBudget(lambda text, file: text.replace("two\nthree", "gone"))
    exhibit = Exhibit(kind="k", title="t", text="one\ntwo\nthree\nfour", marked=(4,))
    lines = view(exhibit, texts).lines
    assert [line.text for line in lines] == ["one", "gone", "four"]
    assert not any("mark" in line.name for line in lines)


@given(
    count=st.integers(1, 4_000),
    marks=st.lists(st.integers(1, 4_200), max_size=6),
    width=st.integers(0, 100),
)
def test_every_line_is_shown_or_counted(count: int, marks: list[int], width: int) -> None:
    texts = [f"{n} " + "x" * width for n in range(1, count + 1)]
    seen = shown("\n".join(texts), marked=tuple(marks), language="cpp")
    shown_lines = [line for line in seen.lines if line.name != "gap"]
    gaps = sum(int(re.sub(r"\D", "", line.text) or 0) for line in seen.lines if line.name == "gap")
    assert len(shown_lines) + gaps == count
    assert all(line.text == texts[int(line.number) - 1] for line in shown_lines)
    there = {int(line.number) for line in shown_lines if "mark" in line.name}
    assert there == {n for n in marks if n <= count}
    assert sum(len(line.text) for line in shown_lines) <= TEXT_LIMIT


def test_many_exhibits_keep_the_pages_size(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    huge = Exhibit(
        kind="k",
        title="t" * 5_000,
        text="x = 1  # a line\n" * 50_000,
        language="cpp",
        marked=tuple(range(1, 50_000, 7)),
        rows=(("c" * 9_000,) * 4,) * 3_000,
    )
    run.findings.culprits = [replace(run.findings.culprits[0], exhibits=(huge,) * 200)]
    assert len(render_html(run.findings, run.run_dir)) < TOTAL_LIMIT + 4_000_000


def test_damaged_repro_records_do_not_break_the_page(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "kernel")
    for damaged in (
        Repro(),
        Repro(script="x" * 5_000, other=ReducedScript(kind="", script="\0"), min_good="\0", nodes_before=-1),
        Repro(
            script="gone.py",
            exhibits=(
                Exhibit(kind="", title=""),
                Exhibit(kind="x", title="t", text="a", language="<b>", marked=(-1, 7)),
            ),
        ),
    ):
        run.findings.repro = damaged
        assert page_of(run).text
        assert issue_markdown(run.findings, run.run_dir)


def test_issue_labels_the_repro_honestly(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    text = issue_markdown(run.findings, run.run_dir)
    assert (
        "Reduced to 9 lines (from 34), 2 graph nodes (from 120), 1-minimal and verified in fresh processes; "
        "it exits 1 while the bug is there. Run: `python repro.py`.\n\n```python\n" + GRAPH_REPRO.strip()
    ) in text
    assert "op `aten.div.Tensor_mode` (back end, kernel level; stage likely, op proven)" in text
    assert "  - With only this op run by its eager kernel it passes." in text
    assert run.findings.repro is not None
    run.findings.repro.proof.plain = "exit 0"
    assert "its exit code does not show the bug" in issue_markdown(run.findings, run.run_dir)
    (tmp_path / "stopped").mkdir()
    stopped = FakeRun(tmp_path / "stopped", "stopped")
    text = issue_markdown(stopped.findings, stopped.run_dir)
    assert "Reduced; not verified: it failed while it was made" in text
    assert "1-minimal" not in text


def test_issue_folds_the_first_exhibit(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    text = issue_markdown(run.findings, run.run_dir)
    title = f"<details>\n<summary>{EXHIBITS[0].title}</summary>\n\n```\n"
    assert title in text
    block = text[text.index(title) : text.index("</details>")]
    assert "> 145          auto tmp140 = in_ptr0[x0]" in block
    assert "  144      for (int64_t x0" in block
    assert "tmp1 = " not in block
    table = replace(run.findings.culprits[0], exhibits=EXHIBITS[2:3])
    run.findings.culprits = [table]
    assert "| `div` | `aten.div.Tensor_mode` | `1` | `yes` |" in issue_markdown(run.findings, run.run_dir)
    evil = Exhibit(kind="k", title="</summary><script> @you\n\nx", text="```\n</details>")
    run.findings.culprits = [replace(table, exhibits=(evil,))]
    text = issue_markdown(run.findings, run.run_dir)
    assert "<summary>&lt;/summary&gt;&lt;script&gt; @<!-- -->you x</summary>\n\n````\n```\n" in text
    run.findings.culprits = [replace(table, exhibits=(replace(evil, text="x\n" * 500), EXHIBITS[1]))]
    whole = issue_markdown(run.findings, run.run_dir)
    assert "```diff\n--- before" in whole
    short = issue_markdown(run.findings, run.run_dir, limit=length(whole) - 10)
    assert "```diff" not in short
    assert GRAPH_REPRO.strip() in short


def test_issue_shows_the_reduced_script(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    (run.run_dir / "repro.py").write_text("import torch  # reduced\n", encoding="utf-8")
    run.findings.repro = Repro(script="repro.py", verified=True)
    text = issue_markdown(run.findings, run.run_dir)
    assert "```python\nimport torch  # reduced\n```" in text
    assert "kernel said 42" not in text.split("### Error logs")[0]


def test_a_long_issue_loses_its_log_before_its_script(tmp_path: Path) -> None:
    script = "import torch\n" + "x = 1  # a line of the script\n" * 1_000
    run = FakeRun(tmp_path, script=script)
    for step in [*run.findings.baseline, *run.findings.ladder]:
        Path(step.outcome.folder, "stderr.txt").write_text("log 🐛 line\n" * 50_000, encoding="utf-8")
    text = issue_markdown(run.findings, run.run_dir)
    assert length(text) <= LIMIT
    assert script in text
    assert "characters left out" in text.split("### Error logs")[1]
    short = issue_markdown(run.findings, run.run_dir, limit=4_000)
    assert length(short) <= 4_000
    assert "### Versions" in short


def test_markdown_cannot_be_broken_out_of(tmp_path: Path) -> None:
    assert code("a`b``c") == "``` a`b``c ```"
    assert code("a|b", cell=True) == "`a\\|b`"
    assert fenced("x\n````\ny") == "`````\nx\n````\ny\n`````"
    assert prose("<b> @you #12 *x*") == "&lt;b&gt; @<!-- -->you #<!-- -->12 \\*x\\*"
    assert prose("aot_eager _x_ [l](u)") == "aot_eager \\_x\\_ \\[l\\](u)"
    evil = "```\n</details>\n@everyone | pipe"
    run = FakeRun(tmp_path, script=evil)
    run.findings.ladder[-1] = replace(run.findings.ladder[-1], note=evil)
    text = issue_markdown(run.findings, run.run_dir)
    assert f"````python\n{evil}\n````" in text
    row = next(line for line in text.splitlines() if line.startswith("| `inductor`"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 4


def test_issue_of_two_faults_names_both(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "two_faults")
    run.findings.culprits.append(
        Culprit(stage=run.findings.culprits[0].stage, confidence=run.findings.culprits[0].confidence)
    )
    text = issue_markdown(run.findings, run.run_dir)
    assert "- **a decomposition** (front end, graph level; likely)" in text


@pytest.mark.browser
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("shape", ["kernel", "rich", "bare_bones", "hostile"])
def test_browser_shows_it_without_overflow(tmp_path: Path, browser: str, shape: str, width: int) -> None:
    """The report in a frame as wide as a screen; the page around the frame measures it."""
    if shape == "hostile":
        run = poisoned(tmp_path)
        long = "x" * 3_000
        run.findings.summary += long
        run.findings.environment[long] = long
        run.findings.warnings.append(long)
    else:
        run = FakeRun(tmp_path, shape)
    text = render_html(run.findings, run.run_dir)
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    frame = (
        f"<body><iframe id=f width={width} height=900 style='border:0' src=report.html></iframe><script>"
        "onload = () => { const page = document.getElementById('f').contentDocument; document.body.innerText"
        " = [page.documentElement.scrollWidth, page.documentElement.clientWidth, page.defaultView.innerWidth]"
        ".join(' ') }</script>"
    )
    (tmp_path / "frame.html").write_text(frame, encoding="utf-8")

    def chromium(name: str) -> subprocess.CompletedProcess[str]:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}"]
        command += ["--enable-logging=stderr", "--dump-dom", (tmp_path / name).as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    shown = chromium("report.html")
    assert "CONSOLE" not in shown.stderr
    assert "accel-lab bisect report" in shown.stdout
    answer = re.search(r"<body>(\d+) (\d+) (\d+)</body>", chromium("frame.html").stdout)
    assert answer is not None
    content, room, screen = map(int, answer.groups())
    assert screen == width
    assert content <= room
