"""The era of a release: the latest date at which its companions may have been published."""

from __future__ import annotations

import datetime as dt
import re

from accel_lab.core.machine.environment import Release

#: Days after torch's release: torchvision, for one, follows within days.
DAYS = 7


def era_of(release: Release) -> str:
    """Returns the ISO date that limits an environment's packages, or an empty string if unknown.

    A nightly has its date in its version (``2.16.0.dev20261120``).
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
