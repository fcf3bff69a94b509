"""What no rule finds is found by asking: the words that are left are counted, shown, and taken out."""

from __future__ import annotations

import contextlib
import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from accel_lab.cli.commands import bundle_command
from accel_lab.core.errors import UsageError
from accel_lab.reporting.bundle.writer import write_bundle
from accel_lab.reporting.redact.redactor import Redactor
from accel_lab.reporting.redact.review import count_words, left_in
from fakes_run import FakeRun

from .test_innocent_texts import INNOCENT

KEY = "q7Zt2Lm9" + "Xc4Vb8Nw1Rk5"


def words(text: str, file: str = "a.txt", names: tuple[str, ...] = ()) -> set[tuple[str, str]]:
    return {(left.kind, left.word) for left in left_in({file: text}, names)}


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        (f"x = '{KEY}'", "key", KEY),
        (f"value {KEY}-{KEY}, then", "key", f"{KEY}-{KEY}"),
        ("x = '" + "0123456789abcdef" * 2 + "'", "key", "0123456789abcdef" * 2),
        ("read /data/hydra/x.bin", "name", "hydra"),
        ("# Author: Maria Zimmer", "name", "Maria Zimmer"),
        ("# TODO(mzimmer): mend it", "name", "mzimmer"),
        ('run(entity="hydra-team")', "name", "hydra-team"),
        ("on dgx-a100-07 today", "host", "dgx-a100-07"),
        ("gpu0173 is slow", "host", "gpu0173"),
        ('host = "mimas"', "host", "mimas"),
        ("see https://wiki.acme-corp.io/x", "host", "wiki.acme-corp.io"),
        ("ask 8.8.4.4 first", "host", "8.8.4.4"),
        ("call +49 170 1234567", "number", "+49 170 1234567"),
    ],
)
def test_it_is_shown(text: str, kind: str, word: str) -> None:
    assert (kind, word) in words(text)


@pytest.mark.parametrize("text", INNOCENT)
def test_few_innocent_texts_are_shown(text: str) -> None:
    """What is shown for nothing is what nobody reads: hashes in their place and names in code are not."""
    assert [left for left in left_in({"a.txt": text}) if left.kind == "key"] == []


def test_one_row_a_word_with_its_places() -> None:
    left = left_in({"a.py": f"x\ny = '{KEY}'\n", "b.py": f"{KEY}\n{KEY}\n"})
    assert [(row.file, row.line, row.places, row.kind) for row in left] == [("a.py", 2, 3, "key")]
    assert KEY in left[0].context


def test_names_that_the_code_uses() -> None:
    """They cannot be taken out of the code; the person hears of them."""
    assert ("word", "Mimas") in words("class MimasNet: pass", "a.py", ("mimas",))
    assert ("word", "mimas") in words("x = 1", "original/mimas.py", ("mimas",))


def test_the_line_on_the_terminal() -> None:
    assert count_words(0) == "no word that looks like a name or a key was left"
    assert count_words(1) == "1 word that looks like a name or a key was left"
    assert count_words(3) == "3 words that look like names or keys were left"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    """A finished run whose script holds what no rule knows."""
    script = f'import torch\nKEY_ = "{KEY}"  # Author: Maria Zimmer, on dgx-a100-07\n'
    script += 'mimas = "mimas"\nraise RuntimeError(mimas)\n'
    made = FakeRun(tmp_path, "kernel", script=script)
    monkeypatch.setattr(bundle_command, "_with_verdict", lambda name: made.run_dir)
    monkeypatch.setattr(bundle_command, "only_read", lambda folder: contextlib.nullcontext(made.findings))
    return made


def called(*arguments: str, given: str = "") -> str:
    done = CliRunner().invoke(bundle_command.command, ["x", *arguments], input=given, standalone_mode=False)
    assert done.exception is None, done.exception
    return done.output


def text_of(run: FakeRun) -> str:
    with zipfile.ZipFile(run.run_dir / "bundle.zip") as archive:
        return "".join(archive.read(name).decode("utf-8", "replace") for name in archive.namelist())


def test_review_shows_and_writes_nothing(run: FakeRun) -> None:
    before = sorted(run.run_dir.rglob("*"))
    shown = called("--review")
    assert f"key    {KEY}  repro.py:2" in shown
    assert "name   Maria Zimmer" in shown
    assert "host   dgx-a100-07" in shown
    assert "Nothing was written" in shown
    assert sorted(run.run_dir.rglob("*")) == before


@pytest.mark.parametrize(("answer", "written"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_person_says_yes(run: FakeRun, monkeypatch: pytest.MonkeyPatch, answer: str, written: bool) -> None:
    monkeypatch.setattr(bundle_command, "is_terminal", lambda: True)
    called("--review", given=answer)
    assert (run.run_dir / "bundle.zip").exists() is written


def test_nobody_says_yes_without_a_terminal(run: FakeRun) -> None:
    called("--review", given="y\n")
    assert not (run.run_dir / "bundle.zip").exists()


def test_words_of_a_file_are_taken_out(run: FakeRun, tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text(f"{KEY}\n\nMaria Zimmer\ndgx-a100-07\nmimas\n", encoding="utf-8")
    shown = called("--review", "--redact-words", str(file))
    assert "word   mimas  repro.py:3" in shown, "the code's own name stays, and is told"
    text = text_of(run)
    assert KEY not in text
    assert "Zimmer" not in text
    assert "dgx-a100" not in text
    assert 'mimas = "REDACTED_WORD_' in text


def test_words_from_standard_input(run: FakeRun) -> None:
    called("--redact-words", "-", given=f"{KEY}\n")
    assert KEY not in text_of(run)


def test_an_empty_file_leaves_all_in(run: FakeRun, tmp_path: Path) -> None:
    (tmp_path / "none.txt").touch()
    called("--review", "--redact-words", str(tmp_path / "none.txt"))
    assert KEY in text_of(run)


def test_as_json(run: FakeRun) -> None:
    told_of = json.loads(called("--review", "--json", given="y\n"))
    assert told_of["written"] is False
    row = next(row for row in told_of["left"] if row["word"] == KEY)
    assert set(row) == {"file", "line", "word", "kind", "places", "context"}
    assert not (run.run_dir / "bundle.zip").exists()


def test_a_written_bundle_says_how_many(run: FakeRun) -> None:
    shown = called()
    count = len(write_bundle(run.findings, run.run_dir, run.root / "x.zip", redactor=Redactor()).left)
    assert count >= 3
    assert f"{count} words that look like names or keys were left in the bundle: accel-lab bundle " in shown
    assert "--review" in shown


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"ab\n", "too short"), (b"word\n" * 2001, "more than 2,000 words"), (b"x" * 1_000_001, "more than")],
)
def test_a_wrong_list_of_words(run: FakeRun, tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "w.txt").write_bytes(content)
    with pytest.raises(UsageError, match=says):
        bundle_command.command.main(["x", "--redact-words", str(tmp_path / "w.txt")], standalone_mode=False)
    assert not (run.run_dir / "bundle.zip").exists()
