"""No expression takes more than linear time: the texts are a stranger's.

Nothing is measured: an expression that goes wrong here would not come back before the process is ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from accel_lab.core.private import homes_in, mask, spans
from accel_lab.core.signature import normalise

TESTS = Path(__file__).resolve().parents[1]


def test_every_expression_is_linear() -> None:
    path = os.pathsep.join([str(TESTS.parent / "bisect"), str(TESTS / "fakes")])
    done = subprocess.run(
        [sys.executable, str(TESTS / "security" / "linear_worker.py")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) >= 150
    print(f"\nlinear: {done.stdout.strip()}")


def test_a_message_is_cut_before_it_is_matched() -> None:
    """Even where all of it is what an expression must try every character of."""
    for unit in ("/ ", "/a", "/@", " ", "1", "0x", "a" * 50 + " "):
        assert len(normalise(unit * 1_000_000)) <= 400


def test_a_huge_text_with_many_secrets() -> None:
    text = "\n".join(f"password: s3cret{n:06d} /home/u{n}x/f" for n in range(4_000))
    assert len(spans(text)) == 8_000
    assert "s3cret" not in mask(text)
    assert len(homes_in(text)) == 4_000
