"""Torch or its companions: every possible cause over three packages, and runs that cannot be had."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.releases.versions import Tested as Row
from accel_lab.core.verdict import Verdict
from accel_lab.search.timeline.companions import Blame, FlipSide, blame, differing, one_sided
from fakes_versions import answer, answered

GOOD = FlipSide(torch="2.5.1", companions={"numpy": "1.26.4", "triton": "3.1.0", "setuptools": "70.0"})
BAD = FlipSide(torch="2.6.0", companions={"numpy": "2.2.1", "triton": "3.2.0", "setuptools": "75.0"})
NAMES = ("numpy", "setuptools", "triton")


@dataclass
class Fake:
    """``fails`` decides from the set of things that are of the bad side; ``missing`` cannot be made."""

    fails: Callable[[frozenset[str]], bool]
    missing: Callable[[frozenset[str]], bool] = lambda new: False
    raising: bool = True
    asked: list[frozenset[str]] = field(default_factory=list)

    def __call__(self, torch: str, pins: Mapping[str, str]) -> Future[Row]:
        new = {name for name, version in pins.items() if version == BAD.companions.get(name)}
        new |= {"torch"} if torch == BAD.torch else set()
        self.asked.append(frozenset(new))
        if self.missing(frozenset(new)):
            unavailable = EnvironmentUnavailable(f"{torch} does not go with that")
            return answered(unavailable if self.raising else answer(torch, "S", why=str(unavailable)))
        return answered(answer(torch, "B" if self.fails(frozenset(new)) else "G"))


def ask(fails: Callable[[frozenset[str]], bool], **changes: object) -> tuple[Blame, Fake]:
    fake = Fake(fails, **changes)  # type: ignore[arg-type]
    return blame(GOOD, BAD, fake), fake


def test_torch_is_proven_by_two_runs() -> None:
    found, fake = ask(lambda new: "torch" in new)
    assert (found.culprits, found.proven) == (("torch",), True)
    assert fake.asked == [frozenset({"torch"}), frozenset(NAMES)]
    assert found.cleared == NAMES
    assert "torch 2.6.0 also fails with the companions of 2.5.1" in found.sentence


@pytest.mark.parametrize("name", NAMES)
def test_one_companion_is_proven(name: str) -> None:
    found, _ = ask(lambda new: name in new)
    assert (found.culprits, found.proven) == ((name,), True)
    assert set(found.cleared) == {*NAMES} - {name}
    assert found.sentence.startswith(
        f"not torch but {name} {GOOD.companions[name]} -> {BAD.companions[name]}"
    )


def test_every_conjunction_of_causes_is_told_without_blaming_another() -> None:
    things = ("torch", *NAMES)
    for size in range(1, 5):
        for needed in itertools.combinations(things, size):
            found, fake = ask(lambda new, needed=needed: set(needed) <= new)
            assert set(needed) & set(found.culprits), needed
            if found.proven:
                assert set(found.culprits) in ({*needed}, {*NAMES}), (needed, found)
            assert not set(found.cleared) & set(needed) or len(needed) > 1, needed
            if size == 1:
                assert (set(found.culprits), found.proven) == (set(needed), True)
            assert len(fake.asked) <= 4 + 2 * len(NAMES)


def test_two_companions_together_are_proven_by_a_pair_of_their_own() -> None:
    found, fake = ask(lambda new: {"numpy", "triton"} <= new)
    assert (found.culprits, found.proven) == (("numpy", "triton"), True)
    assert fake.asked[-2:] == [frozenset({"torch", "setuptools"}), frozenset({"numpy", "triton"})]
    # Cleared alone, but needed beside the two: the pair without it does not fail, so all are blamed.
    odd, _ = ask(lambda new: {"numpy", "triton"} <= new and ("setuptools" in new or "torch" in new))
    assert (odd.culprits, odd.proven) == (NAMES, True)


def test_either_of_two_causes_is_never_proven() -> None:
    found, _ = ask(lambda new: "torch" in new or "numpy" in new)
    assert not found.proven
    assert set(found.culprits) == {"torch", "numpy"}
    assert "two causes" in found.sentence


def test_torch_and_one_companion_together() -> None:
    found, _ = ask(lambda new: {"torch", "numpy"} <= new)
    assert (found.culprits, found.proven) == (("torch", "numpy"), True)
    assert "it takes both torch 2.6.0 and numpy 1.26.4 -> 2.2.1" in found.sentence


@pytest.mark.parametrize("raising", [True, False])
def test_a_companion_that_torch_holds_fast_does_not_spoil_the_others(raising: bool) -> None:
    def held(new: frozenset[str]) -> bool:
        return ("torch" in new) != ("triton" in new)

    found, _ = ask(lambda new: "torch" in new, missing=held, raising=raising)
    assert (found.culprits, found.proven, found.open) == (("torch",), False, ("triton",))
    assert found.sentence.endswith("; triton could not be swapped")
    found, _ = ask(lambda new: "numpy" in new, missing=held, raising=raising)
    assert (found.culprits, found.proven) == (("numpy",), True)
    assert found.open == ("triton",)
    found, _ = ask(lambda new: "triton" in new, missing=held, raising=raising)
    assert not found.proven


def test_nothing_is_guessed_where_nothing_can_be_made() -> None:
    found, _ = ask(lambda new: True, missing=lambda new: True)
    assert (found.culprits, found.proven, found.cleared) == ((), False, ())
    assert found.open == NAMES
    assert {swap.verdict for swap in found.swaps} == {Verdict.SKIP}
    assert {swap.why for swap in found.swaps} == {
        "2.5.1 does not go with that",
        "2.6.0 does not go with that",
    }


@pytest.mark.parametrize(
    ("only", "cause", "says"),
    [
        ("bad", "torch", "torch, likely: torch 2.6.0 also fails"),
        ("good", "torch", "torch, likely: torch 2.5.1 passes"),
        ("bad", "numpy", "a companion, likely (numpy)"),
        ("good", "numpy", "a companion, likely (numpy)"),
    ],
)
def test_one_of_the_two_runs_proves_nothing(only: str, cause: str, says: str) -> None:
    small_good = FlipSide(torch=GOOD.torch, companions={"numpy": "1.26.4"})
    small_bad = FlipSide(torch=BAD.torch, companions={"numpy": "2.2.1"})
    fake = Fake(lambda new: cause in new, missing=lambda new: ("torch" in new) is (only == "good"))
    found = blame(small_good, small_bad, fake)
    assert (found.culprits, found.proven) == ((cause,), False)
    assert found.sentence.startswith(says)
    assert len(fake.asked) == 2


def test_another_failure_speaks_for_nobody() -> None:
    def ask_other(torch: str, pins: Mapping[str, str]) -> Future[Row]:
        return answered(answer(torch, "D"))

    found = blame(GOOD, BAD, ask_other)
    assert (found.culprits, found.proven) == ((), False)


def test_the_same_companions_leave_only_torch() -> None:
    other = FlipSide(torch=BAD.torch, companions=GOOD.companions)
    fake = Fake(lambda new: True)
    found = blame(GOOD, other, fake)
    assert (found.culprits, found.proven, fake.asked) == (("torch",), True, [])
    extra = FlipSide(torch=BAD.torch, companions={**GOOD.companions, "networkx": "3.4"})
    found = blame(GOOD, extra, fake)
    assert (found.culprits, found.proven, found.open) == (("torch",), False, ("networkx",))


def test_what_differs_and_what_only_one_side_has() -> None:
    one = FlipSide(torch="1", companions={"numpy": "1", "triton": "2", "sympy": "1", "torch": "1"})
    two = FlipSide(torch="2", companions={"numpy": "2", "triton": "2", "jinja2": "1", "torch": "2"})
    assert differing(one, two) == ("numpy",)
    assert one_sided(one, two) == ("jinja2", "sympy")


def test_all_that_differs_is_held_in_every_run() -> None:
    seen: list[set[str]] = []

    def ask_and_note(torch: str, pins: Mapping[str, str]) -> Future[Row]:
        seen.append(set(pins))
        return answered(answer(torch, "G"))

    found = blame(GOOD, BAD, ask_and_note)
    assert seen == [set(NAMES)] * 8
    assert found.to_json()["swaps"][0] == {
        "torch": "2.6.0",
        "pins": {"numpy": "1.26.4", "setuptools": "70.0", "triton": "3.1.0"},
        "swapped": list(NAMES),
        "torch_side": "bad",
        "verdict": "good",
        "why": "",
    }


def test_other_exceptions_pass() -> None:
    def gone(torch: str, pins: Mapping[str, str]) -> Future[Row]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        blame(GOOD, BAD, gone)
