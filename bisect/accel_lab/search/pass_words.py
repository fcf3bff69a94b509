"""Words and pictures for an application of a pass: which one, in which graph, and what it changed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from accel_lab.core.findings import Exhibit

from .applications import Application, Tree, name_of


def application_words(tree: Tree, application: Application) -> str:
    """``application 2 of 3 of f (file:line), inside pass_pattern_1, on the backward graph ...``."""
    turn, count = tree.turn(application)
    name = name_of(application)
    text = f"application {turn} of {count} of {name}" if count > 1 else name
    where = [application.at] if application.at else []
    if application.function and application.function not in (name, "apply"):
        where.insert(0, application.function)
    if application.search:
        where.append(f"which replaces {application.search}")
    if where:
        text += f" ({', '.join(where)})"
    if application.parent is not None:
        text += f", inside {application.parent[1].rsplit('#', 1)[0]}"
    place = place_words(application)
    if place:
        text += f", on the {place}"
    return text + _change_words(application)


def _change_words(application: Application) -> str:
    if application.raised:
        return f", where it raised {application.raised}"
    if application.subsystem == "decomposition" and application.added:
        return f", into {', '.join(application.added)}"
    if len(application.nodes) == 2:
        before, after = application.nodes
        if before != after:
            return f" ({before} nodes before, {after} after)"
        return f" ({before} nodes before and after)"
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
