"""The search inside the passes and the decomposition table, on a compiler that exists on paper only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from accel_lab.core.findings import Step
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.words.evidence import sentences
from accel_lab.search.alternatives.merged_results import merged_results
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.localize.ablation import as_switch
from accel_lab.search.localize.applications import Application, Tree, name_of
from accel_lab.search.localize.components import localize_component
from accel_lab.search.localize.localization import Localization
from accel_lab.search.localize.pass_words import application_words, graph_change
from accel_lab.search.premise import Baseline
from accel_lab.search.repeats import Tally
from fakes_lab import FakeLab, failing, passing

Off = frozenset[tuple[str, str]]
PRE, JOINT, POST = "pre_grad_passes", "joint_graph_passes", "post_grad_passes"


def row(
    subsystem: str, key: str, parent: str = "", changed: bool | None = True, **more: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {"subsystem": subsystem, "key": key, "changed": changed, **more}
    if parent:
        found["parent"] = parent
    return found


@dataclass
class Compiler:
    """Applies its rows in order; ``bad`` tells from what is left out whether the program fails.

    A row whose ``unless`` is applied changes nothing: it does the work only where that one is left out.
    A row in ``indispensable`` makes the run fail in another way when it is left out.
    """

    rows: list[dict[str, Any]]
    bad: Callable[[Off], bool]
    indispensable: frozenset[str] = frozenset()
    unless: dict[str, str] = field(default_factory=dict)
    asked: list[Off] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    change: tuple[list[str], list[str]] = (["%a = x", "%b = y(%a)"], ["%a = x", "%c = z(%a)"])

    def answer(self, probe: Probe) -> Outcome:
        switches = dict(probe.switches)
        wanted = switches.get("off") or {}
        off = frozenset(
            (r["subsystem"], r["key"])
            for r in self.rows
            if wanted.get(r["subsystem"]) == "all" or r["key"] in wanted.get(r["subsystem"], ())
        )
        if "show_pass" in switches:
            self.shown.append(switches["show_pass"])
        else:
            self.asked.append(off)
        facts = {"applied": {}, "applications": [self._row(r, off) for r in self.rows if self._runs(r, off)]}
        if "show_pass" in switches:
            facts["shown"] = dict(zip(("before", "after"), self.change, strict=True))
        if any(key in self.indispensable for _, key in off):
            return failing("no such node", "KeyError", facts=facts)
        return failing(facts=facts) if self.bad(off) else passing(facts=facts)

    @staticmethod
    def _runs(r: dict[str, Any], off: Off) -> bool:
        parent = tuple(str(r.get("parent", "")).split("/", 1))
        return parent not in off

    def _row(self, r: dict[str, Any], off: Off) -> dict[str, Any]:
        if (r["subsystem"], r["key"]) in off:
            return {**r, "off": True}
        rival = self.unless.get(r["key"])
        if rival is not None:
            return {**r, "changed": rival in {key for _, key in off}}
        return r


def look(compiler: Compiler, stage: Stage = Stage.FX_PASSES, at: Outcome | None = None) -> Localization:
    lab = FakeLab(answer=compiler.answer)
    probe = Probe(program=Program(path="x.py"))
    first = compiler.answer(probe) if at is None else at
    base = Baseline(target=lab.signature(failing()), tally=Tally(runs=9, failures=9))
    runner = LadderRunner(lab=lab, probe=probe, baseline=base)
    rung = Rung.DECOMP if stage is Stage.DECOMPOSITION else Rung.FX
    return localize_component(runner, stage, Step(rung=rung, verdict=Verdict.BAD, outcome=first, failures=1))


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("torch/_inductor/fx_passes/post_grad.py", True),
        ("torch/_inductor/codegen/cpp.py", True),
        ("torch/_functorch/_aot_autograd/runtime_wrappers.py", False),
    ],
)
def test_an_exception_while_the_graph_runs_does_not_name_what_runs_it(file: str, named: bool) -> None:
    """No pass alone cures it; the frames of AOTAutograd's wrappers only carry what a pass has made."""
    frame = Frame(file=file, line=432, function="inner")
    raised = Raised(type="RuntimeError", message="expected m1 and m2", frames=(frame,))
    outcome = replace(failing(facts={"applied": {}, "applications": []}), raised=raised)
    component = look(Compiler([], lambda off: True), at=outcome).component
    assert (component.name if component is not None else "") == ("inner" if named else "")


