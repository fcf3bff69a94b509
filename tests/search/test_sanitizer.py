"""What an abort and a sanitizer's report say, and what is shown of a kernel that leaves its buffer."""

from __future__ import annotations

import signal
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.findings import Findings
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.execution import sanitizer
from accel_lab.execution.collect import collect, heap_check
from accel_lab.execution.processes.process import ProcessExit
from accel_lab.reporting.words.evidence import line_of, sentences
from accel_lab.search.diagnosis import Diagnosis, Options
from fakes_lab import FakeLab

REPORT = """=================================================================
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60c0 at pc 0x7f bp 0x7f sp 0x7f
WRITE of size 64 at 0x60c0000d92c0 thread T2
    #0 0x7f9f46fc3e27 in _mm512_storeu_ps(void*, float __vector(16)) /usr/include/avx512fintrin.h:6359
    #1 0x7f9f46fc3e27 in at::vec::Vectorized<float>::store(void*, long) const /torch/vec512_float.h:114
    #2 0x7f9f46fc3e27 in kernel._omp_fn.0 {source}:4
    #3 0x7f9f9d3a6cc0 in cfunction_call Objects/methodobject.c:553

0x60c0000d92c0 is located 0 bytes to the right of 68-byte region [0x60c0,0x60d0)
allocated by thread T0 here:
    #0 0x7f59f56b7ffd in __interceptor_posix_memalign ../../asan_malloc_linux.cpp:145
"""
NATIVE = """==7==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000000 (pc 0x7f bp 0x7f T0)
==7==The signal is caused by a READ memory access.
    #0 0x7f9f46fc3e27 in __interceptor_memcpy ../../memcpy.cpp:10
    #1 0x7f9f46fc3e28 in at::native::add(at::Tensor const&) (/torch/lib/libtorch_cpu.so+0x929343)

"""
KERNEL = 'extern "C"  void kernel(float* out)\n{\n    // tail\n    tmp5.store(out + x0); /*@0*/\n}\n'


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("step 1\nfree(): invalid next size (fast)\n", "free(): invalid next size (fast)"),
        ("malloc(): unaligned tcache chunk detected\n", "malloc(): unaligned tcache chunk detected"),
        ("loss 0.1 corrupted size vs. prev_size\n", "corrupted size vs. prev_size"),
        ("double free or corruption (!prev)", "double free or corruption (!prev)"),
        ("munmap_chunk(): invalid pointer\n", "munmap_chunk(): invalid pointer"),
        (
            "python: malloc.c:2379: sysmalloc: Assertion `(old_top == initial_top (av))' failed.\n",
            "malloc.c:2379: sysmalloc: Assertion `(old_top == initial_top (av))' failed.",
        ),
        (
            "Fatal glibc error: malloc assertion failure in sysmalloc: (old_size)\n",
            "Fatal glibc error: malloc assertion failure in sysmalloc: (old_size)",
        ),
        (
            "The futex facility returned an unexpected error code.\n",
            "The futex facility returned an unexpected error code",
        ),
        ("*** stack smashing detected ***: terminated\n", "*** stack smashing detected ***: terminated"),
        ("terminate called after throwing an instance of 'std::runtime_error'\n", ""),
        ("a.out: t.c:3: main: Assertion `n > 0' failed.\n", ""),
        ("free(): is what this line speaks of\nterminate called without an active exception\n", ""),
        ("", ""),
    ],
)
def test_an_abort_by_the_allocator_is_known_by_its_last_word(stderr: str, said: str) -> None:
    assert heap_check(stderr) == said


@pytest.mark.parametrize(("number", "noted"), [(signal.SIGABRT, True), (signal.SIGSEGV, False)])
def test_only_an_abort_is_looked_into(tmp_path: Path, number: int, noted: bool) -> None:
    (tmp_path / "stderr.txt").write_text("x" * 100_000 + "\nfree(): invalid pointer\n")
    outcome = collect(tmp_path, ProcessExit(signal=number), warm=False, bare=True)
    assert outcome.status is Status.SIGNAL
    assert outcome.facts.get("heap_check") == ("free(): invalid pointer" if noted else None)


def test_a_report_names_the_line_of_generated_code(tmp_path: Path) -> None:
    source = tmp_path / "cache" / "kx" / "ckernel.main.cpp"
    source.parent.mkdir(parents=True)
    source.write_text(KERNEL)
    (tmp_path / "sanitizer.7").write_text(REPORT.replace("{source}", str(source)))
    outcome = collect(tmp_path, ProcessExit(exit_code=sanitizer.EXIT_CODE), warm=False, bare=False)
    assert outcome.notes == ()
    assert outcome.facts["sanitizer"] == {
        "kind": "heap-buffer-overflow",
        "access": "WRITE",
        "size": 64,
        "where": "0 bytes to the right of 68-byte region",
        "file": "ckernel.main.cpp",
        "line": 4,
        "function": "",
        "text": KERNEL,
    }


