"""Proposes another release as a workaround: one on which the unchanged script passed."""

from __future__ import annotations

from collections.abc import Iterator

from accel_lab.core.findings import Findings
from accel_lab.core.verdict import Verdict
from accel_lab.core.workarounds import Checked, Workaround


def of_releases(findings: Findings) -> Iterator[Workaround]:
    """Yields the release that has the fix, else the last one before the failure."""
    versions = findings.versions
    if versions is None or versions.metric:
        return
    passing = [row.torch for row in versions.tested if row.verdict is Verdict.GOOD]
    own, flips = versions.own, versions.flips
    if own is not None and (own.relation == "fixed_by" or not flips):
        yield _release(own.torch, "your own build, on which the script passes")
    elif flips and flips[-1].kind == "fixed" and flips[-1].at in passing:
        yield _release(flips[-1].at, "the first release that has the fix")
    elif flips and flips[-1].after in passing:
        yield _release(flips[-1].after, "the last release before the failure")


def _release(torch: str, words: str) -> Workaround:
    return Workaround(
        kind="release",
        code=f'pip install "torch=={torch}"',
        where="shell",
        words=words,
        verified=Checked.RELEASE,
    )