def several() -> list[dict[str, Any]]:
    return [
        row(JOINT, "fold#0", function="fold", at="torch/joint.py:1"),
        row(POST, "pass_pattern_0#0", function="apply"),
        row("patterns", "fine#0", f"{POST}/pass_pattern_0#0"),
        row(POST, "pass_pattern_1#0", function="apply"),
        row("patterns", "mend#0", f"{POST}/pass_pattern_1#0"),
        row("patterns", "swap#0", f"{POST}/pass_pattern_1#0"),
        row("patterns", "swap#1", f"{POST}/pass_pattern_1#0", at="torch/post.py:7", nodes=[5, 4]),
        row("patterns", "swap#2", f"{POST}/pass_pattern_1#0"),
        row(POST, "idle#0", changed=False),
    ]


def needs(*culprits: tuple[str, str]) -> Callable[[Off], bool]:
    """The failure needs every one of these, each with what it happens in."""
    parents = {(str(r["subsystem"]), str(r["key"])): str(r.get("parent", "")) for r in several()}

    def bad(off: Off) -> bool:
        around = [tuple(parents.get(c, "").split("/", 1)) for c in culprits]
        return not (set(culprits) | set(around)) & off

    return bad


def test_one_application_of_one_pattern_is_named() -> None:
    compiler = Compiler(several(), needs(("patterns", "swap#1")))
    named = look(compiler)
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("pattern", "swap")
    assert named.component.confidence is Confidence.PROVEN
    assert named.component.detail.startswith("application 2 of 3 of swap (torch/post.py:7)")
    assert "inside pass_pattern_1: 5 nodes before, 4 after" in named.component.detail
    assert any("alone applied and" in line and "still fails" in line for line in sentences(named.evidence))
    assert compiler.shown == ["patterns/swap#1"]
    assert named.exhibits[0].language == "diff" and "-%b = y(%a)" in named.exhibits[0].text
    assert not any(("post_grad_passes", "idle#0") in off for off in compiler.asked)
    assert len(compiler.asked) <= 12


def test_a_pass_that_changes_nothing_else_than_itself() -> None:
    named = look(Compiler(several(), needs((JOINT, "fold#0"))))
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("pass", "fold")


@dataclass
class Raising(Compiler):
    """A compiler that ends at the first pattern which raises and is not left out, within its pass."""

    def answer(self, probe: Probe) -> Outcome:
        whole, wanted = self.rows, dict(probe.switches).get("off") or {}
        left_out = {(subsystem, key) for subsystem, keys in wanted.items() for key in keys}
        self.rows = []
        for r in whole:
            parent = tuple(str(r.get("parent", "")).split("/", 1))
            if parent in left_out:
                continue
            self.rows.append({k: v for k, v in r.items() if k != "raised"})
            if r.get("raised") and (r["subsystem"], r["key"]) not in left_out:
                for above in (one for one in self.rows if (one["subsystem"], one["key"]) == parent):
                    above.update(raised=r["raised"], changed=None)
                self.rows[-1].update(raised=r["raised"], changed=None)
                break
        try:
            return super().answer(probe)
        finally:
            self.rows = whole


