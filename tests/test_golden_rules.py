"""What makes a golden case fail or skip, on made-up scores: the rules of test_golden.py without torch."""

import pytest

from golden import Grade, Score

from .benchmarks.test_localize import case
from .test_golden import check


def scored(value, **changes):
    return Score(grade=value, answer="decomposition", confidence="likely", **changes)


@pytest.mark.parametrize(
    ("known", "score", "code"),
    [
        (case(), scored(Grade.CANNOT_TELL), 125),  # nothing says that it may
        (case(core=True, cannot_tell="slow"), scored(Grade.CANNOT_TELL), 125),
        (case(cannot_tell="slow"), scored(Grade.CANNOT_TELL), 1),  # another exit code than 125
        (case(cannot_tell="slow"), scored(Grade.WRONG), 1),
        (case(exact=True), scored(Grade.COARSE), 1),
        (case(), scored(Grade.PARTIAL), 1),
        (case(), scored(Grade.RIGHT), 0),
        (case(component="aten.celu"), scored(Grade.RIGHT, component="aten.relu", component_right=False), 1),
        (case(component="aten.celu"), scored(Grade.COARSE, component_right=False), 1),
    ],
)
def test_a_case_fails(known, score, code):
    with pytest.raises(AssertionError):
        check(known, "2.13.0", score, code, "")


@pytest.mark.parametrize(
    ("known", "score", "code"),
    [
        (case(cannot_tell="no loop IR there"), scored(Grade.CANNOT_TELL), 125),
        (case(on={"2.13.0": {"cannot_tell": "no loop IR there"}}), scored(Grade.CANNOT_TELL), 125),
        (case(score=False), scored(Grade.CANNOT_TELL), 125),
        (case(score=False), scored(Grade.WRONG), 1),
    ],
)
def test_a_case_skips(known, score, code):
    with pytest.raises(pytest.skip.Exception, match=r"no loop IR there|not scored"):
        check(known, "2.13.0", score, code, "")


@pytest.mark.parametrize(
    ("known", "score"),
    [
        (case(), scored(Grade.RIGHT)),
        (case(), scored(Grade.COARSE)),
        (case(component="aten.celu"), scored(Grade.RIGHT, component="aten.celu", component_right=True)),
        (case(component="aten.celu", component_open="why"), scored(Grade.RIGHT)),
    ],
)
def test_a_case_passes(known, score):
    check(known, "2.13.0", score, 1, "")


def test_a_build_that_may_not_tell_says_nothing_of_the_others():
    known = case(on={"2.9.0": {"cannot_tell": "no loop IR there"}})
    with pytest.raises(AssertionError, match="a stage was named before"):
        check(known, "2.13.0", scored(Grade.CANNOT_TELL), 125, "")
