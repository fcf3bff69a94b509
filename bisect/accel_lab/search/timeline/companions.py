"""Decides whether torch or a companion package causes a flip, by swapping one at a time.

A newer torch brings a newer numpy, triton, compiler, so both changed at a flip. Torch is held while its
companions are those of the other side, and the companions are held while torch is the other side's. Blame
needs both runs: upgrading it on the good side brings the failure, downgrading it on the bad side fixes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.releases.flip_details import Blame, Swap
from accel_lab.core.releases.versions import Tested
from accel_lab.core.verdict import Verdict
from accel_lab.search.proof import prove_verdicts

#: Judges torch in this version with companions at these versions: ``ask("2.6.0", {"numpy": "1.26.4"})``.
JudgeSwapped = Callable[[str, Mapping[str, str]], "Future[Tested]"]
TORCH = "torch"


@dataclass(frozen=True, kw_only=True)
class FlipSide:
    """The versions on one side of a flip: torch's and those of its companions."""

    torch: str
    companions: Mapping[str, str]


def differing(good: FlipSide, bad: FlipSide) -> tuple[str, ...]:
    """Returns the names of companions that have different versions on the two sides."""
    both = good.companions.keys() & bad.companions.keys()
    return tuple(sorted(n for n in both if n != TORCH and good.companions[n] != bad.companions[n]))


def one_sided(good: FlipSide, bad: FlipSide) -> tuple[str, ...]:
    """Returns the companions that only one side has, which cannot be swapped."""
    return tuple(sorted((good.companions.keys() ^ bad.companions.keys()) - {TORCH}))


def blame(good: FlipSide, bad: FlipSide, ask: JudgeSwapped) -> Blame:
    """Swaps the companions of a flip, all together first, then one by one, and names the culprit.

    ``good`` and ``bad`` are the two sides as judged: their own runs are not repeated.
    """
    names = differing(good, bad)
    alone = one_sided(good, bad)
    if not names:
        summary = "its companions are the same on both sides" + (_only_on_one(alone) if alone else "")
        why = Evidence.of(EvidenceKind.COMPANION_ON_ONE_SIDE)
        proof = prove_verdicts([], [Considered(name="one_sided", open=bool(alone), why=why)])
        return Blame(culprits=(TORCH,), proven=proof.proven, sentence=f"torch: {summary}", open=alone)
    swapper = _Swapper(good=good, bad=bad, names=names, ask=ask)
    pair = swapper.pairs([names])[0]
    if pair.blames_torch or len(names) == 1:
        return _blame_of(swapper, alone, pair, {names[0]: pair} if len(names) == 1 else {})
    singles = dict(zip(names, swapper.pairs([(name,) for name in names]), strict=True))
    able = tuple(name for name in names if singles[name].judged)
    if not pair.judged and 1 < len(able) < len(names):
        # A companion that cannot be separated from torch spoils the swap of all, so the others are swapped
        # alone.
        rest = swapper.pairs([able])[0]
        if rest.blames_torch:
            alone = (*alone, *(name for name in names if name not in able))
            return _blame_of(swapper, alone, rest, singles)
    return _blame_of(swapper, alone, pair, singles)


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """Some companions swapped both ways.

    ``swapped_into_bad``: the bad side's torch with the good side's companions; ``swapped_into_good``: the
    reverse.
    """

    swapped_into_bad: Verdict
    swapped_into_good: Verdict

    @property
    def judged(self) -> bool:
        return {self.swapped_into_bad, self.swapped_into_good} <= {Verdict.GOOD, Verdict.BAD}

    @property
    def blames_companions(self) -> bool:
        """Whether swapping them fixes the bad side and breaks the good side."""
        return self.swapped_into_bad is Verdict.GOOD and self.swapped_into_good is Verdict.BAD

    @property
    def blames_torch(self) -> bool:
        """Whether swapping them changes neither side: the failure stays with torch."""
        return self.swapped_into_bad is Verdict.BAD and self.swapped_into_good is Verdict.GOOD


class _Swapper:
    """Runs the swapped combinations and keeps each run."""

    def __init__(self, *, good: FlipSide, bad: FlipSide, names: Sequence[str], ask: JudgeSwapped) -> None:
        self.good, self.bad, self.names = good, bad, tuple(names)
        self._ask = ask
        self.swaps: list[Swap] = []

    def pairs(self, groups: Sequence[Sequence[str]]) -> list[_Pair]:
        """Swaps each group in both directions; submits all before waiting for the first."""
        jobs = [
            (self._submit(self.bad, self.good, group), self._submit(self.good, self.bad, group))
            for group in groups
        ]
        pairs = []
        for group, (into_bad, into_good) in zip(groups, jobs, strict=True):
            one = self._keep(self.bad, self.good, group, "bad", into_bad)
            two = self._keep(self.good, self.bad, group, "good", into_good)
            pairs.append(_Pair(swapped_into_bad=one, swapped_into_good=two))
        return pairs

    def _pins(self, own: FlipSide, other: FlipSide, group: Sequence[str]) -> dict[str, str]:
        """Pins every companion that differs: those of the group to the other side's version."""
        return {n: (other if n in group else own).companions[n] for n in self.names}

    def _submit(self, own: FlipSide, other: FlipSide, group: Sequence[str]) -> Future[Tested]:
        try:
            return self._ask(own.torch, self._pins(own, other, group))
        except EnvironmentUnavailable as reason:
            failed: Future[Tested] = Future()
            failed.set_exception(reason)
            return failed

    def _keep(
        self, own: FlipSide, other: FlipSide, group: Sequence[str], side: str, job: Future[Tested]
    ) -> Verdict:
        try:
            row = job.result()
            verdict, why, error = row.verdict, row.why, row.error
        except EnvironmentUnavailable as reason:
            verdict, why, error = Verdict.SKIP, str(reason), 0.0
        self.swaps.append(
            Swap(
                torch=own.torch,
                pins=dict(self._pins(own, other, group)),
                swapped=tuple(group),
                torch_side=side,
                verdict=verdict,
                why=why,
                error=error,
            )
        )
        return verdict


