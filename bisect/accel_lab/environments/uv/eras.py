"""The era of a release: the date up to which its companions may have been published."""

from __future__ import annotations

import datetime as dt
import re

from accel_lab.core.machine.environment import Release

#: Companions are published around a release, not on the day: torchvision follows within days.
DAYS = 7


def era_of(release: Release) -> str:
    """The ISO date that nothing in the environment may be newer than; empty where no date is known.

    A nightly carries its date in its version (``2.16.0.dev20261120``).
    """
    text = release.uploaded[:10]
    if not text:
        nightly = re.search(r"\.dev(\d{4})(\d\d)(\d\d)", release.version)
        text = "-".join(nightly.groups()) if nightly else ""
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        return ""
    return (day + dt.timedelta(days=DAYS)).isoformat()