def test_a_pattern_that_several_passes_apply_is_named_where_it_raises() -> None:
    """Without one of the passes the next one raises, with an error of the same kind (pytorch#183988)."""
    rows = [
        row(JOINT, "fold#0"),
        row(JOINT, "pass_pattern_0#0", function="apply"),
        row("patterns", "shuffle#0", f"{JOINT}/pass_pattern_0#0", raised="RuntimeError"),
        row(POST, "pass_pattern_1#0", function="apply"),
        row("patterns", "shuffle#1", f"{POST}/pass_pattern_1#0", raised="RuntimeError"),
    ]

    def bad(off: Off) -> bool:
        first = {(JOINT, "pass_pattern_0#0"), ("patterns", "shuffle#0")} & off
        second = {(POST, "pass_pattern_1#0"), ("patterns", "shuffle#1")} & off
        return not (first and second)

    named = look(Raising(rows, bad))
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("pattern", "shuffle")
    assert named.component.confidence is Confidence.PROVEN
    assert "application 1 of 2" in named.component.detail and "application 2 of 2" in named.component.detail


def test_a_chain_is_never_proven_and_names_the_others() -> None:
    named = look(Compiler(several(), needs((JOINT, "fold#0"), ("patterns", "mend#0"))))
    assert named.component is not None and named.component.name == "mend"
    assert named.component.confidence is Confidence.LIKELY
    assert "also fixed by leaving out fold" in named.component.detail


def test_two_independent_ones_are_both_named() -> None:
    one, two = needs((JOINT, "fold#0")), needs(("patterns", "mend#0"))
    named = look(Compiler(several(), lambda off: one(off) or two(off)))
    assert named.component is not None
    assert named.component.name == "fold, pass_pattern_1"
    assert named.component.confidence is Confidence.LIKELY
    assert any("with any one of them left in" in line for line in sentences(named.evidence))


def test_what_steps_in_when_the_first_is_left_out_is_found() -> None:
    rows = [row(JOINT, "noop#0"), row(JOINT, "fold#0"), row(POST, "noop#0", changed=False)]
    rows[2]["key"] = "noop#7"
    both = {(JOINT, "noop#0"), (POST, "noop#7")}
    compiler = Compiler(rows, lambda off: not both <= off, unless={"noop#7": "noop#0"})
    named = look(compiler)
    assert named.component is not None and named.component.name == "noop"
    assert named.component.confidence is Confidence.PROVEN
    assert any("then does the same" in line for line in sentences(named.evidence))


def test_an_indispensable_pass_is_no_cure_and_no_obstacle() -> None:
    rows = [*several(), row("pass_functions", "sort#0")]
    one, two = needs((JOINT, "fold#0")), needs(("patterns", "mend#0"))
    named = look(Compiler(rows, lambda off: one(off) or two(off), indispensable=frozenset({"sort#0"})))
    assert named.component is not None and "fold" in named.component.name
    assert "sort" not in named.component.name


def test_many_kinds_are_halved_and_proven_only_when_sufficient() -> None:
    rows = [row(POST, f"pass{n}#0") for n in range(30)]
    compiler = Compiler(rows, lambda off: (POST, "pass17#0") not in off)
    named = look(compiler)
    assert named.component is not None and named.component.name == "pass17"
    assert named.component.confidence is Confidence.PROVEN
    chain = Compiler(rows, lambda off: not {(POST, "pass17#0"), (POST, "pass3#0")} & off)
    named = look(chain)
    assert named.component is not None and named.component.confidence is Confidence.LIKELY
    assert len(chain.asked) <= 36


def test_a_change_that_no_node_shows_is_found_too() -> None:
    rows = [row(JOINT, "fold#0"), row(POST, "tag#0", changed=False), row(POST, "other#0", changed=False)]
    named = look(Compiler(rows, lambda off: (POST, "tag#0") not in off))
    assert named.component is not None and named.component.name == "tag"


def test_nothing_is_named_where_nothing_cures() -> None:
    assert look(Compiler(several(), lambda off: True)).component is None


