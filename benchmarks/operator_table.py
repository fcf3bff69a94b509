"""What the operator benchmark found: cells, their sums by operator, the known reasons, and the text of it."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Outcomes that count against the pass rate.
FAILED = ("wrong", "error", "refused")


@dataclass(frozen=True, kw_only=True)
class Known:
    """Why a failure is none of the device's, or a limit that is known. All patterns must match."""

    reason: str
    outcome: str
    operators: str = ".*"
    dtypes: str = ".*"
    detail: str = ""

    def explains(self, name: str, dtype: str, failure: Mapping[str, str]) -> bool:
        """Whether this is the reason of a failure of an operator in a dtype."""
        return bool(
            self.outcome == failure["outcome"]
            and re.fullmatch(self.operators, name)
            and re.fullmatch(self.dtypes, dtype)
            and re.search(self.detail, failure["detail"])
        )


_RANDOM = (
    "bernoulli|cauchy|exponential|geometric|log_normal|multinomial|normal.*|uniform|rand.*"
    "|nn\\.functional\\..*dropout.*|nn\\.functional\\.rrelu|svd_lowrank|pca_lowrank"
    "|nn\\.functional\\.multi_head_attention_forward"
)
KNOWN: tuple[Known, ...] = (
    Known(
        outcome="untraced",
        detail="DataDependent|DynamicOutputShape|data.dependent|Dynamic shape",
        reason="the size or a number depends on data: torch.compile breaks its graph here",
    ),
    Known(
        outcome="untraced",
        detail="sparse|crow_indices",
        reason="sparse tensors: AOTAutograd traces none",
    ),
    Known(
        outcome="decomposition",
        operators=_RANDOM,
        reason="random: torch's decomposition draws its numbers in another order than eager",
    ),
    Known(
        outcome="decomposition",
        operators=".*empty.*",
        reason="uninitialised memory: eager's own values are whatever lay there",
    ),
    Known(
        outcome="wrong",
        operators="grid\\.addmm",
        dtypes="float16|bfloat16",
        detail=r"result \d: [1-9] of \d+ differ",
        reason="the device rounds a product of halves before the bias is added, eager after it: a sum that "
        "cancels shows it",
    ),
)


def reason_of(name: str, dtype: str, failure: Mapping[str, str]) -> str:
    """The known reason for a failure of an operator in a dtype; empty without one."""
    return next((known.reason for known in KNOWN if known.explains(name, dtype, failure)), "")


@dataclass(kw_only=True)
class Cell:
    """One operator in one dtype, forward or backward."""

    name: str
    dtype: str
    backward: bool
    counts: dict[str, int]
    where: dict[str, int] = field(default_factory=dict)
    native: dict[str, int] = field(default_factory=dict)
    host: dict[str, str] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)
    mock_ms: float = 0.0
    eager_ms: float = 0.0
    kernels: int = 0

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cell:
        """The cell of a worker's answer."""
        return cls(**{key: data[key] for key in cls.__dataclass_fields__ if key in data})

    @property
    def bad(self) -> int:
        """Samples that count against the pass rate."""
        return sum(self.counts.get(outcome, 0) for outcome in FAILED)

    @property
    def good(self) -> int:
        """Samples with eager's results, or those of the graph where its decomposition differs."""
        return self.counts.get("right", 0) + self.counts.get("decomposition", 0)


