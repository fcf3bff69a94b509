from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Release
from accel_lab.environments.index.line import select
from accel_lab.environments.index.releases import (
    choose_wheel,
    fits,
    order,
    parse_version,
    read_wheel_name,
    releases_of,
)
from accel_lab.environments.uv.eras import era_of
from fakes_env import wheel, wheel_name

VERSIONS = ["2.0.0", "2.0.1", "2.4.0", "2.4.1", "2.5.0", "2.6.0", "2.9.0", "2.9.1", "2.10.0", "2.15.0"]
LINE = [Release(version=v) for v in VERSIONS]


def chosen(spec: str, line: list[Release] = LINE) -> list[str]:
    return [release.version for release in select(spec, line)]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("2.4..2.9", "2.4.0 2.4.1 2.5.0 2.6.0 2.9.0 2.9.1"),
        ("2.4.1..2.9.0", "2.4.1 2.5.0 2.6.0 2.9.0"),
        ("2.9..", "2.9.0 2.9.1 2.10.0 2.15.0"),
        ("..2.0", "2.0.0 2.0.1"),
        ("2.9.1..2.9", "2.9.1"),
        ("2.9.1,2.6.0", "2.6.0 2.9.1"),
        ("2.9", "2.9.1"),
        ("2.6.0 , 2.6.0", "2.6.0"),
        ("v2.6.0", "2.6.0"),
        ("2.6.0+cpu", "2.6.0"),
        ("minor", "2.0.1 2.4.1 2.5.0 2.6.0 2.9.1 2.10.0 2.15.0"),
        ("minor:2.4..2.9,2.9.0", "2.4.1 2.5.0 2.6.0 2.9.0 2.9.1"),
        ("all", " ".join(VERSIONS)),
    ],
)
def test_a_line_is_what_was_named_in_order(spec: str, found: str) -> None:
    assert chosen(spec) == found.split()


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "no release is named"),
        (" , ", "no release is named"),
        ("newest", "not a release of torch"),
        ("2.x..2.9", "'2.x'"),
        ("2.9..2.4", "runs backwards"),
        ("2.11..2.14", "no release lies in"),
        ("2.99.0", "there are 2.0.0 to 2.15.0"),
        ("2.7", "is not among the releases"),
    ],
)
def test_what_names_nothing_is_refused_in_one_line(spec: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        select(spec, LINE)
    assert "\n" not in str(refused.value)


def test_a_withdrawn_release_is_taken_only_by_its_name() -> None:
    line = [Release(version="2.1.0"), Release(version="2.1.1", yanked=True)]
    assert chosen("all", line) == ["2.1.0"]
    assert chosen("minor", line) == ["2.1.0"]
    assert chosen("2.1.1", line) == ["2.1.1"]


def test_a_candidate_does_not_stand_for_its_minor_where_there_is_a_release() -> None:
    line = [Release(version="2.9.0"), Release(version="2.9.1rc1", prerelease=True)]
    assert chosen("minor", line) == ["2.9.0"]
    assert chosen("2.9", line) == ["2.9.0"]
    assert chosen("2.9..2.9", line) == ["2.9.0", "2.9.1rc1"]


@given(st.sets(st.sampled_from(VERSIONS), min_size=2), st.data())
def test_a_range_is_the_piece_between_its_ends(names: set[str], data: st.DataObject) -> None:
    line = sorted(names, key=order)
    low = data.draw(st.sampled_from(line))
    high = data.draw(st.sampled_from(line[line.index(low) :]))
    found = chosen(f"{low}..{high}", [Release(version=v) for v in line])
    assert found == line[line.index(low) : line.index(high) + 1]


def test_versions_sort_as_pep_440_says() -> None:
    rising = "2.0.dev1 2.0a1 2.0b1 2.0rc1 2.0 2.0+cpu 2.0.post1 2.1.0.dev20230101 2.1.0 2.10.0"
    assert " ".join(sorted(sorted(rising.split()), key=order)) == rising
    assert parse_version("2.0") == parse_version("2.0.0")
    assert parse_version("two") is None
    assert order("two") < order("0.1.dev0")


@pytest.mark.parametrize(
    ("filename", "found"),
    [
        (wheel_name("2.6.0"), ("2.6.0", ("cp311",))),
        (wheel_name("2.6.0+cpu"), ("2.6.0+cpu", ("cp311",))),
        ("torch-2.6.0-1-cp311-cp311-win_amd64.whl", ("2.6.0", ("cp311",))),
        ("torch-2.6.0-cp313-cp313t-manylinux_2_28_x86_64.whl", ("2.6.0", ())),
        ("torch-2.6.0-py2.py3-none-any.whl", ("2.6.0", ("py2", "py3"))),
    ],
)
def test_a_wheels_name_is_read(filename: str, found: tuple[str, tuple[str, ...]]) -> None:
    read = read_wheel_name(filename, "torch")
    assert read is not None
    assert (read.version, read.pythons) == found


@pytest.mark.parametrize(
    "filename",
    ["torch-2.6.0.tar.gz", "torchvision-0.2-cp311-cp311-any.whl", "torch-x-cp311-cp311-any.whl", ""],
)
def test_what_is_no_wheel_of_the_package_is_left(filename: str) -> None:
    assert read_wheel_name(filename, "torch") is None


@pytest.mark.parametrize(
    ("tag", "system", "machine", "answer"),
    [
        ("manylinux_2_28_x86_64", "linux", "x86_64", True),
        ("manylinux_2_28_aarch64", "linux", "x86_64", False),
        ("musllinux_1_2_x86_64", "linux", "x86_64", False),
        ("linux_x86_64", "linux", "x86_64", True),
        ("macosx_11_0_arm64", "darwin", "arm64", True),
        ("macosx_11_0_arm64", "linux", "x86_64", False),
        ("any", "linux", "x86_64", True),
    ],
)
def test_a_platform_tag_fits_or_not(tag: str, system: str, machine: str, answer: bool) -> None:
    assert fits(tag, system, machine) is answer


def test_releases_are_made_of_the_wheels_that_fit() -> None:
    wheels = [
        wheel("2.1.0", uploaded="2023-10-04T12:00:00Z", size_bytes=7, sha256="aa", machine="any"),
        wheel("2.1.0", "cp312", uploaded="2023-11-30T12:00:00Z", machine="any"),
        wheel("2.1.0+cpu", machine="any", size_bytes=3),
        wheel("2.2.0rc1", machine="any"),
        wheel("2.3.0", machine="win_amd64"),
        wheel("1.13.1", machine="any"),
    ]
    releases = releases_of(wheels, "3.11")
    assert [release.version for release in releases] == ["2.1.0", "2.2.0rc1"]
    assert releases[0].uploaded == "2023-10-04"
    assert releases[0].pythons == ("cp311", "cp312")
    assert releases[0].size_bytes == 3  # the CPU build: there is no GPU
    assert releases_of(wheels, "3.11", gpu=True)[0].size_bytes == 7
    assert releases[1].prerelease


def test_the_wheel_without_a_download_is_taken_among_equals() -> None:
    far = wheel("2.1.0+cpu", machine="any", size_bytes=1, source="https://index.example/simple")
    near = wheel("2.1.0+cpu", machine="any", size_bytes=9, source="/wheels")
    assert choose_wheel([far, near], "3.11", gpu=False) == near
    assert choose_wheel([far, near], "3.12", gpu=False) is None


@pytest.mark.parametrize(
    ("release", "era"),
    [
        (Release(version="2.1.2", uploaded="2023-12-14"), "2023-12-21"),
        (Release(version="2.1.2", uploaded="2023-12-28T10:00:00Z"), "2024-01-04"),
        (Release(version="2.16.0.dev20261120"), "2026-11-27"),
        (Release(version="2.1.2"), ""),
        (Release(version="2.1.2", uploaded="soon"), ""),
    ],
)
def test_the_era_ends_days_after_the_release(release: Release, era: str) -> None:
    assert era_of(release) == era