def test_a_report_reads_no_file_outside_of_the_probe(tmp_path: Path) -> None:
    inside, outside = tmp_path / "probe", tmp_path / "secret.cpp"
    inside.mkdir()
    outside.write_text(KERNEL)
    (inside / "sanitizer.7").write_text(REPORT.replace("{source}", str(outside)))
    found = sanitizer.read_report(ChildFiles(inside))
    assert found is not None and (found["file"], found["text"]) == ("", "")


def test_native_code_is_named_by_its_function() -> None:
    found = sanitizer.parse(NATIVE, lambda path: None)
    assert found is not None
    assert (found["kind"], found["access"], found["size"]) == ("SEGV", "READ", 0)
    assert found["function"] == "at::native::add(at::Tensor const&)"
    assert sanitizer.parse("AddressSanitizer: CHECK failed: asan_interceptors.cpp:320\n", str) is None


@pytest.mark.parametrize(
    ("answer", "paths"),
    [
        ("g++ 12.2\nFree\n\n/lib/libasan.so\n/lib/libstdc++.so\n", ("/lib/libasan.so", "/lib/libstdc++.so")),
        ("g++ 12.2\nFree\nlibasan.so\n/lib/libstdc++.so\n", ()),
        ("clang version 16\nTarget\n/lib/libasan.so\n/lib/libstdc++.so\n", ()),
        ("", ()),
    ],
)
def test_the_compiler_tells_what_to_preload(answer: str, paths: tuple[str, ...]) -> None:
    assert sanitizer.libraries(answer) == paths


def test_the_users_own_settings_stay(tmp_path: Path) -> None:
    base = {"LD_PRELOAD": "/lib/jemalloc.so", "ASAN_OPTIONS": "verbosity=1", "CXX": "ccache g++-12"}
    env = sanitizer.environment(base, tmp_path, ("/a.so", "/b.so"))
    assert env["LD_PRELOAD"] == "/a.so:/b.so:/lib/jemalloc.so"
    options = env["ASAN_OPTIONS"].split(":")
    assert options[0] == "verbosity=1" and f"log_path={tmp_path / 'sanitizer'}" in options
    assert sanitizer.compiler_words(base)[-2:] == ["ccache", "g++-12"]
    assert sanitizer.compiler_words({})[-1] == "g++"


# -- the search --------------------------------------------------------------------------------

SEGV = Outcome(status=Status.SIGNAL, signal=11)
ABRT = Outcome(status=Status.SIGNAL, signal=6, facts={"heap_check": "free(): invalid pointer"})
ABORT = Outcome(status=Status.SIGNAL, signal=6)
WRITES: dict[str, Any] = {
    "kind": "heap-buffer-overflow",
    "access": "WRITE",
    "size": 64,
    "where": "0 bytes to the right of 68-byte region",
    "file": "k.cpp",
    "line": 4,
    "function": "",
    "text": KERNEL,
}


class DyingLab(FakeLab):
    """Its generated code dies by one signal in one run and by another in the next."""

    def __init__(self, *ends: Outcome, facts: dict[str, Any] | None = None, **named: Any) -> None:
        super().__init__(fault=Rung.KERNEL, **named)
        self._ends, self._told, self._runs = ends, facts or {}, 0

    def submit(self, probe: Probe) -> Future[Outcome]:
        future = super().submit(probe)
        outcome = future.result()
        if outcome.failed:
            end = self._ends[self._runs % len(self._ends)]
            self._runs += 1
            if dict(probe.switches).get("sanitize"):
                end = Outcome(status=Status.EXIT, exit_code=sanitizer.EXIT_CODE)
            facts = {**outcome.facts, **end.facts, **(self._told if probe.switches else {})}
            outcome = replace(end, facts=facts, warm=outcome.warm)
        changed: Future[Outcome] = Future()
        changed.set_result(outcome)
        return changed


def diagnose(lab: FakeLab) -> Findings:
    probe = Probe(program=Program(path="/x/script.py", sha256="0"))
    return Diagnosis(lab, probe, Options(witness=False)).run()


def sanitized(lab: FakeLab) -> list[Probe]:
    return [probe for probe in lab.asked if dict(probe.switches).get("sanitize")]


def test_one_fault_that_ends_by_several_signals_stays_warm_and_is_proven() -> None:
    lab = DyingLab(SEGV, ABRT)
    found = diagnose(lab)
    assert lab.warm
    assert found.signature is not None and found.signature.kind == "memory_fault"
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (Stage.CODEGEN, Confidence.PROVEN)
    told = [line for line in map(line_of, found.warnings) if "memory is overwritten" in line]
    assert len(told) == 1 and "SIGSEGV in 2 of 4 runs, SIGABRT in 2 of 4 runs" in told[0]
    assert "free(): invalid pointer" in told[0]


