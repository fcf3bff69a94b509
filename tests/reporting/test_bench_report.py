"""bench.html, bench.json, the pictures and the terminal's tables: complete, escaped, within their widths."""

from __future__ import annotations

import base64
import json
import math
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from accel_lab.core.benchmark import Benchmark, BenchmarkComparison, Change, RowChange, RowStatus
from accel_lab.core.text import for_terminal
from accel_lab.reporting.page.bench import render
from accel_lab.reporting.page.bench_plots import plots
from accel_lab.reporting.schema import json_text
from accel_lab.reporting.tables.bench import text
from accel_lab.reporting.words import bench as words
from fakes_bench import benchmark

SCHEMA = Path(__file__).resolve().parents[2] / "bisect" / "accel_lab" / "reporting" / "bench.schema.json"
HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}$x^$\x1b[31m"


def schema() -> dict[str, object]:
    found: dict[str, object] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def hostile() -> Benchmark:
    found = benchmark()
    found.rows = [
        replace(
            row,
            backend=row.backend and f"{row.backend}{HOSTILE}",
            reason=HOSTILE,
            notes=(HOSTILE,),
            fallbacks={HOSTILE: 1},
            graph_breaks={HOSTILE * 50: 2},
        )
        for row in found.rows
    ]
    found.titles = dict.fromkeys(found.models, HOSTILE)
    found.environment["variables"] = {HOSTILE: HOSTILE}
    return found


def test_json_keeps_to_its_schema_in_every_shape() -> None:
    shapes = [benchmark(), benchmark({}), benchmark(packages=()), hostile(), Benchmark()]
    shapes[-1].settings, shapes[-1].environment = shapes[0].settings, shapes[0].environment
    broken = benchmark()
    distance = broken.rows[1].distance
    assert distance is not None
    broken.rows[1] = replace(broken.rows[1], distance=replace(distance, to_eager=math.inf))
    for found in [*shapes, broken]:
        jsonschema.validate(json.loads(json_text(found.to_json())), schema())
    assert json.loads(json_text(broken.to_json()))["rows"][1]["distance"]["to_eager"] == "inf"


def test_the_table_says_what_was_measured_and_what_was_not() -> None:
    shown = text(benchmark(), width=140)
    assert shown.startswith("RESULTS DIFFER  inference, small size, float32 on cpu")
    assert "BERT-base (transformers), small, 108,224 parameters" in shown
    row = next(line for line in shown.splitlines() if line.startswith("mock"))
    for cell in ("✓ ok", "2.02", "21.0", "2.00", "2.10", "50.0", "40", "4", "2", "1.0e-7", "2.0e-7"):
        assert cell in row, cell
    for remark in (
        "aot: differs: output.0: error 0.5",
        "inductor: graph break: call to print (2 times)",
        "mock: constraint violated: shape alignment (3 times)",
        "mock: on the host: aten.embedding.default (2 times)",
        "mock: where the time of a call goes: kernels 75%, to device 25%",
        "mock: 1 more graph(s) were compiled after the first call",
        "skipped: torchvision is not installed",
        "mock: skipped: this accel-lab has no mock",
        "inductor: failed: timed out after 9 s (in: first call)",
    ):
        assert remark in shown, remark


def test_a_column_that_nobody_fills_is_left_out() -> None:
    shown = text(benchmark({}), width=140)
    assert "host" not in shown and "kernels" not in shown and "median" in shown


def test_columns_stand_under_their_headings_and_colour_changes_no_letter() -> None:
    plain, coloured = text(benchmark(), width=140), for_terminal(text(benchmark(), width=140, colour=True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "\x1b[32m✓ ok" in coloured
    lines = plain.splitlines()
    ruler = next(n for n, line in enumerate(lines) if line.startswith("---"))
    ends = [match.end() for match in re.finditer("-+", lines[ruler])]
    for line in (*lines[ruler - 1 : ruler], *lines[ruler + 1 : ruler + 4]):
        for start, end in pairwise(ends[1:]):
            assert line[start : start + 2].strip() == "" or end > len(line)
    assert all(ord(letter) < 128 for letter in text(benchmark(), unicode=False, width=140))


def test_many_kinds_are_counted_not_listed() -> None:
    row = replace(benchmark().rows[0], fallbacks={f"aten.op{n:02d}": n for n in range(20)})
    told = words.remarks(row)
    assert len(told) == words.MOST_LISTED + 1
    assert told[0] == "on the host: aten.op19 (19 times)" and "14 more kinds" in told[-1]


def test_a_comparison_stands_on_top_with_the_regressions_first() -> None:
    found = benchmark()
    rows = (
        RowChange(
            model="ssm", backend="aot", change=Change.SAME, base_ms=9.0, now_ms=9.1, ratio=1.01, chance=0.4
        ),
        RowChange(model="bert", backend="mock", change=Change.BROKEN, words=HOSTILE),
        RowChange(
            model="bert",
            backend="aot",
            change=Change.SLOWER,
            base_ms=10.0,
            now_ms=21.0,
            ratio=2.1,
            chance=1e-5,
        ),
    )
    found.compared = BenchmarkComparison(base="/runs/base.json", torch="2.13.0", rows=rows)
    shown = text(found, width=140)
    assert shown.startswith("REGRESSION")
    assert "Compared with /runs/base.json (torch 2.13.0): 2 regressions" in shown
    line = "bert aot: slower: 10.0 ms, now 21.0 ms (2.10 times, p = 1e-05)"
    assert line in shown and shown.index(line) < shown.index("ssm aot: no difference beyond chance")
    page = render(found, [])
    assert "Against the earlier benchmark" in page and line in page and HOSTILE not in page
    jsonschema.validate(json.loads(json_text(found.to_json())), schema())
    found.compared = replace(found.compared, rows=rows[:1])
    assert text(found, width=140).startswith("RESULTS DIFFER") and "no regression" in text(found, width=140)


def test_violations_are_listed_with_their_lines() -> None:
    row = replace(
        benchmark().rows[0], violation_lines=tuple(f"dtype: to: no {n} at m.py:{n}" for n in range(9))
    )
    told = words.remarks(row)
    assert told[0] == "dtype: to: no 0 at m.py:0" and told[words.MOST_LISTED].startswith("3 more violations")


def test_a_busy_machine_is_said_to_be_so() -> None:
    found = benchmark()
    found.environment |= {"cpus": 2, "load_at_start": 0.4}
    assert "busy" not in text(found) and "busy" not in render(found, [])
    found.environment["load_at_start"] = 8.2
    assert "load 8.2 on 2 CPUs" in text(found, width=160) and "load 8.2 on 2 CPUs" in render(found, [])


@pytest.mark.parametrize(
    ("standings", "said"),
    [
        ((), "NOTHING MEASURED"),
        ((RowStatus.SKIPPED,), "NOTHING MEASURED"),
        ((RowStatus.OK, RowStatus.SKIPPED), "MEASURED"),
        ((RowStatus.OK, RowStatus.FAILED), "SOME FAILED"),
        ((RowStatus.DIFFERS, RowStatus.FAILED), "RESULTS DIFFER"),
    ],
)
def test_the_verdict_is_the_worst_row(standings: tuple[RowStatus, ...], said: str) -> None:
    found = benchmark()
    found.rows = [replace(found.rows[0], standing=standing) for standing in standings]
    assert words.verdict(found)[0] == said
    found.complete = False
    assert words.verdict(found)[0] == "INTERRUPTED"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (0, "0"),
        (0.0004, "0.000"),
        (0.0456, "0.046"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1234.5, "1234"),
    ],
)
def test_figures_have_three_digits(value: float | None, shown: str) -> None:
    assert words.figure(value) == shown
    assert words.error(value) in ("", "0") or float(words.error(value)) == pytest.approx(value, rel=0.1)


def test_pictures_are_one_bar_for_each_number_and_always_the_same_text() -> None:
    found = plots(benchmark())
    assert [plot.name for plot in found] == ["latency", "first-call", "memory", "error"]
    for plot in found:
        ET.fromstring(plot.svg)
        assert "href" not in re.sub(r'xlink:href="#', "", plot.svg)
        assert "<text" not in plot.svg  # letters are paths: no font is needed
    latency = found[0].words
    assert "bert mock 21 ms" in latency and "ssm inductor" not in latency
    assert [plot.svg for plot in plots(benchmark())] == [plot.svg for plot in found]
    empty = benchmark()
    empty.rows = [row for row in empty.rows if row.standing is RowStatus.SKIPPED]
    assert plots(empty) == []


def test_the_page_is_one_file_and_escapes_everything() -> None:
    found = hostile()
    page = render(found, plots(benchmark()), [("eager", HOSTILE)])
    assert "<script" not in page and "onerror=alert(2)>" not in page and "\x1b" not in page
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert sources and all(source.startswith("data:") for source in sources)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None and "default-src &#39;none&#39;" in policy.group(1)
    assert "unsafe" not in policy.group(1)
    first = base64.b64decode(next(s for s in sources if "svg" in s).split(",")[1])
    assert first.startswith(b"<?xml")


def test_the_page_shows_every_row_and_the_environment() -> None:
    found = benchmark()
    page = render(found, [], [("eager", "not compiled")])
    for row in found.rows:
        assert row.backend in page
        if row.reason:
            assert row.reason.split(":")[0].replace("'", "&#39;") in page
    for part in ("RESULTS DIFFER", "2.99.0", "not compiled", "shape alignment", "IQR", "accel-lab/bench/1"):
        assert part in page, part
    assert "Side by side" not in page


@pytest.mark.browser
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("shape", ["rich", "hostile"])
def test_browser_shows_it_without_overflow(tmp_path: Path, browser: str, shape: str, width: int) -> None:
    found = benchmark() if shape == "rich" else hostile()
    page = render(found, plots(found), [("eager", "not compiled")])
    (tmp_path / "bench.html").write_text(page, encoding="utf-8")
    frame = (
        f"<body><iframe id=f width={width} height=900 style='border:0' src=bench.html></iframe><script>"
        "onload = () => { const page = document.getElementById('f').contentDocument; document.body.innerText"
        " = [page.documentElement.scrollWidth, page.documentElement.clientWidth,"
        " [...page.images].every(i => i.naturalWidth > 100), page.images.length].join(' ') }</script>"
    )
    (tmp_path / "frame.html").write_text(frame, encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--enable-logging=stderr", "--dump-dom"]

    def shown(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, (tmp_path / name).as_uri()], capture_output=True, text=True, timeout=120, check=True
        )

    direct = shown("bench.html")
    assert "CONSOLE" not in direct.stderr
    answer = re.search(r"<body>(\d+) (\d+) (\w+) (\d+)</body>", shown("frame.html").stdout)
    assert answer is not None
    assert int(answer[1]) <= int(answer[2])
    assert answer[3] == "true" and answer[4] == "4"
