"""A run as server-sent events: its lines, numbered, so that who comes back gets what they missed."""

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
    """How many lines the client has: what it says when it comes back, else what its page was made with."""
    for said in (last_event, after):
        if said is not None and said.isascii() and said.isdigit() and len(said) <= _MOST_ID:
            return int(said)
    return 0


async def events(run: Live, after: int, address: Callable[[Path], str]) -> AsyncIterator[dict[str, Any]]:
    """The events of a run from line ``after`` + 1 on, until it is over; ``address`` is of a run's page.

    ``line``: one line, its number is the event's id. ``now``: state, time and what runs, when it changes.
    ``end``: nothing follows. The data is JSON (``events.schema.json``).
    """
    sent, before = after, ""
    while True:
        # The state before the lines: nothing is added to them once it is over.
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
