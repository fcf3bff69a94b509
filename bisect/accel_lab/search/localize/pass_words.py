"""Describes an application of a pass: which one, in which graph, and what it changed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from accel_lab.core.findings import Exhibit

from .applications import Application, Tree, name_of


def short_words(tree: Tree, application: Application) -> str:
    """Describes an application as ``application 2 of 3 of f on the backward graph ...``."""
    turn, count = tree.turn(application)
    text = f"application {turn} of {count} of " if count > 1 else ""
    place = place_words(application)
    return text + name_of(application) + (f" on the {place}" if place else "")


def application_words(tree: Tree, application: Application) -> str:
    """Adds to :func:`short_words` the function's file and line, the pass around it, and what it changed."""
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
    """Describes the graph as ``backward post-grad graph 1 of region 0``; empty if unknown."""
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
    """Shows the two texts as a diff; for a decomposition, the operator and what replaced it."""
    if application.subsystem == "decomposition":
        lines = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    else:
        lines = list(difflib.unified_diff(before, after, "before", "after", n=8, lineterm=""))
    if not lines:  # it raised, or its change does not show in the text
        marked = tuple(n for n, line in enumerate(before, 1) if line.startswith(f"%{application.node} "))
        return Exhibit(kind="graph", title=title, text="\n".join(before), language="text", marked=marked)
    return Exhibit(kind="graph_change", title=title, text="\n".join(lines), language="diff")
