"""Turns an installer's error into one line that says what happened and what to do next."""

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
    """Explains in one line why a build of ``torch`` failed with ``stderr``."""
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
    wheels = " has no wheels with a matching "
    if tags := _before(text, f"{wheels}Python ABI", f"{wheels}Python implementation"):
        return f"no wheel of {tags.replace('==', ' ')} for Python {python}"
    if machine := _before(text, f"{wheels}platform"):
        return f"no wheel of {machine.replace('==', ' ')} for this machine"
    missing = re.search(r"there (?:is|are) no versions? of (\S{1,200}?)[,\s]{1,20}and you require", text)
    if missing:
        return f"the index has no {missing[1].replace('==', ' ')}"
    found = " was not found in the "
    if absent := _before(text, f"{found}package registry", f"{found}provided package locations"):
        return f"the index has no {absent}"
    built = re.search(r"Failed to build `?([^\s`]+)", text)
    if built:
        return f"{built[1]} has no wheel here and cannot be built from source"
    return _short(text) or f"installing torch {torch} failed without a word"


def _before(text: str, *phrases: str) -> str:
    """Returns the word before the first of these phrases, or an empty string."""
    places = [place for phrase in phrases if (place := text.find(phrase)) > 0]
    words = text[: min(places)].split() if places else []
    return words[-1] if words else ""


def _unwrapped(text: str) -> str:
    """Joins the installer's wrapped lines, without its warnings."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("warning:", "Using "))]
    return re.sub(
        r"\s+", " ", " ".join(line.strip(" \u2502\u251c\u2570\u2500\u25b6\u00d7") for line in lines)
    ).strip()


def _short(text: str) -> str:
    """Returns the last cause of a chain of errors."""
    text = re.sub(r"^error: ", "", text)
    text = text.replace(" cause: ", ": ").replace("No solution found when resolving dependencies: ", "")
    text = text.partition(" hint: ")[0]  # whitespace is already collapsed to single spaces
    return text if len(text) <= _LIMIT else text[: _LIMIT - 3].rstrip() + "..."