def test_a_hang_without_facts_is_searched_from_what_could_have_been_applied() -> None:
    stopped = Outcome(status=Status.TIMEOUT, raised=Raised(type="timeout", message=""))
    compiler = Compiler(several()[:2], lambda off: (JOINT, "fold#0") not in off)
    named = look(compiler, at=stopped)
    assert named.component is not None and named.component.name == "fold"
    assert named.component.confidence is Confidence.LIKELY


def test_a_decomposition_is_named_with_what_it_became() -> None:
    rows = [
        row("decomposition", "aten.t.default#0", added=["aten.permute.default"]),
        row(
            "decomposition",
            "aten.sinh.default#0",
            function="sinh",
            at="decomp.py:3",
            added=["aten.exp.default"],
        ),
    ]
    compiler = Compiler(rows, lambda off: ("decomposition", "aten.sinh.default#0") not in off)
    named = look(compiler, Stage.DECOMPOSITION)
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("decomposition", "aten.sinh.default")
    assert named.component.detail == "aten.sinh.default (sinh, decomp.py:3), into aten.exp.default"
    assert named.exhibits[0].text.splitlines() == [
        "-%a = x",
        "-%b = y(%a)",
        "+%a = x",
        "+%c = z(%a)",
    ]


TWO = [
    "%x : float32[3, 4] = placeholder",
    "%add : float32[3, 4] = aten.add.Tensor(%x, 1)",
    "%view : float32[3, 4] = aten.view.default(%add, [3, 4])",
    "return [%view, %add]",
]
ONE = [*TWO[:2], "return [%add, %add]"]


def test_the_graph_before_and_after_a_pass_is_kept_for_what_contests_it() -> None:
    rows = [row(JOINT, "noop#0", function="noop")]
    named = look(Compiler(rows, lambda off: (JOINT, "noop#0") not in off, change=(TWO, ONE)))
    assert named.component is not None and named.component.name == "noop"
    assert named.changes == [(list(TWO), list(ONE))]


def test_results_that_become_one_are_told() -> None:
    assert merged_results(TWO, ONE) == ("%view", "%add", True)
    product = [line.replace("aten.view.default(%add, [3, 4])", "aten.mul.Tensor(%add, 1.0)") for line in TWO]
    assert merged_results(product, ONE) == ("%view", "%add", False)
    assert not merged_results(TWO, TWO)
    assert not merged_results(ONE, ONE)
    assert not merged_results(TWO, [*TWO[:2], "return [%add]"])
    assert not merged_results(TWO, [*TWO[:2], "return [None, None]"])
    assert not merged_results([], [])


def application(**more: Any) -> Application:
    return Application(subsystem=POST, key="hook (f)#0", **more)


def test_a_script_s_own_function_is_known_by_the_hook_it_hangs_on() -> None:
    assert (
        name_of(application(hook="custom_post_pass", function="f", at="/x/script.py:3")) == "custom_post_pass"
    )
    assert name_of(application(hook="stable_sort", function="sort", at="torch/x.py:3")) == "sort"
    assert (
        name_of(application(hook="pass_pattern_1", function="apply", at="torch/x.py:3")) == "pass_pattern_1"
    )


def test_words_tell_where_and_what() -> None:
    place = {"phase": "post-grad", "direction": "backward", "region": 2, "graph": 1}
    one = application(hook="h", function="f", at="s.py:1", place=place, raised="TypeError")
    words = application_words(Tree(applications=[one]), one)
    assert words == "h on the backward post-grad graph 1 of region 2 (f, s.py:1), where it raised TypeError"


def test_an_unchanged_graph_is_shown_with_its_node_marked() -> None:
    lines: Sequence[str] = ["%a = x", "%b = y(%a)"]
    exhibit = graph_change("t", lines, lines, application(node="b"))
    assert (exhibit.kind, exhibit.language, exhibit.marked) == ("graph", "text", (2,))


def test_the_switch_groups_by_subsystem() -> None:
    assert as_switch([("b", "y#1"), ("a", "x#0"), ("b", "y#0")]) == {"a": ["x#0"], "b": ["y#0", "y#1"]}
