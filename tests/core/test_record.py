"""Records as JSON: what is written is read back; another type is refused in one line that names the place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import accel_lab
from accel_lab.core.process_exit import ProcessExit
from accel_lab.core.record import Record, as_json, json_property
from accel_lab.core.releases.versions import Tested as Row
from accel_lab.core.releases.versions import Versions
from accel_lab.core.verdict import Verdict


class Colour(str, Enum):
    RED = "red"


@dataclass(frozen=True, kw_only=True)
class Inner(Record):
    number: int = 1
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outer(Record):
    seconds: float = field(metadata=as_json(digits=1))
    colour: Colour = Colour.RED
    inner: Inner | None = None
    several: tuple[Inner, ...] = ()
    pair: tuple[str, float] | None = None
    switches: tuple[tuple[str, Any], ...] = ()
    counts: dict[str, int] = field(default_factory=dict, metadata=as_json(name="numbers"))
    path: Path | None = None
    lines: list[str] = field(default_factory=list)
    note: str = field(default="", metadata=as_json(sparse=True))
    secret: str = field(default="", metadata=as_json(hidden=True))

    @property
    @json_property(after="seconds")
    def minutes(self) -> float:
        return self.seconds / 60


FULL = Outer(
    seconds=90.04,
    inner=Inner(names=("a", "b")),
    several=(Inner(), Inner(number=2)),
    pair=("x", 1.5),
    switches=(("fusion", False), ("adapter", {"name": "mock"})),
    counts={"a": 1},
    path=Path("/somewhere"),
    lines=["one"],
    note="said",
    secret="never told",
)


def test_a_record_is_written_in_the_order_of_its_fields() -> None:
    row = FULL.to_json()
    assert list(row)[:3] == ["seconds", "minutes", "colour"]
    assert row["seconds"] == 90.0 and row["colour"] == "red" and type(row["colour"]) is str
    assert row["inner"] == {"number": 1, "names": ["a", "b"]}
    assert Versions(tested=(Row(torch="2.4.0", verdict=Verdict.SKIP),)).to_json()["skipped"] == ["2.4.0"]
    assert row["numbers"] == {"a": 1} and row["path"] == "/somewhere"
    assert "secret" not in row and "never told" not in json.dumps(row)
    assert "note" not in Outer(seconds=1.0).to_json() and row["note"] == "said"


def test_a_record_is_read_back() -> None:
    again = Outer.from_json(json.loads(json.dumps(FULL.to_json())))
    assert again == Outer(**{**FULL.__dict__, "seconds": 90.0, "secret": ""})
    # A whole number stays one: the key of a probe is made of it.
    assert type(Outer.from_json({"seconds": 300}).seconds) is int


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seconds": "1"}, "seconds: it is text, not a number"),
        ({"seconds": True}, "seconds: it is true or false, not a number"),
        ({"colour": "blue"}, "colour: 'blue' is not a valid Colour"),
        ({"colour": []}, "colour: it is a list, not text"),
        ({"inner": []}, "inner: it is a list, not an object"),
        ({"inner": {"number": "1"}}, "inner.number: it is text, not a whole number"),
        ({"inner": {"names": "ab"}}, "inner.names: it is text, not a list"),
        ({"several": [{}, {"number": 0.5}]}, "several[1].number: it is a number, not a whole number"),
        ({"pair": ["x"]}, "pair: Not enough values"),
        ({"switches": [["a", 1, 2]]}, "switches[0]: Too many values"),
        ({"numbers": [1]}, "counts: it is a list, not an object"),
        ({"path": 3}, "path: it is a whole number, not text"),
        ({"lines": "abc"}, "lines: it is text, not a list"),
    ],
)
def test_a_value_of_another_type_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="^" + said.replace("[", r"\[")) as caught:
        Outer.from_json({"seconds": 1.0, **changes})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [None, [], "x", 3])
def test_what_is_no_object_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"^Outer: it is .*, not an object$"):
        Outer.from_json(data)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match=r"^seconds: it is missing$"):
        Outer.from_json({"colour": "red"})
    assert Outer.from_json({"seconds": 1.0, "unknown": 1}) == Outer(seconds=1.0)


def test_what_is_more_is_refused_where_that_is_asked_for() -> None:
    with pytest.raises(ValueError, match="unknown") as caught:
        ProcessExit.from_json({"exit_code": 1, "unknown": 2})
    assert "\n" not in str(caught.value)


def test_records_are_kept_where_the_library_is_not() -> None:
    """The workers of `bench` import these in an interpreter that has torch and nothing of the lab's."""
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('cattrs', 'attrs', 'attr', 'packaging')))\n"
        "from accel_lab.core.benchmark import Spread\n"
        "import accel_lab.core.findings, accel_lab.numerics.comparison, accel_lab.workloads.registry\n"
        "print(Spread.of([1.0, 2.0, 3.0]).median)\n"
    )
    source = str(Path(accel_lab.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr
