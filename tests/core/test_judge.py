"""Signatures and verdicts: what is the same failure and what is another one."""

from __future__ import annotations

import signal

import pytest

from accel_lab.core.judge import judge, signature_of, unwrap
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.signature import Signature, normalise
from accel_lab.core.verdict import Verdict
from accel_lab.search.premise import same_failure


def outcome(kind: str, message: str, *functions: str) -> Outcome:
    frames = tuple(Frame(file="a.py", line=1, function=f) for f in functions)
    return Outcome(
        status=Status.EXCEPTION, exit_code=1, raised=Raised(type=kind, message=message, frames=frames)
    )


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("off by 0.5 at index (3, 4)", "off by 1e-07 at index (0, 0)"),
        ("object at 0x7f00deadbeef", "object at 0x7f11"),
        ("cannot open /tmp/a/b/kernel.cpp", "cannot open /home/x/kernel.cpp"),
        ("Mismatched elements: 4 / 9 (44.4%)", "Mismatched elements: 9 / 9 (100.0%)"),
        ("KeyError: 'buf12'", "KeyError: 'buf3'"),
        ("no: maximum recursion depth exceeded in comparison", "no: maximum recursion depth exceeded"),
    ],
)
def test_accidents_do_not_count(one: str, two: str) -> None:
    assert normalise(one) == normalise(two)


def test_a_reader_gets_the_numbers_and_a_comparison_does_not() -> None:
    one = signature_of(outcome("AssertionError", "Mismatched elements: 4 / 9 (44.4%)\nat 0x7f00, buf3"))
    two = signature_of(outcome("AssertionError", "Mismatched elements: 5 / 9 (55.6%)\nat 0x7f11, buf4"))
    assert one is not None and two is not None
    assert one == two and one.same_as(two)
    assert one.line == "AssertionError: Mismatched elements: 4 / 9 (44.4%) at <addr>, buf3"
    assert Signature.from_json(one.to_json()).line == one.line
    left = signature_of(
        Outcome(status=Status.EXIT, exit_code=1), "FAILED t.py::a - off by 2\nFAILED t.py::b - off by 3"
    )
    assert left is not None
    assert (left.message, left.line) == (
        "off by <n>",
        "exit 1: t.py::a fails with off by 2; t.py::b fails with off by 3",
    )


def test_a_launchers_failure_is_what_its_ranks_raised() -> None:
    """torchrun's own message says when and as which process, and which rank came first."""

    def ended(first: int, time: str, said: str) -> Signature | None:
        message = f"\n====\ntrain.py FAILED\n[{first}]:\n  time : {time}\n  rank : {first} (pid: {first}77)"
        ranks = [
            f"[rank{rank}]: Traceback\n[rank{rank}]: RuntimeError: rank {rank}: {said}" for rank in (0, 1)
        ]
        stderr = "\n".join(ranks[: 2 - first]) + "\ntorch.distributed.ChildFailedError: \n===="
        return signature_of(outcome("torch.distributed.errors.ChildFailedError", message), "", stderr)

    one, two = ended(0, "12:01", "differs by 3e-4"), ended(1, "12:09", "differs by 4e-4")
    assert one is not None and one.same_as(two)
    assert one.line == "ChildFailedError: RuntimeError: rank 0: differs by 3e-4"
    assert not one.same_as(ended(0, "12:01", "has another shape"))


def test_words_do_count() -> None:
    assert normalise("expected Float but found Half") != normalise("expected Half but found Float")


def test_the_name_of_the_backend_does_not_count() -> None:
    """The lab hands torch another one than the bundle's own program does."""
    ours = "backend='inductor' raised:\nSpecError: padding that must be lowest"
    theirs = "backend='mock_backend' raised:\nSpecError: padding that must be lowest"
    assert normalise(ours) == normalise(theirs) != normalise("SpecError: padding that must be lowest")
    assert normalise(ours) != normalise(ours.replace("lowest", "zero"))


def test_wrappers_of_torch_are_taken_off() -> None:
    bare = signature_of(outcome("ValueError", "bad nan"))
    wrapped = signature_of(outcome("torch._inductor.exc.InductorError", "ValueError: bad nan"))
    backend = signature_of(
        outcome("torch._dynamo.exc.BackendCompilerFailed", "backend='inductor' raised:\nValueError: bad nan")
    )
    assert bare is not None
    assert bare.same_as(wrapped)
    assert bare.same_as(backend)


def test_unwrap_goes_through_several() -> None:
    raised = Raised(
        type="torch._inductor.exc.InductorError",
        message="LoweringException: AssertionError: no\n  target: aten.x",
    )
    assert unwrap(raised)[0] == "AssertionError"


def test_judge() -> None:
    target = Signature(kind="exception", type="ValueError", message="bad")
    bad = outcome("ValueError", "bad")
    other = outcome("ValueError", "worse")
    fine = Outcome(status=Status.OK, exit_code=0)
    refused = Outcome(status=Status.NOT_APPLICABLE)
    for got, verdict in (
        (bad, Verdict.BAD),
        (other, Verdict.DIFFERENT),
        (fine, Verdict.GOOD),
        (refused, Verdict.SKIP),
    ):
        assert judge(got, target, signature_of(got)) is verdict