def _blame_of(swapper: _Swapper, alone: tuple[str, ...], pair: _Pair, singles: Mapping[str, _Pair]) -> Blame:
    """Returns the blame from all runs. ``pair`` is that of the largest group that could be swapped."""
    good, bad, names = swapper.good, swapper.bad, swapper.names
    cleared = (
        names if pair.blames_torch and not singles else tuple(n for n in names if singles[n].blames_torch)
    )
    unsure = (*alone, *(n for n in names if n in singles and not singles[n].judged and n not in alone))
    blamed = tuple(n for n in names if n in singles and singles[n].blames_companions)

    def verdict(culprits: tuple[str, ...], isolated: bool, sentence: str) -> Blame:
        """Builds the blame; ``isolated``: both runs of a pair point to exactly these."""
        why = Evidence.of(EvidenceKind.COMPANION_NOT_ISOLATED)
        other = Considered(name="another_companion", open=not isolated, why=why)
        return Blame(
            culprits=culprits,
            proven=prove_verdicts((swap.error for swap in swapper.swaps), [other]).proven,
            sentence=sentence + (_only_on_one(alone) if alone else ""),
            swaps=tuple(swapper.swaps),
            cleared=cleared,
            open=unsure,
        )

    changes = {n: f"{n} {good.companions[n]} -> {bad.companions[n]}" for n in names}
    every = _and(changes[n] for n in names)
    if pair.blames_torch:
        return verdict(
            (TORCH,),
            not alone,
            f"torch: torch {bad.torch} also fails with the companions of {good.torch}, "
            f"and torch {good.torch} passes with those of {bad.torch} ({every})",
        )
    if blamed:
        return verdict(
            blamed,
            len(blamed) == 1,
            f"not torch but {_and(changes[n] for n in blamed)}: downgrading it fixes torch {bad.torch}, "
            f"upgrading it breaks torch {good.torch}",
        )
    if pair.blames_companions:
        left = tuple(n for n in names if n not in cleared)
        if left != names and not swapper.pairs([left])[0].blames_companions:
            left = names
        return verdict(
            left,
            True,
            f"not torch but its companions together ({_and(changes[n] for n in left)}): downgrading "
            f"all fixes torch {bad.torch}, upgrading all breaks torch {good.torch}; none alone does both",
        )
    if pair.judged and pair.swapped_into_bad is Verdict.GOOD:
        needed = (
            tuple(n for n in names if n in singles and singles[n].swapped_into_bad is Verdict.GOOD) or names
        )
        return verdict(
            (TORCH, *needed),
            len(needed) == 1 and not alone,
            f"it takes both torch {bad.torch} and {_and(changes[n] for n in needed)}: downgrading either "
            "fixes it",
        )
    if pair.judged:
        return verdict(
            (TORCH, *(n for n in names if n not in cleared)),
            False,
            f"torch {bad.torch} introduces the failure, and so do the companions alone ({every}): two causes",
        )
    return _half(verdict, pair, names, cleared, good, bad)


def _half(
    verdict: Callable[[tuple[str, ...], bool, str], Blame],
    pair: _Pair,
    names: tuple[str, ...],
    cleared: tuple[str, ...],
    good: FlipSide,
    bad: FlipSide,
) -> Blame:
    """Handles swaps of which at most one could be judged: never proven."""
    if pair.swapped_into_bad is Verdict.BAD:
        return verdict(
            (TORCH,),
            False,
            f"torch, likely: torch {bad.torch} also fails with the companions of {good.torch}",
        )
    if pair.swapped_into_good is Verdict.GOOD:
        return verdict(
            (TORCH,), False, f"torch, likely: torch {good.torch} passes with the companions of {bad.torch}"
        )
    if Verdict.GOOD is pair.swapped_into_bad or Verdict.BAD is pair.swapped_into_good:
        left = tuple(n for n in names if n not in cleared)
        return verdict(
            left, False, f"a companion, likely ({', '.join(left)}): only one of the two swaps could be judged"
        )
    if cleared == names:
        return verdict((TORCH,), False, "torch, likely: each companion was swapped alone and changes nothing")
    return verdict((), False, "torch or a companion: the swapped environments could not be judged")


def _only_on_one(alone: Sequence[str]) -> str:
    return f"; {', '.join(alone)} could not be swapped"


def _and(words: Iterable[str]) -> str:
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
