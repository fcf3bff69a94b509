"""The table of rungs: every other table of rungs is made of it, and each record has what those need."""

from __future__ import annotations

from pathlib import Path

import pytest

import accel_lab
from accel_lab.core.stages import BLAMES, LADDER, LONG_LADDER, TORCH_RUNGS, Stage
from accel_lab.protocol.rungs import BY_BACKEND, Place, Rung

CHILD = Path(accel_lab.__file__).parent / "child"


def test_the_ladder_is_made_of_the_table() -> None:
    names = [rung.value for rung in LADDER]
    assert names == ["uncompiled", "dynamo", "aot", "partition", "decomp", "fx", "kernel"]
    assert [str(rung) for rung in LONG_LADDER][-4:] == ["fx", "loops", "scheduled", "kernel"]
    assert set(Rung) - set(TORCH_RUNGS) == {Rung.MOCK, Rung.ACCELERATOR}
    assert (BLAMES[Rung.LOOPS], BLAMES[Rung.MOCK]) == (Stage.LOWERING, Stage.MOCK_BACK_END)
    assert {name: str(rung) for name, rung in BY_BACKEND.items()} == {
        "eager": "dynamo",
        "aot_eager": "partition",
        "aot_eager_decomp_partition": "decomp",
        "inductor": "kernel",
    }


@pytest.mark.parametrize("rung", Rung, ids=str)
def test_each_record_is_whole(rung: Rung) -> None:
    record = rung.record
    assert Rung(record.name) is rung and rung == record.name and f"{rung}" == record.name
    assert record.runs and record.adds and record.passes_with
    # An issue's table says of each rung that compiles something which backend of torch does the same, or
    # what.
    assert bool(record.torch_backend) != bool(record.issue) or rung is Rung.UNCOMPILED
    if record.place is Place.ACCELERATOR:
        assert record.own_backends
    if record.builder:
        assert "class Builder(" in (CHILD / "rungs" / f"{record.builder}.py").read_text("utf-8")
    else:
        assert rung is Rung.UNCOMPILED
