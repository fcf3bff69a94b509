"""Finds every release on a line at which the verdict changes: introduced, fixed, broken again.

The search knows no environments: it asks a :class:`Judge` for one release at a time and gets a
:class:`~accel_lab.core.releases.versions.Tested`. Both ends come first, then a coarse grid, then each gap
whose ends differ is bisected (``plan``). A release that cannot be judged, or that fails in another way, is
skipped and never counts as bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from typing import Protocol

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.releases.versions import Tested, Versions
from accel_lab.core.verdict import Verdict

from .flips import read_line
from .plan import JUDGED, Plan, grid_points

#: Releases fetched ahead at a time: one on each side of a pivot, one of which is wasted.
_AHEAD = 2


class Judge(Protocol):
    """Judges releases. ``submit`` starts one; ``prefetch`` announces one that may be asked next."""

    def submit(self, version: str) -> Future[Tested]: ...

    def prefetch(self, version: str) -> None: ...


class LineSearch:
    """The search along ``line``, oldest release first.

    ``reference`` is a release on the line that is known to be bad (the user's own): it is asked with the
    ends, unless it is among ``known``. ``known`` are earlier results, which are not asked again. ``grid`` is
    the number of releases between the ends that are always asked; by default about the root of the line's
    length, 0 trusts the ends. ``side_by_side`` is the number of questions open at once, ``most_probes`` the
    maximum asked. ``what`` is what a bad release has, for the notes. Raises ValueError for a release that is
    on the line twice, a ``reference`` that is not on it, or ``side_by_side`` below 1.
    """

    def __init__(
        self,
        line: Sequence[str],
        ask: Judge,
        *,
        reference: str | None = None,
        known: Iterable[Tested] = (),
        grid: int | None = None,
        side_by_side: int = 2,
        most_probes: int | None = None,
        prefetch: bool = True,
        what: str = "the failure",
    ) -> None:
        self._line = tuple(line)
        self._places = {version: place for place, version in enumerate(self._line)}
        if len(self._places) != len(self._line):
            raise ValueError("a release is listed twice")
        if reference is not None and reference not in self._places:
            raise ValueError(f"{reference} is not on the line")
        if side_by_side < 1:
            raise ValueError("at least one question must be open at a time")
        self._ask = ask
        self._reference = reference
        self._side_by_side = side_by_side
        self._most = most_probes
        self._prefetch = prefetch
        self._what = what
        self._rows = {self._places[row.torch]: row for row in known if row.torch in self._places}
        self._running: dict[int, Future[Tested]] = {}
        self._fetched: set[int] = set()
        self._complete = False
        self._why = "not run to the end"
        self.probes = 0
        size = len(self._line)
        firsts = [0, size - 1] if size else []
        if reference is not None:
            firsts.append(self._places[reference])
        self._plan = Plan(size=size, grid=grid_points(size, grid), first=tuple(dict.fromkeys(firsts)))

    def run(self) -> Versions:
        """Returns every flip on the line; if the judge raises, :attr:`found` has what is known."""
        try:
            self._fill()
            while self._running:
                wait(self._running.values(), return_when=FIRST_COMPLETED)
                self._take()
                self._fill()
        except BaseException as stop:
            self._why = f"cut short: {str(stop) or type(stop).__name__}"
            raise
        self._complete = not self._plan.wanted(self._verdicts(), set(), 1)
        self._why = "" if self._complete else f"stopped at the requested limit of {self.probes} releases"
        return self.found

    @property
    def found(self) -> Versions:
        """What is known so far, whether the search has ended or not."""
        versions = read_line(
            self._line, self._rows.values(), complete=self._complete, why=self._why, what=self._what
        )
        note = self._about_reference()
        if not note:
            return versions
        return replace(versions, notes=(note, *versions.notes))

    def _verdicts(self) -> dict[int, Verdict]:
        return {place: row.verdict for place, row in self._rows.items()}

    def _fill(self) -> None:
        """Opens as many questions as allowed, and announces which come next."""
        free = self._side_by_side - len(self._running)
        if self._most is not None:
            free = min(free, self._most - self.probes)
        verdicts = self._verdicts()
        for place in self._plan.wanted(verdicts, self._running.keys(), free):
            self.probes += 1
            self._running[place] = self._ask.submit(self._line[place])
        if not self._prefetch or not self._running:
            return
        left = _AHEAD
        if self._most is not None:
            left = min(left, self._most - self.probes)
        for place in self._plan.ahead(verdicts, self._running.keys(), left) if left > 0 else ():
            if place not in self._fetched:
                self._fetched.add(place)
                self._ask.prefetch(self._line[place])

    def _take(self) -> None:
        """Keeps all finished results, then raises the first exception among them."""
        failure: BaseException | None = None
        for place in sorted(place for place, job in self._running.items() if job.done()):
            job = self._running.pop(place)
            try:
                self._rows[place] = job.result()
            except EnvironmentUnavailable as reason:
                version = self._line[place]
                self._rows[place] = Tested(torch=version, verdict=Verdict.SKIP, why=str(reason), runs=0)
            except BaseException as stop:
                failure = failure or stop
        if failure is not None:
            raise failure

    def _about_reference(self) -> str:
        """Returns a note if the release known to fail does not fail in the lab's environment; else ""."""
        if self._reference is None:
            return ""
        row = self._rows.get(self._places[self._reference])
        if row is None or row.verdict is Verdict.BAD:
            return ""
        if row.verdict in JUDGED:
            return (
                f"{self._reference} fails where the script was first seen to fail and passes in the "
                "environment made for this search: look at what else differs between the two"
            )
        reason = f": {row.why}" if row.why else ""
        return f"{self._reference}, on which the failure was seen, could not be judged here{reason}"
