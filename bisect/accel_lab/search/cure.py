"""The smallest set of applications whose absence cures a failure, by delta debugging."""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: One application: the subsystem, and its name with its turn among those of that name.
Item = tuple[str, str]


def smallest_cure(
    items: Sequence[Item], cured: Callable[[Sequence[Item]], bool], most: int = 40
) -> list[Item] | None:
    """A smallest set of applications that cures the failure when left out, by delta debugging.

    Starts from everything left out, which must cure; None if it does not. The set is 1-minimal unless
    the questions run out (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input").
    """
    asked = 0

    def ask(off: Sequence[Item]) -> bool:
        nonlocal asked
        asked += 1
        return asked <= most and cured(off)

    current = list(items)
    if not current or not ask(current):
        return None
    pieces = 2
    while len(current) > 1:
        size = -(-len(current) // pieces)
        parts = [current[i : i + size] for i in range(0, len(current), size)]
        smaller = next((part for part in parts if ask(part)), None)
        if smaller is not None:
            current, pieces = smaller, 2
            continue
        rests = [[n for n in current if n not in part] for part in parts] if len(parts) > 2 else []
        without = next((rest for rest in rests if ask(rest)), None)
        if without is not None:
            current, pieces = without, max(2, pieces - 1)
        elif size == 1 or asked > most:
            break
        else:
            pieces = min(len(current), pieces * 2)
    return current