def test_exit_codes_carry_what_was_said() -> None:
    said = Outcome(
        status=Status.EXIT,
        exit_code=1,
        raised=Raised(type="SystemExit", message="mixed dtypes were accepted"),
    )
    plain = Outcome(status=Status.EXIT, exit_code=1, raised=Raised(type="SystemExit", message="1"))
    one, two = signature_of(said), signature_of(plain)
    assert one is not None and two is not None
    assert one.message == "mixed dtypes were accepted"
    assert not one.same_as(two)


def test_a_test_runner_is_known_by_its_summary() -> None:
    ended = Outcome(status=Status.EXIT, exit_code=1, raised=Raised(type="SystemExit", message="1"))
    printed = "FAILED tests/t.py::test_a - AssertionError: off by 3\n1 failed in 2.0s\n"
    signature = signature_of(ended, printed)
    assert signature is not None and signature.message == "AssertionError: off by <n>"
    assert signature.said == "tests/t.py::test_a fails with AssertionError: off by 3"


def test_failing_tests_are_named_and_not_compared() -> None:
    ended = Outcome(status=Status.EXIT, exit_code=1, raised=Raised(type="SystemExit", message="1"))
    rows = [f"FAILED t.py::test_a[x {n}] - ValueError: bad {n % 2}" for n in range(8)]
    one = signature_of(ended, "\n".join([*rows, "ERROR u.py", "9 failed"]))
    assert one is not None and one.message == "; ValueError: bad <n>"
    assert one.said == (
        "t.py::test_a[x 0], t.py::test_a[x 2], t.py::test_a[x 4] and 1 more fail with ValueError: bad 0; "
        "t.py::test_a[x 1], t.py::test_a[x 3], t.py::test_a[x 5] and 1 more fail with ValueError: bad 1; "
        "u.py fails"
    )
    other = signature_of(ended, "FAILED v.py::other - ValueError: bad 7\nERROR u.py\n")
    assert one.same_as(other)
    unittests = signature_of(ended, "FAILED (errors=1)\n")
    assert unittests is not None and (unittests.message, unittests.said) == ("", "")


def test_signals_differ_by_number() -> None:
    one = signature_of(Outcome(status=Status.SIGNAL, signal=11))
    two = signature_of(Outcome(status=Status.SIGNAL, signal=8))
    assert one is not None and one.type == "SIGSEGV"
    assert not one.same_as(two)


def test_memory_faults_are_one_failure_whatever_signal_they_end_by() -> None:
    def ended(number: int, said: str = "") -> Signature:
        facts = {"heap_check": said} if said else {}
        signature = signature_of(Outcome(status=Status.SIGNAL, signal=number, facts=facts))
        assert signature is not None
        return signature

    fault, bus = ended(signal.SIGSEGV), ended(signal.SIGBUS)
    heap = ended(signal.SIGABRT, "corrupted size vs. prev_size")
    assert {fault.kind, bus.kind, heap.kind} == {"memory_fault"}
    assert fault.same_as(bus) and bus.same_as(heap) and heap.same_as(fault)
    assert (fault.line, heap.line) == ("SIGSEGV", "SIGABRT: corrupted size vs. prev_size")
    for other in (ended(signal.SIGABRT), ended(signal.SIGILL), ended(signal.SIGFPE, "free(): invalid size")):
        assert other.kind == "signal"
        assert not other.same_as(fault) and not fault.same_as(other)
    assert Signature.from_json(heap.to_json()).same_as(fault)


@pytest.mark.parametrize(
    ("plain", "recorded", "same"),
    [
        (("memory_fault", "SIGSEGV"), ("memory_fault", "SIGABRT"), True),
        (("signal", "SIGABRT"), ("memory_fault", "SIGSEGV"), True),
        (("memory_fault", "SIGABRT"), ("signal", "SIGABRT"), True),
        (("signal", "SIGFPE"), ("memory_fault", "SIGSEGV"), False),
        (("exit", "exit 1"), ("memory_fault", "SIGSEGV"), False),
    ],
)
def test_a_plain_abort_whose_words_are_lost_does_not_contradict_a_memory_fault(
    plain: tuple[str, str], recorded: tuple[str, str], same: bool
) -> None:
    one, two = (Signature(kind=kind, type=name) for kind, name in (plain, recorded))
    assert same_failure(one, two) is same


def test_outcome_survives_json() -> None:
    before = outcome("ValueError", "bad", "f", "g")
    assert Outcome.from_json(before.to_json()) == before


def test_a_path_that_torch_cut_is_the_same_wherever_the_script_lies() -> None:
    """``torch.utils._traceback.shorten_filename`` cuts what a path shares with that of torch, by letters."""
    said = "ring[0] == 20  # return x * sum(ring)  # {}repro.py:18 in weigh"
    messages = {normalise(said.format(place)) for place in ("ork/a/b/", "tmp/b/", "/root/b/c/", "oot/")}
    assert messages == {"ring[<n>] == <n> # return x * sum(ring) # <path>/repro.py:<n> in weigh"}