def test_an_abort_that_nobody_explained_is_another_failure_than_a_segfault() -> None:
    lab = DyingLab(SEGV, SEGV, *[ABORT] * 20)
    found = diagnose(lab)
    assert not lab.warm
    assert found.signature is not None and found.signature.type == "SIGSEGV"
    assert any("warm process" in line for line in map(line_of, found.warnings))


def test_the_line_that_writes_out_of_bounds_is_shown_once() -> None:
    kernel = {
        "file": "k.cpp",
        "language": "cpp",
        "text": KERNEL.replace(" /*@0*/", ""),
        "origins": {"exp target=aten.exp.default#0": [4]},
    }
    lab = DyingLab(SEGV, ABRT, facts={"sanitizer": WRITES, "kernels": [kernel]})
    found = diagnose(lab)
    assert len(sanitized(lab)) == 1
    assert found.culprit is not None
    [exhibit] = found.culprit.exhibits
    assert exhibit.kind == "kernel" and exhibit.title.startswith(
        "AddressSanitizer: heap-buffer-overflow, WRITE of size 64 (0 bytes to the right of 68-byte region)"
    )
    assert [exhibit.text.splitlines()[n - 1].strip() for n in exhibit.marked] == ["tmp5.store(out + x0);"]
    assert any("written for aten.exp.default" in line for line in sentences(found.culprit.evidence))
    assert any(
        "no index of the loop IR is out of bounds" in line for line in sentences(found.culprit.evidence)
    )
    assert found.culprit.component is not None
    assert found.culprit.component.confidence is Confidence.LIKELY


def test_a_kernel_that_the_child_could_not_tell_of_is_shown_from_the_report() -> None:
    found = diagnose(DyingLab(SEGV, ABRT, facts={"sanitizer": WRITES}))
    assert found.culprit is not None
    [exhibit] = found.culprit.exhibits
    assert "/*@" not in exhibit.text
    assert [exhibit.text.splitlines()[n - 1].strip() for n in exhibit.marked] == ["tmp5.store(out + x0);"]


class HeapLab(DyingLab):
    """A stray write that does harm in some runs, and in each where the allocator looks for it."""

    def __init__(self, *, helps: bool = True, everywhere: bool = False, **named: Any) -> None:
        super().__init__(SEGV, ABRT, rate=0.5, seed=2, **named)
        self._helps, self._everywhere = helps, everywhere

    def submit(self, probe: Probe) -> Future[Outcome]:
        looking = self.checked and not probe.bare
        self.rate = 1.0 if looking and self._helps else 0.5
        self.fault = Rung.UNCOMPILED if looking and self._everywhere else Rung.KERNEL
        return super().submit(probe)


def test_a_memory_fault_is_looked_for_with_the_allocators_checks() -> None:
    lab = HeapLab()
    found = diagnose(lab)
    assert lab.checked
    assert found.failure_rate is not None and 0 < found.failure_rate < 1
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (Stage.CODEGEN, Confidence.PROVEN)
    assert sum("MALLOC_CHECK_" in line for line in map(line_of, found.warnings)) == 1
    assert sum(found.probes.values()) < 45  # nothing is repeated, as it is where the failure comes and goes


@pytest.mark.parametrize("changes", [{"helps": False}, {"everywhere": True}])
def test_checks_that_do_not_help_or_find_something_else_are_turned_off(changes: dict[str, bool]) -> None:
    lab = HeapLab(**changes)
    found = diagnose(lab)
    assert not lab.checked
    assert not any("MALLOC_CHECK_" in line for line in map(line_of, found.warnings))
    assert found.culprit is None or found.culprit.stage is not Stage.EAGER


def test_a_flaky_memory_fault_is_sanitized_once_as_well() -> None:
    lab = DyingLab(SEGV, ABRT, facts={"sanitizer": WRITES}, rate=0.6, seed=1)
    found = diagnose(lab)
    assert found.failure_rate is not None and found.failure_rate < 1
    assert len(sanitized(lab)) == 1
    assert found.culprit is not None and len(found.culprit.exhibits) <= 1


def test_other_failures_are_not_sanitized() -> None:
    lab = FakeLab(fault=Rung.KERNEL)
    assert diagnose(lab).verdict == "fails"
    assert sanitized(lab) == []


def test_without_the_library_it_is_said_and_nothing_fails() -> None:
    missing = Outcome(status=Status.NOT_APPLICABLE, notes=("the address sanitizer is not available",))
    lab = DyingLab(SEGV, answer=lambda probe: missing if dict(probe.switches).get("sanitize") else None)
    found = diagnose(lab)
    assert found.culprit is not None and found.culprit.stage is Stage.CODEGEN
    assert any("the address sanitizer is not available" in line for line in sentences(found.culprit.evidence))
