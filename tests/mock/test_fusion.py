"""Fusion: chains of pointwise operators and the prologues of reductions become one kernel, nothing else
does."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from mock_front_end_cases import check, lowered  # noqa: E402

pytestmark = pytest.mark.torch


def units(program: object) -> list[str]:
    return [spec.unit for spec in program.kernels]  # type: ignore[attr-defined]


def test_a_chain_is_one_kernel_with_locals_in_the_scratchpad() -> None:
    (spec,) = check(lambda x, y: torch.relu(x * 2 + y).exp(), torch.randn(3, 65), torch.randn(65)).kernels
    assert [statement.op for statement in spec.body] == ["mul", "add", "relu", "exp"]
    assert [operand.memory for operand in spec.operands if operand.role == "scratch"] == ["scratchpad"] * 3
    assert len(spec.origins) == 4


def test_a_prologue_is_fused_into_its_reduction() -> None:
    program = check(lambda x: (x * x + 1).sum(1, keepdim=True), torch.randn(3, 65))
    (spec,) = program.kernels
    assert spec.unit == "reduction"
    assert spec.body[-1].op == "sum"
    assert spec.body[-2].op == "mask_tail"


def test_a_value_that_is_read_elsewhere_stays_in_memory() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        return y * 2, y

    (spec,) = check(function, torch.randn(3, 65)).kernels
    assert [operand.name for operand in spec.outputs] == ["add", "mul"]


def test_a_reduction_does_not_swallow_a_value_that_others_need() -> None:
    program = check(lambda x: (x.exp() / x.exp().sum(1, keepdim=True), x.exp().sum(0)), torch.randn(3, 65))
    assert units(program).count("reduction") == 2


def test_a_transposed_read_of_the_own_result_is_not_fused() -> None:
    program = check(lambda x: (x + 1) * (x + 1).t(), torch.randn(65, 65))
    assert len(program.kernels) >= 2


def test_eight_byte_integers_do_not_meet_floats_in_a_kernel() -> None:
    program = check(lambda i, x: torch.where(i > 3, x, -x), torch.randint(0, 9, (3, 65)), torch.randn(3, 65))
    for spec in program.kernels:
        if spec.unit == "pointwise":
            formats = {operand.layout.format for operand in spec.operands if operand.role != "scratch"}
            assert not ("int64" in formats and "fp32" in formats)


def test_what_nobody_reads_is_left_out() -> None:
    def function(x: Any) -> Any:
        _unused = (x @ x.t()).sum()
        return x * 2

    assert len(lowered(function, torch.randn(3, 3)).kernels) == 1
