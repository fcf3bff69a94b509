"""The golden cases: bisect real and planted failures, and compare with what is known of them."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from golden import Grade, grade, load_cases, release  # noqa: E402
from harness import missing_modules, run_bisect, torch_version  # noqa: E402

CASES = load_cases()
CORE = [case for case in CASES if case.core]
#: Torch builds other than the default one, from the same variable that the torch_pythons fixture reads.
BUILDS = [path for path in os.environ.get("ACCEL_LAB_PYTHONS", "").split(os.pathsep) if path]
ENOUGH_S = 1500.0
#: What the core shows on another build. The tests in tests/versions/test_versions_builds.py and
#: tests/child/test_loops.py go through the other stages there.
SHOWN = {"aot_autograd", "fx_passes", "scheduler", "codegen"}
ELSEWHERE = [case for case in CORE if case.issue and not SHOWN.isdisjoint(case.stages)]


def bisect_and_compare(case, python, tmp_path):
    build = release(torch_version(python))
    expected = case.fails(build)
    if expected is None:
        pytest.skip(f"nobody has run {case.slug} on torch {build}")
    if missing := missing_modules(python, case.needs):
        pytest.skip(f"{case.slug} needs {', '.join(missing)} beside torch")
    found = run_bisect(
        python, case.command, args=case.args, env=case.env, timeout_s=ENOUGH_S, out=str(tmp_path / "out")
    )
    told = found.ended.stderr[-2000:]
    assert found.findings is not None, f"exit code {found.ended.code}, no findings on standard output\n{told}"
    score = grade(case, build, found.findings)
    summary = f"{case.slug} on {build}: {score.answer} ({score.confidence}); {score.reason}\n{told}"
    assert not score.wrong_as_proven, summary
    check(case, build, score, found.ended.code, summary)


def check(case, build, score, code, summary):
    """Fail, skip or return, by the grade and by what the case allows."""
    expected = case.fails(build)
    if score.grade is Grade.CANNOT_TELL:
        assert code == 125, summary
        assert not case.core, summary
        reason = case.cannot_tell_on(build)
        assert reason or not case.score, f"a stage was named before: {summary}"
        pytest.skip(f"cannot tell, {reason or 'not scored'}: {summary}")
    if not case.score:
        pytest.skip(f"not scored, {score.grade}: {summary}")
    right = {Grade.RIGHT} if case.exact else {Grade.RIGHT, Grade.COARSE}
    assert score.grade in right, summary
    assert code == (125 if case.status == "outside" else 1 if expected else 0), summary
    assert score.component_right is not False, (
        f"the component is {score.component}, want {case.component_on(build)}: {summary}"
    )


@pytest.mark.torch
@pytest.mark.parametrize("case", CORE, ids=lambda case: case.slug)
def test_core_case(case, torch_python, tmp_path):
    bisect_and_compare(case, torch_python, tmp_path)


#: All cases on all builds are hours; without this the core stands for them (`make bench` scores them all).
needs_time = pytest.mark.skipif(
    os.environ.get("ACCEL_LAB_GOLDEN") != "all",
    reason="takes hours: set ACCEL_LAB_GOLDEN=all, or use `make bench`",
)


@needs_time
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES if not c.core], ids=lambda case: case.slug)
def test_case(case, torch_python, tmp_path):
    bisect_and_compare(case, torch_python, tmp_path)


@pytest.mark.builds
@pytest.mark.slow
@pytest.mark.parametrize("python", BUILDS)
@pytest.mark.parametrize("case", ELSEWHERE, ids=lambda case: case.slug)
def test_real_core_case_on_another_build(case, python, torch_python, tmp_path):
    if python == torch_python:
        pytest.skip("the default build: test_core_case has it")
    bisect_and_compare(case, python, tmp_path)


@needs_time
@pytest.mark.builds
@pytest.mark.slow
@pytest.mark.parametrize("python", BUILDS)
@pytest.mark.parametrize("case", [c for c in CASES if c not in ELSEWHERE], ids=lambda case: case.slug)
def test_case_on_another_build(case, python, torch_python, tmp_path):
    if python == torch_python:
        pytest.skip("the default build: test_case and test_core_case have it")
    bisect_and_compare(case, python, tmp_path)