@dataclass(kw_only=True)
class Report:
    """All cells with what they hold for."""

    settings: dict[str, Any]
    about: dict[str, Any] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    seconds: float = 0.0

    def native_names(self) -> set[str]:
        """The entries of which some sample ran at least one operator on the device."""
        return {cell.name for cell in self.cells if cell.native}

    def unexplained(self) -> list[tuple[Cell, dict[str, str]]]:
        """Failures without a known reason."""
        return [
            (cell, failure)
            for cell in self.cells
            for failure in cell.failures
            if failure["outcome"] in FAILED and not reason_of(cell.name, cell.dtype, failure)
        ]

    def operators(self) -> dict[str, int]:
        """Native ATen operator to the number of samples in which it ran on the device."""
        counts: Counter[str] = Counter()
        for cell in self.cells:
            counts.update(cell.native)
        return dict(sorted(counts.items()))

    def not_reached(self) -> list[str]:
        """Lowerings of the mock that no sample was traced to, though one could be."""
        reached = set(self.operators())
        packets = {name.rpartition(".")[0] for name in reached}
        away = reached | packets | set(self.about.get("never_traced", []))
        return [name for name in self.about.get("native", []) if name not in away]

    def totals(self, cells: Iterable[Cell]) -> dict[str, Any]:
        """Counts over cells, and the pass rate of those samples that the mock had a part in."""
        cells = list(cells)
        counts: Counter[str] = Counter()
        for cell in cells:
            counts.update(cell.counts)
        good, bad = sum(cell.good for cell in cells), sum(cell.bad for cell in cells)
        return {
            "operators": len({cell.name for cell in cells}),
            "samples": good + bad,
            "counts": dict(counts),
            "pass_rate": good / (good + bad) if good + bad else None,
        }

    def groups(self) -> dict[str, list[Cell]]:
        """The cells that the totals are given for."""
        native = self.native_names()
        made: dict[str, list[Cell]] = defaultdict(list)
        for cell in self.cells:
            kind = "grid" if cell.name.startswith("grid.") else "op_db"
            if cell.name not in native:
                made[f"{kind}, wholly on the host"].append(cell)
                continue
            way = " backward" if cell.backward else ""
            made[f"{kind}{way}, native"].append(cell)
            made[f"{kind}{way}, native, {cell.dtype}"].append(cell)
        return dict(sorted(made.items()))

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        about = {key: value for key, value in self.about.items() if key != "names"}
        return {
            "schema": "accel-lab/operators/1",
            "about": about,
            "settings": self.settings,
            "seconds": round(self.seconds, 1),
            "totals": {name: self.totals(cells) for name, cells in self.groups().items()},
            "operators": self.operators(),
            "not_reached": self.not_reached(),
            "cells": [
                {
                    **cell.__dict__,
                    "failures": [
                        {**failure, "known": reason_of(cell.name, cell.dtype, failure)}
                        for failure in cell.failures
                    ],
                }
                for cell in self.cells
            ],
        }

    def text(self, *, full: bool) -> str:
        """The report as text: the totals, one line an operator, and every failure with its reason."""
        lines = [f"torch {self.about.get('torch')}, {self.seconds:.0f} s", ""]
        lines += [_total_line(name, self.totals(cells)) for name, cells in self.groups().items()]
        native = self.native_names()
        by_name: dict[str, list[Cell]] = defaultdict(list)
        for cell in self.cells:
            by_name[cell.name].append(cell)
        lines += ["", f"{'operator':44s} samples   right  fallback  decomp  refused  wrong  error"]
        whole = 0
        for name, cells in by_name.items():
            if name not in native:
                continue
            if not full and not any(cell.bad or cell.counts.get("decomposition") for cell in cells):
                whole += 1
                continue
            lines.append(_row(name, cells))
        if whole:
            lines.append(f"... and {whole} operators of which every sample is right")
        lines += ["", "failures, one line for each kind"]
        lines += _failure_lines(self.cells)
        if unreached := self.not_reached():
            lines += [
                "",
                f"native operators that no sample reached ({len(unreached)}): " + ", ".join(unreached),
            ]
        return "\n".join(lines) + "\n"

    def speed_text(self) -> str:
        """The time of the grid's cases against eager's."""
        lines = [f"torch {self.about.get('torch')}, {self.about.get('threads')} thread(s), 1024 x 1024"]
        ratios: dict[str, list[float]] = defaultdict(list)
        for cell in sorted(
            self.cells, key=lambda cell: -(cell.mock_ms / cell.eager_ms if cell.eager_ms else 0)
        ):
            if not cell.eager_ms:
                continue
            ratio = cell.mock_ms / cell.eager_ms
            ratios[cell.dtype].append(ratio)
            lines.append(
                f"{cell.name:32s} {cell.dtype:9s} mock {cell.mock_ms:8.2f} ms  eager {cell.eager_ms:8.2f} "
                f"ms  ratio {ratio:6.1f}  {cell.kernels} kernels  {' '.join(cell.host)}".rstrip()
            )
        for dtype, found in ratios.items():
            lines.append(
                f"{dtype}: {len(found)} cases, median ratio {statistics.median(found):.2f}, "
                f"geometric mean {statistics.geometric_mean(found):.2f}, "
                f"{sum(ratio <= 5 for ratio in found)} of them at most 5"
            )
        lines += _failure_lines(self.cells)
        return "\n".join(lines) + "\n"


def _total_line(name: str, total: dict[str, Any]) -> str:
    rate = "-" if total["pass_rate"] is None else f"{100 * total['pass_rate']:.2f} %"
    counts = ", ".join(f"{count} {what}" for what, count in sorted(total["counts"].items()))
    return (
        f"{name:32s} {total['operators']:4d} operators {total['samples']:6d} samples {rate:>9s}  ({counts})"
    )


def _row(name: str, cells: list[Cell]) -> str:
    counts: Counter[str] = Counter()
    away = 0
    for cell in cells:
        counts.update(cell.counts)
        away += cell.where.get("mixed", 0) + cell.where.get("host", 0)
    samples = sum(cell.good + cell.bad for cell in cells)
    return (
        f"{name:44s} {samples:7d} {counts['right']:7d} {away:9d} {counts['decomposition']:7d} "
        f"{counts['refused']:8d} {counts['wrong']:6d} {counts['error']:6d}"
    )


def _failure_lines(cells: Iterable[Cell]) -> list[str]:
    """One line for each operator and outcome, with its dtypes, an example, and the known reason."""
    kinds: dict[tuple[str, str, bool], list[tuple[Cell, dict[str, str]]]] = defaultdict(list)
    for cell in cells:
        for failure in cell.failures:
            kinds[failure["outcome"], cell.name, cell.backward].append((cell, failure))
    lines = []
    for (outcome, name, backward), found in sorted(kinds.items()):
        cell, failure = found[0]
        dtypes = "/".join(dict.fromkeys(c.dtype for c, _ in found))
        known = reason_of(name, cell.dtype, failure)
        shown = known or f"{failure['detail']} [{failure['sample']}]"
        lines.append(f"  {outcome:13s} {name}{' backward' if backward else ''} ({dtypes}): {shown}"[:400])
    return lines
