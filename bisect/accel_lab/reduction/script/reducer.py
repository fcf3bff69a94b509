"""Reduces a Python script while it stays interesting.

The passes run from the largest saving for each test to the smallest: the slice of one check, statements from
the outside in, blocks, arguments, expressions, numbers. They repeat until a round changes nothing, so that at
the end no statement can be dropped.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future

from accel_lab.reduction.engine import first_interesting, smallest_subset
from accel_lab.reduction.graph.program import RANDOM
from accel_lab.reduction.problem import Candidate, OutOfBudget, Problem

from .constants import shrink_floats, shrink_integers
from .expressions import elements, frozen, idle_parameters, inlined, simpler
from .inline import inline_local_imports
from .names import bound_by, unbound, unused_imports, without_aliases, without_unused
from .passes import bypass, droppable, ornaments, slices, unwrapped_main, unwrappings
from .tree import Edit, apply, drop, levels, parents, parse, render, size_of

#: Most tests of numbers in one round; the remaining time is for the structure.
NUMBERS = 40
MAX_ROUNDS = 8

#: Calls that seed random numbers, and calls that draw them.
_SEEDS = re.compile(r"\b(?:manual_seed\w*|seed|default_rng|set_rng_state)\s*\(")
_DRAWS = re.compile(
    RANDOM.pattern + r"|normal|uniform|exponential|cauchy|geometric|shuffle|choice|sample|permut"
    r"|xavier|kaiming|\bnn\.[A-Z]\w*\("
)


def reduce_script(problem: Problem, candidate: Candidate) -> Candidate:
    """Returns the smallest interesting script found; ``candidate`` must be interesting.

    It is 1-minimal in its statements unless the time ran out.
    """
    asked = _CachedProblem(problem, candidate)
    try:
        _Reducer(asked, candidate).run()
    except OutOfBudget:
        pass
    return asked.best


class _CachedProblem:
    """Wraps the problem: caches answers by source text, and tracks the best candidate."""

    def __init__(self, problem: Problem, start: Candidate) -> None:
        self._problem = problem
        self._known: dict[str, Future[bool]] = {}
        self._seeded = bool(_SEEDS.search(start.source))
        self.best = start
        self.know(start.source)

    @property
    def workers(self) -> int:
        return self._problem.workers

    def know(self, source: str) -> None:
        """Records a text as interesting without a test."""
        self._known[source] = _answered(True)

    def submit(self, candidate: Candidate) -> Future[bool]:
        known = self._known.get(candidate.source)
        if known is None or known.cancelled():
            known = (
                _answered(False) if self._lost_its_seed(candidate.source) else self._problem.submit(candidate)
            )
            self._known[candidate.source] = known
        return known

    def _lost_its_seed(self, source: str) -> bool:
        """Whether a script lost its seed but draws random numbers, so that one run proves little."""
        return self._seeded and bool(_DRAWS.search(source)) and not _SEEDS.search(source)

    def failed(self, source: str) -> bool:
        """Whether the text is known to be uninteresting."""
        known = self._known.get(source)
        return known is not None and known.done() and not known.cancelled() and not known.result()

    def found(self, candidate: Candidate, note: str) -> None:
        if candidate.source != self.best.source:
            self.best = candidate
            self._problem.found(candidate, note)


def _answered(interesting: bool) -> Future[bool]:
    future: Future[bool] = Future()
    future.set_result(interesting)
    return future


class _Reducer:
    def __init__(self, problem: _CachedProblem, start: Candidate) -> None:
        self._problem = problem
        self._files = start.files
        self._start = start.source
        # Edits inside unchanged statements that failed once are not tested again.
        self._refused: set[str] = set()
        self._numbers_seen: set[float] = set()

    @property
    def _tree(self) -> ast.Module:
        return parse(self._problem.best.source)

    def run(self) -> None:
        """Runs all passes until a round changes nothing."""
        if not self._lay_out():
            return
        for _ in range(MAX_ROUNDS):
            before = self._problem.best.source
            self._round()
            if self._problem.best.source == before:
                return

    def _lay_out(self) -> bool:
        """Rewrites the script in the form of the candidates; returns False if that removes the failure."""
        tree = parse(self._start)
        edits = ornaments(tree)
        plain = render(tree)
        if plain is None:
            return False
        for note, made in (("without ornaments", edits), ("laid out", [])):
            candidate = self._candidate(tree, made, unbound(tree))
            if candidate is not None and self._try(note, candidate):
                if not made:
                    self._subset("ornaments", ornaments, start=len(edits) // 2)
                return True
        return False

    def _round(self) -> None:
        self._subset("body of main", unwrapped_main)
        self._slices()
        self._statements()
        self._subset("blocks unwrapped", unwrappings, start=1)
        self._subset("unused imports", unused_imports)
        self._subset("fewer arguments", elements)
        self._subset("simpler expressions", simpler, start=1)
        self._subset("function inlined", inlined, start=1)
        self._subset("unused parameters", idle_parameters)
        self._numbers()

    # -- passes -------------------------------------------------------------------------------

    def _subset(
        self, note: str, list_edits: Callable[[ast.Module], list[Edit]], start: int | None = None
    ) -> None:
        """Applies as many of a pass's edits as possible, all at once first."""
        tree = self._tree
        around = parents(tree)
        keys = [(edit, _key(edit, around)) for edit in list_edits(tree)]
        edits = [edit for edit, key in keys if key not in self._refused]
        kept = self._make(note, tree, edits, len(edits) if start is None else start)
        self._refused.update(key for edit, key in keys if edit in kept)

    def _statements(self) -> None:
        depth = 0
        while True:
            tree = self._tree
            level = list(levels(tree))
            if depth >= len(level):
                return
            statements = droppable(level[depth], tree)
            edits = [drop(node) for node in statements]
            checks = {node.id for node in frozen(tree) if isinstance(node, ast.Name)}
            pairs = [(id(edit), node) for edit, node in zip(edits, statements, strict=True)]
            # Do not bypass a value that the check compares: the result would differ for another reason.
            around = {key: bypass(node) for key, node in pairs if not checks.intersection(bound_by(node))}
            self._make("fewer statements", tree, edits, max(1, len(edits) // 2), around)
            depth += 1

    def _slices(self) -> None:
        tree = self._tree
        allowed = unbound(tree)

        def proposals() -> Iterator[tuple[None, Candidate]]:
            for edits in slices(tree):
                candidate = self._candidate(tree, edits, allowed)
                if candidate is not None:
                    yield None, candidate

        self._first("slice of a check", proposals())

    def _numbers(self) -> None:
        def ask(tree: ast.Module) -> bool:
            candidate = self._candidate(tree, [], unbound(tree))
            return candidate is not None and self._try("smaller numbers", candidate)

        shrink_integers(lambda: self._tree, ask, NUMBERS, self._numbers_seen)
        shrink_floats(lambda: self._tree, ask, NUMBERS // 4, self._numbers_seen)

    # -- tests ----------------------------------------------------------------------------------

    def _make(
        self,
        note: str,
        tree: ast.Module,
        edits: Sequence[Edit],
        start: int,
        around: dict[int, Edit | None] | None = None,
    ) -> list[Edit]:
        """Applies as many edits as possible, by delta debugging; returns those that were not applied."""
        allowed = unbound(tree)

        def build(kept: Sequence[int]) -> Candidate | None:
            held = set(kept)
            made = [edit for n, edit in enumerate(edits) if n not in held]
            return self._candidate(tree, made, allowed, around or {})

        left = smallest_subset(
            self._problem,
            range(len(edits)),
            build,
            start=start,
            taken=lambda kept, candidate: self._problem.found(candidate, note),
        )
        return [edits[n] for n in left]

    def _first(self, note: str, proposals: Iterable[tuple[None, Candidate]]) -> bool:
        found = first_interesting(self._problem, proposals)
        if found is not None:
            self._problem.found(found[1], note)
        return found is not None

    def _try(self, note: str, candidate: Candidate) -> bool:
        return self._first(note, [(None, candidate)])

    def _candidate(
        self,
        tree: ast.Module,
        edits: Sequence[Edit],
        allowed: frozenset[str],
        around: dict[int, Edit | None] | None = None,
    ) -> Candidate | None:
        """Returns the script with the edits applied and tidied; None if it is invalid or known not to fail.

        A dropped statement that leaves a name unbound is bypassed instead, if possible.
        """
        chosen = list(edits)
        while missing := unbound(made := apply(tree, chosen)) - allowed:
            bypassed = _bypassed(chosen, missing, around or {})
            if bypassed is None:
                return None
            chosen = bypassed
        made = without_unused(without_aliases(made))
        text = render(made)
        if text is None or self._problem.failed(text):
            return None
        return Candidate(text, self._files)


def _key(edit: Edit, around: dict[ast.AST, ast.AST]) -> str:
    """Identifies an edit by the source of its statement and the nodes that it changes."""
    node = first = next(iter(edit.changes))
    while not isinstance(node, ast.stmt) and node in around:
        node = around[node]
    what = ",".join(f"{type(part).__name__}@{getattr(part, 'col_offset', 0)}" for part in edit.changes)
    return f"{ast.unparse(node)}|{ast.unparse(first)}|{what}|{edit.gain}"


def _bypassed(
    edits: Sequence[Edit], missing: frozenset[str], around: dict[int, Edit | None]
) -> list[Edit] | None:
    """Replaces drops that unbind a missing name by bypasses; None if there are none."""
    made: list[Edit] = []
    changed = False
    for edit in edits:
        other = around.get(id(edit))
        if other is not None and _binds(edit) & missing:
            made.append(other)
            changed = True
        else:
            made.append(edit)
    return made if changed else None


def _binds(edit: Edit) -> frozenset[str]:
    return frozenset(
        target.id
        for node in edit.changes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    )


__all__ = ["inline_local_imports", "reduce_script", "size_of"]
