"""The search for the change, on two made-up releases: the answer is known, and so is every wrong one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.outcome import Frame
from accel_lab.core.verdict import Verdict
from accel_lab.search.change.change_result import Change, NoChange
from accel_lab.search.change.change_search import ChangeSearch
from accel_lab.search.change.companions import PieceId
from accel_lab.search.change.delta import ddmin
from accel_lab.search.change.pieces import WHOLE, Versions
from accel_lab.search.change.pool import Answer, ExecutedCode, OutOfBudget, natives_of

FILES = [f"torch/_decomp/f{number}.py" for number in range(4)]


def source(release: int, number: int) -> str:
    lines = [
        f"def fun{k}(x):\n    y = x + {release}\n    z = y * {k}\n    return z - {release}\n"
        for k in range(6)
    ]
    return f"import math\nCONSTANT = {release}\n\n\n" + "\n\n".join(lines)


class FakeMixer:
    """``moves(texts)`` says whether a release with these texts shows the other one's behaviour."""

    def __init__(self, needed: Mapping[str, Sequence[str]], *, breaks: str = "", most: int = 10_000) -> None:
        self.needed = needed
        self.breaks = breaks
        self.left = most
        self.asked = 0
        self.first: Mapping[str, str] = {}
        self.all = {path: (source(1, n), source(2, n)) for n, path in enumerate(FILES)}

    def failing(self, path: str) -> Versions | None:
        return Versions.of(path, *self.all[path]) if path in self.all else None

    def passing(self, path: str) -> Versions | None:
        return Versions.of(path, *reversed(self.all[path])) if path in self.all else None

    def native_names(self, failing: bool) -> frozenset[str]:
        return frozenset({"known"})

    def executed(self, places: Sequence[PieceId], paths: Sequence[str]) -> ExecutedCode | None:
        functions = frozenset(place for place in places if place[1] != "fun5")
        return ExecutedCode(functions=functions, files=frozenset(paths))

    def ask(self, failing: bool, texts: Mapping[str, str]) -> Answer:
        return Answer(verdict=self.verdict(failing, texts))

    def verdict(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
        self.left -= 1
        if self.left < 0:
            raise OutOfBudget
        self.asked += 1
        self.first = self.first or texts
        if self.breaks and any(self.breaks in text for text in texts.values()):
            return Verdict.DIFFERENT
        there = all(
            line in texts.get(path, "")
            for path, lines in self.needed.items()
            for line in self._wanted(lines, failing)
        )
        moved, stays = (Verdict.GOOD, Verdict.BAD) if failing else (Verdict.BAD, Verdict.GOOD)
        return moved if there and self.needed else stays

    @staticmethod
    def _wanted(lines: Sequence[str], failing: bool) -> list[str]:
        return [line if failing else line.replace("2", "1") for line in lines]


def ran(mixer: FakeMixer, near: Sequence[str] = FILES, far: Sequence[str] = ()) -> Change | NoChange:
    return ChangeSearch(mixer, [near, far]).run()


def lines_of(function: int, release: int = 2) -> str:
    return f"def fun{function}(x):\n    y = x + {release}\n"


def test_one_function_of_many_is_found_with_the_line_in_it() -> None:
    mixer = FakeMixer({FILES[2]: [lines_of(3)]})
    found = ran(mixer)
    assert isinstance(found, Change)
    assert found.places == ((FILES[2], "fun3"),)
    assert found.both_ways is True and found.complete
    changed = [
        line for line in found.diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert changed == ["-    y = x + 1", "+    y = x + 2"]
    assert mixer.asked < 20


def test_two_functions_in_two_files_are_found_together() -> None:
    found = ran(FakeMixer({FILES[0]: [lines_of(1)], FILES[3]: [lines_of(4)]}))
    assert isinstance(found, Change)
    assert set(found.places) == {(FILES[0], "fun1"), (FILES[3], "fun4")}


def test_functions_that_did_not_run_are_not_asked() -> None:
    mixer = FakeMixer({FILES[0]: [lines_of(5)]})
    assert isinstance(ran(mixer), NoChange)
    assert mixer.asked == 2


def test_what_runs_only_at_import_is_searched_after_all_other_functions() -> None:
    class AtImport(FakeMixer):
        def executed(self, places: Sequence[PieceId], paths: Sequence[str]) -> ExecutedCode | None:
            at_import = {place for place in places if place[1] == "fun3"}
            functions = frozenset(places) - at_import
            return ExecutedCode(functions=functions, at_import=frozenset(at_import), files=frozenset(paths))

    mixer = AtImport({FILES[1]: [lines_of(3)]})
    found = ran(mixer, near=FILES[:2], far=FILES[2:])
    assert isinstance(found, Change) and found.main == (FILES[1], "fun3")
    assert all(lines_of(3) not in text for text in mixer.first.values())


def test_a_change_outside_of_the_failing_stage_is_found_after_it() -> None:
    mixer = FakeMixer({FILES[3]: [lines_of(0)]})
    found = ran(mixer, near=FILES[:2], far=FILES[2:])
    assert isinstance(found, Change) and found.main == (FILES[3], "fun0")


def test_where_all_pieces_together_break_the_release_files_are_asked_alone() -> None:
    mixer = FakeMixer({FILES[1]: [lines_of(2)]})
    mixer.all[FILES[0]] = (source(1, 0), source(2, 0) + "\nBROKEN = 1\n")
    mixer.breaks = "BROKEN"
    found = ran(mixer)
    assert isinstance(found, Change) and found.places == ((FILES[1], "fun2"),)


def test_compiled_code_is_told_as_such() -> None:
    found = ran(FakeMixer({"torch/lib/native": ["x"]}))
    assert isinstance(found, NoChange) and "compiled code" in found.reason


def test_a_mix_that_fails_otherwise_is_no_answer() -> None:
    found = ran(FakeMixer({FILES[0]: [lines_of(1)]}, breaks="CONSTANT = 2"))
    assert isinstance(found, Change) and found.places == ((FILES[0], "fun1"),)
    found = ran(FakeMixer({FILES[0]: [lines_of(1)]}, breaks=lines_of(1)))
    assert isinstance(found, NoChange)


def test_an_answer_that_does_not_hold_the_other_way_is_not_the_last_one() -> None:
    """A script that expects an exception passes with any piece that raises one."""

    class Raises(FakeMixer):
        def verdict(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
            verdict = super().verdict(failing, texts)
            raises = failing and lines_of(0) in texts.get(FILES[0], "")
            return Verdict.GOOD if raises else verdict

    found = ran(Raises({FILES[2]: [lines_of(3)]}))
    assert isinstance(found, Change) and found.both_ways is True
    assert found.places == ((FILES[2], "fun3"),)


REWORKED = {
    # the failing release dispatches to methods by name, and one of them is wrong
    1: "class Base:\n    pass\n\n\nclass Source(Base):\n    def draw(self):\n        return 1\n\n"
    "    def shuffle(self):\n        return 'wrong'\n",
    2: "class Base:\n    pass\n\n\nclass Source(Base):\n    def draw(self):\n        return 2\n\n"
    "    def call_method(self, name):\n        return name\n",
}


def test_a_method_of_a_reworked_class_is_proven_with_the_rest_of_its_class() -> None:
    """Without the method nothing models the call, so it passes; alone it does not fail in the other one."""
    path = "torch/_dynamo/misc.py"

    class Reworked(FakeMixer):
        def verdict(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
            self.asked += 1
            text = texts.get(path, REWORKED[1 if failing else 2])
            wrong = "'wrong'" in text and "call_method" not in text
            return Verdict.BAD if wrong else Verdict.GOOD

    mixer = Reworked({})
    mixer.all = {path: (REWORKED[1], REWORKED[2])}
    found = ChangeSearch(mixer, [[path]], ["shuffle"]).run()
    assert isinstance(found, Change) and found.both_ways is True
    assert found.main == (path, "Source.shuffle")
    assert set(found.places) == {(path, f"Source.{name}") for name in ("shuffle", "draw", "call_method")}


def test_named_functions_that_break_together_are_asked_one_by_one() -> None:
    mixer = FakeMixer({FILES[2]: [lines_of(3)]})
    mixer.breaks = lines_of(4)
    found = ChangeSearch(mixer, [FILES[2:3]], ["fun3", "fun4"]).run()
    assert isinstance(found, Change) and found.places == ((FILES[2], "fun3"),)
    assert mixer.asked < 8


def test_a_header_whose_function_the_culprit_names_is_tried_before_all_python_files() -> None:
    header = "torch/include/ATen/cpu/vec/vec.h"
    text = "V cosh() const {\n  return one();\n}\nV sinh() const {\n  return one();\n}\n"

    class Header(FakeMixer):
        def verdict(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
            self.asked += 1
            self.first = self.first or texts
            mended = "two()" in texts.get(header, "" if failing else "two()")
            return Verdict.GOOD if mended else Verdict.BAD

    mixer = Header({})
    mixer.all[header] = (text, text.replace("one", "two", 1))
    found = ChangeSearch(mixer, [FILES, [header], []], ["cosh"]).run()
    assert isinstance(found, Change) and found.both_ways is True
    assert found.places == ((header, WHOLE),)
    assert "+  return two();" in found.diff.splitlines()
    assert mixer.first.keys() == {header}
    assert found.runs == mixer.asked + 1  # one run tells which Python files are used, none which headers


def test_where_a_piece_could_not_be_asked_compiled_code_is_not_the_only_answer() -> None:
    mixer = FakeMixer({"torch/lib/native": ["x"]})
    one, two = mixer.all[FILES[0]]
    mixer.all[FILES[0]] = (one, two.replace(lines_of(1), lines_of(1) + "    torch._C.unheard_of(x)\n"))
    found = ran(mixer)
    assert isinstance(found, NoChange) and "or in a piece that cannot be exchanged alone" in found.reason
    everything = ran(FakeMixer({"torch/lib/native": ["x"]}))
    assert isinstance(everything, NoChange) and "cannot be exchanged" not in everything.reason


def test_a_piece_that_needs_newer_compiled_code_is_left_out() -> None:
    mixer = FakeMixer({FILES[2]: [lines_of(3)]})
    one, two = mixer.all[FILES[0]]
    new = two.replace("def fun1(x):\n", "def fun1(x):\n    torch._C.unheard_of(x)\n    torch._C.known(x)\n")
    mixer.all[FILES[0]] = (one, new)
    mixer.breaks = "unheard_of"
    found = ran(mixer)
    assert isinstance(found, Change) and found.places == ((FILES[2], "fun3"),)
    assert all("unheard_of" not in text for text in mixer.first.values())


def test_what_the_culprit_names_is_tried_first() -> None:
    mixer = FakeMixer({FILES[2]: [lines_of(3)]})
    found = ChangeSearch(mixer, [FILES], {"fun3", "x"}).run()
    assert isinstance(found, Change) and found.places == ((FILES[2], "fun3"),)
    assert all(text.count("y = x + 2") == 1 for text in mixer.first.values())


def test_a_part_of_a_word_names_nothing() -> None:
    mixer = FakeMixer({FILES[2]: [lines_of(3)]})
    found = ChangeSearch(mixer, [FILES], {"fun"}).run()
    assert isinstance(found, Change) and found.places == ((FILES[2], "fun3"),)
    assert all("def fun0(x):\n    y = x + 2" in text for text in mixer.first.values())


class Unheard(FakeMixer):
    """The change is one function, and another file's mixes that use ``unheard_of`` end as ``answer`` says."""

    def __init__(self, line: str, *, more: str = "") -> None:
        super().__init__({FILES[2]: [lines_of(3)]}, breaks="unheard_of")
        one, two = self.all[FILES[1]]
        self.all[FILES[1]] = (one, two.replace(lines_of(2), lines_of(2) + line) + more)

    def ask(self, failing: bool, texts: Mapping[str, str]) -> Answer:
        return replace(self.answer(texts.get(FILES[1], "")), verdict=self.verdict(failing, texts))

    def answer(self, text: str) -> Answer:
        """The exception of a mix with this text of the other file."""
        raise NotImplementedError

    @staticmethod
    def frame(text: str, function: str) -> Frame:
        """The frame of the first line with ``unheard_of``."""
        return Frame(file=FILES[1], line=text.split("unheard_of")[0].count("\n") + 1, function=function)

    def is_found(self) -> Change:
        """The change, after it was found in few runs."""
        found = ran(self)
        assert isinstance(found, Change) and found.places == ((FILES[2], "fun3"),)
        assert self.asked < 20
        return found


def test_a_piece_that_breaks_the_mix_is_taken_out_of_it() -> None:
    """All files together fail in another way: the traceback tells by which piece."""

    class Breaks(Unheard):
        def answer(self, text: str) -> Answer:
            inner = Frame(file=FILES[1], line=1, function="helper")
            frames = (Frame(file="script.py", line=1, function="main"), self.frame(text, "fun2"), inner)
            return Answer(verdict=Verdict.SKIP, frames=frames)

    assert Breaks("    x.unheard_of()\n").is_found().both_ways is True


def test_pieces_that_break_a_mix_without_a_traceback_are_found_by_halving() -> None:
    """Two of twenty functions break whatever they are in, and the change is in one of the others."""

    class Breaks(FakeMixer):
        def verdict(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
            self.breaks = "unheard_of" if failing else ""
            return super().verdict(failing, texts)

    mixer = Breaks({FILES[1]: [lines_of(3)]})
    for number, name in ((0, 2), (1, 4)):
        one, two = mixer.all[FILES[number]]
        line = lines_of(name)
        mixer.all[FILES[number]] = (one, two.replace(line, line + "    x.unheard_of()\n"))
    found = ran(mixer)
    assert isinstance(found, Change) and found.places == ((FILES[1], "fun3"),)
    assert found.both_ways is True


def test_what_needs_a_piece_that_breaks_the_mix_is_taken_out_of_it() -> None:
    """The traceback shows a new helper's line; the function that calls the helper is what brought it."""

    class Breaks(Unheard):
        def answer(self, text: str) -> Answer:
            return Answer(verdict=Verdict.SKIP, frames=(self.frame(text, "<module>"),))

    Breaks("    extra(x)\n", more="\n\ndef extra(x):\n    unheard_of(x)\n").is_found()


def test_a_function_that_the_message_names_is_taken_out_where_no_exchanged_line_raised() -> None:
    class Breaks(Unheard):
        def answer(self, text: str) -> Answer:
            frames = (Frame(file="torch/__init__.py", line=7, function="compile"),)
            message = "fun2() got an unexpected keyword argument 'wide'"
            return Answer(verdict=Verdict.SKIP, message=message, frames=frames)

    Breaks("    x.unheard_of()\n").is_found()


def test_a_function_that_generates_what_the_release_lacks_is_taken_out() -> None:
    class Breaks(Unheard):
        def answer(self, text: str) -> Answer:
            return Answer(verdict=Verdict.SKIP, message="'module' object has no attribute 'unheard_of'")

    Breaks("    print('torch._C.' 'guards.unheard_of')\n").is_found()


def test_a_piece_is_left_out_where_what_it_needs_uses_newer_compiled_code() -> None:
    mixer = FakeMixer({FILES[2]: [lines_of(3)]})
    one, two = mixer.all[FILES[1]]
    new = two.replace(lines_of(2), lines_of(2) + "    helper(x)\n")
    new += "\n\ndef helper(x):\n    return aten.unheard_of(x) + aten.known(x)\n"
    mixer.all[FILES[1]] = (one, new)
    mixer.breaks = "unheard_of"
    found = ran(mixer)
    assert isinstance(found, Change) and found.places == ((FILES[2], "fun3"),)
    assert all("unheard_of" not in text for text in mixer.first.values())


def test_names_of_compiled_code_are_found_in_uses_and_in_imports() -> None:
    text = "from torch._C import (\n    one,\n    two as three,\n)\n"
    text += "x = torch._C.four(torch.ops.aten.five.default)"
    assert {"one", "two", "four", "five"} <= natives_of(text)
    assert "x" not in natives_of(text)
    assert {"_linalg", "cross"} <= natives_of("y = torch._C._linalg.cross(x)")
    text = "_add_docstr(_linalg.outer, other.inner)"
    assert natives_of(text, {"_linalg"}) == {"outer"}


def test_pieces_that_share_what_breaks_them_are_not_all_asked() -> None:
    """Fifteen functions need one new helper that does not work: alone, two or three of them are tried."""

    class Breaks(FakeMixer):
        traced = True

        def ask(self, failing: bool, texts: Mapping[str, str]) -> Answer:
            text, verdict = texts.get(FILES[1], ""), self.verdict(failing, texts)
            line = text.split("unheard_of")[0].count("\n") + 1
            frames = (Frame(file=FILES[1], line=line, function="helper"),) if self.traced else ()
            return Answer(verdict=verdict, message="cannot be made", frames=frames)

    class BreaksFarAway(Breaks):
        traced = False

    for kind, most in ((Breaks, 12), (BreaksFarAway, 30)):
        mixer = kind({FILES[0]: ["nowhere"]}, breaks="unheard_of")
        callers = "".join(f"\n\ndef more{n}(x):\n    return {{}}(x) + {n}\n" for n in range(15))
        new = callers.replace("{}", "helper") + "\n\ndef helper(x):\n    return unheard_of(x)\n"
        one, two = mixer.all[FILES[1]]
        mixer.all[FILES[1]] = (one + callers.replace("{}", "abs"), two + new)
        found = ran(mixer)
        assert isinstance(found, NoChange) and "or in one of 15 pieces that cannot be" in found.reason
        assert mixer.asked < most


def test_a_module_that_only_the_other_release_has_comes_along_with_what_imports_it() -> None:
    new = "torch/_new/_base.py"

    class Imports(FakeMixer):
        def verdict(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
            verdict = super().verdict(failing, texts)
            text = texts.get(FILES[2], self.all[FILES[2]][not failing])
            there = not failing or {new, "torch/_new/__init__.py"} <= texts.keys()
            return Verdict.DIFFERENT if "import Base" in text and not there else verdict

    mixer = Imports({FILES[2]: [lines_of(3)]})
    one, two = mixer.all[FILES[2]]
    two = "from torch._new._base import Base\n" + two.replace(lines_of(3), lines_of(3) + "    Base(x)\n")
    mixer.all[FILES[2]] = (one, two)
    mixer.all[new] = ("", "class Base:\n    pass\n\n\ndef unused():\n    pass\n")
    mixer.all["torch/_new/__init__.py"] = ("", "from torch import unheard_of\n")
    found = ran(mixer)
    assert isinstance(found, Change) and found.places == ((FILES[2], "fun3"),)
    assert "class Base" in mixer.first[new] and "unused" not in mixer.first[new]
    assert mixer.first["torch/_new/__init__.py"].strip() == ""


def test_a_function_that_only_another_one_needs_as_a_whole_is_not_named() -> None:
    """A caller hands on a new argument besides the fix: with that line alone the callee is not needed."""

    class Calls(FakeMixer):
        def verdict(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
            verdict = super().verdict(failing, texts)
            text = texts.get(FILES[0], self.all[FILES[0]][not failing])
            calls, takes = "deep(x, wide=2)" in text, "def deep(x, *rest)" in text
            return Verdict.DIFFERENT if calls and not takes else verdict

        @staticmethod
        def _wanted(lines: Sequence[str], failing: bool) -> list[str]:
            return [*lines] if failing else ["def top(x):\n    y = 1\n"]

    mixer = Calls({FILES[0]: ["    if x == 2: return 0\n"]})
    mixer.all = {
        FILES[0]: (
            "def deep(x):\n    return x\n\n\ndef top(x):\n    y = 1\n    return deep(x)\n",
            "def deep(x, *rest):\n    return x\n\n\n"
            "def top(x):\n    if x == 2: return 0\n    y = 1\n    return deep(x, wide=2)\n",
        )
    }
    found = ran(mixer, near=[FILES[0]])
    assert isinstance(found, Change)
    assert found.places == ((FILES[0], "top"),)
    assert [line for line in found.diff.splitlines() if line[:2] == "+ "] == ["+    if x == 2: return 0"]


def test_the_budget_leaves_what_is_known() -> None:
    found = ran(FakeMixer({FILES[2]: [lines_of(3)]}, most=2))
    assert isinstance(found, Change) and not found.complete and found.both_ways is None
    assert (FILES[2], "fun3") in found.places
    none = ran(FakeMixer({FILES[2]: [lines_of(3)]}, most=0))
    assert isinstance(none, NoChange) and "time" in none.reason


def test_one_way_only_is_said() -> None:
    class OneWay(FakeMixer):
        def verdict(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
            return super().verdict(failing, texts) if failing else Verdict.GOOD

    found = ran(OneWay({FILES[2]: [lines_of(3)]}))
    assert isinstance(found, Change) and found.both_ways is False


def test_another_failure_the_other_way_is_no_refutation() -> None:
    class Otherwise(FakeMixer):
        def verdict(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
            return super().verdict(failing, texts) if failing else Verdict.DIFFERENT

    found = ran(Otherwise({FILES[2]: [lines_of(3)]}))
    assert isinstance(found, Change) and found.both_ways is None
    assert found.places == ((FILES[2], "fun3"),) and found.complete


@given(st.sets(st.integers(0, 39), min_size=1, max_size=5), st.integers(40, 60))
def test_the_smallest_part_is_what_is_needed(needed: set[int], count: int) -> None:
    asked: list[tuple[int, ...]] = []

    def has_effect(some: Sequence[int]) -> bool | None:
        asked.append(tuple(some))
        if some and some[0] % 7 == 3 and not needed <= set(some):
            return None
        return needed <= set(some)

    assert set(ddmin(range(count), has_effect)) == needed
    assert len(asked) == len(set(asked))
