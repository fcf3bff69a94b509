"""report.html and ISSUE.md: verdict first, everything escaped, one file, within their sizes."""

from __future__ import annotations

import html.parser
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.findings import Component, Culprit, Findings, Step
from accel_lab.core.outcome import Raised
from accel_lab.core.probe import Program
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.reporting import run_files
from accel_lab.reporting.issue import LIMIT, code, fenced, issue_markdown, length, prose
from accel_lab.reporting.page import TOTAL_LIMIT, render_html, write_html
from accel_lab.reporting.picture import WIDTH, draw
from fakes_run import SCRIPT, SHAPES, FakeRun

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
        "A second witness",
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
        ("values", "introduced: after 2.6.0, at 2.13.0"),
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
    run = FakeRun(tmp_path)
    old = run.findings
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
            replace(old.culprits[0], component=Component(kind=bad, name=bad, detail=bad), evidence=(bad,))
        ],
        witness={bad: bad, "list": [bad, {bad: bad}]},
        summary=bad,
        next_steps=[bad],
        warnings=[bad],
        environment={bad: {bad: bad}, "list": [bad]},
        versions={
            "tested": [{"torch": bad, "verdict": bad}],
            "flips": [{"after": bad, "at": bad, "kind": bad}],
            "last_good": bad,
        },
        repro={"script": bad, bad: bad},
        probes={bad: 1},
    )
    return run


def test_hostile_text_in_every_field_stays_text(tmp_path: Path) -> None:
    clean = FakeRun(tmp_path / "clean" if (tmp_path / "clean").mkdir() is None else tmp_path)
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


def test_redaction_reaches_every_part(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
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
    assert [s.rung for s in picture.stairs] == [r.value for r in reversed(Rung)]
    for above, below in zip(picture.stairs, picture.stairs[1:], strict=False):
        assert above.y + above.height < below.y
    assert all(
        s.x >= 0 and s.x + s.width <= WIDTH and s.y + s.height <= picture.height for s in picture.stairs
    )
    assert sum(s.first_bad for s in picture.stairs) == (0 if shape == "passes" else 1)
    kernels = [s for s in picture.stairs if picture.divide_y is not None and s.y < picture.divide_y]
    assert [s.rung for s in kernels] == ["kernel", "scheduled", "loops"]


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


def test_issue_shows_the_reduced_script(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    (run.run_dir / "repro.py").write_text("import torch  # reduced\n", encoding="utf-8")
    run.findings.repro = {"script": "repro.py", "verified": True}
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
@pytest.mark.parametrize("shape", ["kernel", "bare_bones", "hostile"])
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
