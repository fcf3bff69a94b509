"""A probe is described in words: what its progress line says about the rung and its switches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from accel_lab.cli.probe_words import question
from accel_lab.core.machine.environment import EnvironmentId, EnvironmentSpec
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.search.switches import KERNEL_SWITCHES

PROGRAM = Program(path="s.py")


@pytest.mark.parametrize(
    ("switches", "words"),
    [
        ((), "kernel"),
        ((("off", {"lowerings": "all"}),), "kernel: every operator falls back to eager"),
        ((("off", {"lowerings": ["a target=aten.add#0"]}),), "kernel: aten.add falls back to eager"),
        (
            (("off", {"lowerings": ["a target=aten.add#0", "b target=aten.mul#0"]}),),
            "kernel: aten.add and aten.mul fall back to eager",
        ),
        ((("off", {"patterns": ["p#0", "q#0", "r#1"]}),), "kernel: without 3 patterns"),
        ((("off", {"post_grad_passes": "all"}),), "kernel: no post grad passes"),
        ((("inductor", {"fallback_random": True}),), "kernel: fallback_random=True"),
        ((("front", {"look": True}),), "kernel: state before and after each call"),
        ((("front", {"eager": ["f a.py:1"]}),), "kernel: not compiled: f"),
        ((("caches", ["fx"]), ("fresh", True)), "kernel: caches on: fx; recompiled at every call"),
        ((("mock", {"out": "main", "poison": ""}),), "kernel: out=main"),
        ((("mock", {"front_end": "main", "back_end": "main"}),), "kernel"),
        (
            (("mock", {"front_end": "main", "back_end": "reference"}),),
            "kernel: the same specs on the reference back end",
        ),
        ((("mock", {"front_end": "main", "back_end": "main", "cores": 1}),), "kernel: one core"),
        (
            (("mock", {"front_end": "main", "trace": True, "by_reference": ["k0000_exp"]}),),
            "kernel: every layer dumped; on the reference: k0000_exp",
        ),
    ],
)
def test_a_question_in_words(switches: tuple[tuple[str, Any], ...], words: str) -> None:
    assert question(Probe(program=PROGRAM, switches=switches)) == words


def test_a_row_of_the_ablation_table_has_its_own_label() -> None:
    for row in KERNEL_SWITCHES:
        if row.name != "fallback":
            assert question(Probe(program=PROGRAM, switches=row.settings)) == f"kernel: {row.label}"


def test_a_plain_run_and_a_cold_one() -> None:
    assert question(Probe(program=PROGRAM, bare=True, cold=True)) == "plain run"
    assert question(Probe(program=PROGRAM, rung=Rung.FX, cold=True)) == "fx (cold)"


def test_a_run_that_records_nothing_says_so() -> None:
    unrecorded = Probe(program=PROGRAM, rung=Rung.UNCOMPILED, limits=Limits(record_mb=0))
    assert question(unrecorded) == "uncompiled: nothing recorded"
    held = replace(unrecorded, switches=(("other_processes", True),))
    assert question(held) == "uncompiled: in other processes as well; nothing recorded"


def test_the_environment_keeps_its_text_in_the_key() -> None:
    """A journal finds its answers by the key, so the text of an environment never changes."""
    own = EnvironmentId.of_interpreter("/opt/python", "2.6.0")
    spec = EnvironmentSpec(provider="uv", torch="2.6.0", python="3.11")
    release = EnvironmentId.of_release("2.6.0", spec)
    assert (str(own), own.release) == ("/opt/python torch 2.6.0", "")
    assert (str(release), release.release) == (f"torch 2.6.0 uv {spec.key}", "2.6.0")
    assert Probe(program=PROGRAM).key == "24b4d10c7b36e10ca4d6"
