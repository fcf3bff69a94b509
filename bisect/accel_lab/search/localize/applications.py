"""The recorded applications of passes, patterns and decompositions, as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from accel_lab.core.outcome import Outcome

from .ablation import Item


@dataclass(frozen=True, kw_only=True)
class Application:
    """One application as recorded by the child; ``changed`` is None if it did not finish."""

    subsystem: str
    key: str
    parent: Item | None = None
    changed: bool | None = None
    raised: str = ""
    function: str = ""
    at: str = ""
    hook: str = ""
    search: str = ""
    node: str = ""
    place: dict[str, Any] = field(default_factory=dict)
    nodes: tuple[int, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def item(self) -> Item:
        return (self.subsystem, self.key)

    @property
    def name(self) -> str:
        """The name without its turn number."""
        return self.key.rsplit("#", 1)[0]

    @staticmethod
    def from_facts(row: dict[str, Any]) -> Application:
        parent = str(row.get("parent") or "")
        subsystem, _, key = parent.partition("/")
        return Application(
            subsystem=str(row["subsystem"]),
            key=str(row["key"]),
            parent=(subsystem, key) if key else None,
            changed=row.get("changed"),
            raised=str(row.get("raised") or ""),
            function=str(row.get("function") or ""),
            at=str(row.get("at") or ""),
            hook=str(row.get("hook") or ""),
            search=str(row.get("search") or ""),
            node=str(row.get("node") or ""),
            place=dict(row.get("graph") or {}),
            nodes=tuple(row.get("nodes") or ()),
            added=tuple(row.get("added") or ()),
        )


@dataclass(frozen=True, kw_only=True)
class Kind:
    """All applications of one name in one subsystem, in order; ``suspect``: one ran a suspected function."""

    subsystem: str
    name: str
    items: tuple[Item, ...]
    suspect: bool = False


@dataclass(kw_only=True)
class Tree:
    """Every application of a run, in order, each with the one that it happened in."""

    applications: list[Application]
    suspects: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._by_item = {a.item: a for a in self.applications}

    @staticmethod
    def of(outcome: Outcome, suspects: frozenset[str] = frozenset()) -> Tree:
        rows = outcome.facts.get("applications") or ()
        return Tree(applications=[Application.from_facts(row) for row in rows], suspects=suspects)

    def get(self, item: Item) -> Application:
        return self._by_item[item]

    def has(self, item: Item) -> bool:
        return item in self._by_item

    def learn(self, applications: Iterable[Application]) -> None:
        """Takes over another run's records: some applications act only once others are left out."""
        newer = {a.item: a for a in applications}
        known = {a.item for a in self.applications}
        self.applications = [newer.get(a.item, a) for a in self.applications]
        self.applications += [a for a in newer.values() if a.item not in known]
        self._by_item = {a.item: a for a in self.applications}

    def changing(self) -> list[Application]:
        """Returns the applications that changed a graph or did not finish."""
        return [a for a in self.applications if a.changed is not False]

    def tops(self, all_of_them: bool = False) -> list[Application]:
        """Returns the applications that happened inside no other one."""
        chosen = self.applications if all_of_them else self.changing()
        return [a for a in chosen if a.parent is None or a.parent not in self._by_item]

    def inside(self, kind: Kind) -> list[Application]:
        """Returns the applications that happened directly inside applications of this kind."""
        return [a for a in self.changing() if a.parent in kind.items]

    def kinds(self, applications: Sequence[Application]) -> list[Kind]:
        """Groups applications by name, in the order of their last application."""
        groups: dict[tuple[str, str], list[Application]] = {}
        for a in applications:
            groups.setdefault((a.subsystem, a.name), []).append(a)
        place = {a.item: n for n, a in enumerate(self.applications)}
        ordered = sorted(groups.items(), key=lambda group: place[group[1][-1].item])
        return [
            Kind(
                subsystem=subsystem,
                name=name,
                items=tuple(a.item for a in members),
                suspect=any(a.function in self.suspects for a in members if a.function != "apply"),
            )
            for (subsystem, name), members in ordered
        ]

    def with_those_around(self, applications: Iterable[Application]) -> set[Item]:
        """Returns the applications, all that they happened in and all that happened in them."""
        kept: set[Item] = set()
        for a in applications:
            above: Application | None = a
            while above is not None:
                kept.add(above.item)
                above = self._by_item.get(above.parent) if above.parent else None
        below = {a.item for a in applications}
        for a in self.applications:  # a parent is recorded before what happens in it
            if a.parent in below:
                below.add(a.item)
        return kept | below

    def turn(self, application: Application) -> tuple[int, int]:
        """Returns its turn and the count, among the applications of its name that changed a graph."""
        same = [
            a.item
            for a in self.changing()
            if (a.subsystem, a.name) == (application.subsystem, application.name)
        ]
        return (same.index(application.item) + 1 if application.item in same else 1), max(1, len(same))


def name_of(application: Application) -> str:
    """Returns the name for users: torch's own function, or the hook that a script's function hangs on."""
    if application.subsystem == "reinplacing":
        return f"reinplace_inplaceable_ops of {application.name}"
    if not application.hook:
        return application.name
    if application.function in ("", "apply", "<lambda>"):
        return application.hook
    return application.function if application.at.startswith("torch/") else application.hook
