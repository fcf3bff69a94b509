"""The catalogue of seeded faults: bugs of real accelerators, each in a certain layer of the mock.

A fault is off unless it is named in the environment. Each layer keeps the faulty code next to the right one,
under ``if faults.active("name"):``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from accel_lab.accelerators.settings import near

VARIABLE = "MOCK_FAULTS"


@dataclass(frozen=True, kw_only=True)
class FaultInfo:
    """One seeded fault.

    ``layer`` is transfer, front_end, back_end, cache or fallback. ``side`` is the answer that a bisection
    must give. ``model`` is the real bug that it imitates.
    """

    name: str
    layer: str
    side: str
    summary: str
    model: str


CATALOGUE: dict[str, FaultInfo] = {
    entry.name: entry
    for entry in (
        FaultInfo(
            name="tail_stick_dropped",
            layer="transfer",
            side="transfer",
            summary="a transfer copies only the whole sticks: the last, partly filled one stays as it was",
            model="Torch-Spyre: 65 elements came back as 64",
        ),
        FaultInfo(
            name="storage_offset_ignored",
            layer="transfer",
            side="transfer",
            summary="a transfer reads from the start of the host storage, not from the tensor's offset",
            model="Torch-Spyre: a sliced input arrived as the head of its storage",
        ),
        FaultInfo(
            name="transposed_transfer_overread",
            layer="transfer",
            side="transfer",
            summary="a transposed host tensor is read with the strides of its contiguous twin",
            model="Torch-Spyre: the clone of a transposed (72, 91) read past its end",
        ),
        FaultInfo(
            name="subnormals_halved",
            layer="transfer",
            side="transfer",
            summary="fp16 subnormals are halved at each transfer",
            model="Torch-Spyre: fp16 subnormals halved at each transfer",
        ),
        FaultInfo(
            name="int64_truncated",
            layer="transfer",
            side="transfer",
            summary="int64 goes through int32 on its way to the device",
            model="Torch-Spyre: int64 cut to int32",
        ),
        FaultInfo(
            name="padding_undeclared",
            layer="front_end",
            side="front_end",
            summary="a reduction's operand is declared neutral in its padding, but nothing masks it",
            model="Torch-Spyre: padding not declared, a reduction read it",
        ),
        FaultInfo(
            name="mask_constant_nan",
            layer="front_end",
            side="front_end",
            summary="the mask constant -inf is encoded as NaN in the kernel spec",
            model="Torch-Spyre: infinite constants encoded as NaN",
        ),
        FaultInfo(
            name="broadcast_past_stick",
            layer="front_end",
            side="front_end",
            summary="a broadcast operand's stride along the sticks is wrong from the second stick on",
            model="Torch-Spyre: a broadcast was wrong past column 64",
        ),
        FaultInfo(
            name="split_gcd_collapsed",
            layer="front_end",
            side="front_end",
            summary="the division over cores takes a gcd with the stick and leaves part of the extent undone",
            model="Torch-Spyre: a split collapsed by a gcd at 67 elements",
        ),
        FaultInfo(
            name="scratchpad_overlap",
            layer="front_end",
            side="front_end",
            summary="two live intermediates of a fused kernel are placed on overlapping scratchpad addresses",
            model="Torch-Spyre: scratchpad buffers overlapped",
        ),
        FaultInfo(
            name="buffer_reused_live",
            layer="front_end",
            side="front_end",
            summary="the memory plan frees a buffer one use too early, and the next kernel writes over it",
            model="Torch-Spyre: a buffer was reused while live",
        ),
        FaultInfo(
            name="restickify_overread",
            layer="front_end",
            side="front_end",
            summary="a restickify takes the padded extent of its source for the valid one",
            model="Torch-Spyre: transposed restickify over-read",
        ),
        FaultInfo(
            name="accumulate_downcast",
            layer="front_end",
            side="front_end",
            summary="a cast to fp32 before a reduction is dropped: half precision all the way",
            model="public reports of reductions that accumulate in half precision",
        ),
        FaultInfo(
            name="mean_counts_padding",
            layer="back_end",
            side="back_end",
            summary="a row reduction takes the padding lanes of the last stick into account",
            model="Torch-Spyre: mean ignored the padding mask while sum did not",
        ),
        FaultInfo(
            name="row_reduction_multicore",
            layer="back_end",
            side="back_end",
            summary="an fp32 row reduction is wrong in the rows beyond the number of cores",
            model="Torch-Spyre: fp32 row reduction wrong when rows exceed cores",
        ),
        FaultInfo(
            name="negative_zero_bits",
            layer="back_end",
            side="back_end",
            summary="equality compares bits: -0.0 is not 0.0",
            model="Torch-Spyre: eq(-0.0, 0.0) was false",
        ),
        FaultInfo(
            name="exp_tail_wrong",
            layer="back_end",
            side="back_end",
            summary="exp is wrong in the last stick when the width is not a multiple of the stick",
            model="Torch-Spyre: exp wrong when the width is not a multiple of 64",
        ),
        FaultInfo(
            name="matmul_reads_padding",
            layer="back_end",
            side="back_end",
            summary="the matrix unit does not honour the valid extent of k: padding lanes are multiplied",
            model="Torch-Spyre: NaN in padding lanes reached a matmul",
        ),
        FaultInfo(
            name="cache_key_misses_layout",
            layer="cache",
            side="front_end",
            summary="the kernel cache's key leaves out the layouts, so a stale artifact is run",
            model="Torch-Spyre: an artifact was reused because its key misses the layout",
        ),
        FaultInfo(
            name="fallback_zeros",
            layer="fallback",
            side="front_end",
            summary="an operator run on the host gives zeros of the right shape back",
            model="Torch-Spyre: a host fallback that returned zeros",
        ),
    )
}


class FaultError(ValueError):
    """Raised if MOCK_FAULTS is invalid; the message lists the known faults."""


def parse(text: str) -> dict[str, int]:
    """Parses comma-separated ``name`` or ``name:seed`` to name -> seed (default 0). Raises FaultError."""
    found: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, seed = part.partition(":")
        if name not in CATALOGUE:
            known = sorted(CATALOGUE)
            raise FaultError(f"no fault is called {name!r}; there are {', '.join(known)}{near(name, known)}")
        if seed and not seed.isdigit():
            raise FaultError(f"the seed of fault {name} is a whole number, not {seed!r}")
        found[name] = int(seed or 0)
    return found


def chosen() -> dict[str, int]:
    """Returns the active faults, name -> seed, from the environment."""
    text = os.environ.get(VARIABLE, "")
    return parse(text) if text else {}


def active(name: str) -> bool:
    """Whether a fault of the catalogue is active."""
    assert name in CATALOGUE, name
    return name in chosen()
