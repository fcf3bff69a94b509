"""Parses a choice of releases: ``2.4..2.15``, ``2.6.0,2.9.1``, ``all``, ``minor``, or combinations."""

from __future__ import annotations

from collections.abc import Sequence

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Release

from .releases import order, parse_version, parts, public

_LONGEST = 2_000
HELP = "2.4..2.15, 2.6.0, 2.9 (its last patch), all, minor (last patch of each minor), minor:2.4..2.15"


def select(spec: str, releases: Sequence[Release]) -> list[Release]:
    """Returns the releases that ``spec`` names, oldest first, without duplicates.

    Ranges include both ends, and ``2.15`` as an end includes all of 2.15. A withdrawn (yanked) release is
    taken only if it is named in full. Raises :class:`UsageError` if ``spec`` names no release.
    """
    if not releases:
        raise UsageError("there are no releases to choose from")
    if len(spec) > _LONGEST:
        raise UsageError(f"the releases take more than {_LONGEST:,} characters to name: use {HELP}")
    chosen: dict[str, Release] = {}
    items = [item.strip() for item in spec.split(",") if item.strip()]
    if not items:
        raise UsageError(f"no release is named: use {HELP}")
    for item in items:
        for release in _item(item, releases):
            chosen[release.version] = release
    return sorted(chosen.values(), key=lambda release: order(release.version))


def _item(item: str, releases: Sequence[Release]) -> list[Release]:
    fine = [release for release in releases if not release.yanked]
    if item == "all":
        return fine
    if item == "minor":
        return last_patches(fine)
    if item.startswith("minor:"):
        return last_patches(_item(item.removeprefix("minor:").strip(), releases))
    if ".." in item:
        return _range(item, fine)
    if parse_version(item) is None:
        raise UsageError(f"{item!r} is not a release of torch: use {HELP}")
    return [_single(item, releases, fine)]


def last_patches(releases: Sequence[Release]) -> list[Release]:
    """Returns the newest release of each minor; a pre-release only if the minor has nothing else."""
    newest: dict[tuple[int, ...], Release] = {}
    for release in releases:
        minor = parts(release.version)[:2]
        old = newest.get(minor)
        if old is None or _final_then_new(release) > _final_then_new(old):
            newest[minor] = release
    return list(newest.values())


def _final_then_new(release: Release) -> tuple[bool, object]:
    return (not release.prerelease, order(release.version))


def _range(item: str, releases: Sequence[Release]) -> list[Release]:
    low, _, high = (end.strip() for end in item.partition(".."))
    for end in (low, high):
        if end and parse_version(end) is None:
            raise UsageError(f"{end!r} in {item!r} is not a release of torch: use {HELP}")
    if low and high and order(low) > order(high) and not _within(low, high):
        raise UsageError(f"{item!r} runs backwards: name the older release first")
    found = [
        release
        for release in releases
        if (not low or order(release.version) >= order(low) or _within(release.version, low))
        and (not high or order(release.version) <= order(high) or _within(release.version, high))
    ]
    if not found:
        raise UsageError(f"no release lies in {item!r}: there are {_extent(releases)}")
    return found


def _within(version: str, end: str) -> bool:
    """Whether a version belongs to a shortened one: 2.15.1 and 2.15.0rc1 belong to 2.15."""
    wanted = parts(end)
    return len(wanted) < 3 and parts(version)[: len(wanted)] == wanted and end.replace(".", "").isdigit()


def _single(item: str, releases: Sequence[Release], fine: Sequence[Release]) -> Release:
    for release in releases:
        if release.version == item:
            return release
    for release in releases:
        if order(release.version) == order(item) and len(parts(item)) > 2:
            return release
    for release in releases:
        if public(release.version) == public(item) and "+" in item and "+" not in release.version:
            return release
    patches = [release for release in fine if _within(release.version, item)]
    if patches:
        return last_patches(patches)[-1]
    raise UsageError(f"torch {item} is not among the releases: there are {_extent(releases)}")


def _extent(releases: Sequence[Release]) -> str:
    names = [release.version for release in releases]
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} to {names[-1]}"
