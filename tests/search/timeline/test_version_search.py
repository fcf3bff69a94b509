"""The search along a line of releases: every pattern of answers up to ten releases, and beyond by chance."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.releases.versions import Versions
from accel_lab.core.verdict import Verdict
from accel_lab.search.timeline import version_search
from accel_lab.search.timeline.flips import read_line
from accel_lab.search.timeline.plan import Gap, Plan, grid_points, steps_needed
from accel_lab.search.timeline.version_search import LineSearch
from fakes_versions import FakeJudge, answer, names

JUDGED = (Verdict.GOOD, Verdict.BAD)


def search(pattern: str, **options: object) -> tuple[Versions, FakeJudge]:
    judge = FakeJudge(pattern)
    return LineSearch(judge.line, judge, **options).run(), judge  # type: ignore[arg-type]


def flips_of(pattern: str) -> list[tuple[str, str, str]]:
    """By brute force: the neighbours among those that can be judged whose answers differ."""
    judged = [
        (name, letter) for name, letter in zip(names(len(pattern)), pattern, strict=True) if letter in "GB"
    ]
    found, bad_before = [], False
    for (one, was), (two, now) in itertools.pairwise(judged):
        bad_before = bad_before or was == "B"
        if was != now:
            kind = "fixed" if now == "G" else "broken_again" if bad_before else "introduced"
            found.append((one, two, kind))
    return found


def told(versions: Versions) -> list[tuple[str, str, str]]:
    return [(flip.after, flip.at, flip.kind) for flip in versions.flips]


def bound(size: int, flips: int, unjudged: int) -> int:
    """The most questions: ends, grid, and so many for each flip; each that says nothing costs itself."""
    return len({0, size - 1}) + len(grid_points(size)) + flips * (math.ceil(math.log2(size)) + 2) + unjudged


def check(pattern: str, versions: Versions, judge: FakeJudge) -> None:
    """What must hold for every pattern."""
    assert len(judge.asked) == len(set(judge.asked)) == len(versions.tested)
    assert versions.complete
    truth = flips_of(pattern)
    for flip in versions.flips:
        # No false flip: its two releases are neighbours in truth as well, only those between say nothing.
        assert (flip.after, flip.at) in [(one, two) for one, two, _ in truth]
        places = judge.line.index(flip.after), judge.line.index(flip.at)
        assert flip.between == tuple(judge.line[places[0] + 1 : places[1]])
        assert set(flip.between) <= set(judge.asked)
    assert all(one.at == two.after or one.kind != two.kind for one, two in itertools.pairwise(versions.flips))
    # Two releases that were asked and answer differently have a flip between them.
    judged = [row for row in versions.tested if row.verdict in JUDGED]
    changes = sum(one.verdict is not two.verdict for one, two in itertools.pairwise(judged))
    assert changes == len(versions.flips)
    if len(truth) == 1 and pattern[0] in "GB" and pattern[-1] in "GB":
        assert told(versions) == truth
    if any(letter in "GB" for letter in pattern):
        assert judged


def patterns() -> Iterator[str]:
    for size in range(1, 11):
        for letters in itertools.product("GB", repeat=size):
            yield "".join(letters)
    for size in range(1, 8):
        for letters in itertools.product("GBS", repeat=size):
            if "S" in letters:
                yield "".join(letters)


def test_every_pattern_of_few_releases() -> None:
    for pattern in patterns():
        versions, judge = search(pattern)
        check(pattern, versions, judge)
        unjudged = sum(row.verdict not in JUDGED for row in versions.tested)
        if pattern[0] in "GB" and pattern[-1] in "GB":
            assert len(judge.asked) <= bound(len(pattern), len(versions.flips), unjudged), pattern


def test_every_single_flip_takes_few_questions_after_the_grid() -> None:
    for size in (*range(2, 40), 64, 100, 131):
        for place in range(1, size):
            versions, judge = search("G" * place + "B" * (size - place))
            assert told(versions) == [(judge.line[place - 1], judge.line[place], "introduced")]
            after_grid = len(judge.asked) - 2 - len(grid_points(size))
            assert after_grid <= steps_needed(size) == math.ceil(math.log2(size))


def test_two_side_by_side_ask_no_more_in_the_end() -> None:
    for size in (*range(2, 36), 64, 97):
        for width in (1, 2, 3):
            most = max(
                len(search("G" * place + "B" * (size - place), grid=0, side_by_side=width)[1].asked)
                for place in range(1, size)
            )
            assert most == 2 + steps_needed(size - 1)


@given(st.text("GB", min_size=1, max_size=40), st.integers(1, 4))
@settings(deadline=None)
def test_a_full_grid_finds_every_flip(pattern: str, width: int) -> None:
    versions, judge = search(pattern, grid=len(pattern), side_by_side=width)
    check(pattern, versions, judge)
    assert told(versions) == flips_of(pattern)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Stretches of one answer, with releases among them that cannot be judged."""
    stretches = draw(st.lists(st.tuples(st.sampled_from("GB"), st.integers(1, 40)), min_size=1, max_size=5))
    letters = [letter for kind, length in stretches for letter in kind * length]
    for place in draw(st.sets(st.integers(0, len(letters) - 1), max_size=len(letters) // 3)):
        letters[place] = draw(st.sampled_from("SD"))
    return "".join(letters)


@given(lines(), st.integers(1, 3), st.none() | st.integers(0, 12), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_any_line_with_answers_in_any_order(
    pattern: str, width: int, grid: int | None, chance: random.Random
) -> None:
    judge = FakeJudge(pattern, pick=lambda waiting: chance.choice(list(waiting)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(version_search, "wait", judge.wait)
        versions = LineSearch(judge.line, judge, grid=grid, side_by_side=width).run()
    check(pattern, versions, judge)
    assert judge.most_open <= width
    # The ends of the line are searched too, for the first release that can be judged.
    ends = sum(letter not in "GB" for letter in (pattern[0], pattern[-1]))
    unjudged = sum(row.verdict not in JUDGED for row in versions.tested)
    points = len(grid_points(len(pattern), grid))
    each = math.ceil(math.log2(len(pattern))) + 2
    if any(row.verdict in JUDGED for row in versions.tested):
        assert len(judge.asked) <= 2 + points + (len(versions.flips) + ends) * each + unjudged


@given(st.integers(3, 150), st.data())
@settings(deadline=None)
def test_one_flip_among_releases_that_say_nothing(size: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(1, size - 1))
    letters = list("G" * place + "B" * (size - place))
    for silent in data.draw(st.sets(st.integers(1, size - 2), max_size=size // 2)):
        letters[silent] = data.draw(st.sampled_from("SD"))
    pattern = "".join(letters)
    versions, judge = search(pattern)
    check(pattern, versions, judge)
    assert len(judge.asked) <= bound(size, 1, sum(row.verdict not in JUDGED for row in versions.tested))


def test_introduced_fixed_and_broken_again() -> None:
    versions, _ = search("GGGBBBGGGGBBB")
    assert told(versions) == [
        ("2.2.0", "2.3.0", "introduced"),
        ("2.5.0", "2.6.0", "fixed"),
        ("2.9.0", "2.10.0", "broken_again"),
    ]
    assert (versions.last_good, versions.first_bad, versions.fixed_in) == ("2.9.0", "2.10.0", None)


def test_a_line_that_starts_bad_is_broken_again_not_introduced() -> None:
    versions, _ = search("BBBGGGGGBB", grid=10)
    assert [flip.kind for flip in versions.flips] == ["fixed", "broken_again"]
    assert any("has the failure already" in note for note in versions.notes)


def test_both_ends_come_first_and_side_by_side() -> None:
    judge = FakeJudge("GGGGGGGGBB", pick=lambda waiting: waiting[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(version_search, "wait", judge.wait)
        LineSearch(judge.line, judge).run()
    assert judge.asked[:2] == ["2.0.0", "2.9.0"]
    assert judge.most_open == 2


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("GGGGG", "no release that was judged has the failure (3 of 5: 2.0.0 to 2.4.0)"),
        ("BBBBB", "every release that was judged has the failure (3 of 5: 2.0.0 to 2.4.0)"),
        ("SSBSS", "every release that was judged has the failure (1 of 5: 2.2.0)"),
        ("SDSSD", "none of the 5 releases of the line could be judged"),
    ],
)
def test_a_line_with_one_answer_says_so(pattern: str, says: str) -> None:
    versions, _ = search(pattern)
    assert versions.flips == ()
    assert any(note.startswith(says) for note in versions.notes)


def test_what_is_not_known_is_said() -> None:
    versions, _ = search("SSGGGGGGGGGGGGBBBBBBBBBBBBSS")
    notes = "\n".join(versions.notes)
    assert "nothing is known before 2.2.0: 2.1.0 cannot be judged" in notes
    assert "nothing is known after 2.25.0: 2.26.0 cannot be judged" in notes
    assert "a change that came and went among them is not seen" in notes


def test_another_failure_is_never_bad_but_is_shown() -> None:
    line = names(5)
    rows = [answer(name, letter) for name, letter in zip(line, "GGSBB", strict=True)]
    rows[2] = answer(line[2], "D", signature="ValueError: something else")
    versions = read_line(line, rows)
    (flip,) = versions.flips
    assert (flip.after, flip.at, flip.between) == ("2.1.0", "2.3.0", ("2.2.0",))
    assert flip.notes == ("2.2.0 fails in another way: ValueError: something else",)
    versions, _ = search("GGDDD")
    assert versions.flips == ()


def test_a_known_bad_release_in_the_middle_needs_no_grid() -> None:
    judge = FakeJudge("G" * 10 + "BB" + "G" * 10)
    line = judge.line
    assert LineSearch(line, judge, grid=0).run().flips == ()
    versions = LineSearch(line, judge, grid=0, reference=line[11]).run()
    assert told(versions) == flips_of(judge.pattern)
    fresh = FakeJudge(judge.pattern)
    versions = LineSearch(line, fresh, grid=0, reference=line[11], known=[answer(line[11], "B")]).run()
    assert told(versions) == flips_of(judge.pattern)
    assert line[11] not in fresh.asked


def test_a_reference_that_passes_here_is_told() -> None:
    versions, _ = search("GGGGG", reference="2.3.0")
    assert versions.notes[0].startswith("2.3.0 fails where the script was first seen to fail and passes in")
    versions, _ = search("GGGSG", reference="2.3.0")
    assert versions.notes[0].startswith("2.3.0, on which the failure was seen, could not be judged")


def test_what_is_known_is_not_asked_again() -> None:
    pattern = "GGGGGGBBBBBBBBBBGG"
    first, judge = search(pattern)
    again = FakeJudge(pattern)
    assert LineSearch(judge.line, again, known=first.tested).run() == first
    assert again.asked == []
    half = FakeJudge(pattern)
    assert LineSearch(judge.line, half, known=first.tested[::2]).run().flips == first.flips
    assert {*half.asked}.isdisjoint(row.torch for row in first.tested[::2])


def test_an_interruption_keeps_what_is_known() -> None:
    judge = FakeJudge("GGGGGGGBBBBBBBBB", raises={"2.6.0": KeyboardInterrupt()})
    engine = LineSearch(judge.line, judge, side_by_side=1)
    assert not engine.found.complete
    with pytest.raises(KeyboardInterrupt):
        engine.run()
    found = engine.found
    assert not found.complete
    assert found.why == "cut short: KeyboardInterrupt"
    assert [row.torch for row in found.tested] == [
        name for name in judge.line if name in judge.asked and name != "2.6.0"
    ]
    (flip,) = found.flips
    assert flip.kind == "introduced"
    assert any(note.startswith("not run: ") for note in flip.notes)


def test_an_answer_beside_the_interruption_is_kept() -> None:
    judge = FakeJudge("GB", raises={"2.0.0": RuntimeError("gone")})
    engine = LineSearch(judge.line, judge)
    with pytest.raises(RuntimeError, match="gone"):
        engine.run()
    assert [row.torch for row in engine.found.tested] == ["2.1.0"]


def test_an_environment_that_cannot_be_made_is_stepped_around() -> None:
    judge = FakeJudge("GGBBB", raises={"2.2.0": EnvironmentUnavailable("no wheel for this Python")})
    (flip,) = LineSearch(judge.line, judge).run().flips
    assert (flip.after, flip.at, flip.between) == ("2.1.0", "2.3.0", ("2.2.0",))
    assert flip.notes == ("2.2.0 cannot be judged: no wheel for this Python",)


@given(st.text("GBS", min_size=1, max_size=30), st.integers(0, 12))
@settings(deadline=None)
def test_no_more_questions_than_allowed(pattern: str, most: int) -> None:
    versions, judge = search(pattern, most_probes=most)
    assert len(judge.asked) <= most
    unlimited, free = search(pattern)
    if len(free.asked) <= most:
        assert versions == unlimited
    if versions.complete:
        check(pattern, versions, judge)
    else:
        assert versions.why == f"stopped at the requested limit of {most} releases"


def test_a_search_that_was_stopped_gives_a_range() -> None:
    versions, judge = search("GGGGGGBBBB", most_probes=2)
    assert (versions.complete, versions.why) == (False, "stopped at the requested limit of 2 releases")
    (flip,) = versions.flips
    assert flip.between == tuple(judge.line[1:9])
    assert flip.notes == ("not run: 2.1.0 to 2.8.0 (8 releases)",)
    assert judge.prefetched == []


@given(st.integers(2, 120), st.data())
@settings(deadline=None)
def test_what_is_asked_was_prefetched(size: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(1, size - 1))
    _, judge = search("G" * place + "B" * (size - place), side_by_side=1)
    # The ends cannot be foreseen; with one question at a time all others are.
    assert judge.unforeseen == [judge.line[0]]
    assert len(judge.prefetched) == len(set(judge.prefetched))
    # Of the two sides of each pivot one is fetched in vain, the grid never is.
    assert len(judge.prefetched) <= 2 * len(judge.asked)
    _, judge = search("G" * place + "B" * (size - place), prefetch=False)
    assert judge.prefetched == []


def test_confidence_is_that_of_both_neighbours_and_of_the_whole_chain() -> None:
    judge = FakeJudge("GGGBB", errors={"2.2.0": 0.01, "2.0.0": 0.02})
    versions = LineSearch(judge.line, judge, grid=5).run()
    assert versions.flips[0].confidence == pytest.approx(0.99)
    assert versions.confidence == pytest.approx(0.99 * 0.98)
    steady, _ = search("GGGBB")
    assert (steady.confidence, steady.flips[0].confidence) == (None, None)
    assert versions.to_json()["confidence"] == versions.confidence


def test_wrong_lines_are_refused() -> None:
    judge = FakeJudge("GB")
    with pytest.raises(ValueError, match="twice"):
        LineSearch(["2.1.0", "2.1.0"], judge)
    with pytest.raises(ValueError, match="not on the line"):
        LineSearch(judge.line, judge, reference="2.7.0")
    with pytest.raises(ValueError, match="at a time"):
        LineSearch(judge.line, judge, side_by_side=0)


def test_no_release_and_one_release() -> None:
    versions, judge = search("")
    assert (versions.tested, versions.complete, judge.asked) == ((), True, [])
    versions, judge = search("B")
    assert judge.asked == ["2.0.0"]
    assert versions.flips == ()


def test_the_grid_is_inside_the_line_and_spread_evenly() -> None:
    assert grid_points(28) == (5, 11, 16, 22)
    assert grid_points(2) == grid_points(0) == ()
    assert grid_points(5, 3) == (1, 2, 3)
    assert grid_points(5, 99) == (1, 2, 3)


def test_a_point_of_the_grid_that_says_nothing_is_replaced_by_a_neighbour() -> None:
    plan = Plan(size=13, grid=(6,), first=(0, 12))
    answers = {0: Verdict.GOOD, 12: Verdict.GOOD, 6: Verdict.SKIP}
    assert plan.wanted(answers, set(), 2) == [5]
    answers[5] = Verdict.DIFFERENT
    assert plan.wanted(answers, set(), 2) == [7]
    answers[7] = Verdict.SKIP
    assert plan.wanted(answers, set(), 2) == []


def test_a_gap_is_halved_or_parted_in_three_where_that_is_no_dearer() -> None:
    assert Gap(first=0, last=9, open=tuple(range(1, 9))).middles(1) == (5,)
    assert Gap(first=0, last=9, open=tuple(range(1, 9))).middles(2) == (3, 6)
    assert Gap(first=0, last=8, open=tuple(range(1, 8))).middles(2) == (4,)
    assert Gap(first=0, last=9, open=tuple(range(1, 9)), edge=True).middles(2) == (5,)
