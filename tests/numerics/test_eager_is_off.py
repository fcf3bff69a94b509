"""Which side a float64 run refutes: the compiled values, or eager's own."""

from __future__ import annotations

import numpy as np
import pytest

from accel_lab.numerics.recording import Entry, Recording
from accel_lab.numerics.records import eager_is_off
from accel_lab.numerics.values import Record

KEY = ("f", 0, 0, "output", "out")


def recording(values: list[float], reference: list[float] | None = None) -> Recording:
    array = np.array(values, dtype=np.float32)
    record = Record(kind="tensor", dtype="float32", shape=array.shape, stride=(1,), data=array)
    exact = None if reference is None else np.array(reference, dtype=np.float64)
    return Recording(entries={KEY: Entry(key=KEY, record=record, reference=exact)})


@pytest.mark.parametrize(
    ("compiled", "eager", "exact", "off"),
    [
        ([1.0, np.inf], [1.0, np.nan], [1.0, np.inf], True),  # gelu(inf) in eager's vectorised kernel
        ([1.0, 2.0], [1.0, 3.0], [1.0, 2.0], True),
        ([1.0, 3.0], [1.0, 2.0], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, 2.0000002], [1.0, 2.0], False),
        ([1.0, 3.0], [1.0, 4.0], [1.0, 2.0], False),
    ],
)
def test_eager_is_off_where_float64_agrees_with_the_compiled_values_alone(
    compiled: list[float], eager: list[float], exact: list[float], off: bool
) -> None:
    assert eager_is_off(recording(compiled), recording(eager, exact)) is off


def test_without_a_reference_neither_side_is_refuted() -> None:
    assert not eager_is_off(recording([2.0]), recording([1.0]))
