"""Streams a run as server-sent events with numbered lines, so that a reconnecting client misses none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from .live import Live, State, seconds_in_words

_PAUSE_S = 0.3
_MOST_ID = 12


def first_wanted(last_event: str | None, after: str | None) -> int:
    """Returns how many lines the client has: its Last-Event-ID if it reconnects, else the page's number."""
    for said in (last_event, after):
        if said is not None and said.isascii() and said.isdigit() and len(said) <= _MOST_ID:
            return int(said)
    return 0


async def events(run: Live, after: int, address: Callable[[Path], str]) -> AsyncIterator[dict[str, Any]]:
    """Yields the events of a run from line ``after`` + 1 until it is over; ``address`` maps a folder to its
    page.

    ``line`` is one line, with its number as the event's id. ``now`` is sent when state, time or running
    probes change. ``end`` is the last event. The data is JSON (``events.schema.json``).
    """
    sent, before = after, ""
    while True:
        # State before lines: no lines are added once the run is over.
        state, lines, running = await anyio.to_thread.run_sync(
            lambda: (run.state, run.lines(), run.running())
        )
        for line in lines[sent:]:
            yield {"event": "line", "id": str(line.number), "data": json.dumps(line.to_json())}
        sent = max(sent, len(lines))
        now = json.dumps(
            {
                "state": state.value,
                "seconds": seconds_in_words(run.seconds) if run.started is not None else "",
                "running": running,
                "run": address(run.run) if run.run is not None else "",
            }
        )
        if now != before:
            before = now
            yield {"event": "now", "data": now}
        if state is State.OVER:
            yield {"event": "end", "data": json.dumps({"said": run.said, "exit_code": run.exit_code})}
            return
        await anyio.sleep(_PAUSE_S)
