"""What an installer's error means, in one line that says what happened and what to do next."""

from __future__ import annotations

import re

_ROOM = re.compile(r"No space left on device|Disk quota exceeded|os error (?:28|122)\b", re.IGNORECASE)
_NETWORK = re.compile(
    r"dns error|tcp connect error|Connection (?:refused|reset)|client error \(Connect\)|operation timed out"
    r"|error sending request|network (?:is )?unreachable|connection closed before"
    r"|[Nn]etwork (?:connectivity is|was) disabled",
    re.IGNORECASE,
)
_CERTIFICATE = re.compile(r"invalid peer certificate|UnknownIssuer|certificate verify failed", re.IGNORECASE)
_REFUSED = re.compile(r"\b(401 Unauthorized|403 Forbidden|407 Proxy)")
_HOST = re.compile(r"https?://([^/\s)`]+)")
_LIMIT = 300


def explain(stderr: str, *, torch: str, python: str) -> str:
    """One line for a build of ``torch`` that failed with ``stderr``."""
    text = _unwrapped(stderr)
    host = _HOST.search(text)
    where = f" ({host[1]})" if host else ""
    if _ROOM.search(text):
        return "no room on the disk: free some with `accel-lab env prune`, or name another --store"
    if _CERTIFICATE.search(text):
        return f"the index's certificate is not trusted{where}: name a CA bundle with --cert"
    refused = _REFUSED.search(text)
    if refused:
        return f"the index refuses access{where}: {refused[1]}"
    if _NETWORK.search(text):
        return f"no network: a package index cannot be reached{where}"
    tags = re.search(r"(\S+?)(?:==(\S+))? has no wheels with a matching Python (?:ABI|implementation)", text)
    if tags:
        return f"no wheel of {tags[1]} {tags[2] or ''} for Python {python}".replace("  ", " ")
    machine = re.search(r"(\S+?)(?:==(\S+))? has no wheels with a matching platform", text)
    if machine:
        return f"no wheel of {machine[1]} {machine[2] or ''} for this machine".replace("  ", " ")
    missing = re.search(r"there (?:is|are) no versions? of (\S+?)[,\s]+and you require", text)
    if missing:
        return f"the index has no {missing[1].replace('==', ' ')}"
    absent = re.search(r"(\S+) was not found in the (?:package registry|provided package locations)", text)
    if absent:
        return f"the index has no {absent[1]}"
    built = re.search(r"Failed to build `?([^\s`]+)", text)
    if built:
        return f"{built[1]} has no wheel here and cannot be built from source"
    return _short(text) or f"installing torch {torch} failed without a word"


def _unwrapped(text: str) -> str:
    """The installer's lines without its warnings, joined where it wrapped them."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("warning:", "Using "))]
    return re.sub(
        r"\s+", " ", " ".join(line.strip(" \u2502\u251c\u2570\u2500\u25b6\u00d7") for line in lines)
    ).strip()


def _short(text: str) -> str:
    """The reason at the end of a chain of causes."""
    text = re.sub(r"^error: ", "", text)
    text = text.replace(" cause: ", ": ").replace("No solution found when resolving dependencies: ", "")
    text = re.split(r"\s+hint: ", text)[0]
    return text if len(text) <= _LIMIT else text[: _LIMIT - 3].rstrip() + "..."
