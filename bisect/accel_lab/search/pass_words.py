"""Words and pictures for an application of a pass: which one, in which graph, and what it changed."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence

from accel_lab.core.findings import Exhibit

from .applications import Application, Tree, name_of

#: A line of a graph that makes a view.
_VIEW = re.compile(
    r"(?P<name>%\w+) .*= aten\.(?:view|alias|detach|expand|permute|slice|squeeze|unsqueeze|select|t|transpose"
    r"|as_strided|_reshape_alias|reshape|diagonal|unfold)\.\w+\((?P<of>%\w+)"
)


def short_words(tree: Tree, application: Application) -> str:
    """``application 2 of 3 of f on the backward graph ...``."""
    turn, count = tree.turn(application)
    text = f"application {turn} of {count} of " if count > 1 else ""
    place = place_words(application)
    return text + name_of(application) + (f" on the {place}" if place else "")


def application_words(tree: Tree, application: Application) -> str:
    """As :func:`short_words`, with the function's file and line, the pass around it, and what it changed."""
    name = name_of(application)
    where = [application.at] if application.at else []
    if application.function and application.function not in (name, "apply"):
        where.insert(0, application.function)
    if application.search:
        where.append(f"which replaces {application.search}")
    text = short_words(tree, application)
    if where:
        text += f" ({', '.join(where)})"
    if application.parent is not None:
        text += f", inside {application.parent[1].rsplit('#', 1)[0]}"
    return text + _change_words(application)


def _change_words(application: Application) -> str:
    if application.raised:
        stopped = application.raised == "KeyboardInterrupt"
        return ", where it was stopped" if stopped else f", where it raised {application.raised}"
    if application.subsystem == "decomposition":
        made = list(dict.fromkeys(application.added))
        return f", into {', '.join(made[:8])}{' ...' if len(made) > 8 else ''}" if made else ""
    if len(application.nodes) == 2:
        before, after = application.nodes
        return f": {before} nodes before, {after} after"
    return ""


def place_words(application: Application) -> str:
    """``backward post-grad graph 1 of region 0``."""
    place = application.place
    if not place:
        return ""
    words = [str(place.get("direction") or "")] if place.get("phase") == "post-grad" else []
    words += [str(place.get("phase") or ""), "graph"]
    if place.get("graph"):
        words.append(str(place["graph"]))
    if "region" in place:
        words.append(f"of region {place['region']}")
    return " ".join(word for word in words if word)


def merged_results(before: Sequence[str], after: Sequence[str]) -> str:
    """Two results of a graph that are one afterwards, in words; empty where there are none."""
    old, new = _results(before), _results(after)
    if len(old) != len(new):
        return ""
    views = {frozenset((made["name"], made["of"])) for line in before if (made := _VIEW.match(line))}
    for one, two in itertools.combinations(range(len(old)), 2):
        pair = (old[one], old[two])
        if new[one] == new[two] != "None" and pair[0] != pair[1]:
            how = "a view and what it is a view of" if frozenset(pair) in views else "two results"
            return f"{pair[0]} and {pair[1]}, {how},"
    return ""


def _results(lines: Sequence[str]) -> list[str]:
    """The names in a graph's last line, ``return [%a, %b]``, in order."""
    last = lines[-1].strip() if lines else ""
    return re.findall(r"%\w+|\bNone\b", last) if last.startswith("return") else []


def graph_change(
    title: str, before: Sequence[str], after: Sequence[str], application: Application
) -> Exhibit:
    """The two texts as one diff; for a decomposition the operator and what it was turned into."""
    if application.subsystem == "decomposition":
        lines = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    else:
        lines = list(difflib.unified_diff(before, after, "before", "after", n=8, lineterm=""))
    if not lines:  # it raised, or changed what the text does not show
        marked = tuple(n for n, line in enumerate(before, 1) if line.startswith(f"%{application.node} "))
        return Exhibit(kind="graph", title=title, text="\n".join(before), language="text", marked=marked)
    return Exhibit(kind="graph_change", title=title, text="\n".join(lines), language="diff")
