"""Observes Dynamo (frames, inlining, guards, the Python state of each call) and restricts it.

Installed only with the switch ``front``, so that other probes are not disturbed. Keys of the switch:
``look``: observe only. ``eager``: functions that are neither compiled nor inlined. ``guard_on``: values
whose change forces recompilation at the next call. ``outside``: operators of the captured graph that run
outside of AOTAutograd. ``functorch``, ``dynamo``: settings. ``fullgraph``: False allows graph breaks even
if the script forbids them. ``stop``: a frame and the number of the place where its trace ends; the rest of
the frame runs eagerly.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Optional, Set

from ..exceptions import NotApplicable, code_key
from ..record.python_state import changes, state_of
from ..rungs.graph_split import GraphSplitter, splittable_operators
from ..torch_internals import dynamo, metrics, settings
from .dynamo_lines import Lines

MAX_CALLS = 40
MAX_CODES = 200
MAX_UNITS = 400


class DynamoHooks:
    """The observations of Dynamo in one run, and the restrictions that the switch ``front`` sets."""

    def __init__(self, switch: Dict[str, Any]) -> None:
        self.eager = frozenset(switch.get("eager") or ())
        self.guard_on = frozenset(switch.get("guard_on") or ())
        self.functorch: Dict[str, Any] = dict(switch.get("functorch") or {})
        self.settings: Dict[str, Any] = dict(switch.get("dynamo") or {})
        outside = switch.get("outside")
        self.outside: Optional[GraphSplitter] = None if outside is None else GraphSplitter(outside)
        self.fullgraph = switch.get("fullgraph", True)
        self.lines = Lines(switch.get("stop")) if switch.get("look") or switch.get("stop") else None
        self.frames: List[Dict[str, Any]] = []
        self.inlined: List[Dict[str, Any]] = []
        self.units: List[Dict[str, Any]] = []
        self.guards: List[str] = []
        self.names: Set[str] = set()
        self.calls: List[Dict[str, Any]] = []
        self._graphs = 0
        self._last: Dict[int, Dict[str, str]] = {}

    # -- installing ----------------------------------------------------------------------------

    def install(self) -> None:
        """Hooks into Dynamo and changes its settings.

        Raises ``NotApplicable`` if this torch lacks a hook or a setting that the switch needs.
        """
        if not dynamo.hook_frames(self._runs_as_it_is, self._compiling) and self.eager:
            raise NotApplicable("this torch cannot leave single frames uncompiled")
        if not dynamo.hook_inlining(self._inlining) and self.eager:
            raise NotApplicable("this torch cannot keep single functions from being inlined")
        dynamo.hook_guards(self._guarded)
        if self.lines is not None:
            self.lines.install()
        settings.change("dynamo", self.settings)
        if self.functorch:
            settings.require("functorch", self.functorch)

    def _runs_as_it_is(self, code: Any) -> bool:
        return code_key(code) in self.eager

    def _compiling(self, code: Any) -> None:
        self._note_names(code)
        if len(self.frames) < MAX_CODES:
            self.frames.append({"key": code_key(code), "call": len(self.calls) - 1})

    def _inlining(self, code: Any, calling: Any) -> str:
        """Notes an inlined function; a non-empty result is the reason to keep it out of the graph."""
        self._note_names(code)
        key, caller = code_key(code), code_key(calling)
        if key in self.eager:
            return "accel-lab keeps %s out of the graph" % key
        if len(self.inlined) < MAX_CODES and not any(row["key"] == key for row in self.inlined):
            self.inlined.append({"key": key, "caller": caller})
        return ""

    def _note_names(self, code: Any) -> None:
        self.names.update(code.co_names, code.co_freevars, code.co_varnames[: code.co_argcount])

    def _guarded(self, parts: List[Any]) -> None:
        if len(self.guards) < MAX_CODES:
            self.guards.append("\n".join(map(str, parts))[:20000])

    # -- graphs --------------------------------------------------------------------------------

    def around(self, builder: Any) -> Any:
        """Wraps ``builder(gm, inputs, patches)`` to apply functorch settings and ``outside`` operators."""

        def build(gm: Any, example_inputs: Any, patches: Any) -> Any:
            return self._build(gm, example_inputs, lambda part, inputs: builder(part, inputs, patches))

        return build

    def _build(self, gm: Any, example_inputs: Any, builder: Any) -> Any:
        turn = self._graphs
        self._graphs += 1
        if len(self.units) < MAX_UNITS:
            self.units += splittable_operators(gm, turn)[: MAX_UNITS - len(self.units)]
        within = _under(builder, self.functorch)
        if self.outside is None:
            compiled = within(gm, example_inputs)
        else:
            compiled = self.outside.build(gm, turn, example_inputs, within)
        return self._noting(compiled, turn)

    def _noting(self, compiled: Any, turn: int) -> Any:
        """Wraps a compiled graph so that the current call notes when it runs."""
        if self.calls:
            self.calls[-1]["born"].append(turn)

        def run(*args: Any) -> Any:
            if self.calls and turn not in self.calls[-1]["ran"]:
                self.calls[-1]["ran"].append(turn)
            return compiled(*args)

        # Copies ``_boxed_call``: under that convention ``args`` is the one list, passed on unchanged.
        run.__dict__.update(getattr(compiled, "__dict__", {}))
        # Dynamo of torch 2.5 would call this attribute instead of ``run``.
        run.__dict__.pop("_torchdynamo_orig_callable", None)
        return run

    # -- calls ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def call(self, region: Dict[str, Any], original: Any, args: Any, kwargs: Any) -> Iterator[Any]:
        """Records one outermost call of a region and its Python state before and after.

        Yields a function to call with the region's result.
        """
        before = state_of(original, args, kwargs)
        row: Dict[str, Any] = {
            "region": region["id"],
            "call": region["calls"] - 1,
            "before": before,
            "after": {},
            "raised": "",
            "born": [],  # graphs that were captured in this call
            "ran": [],  # graphs that ran in it
        }
        last = self._last.get(region["id"])
        if self.guard_on and last is not None and self.guard_on & set(changes(last, before)):
            dynamo.reset()
        self._last[region["id"]] = before
        self.calls.append(row)
        results: List[Any] = []
        frames, guards = len(self.frames), len(self.guards)
        try:
            yield results.append
        except BaseException as error:
            row["raised"] = type(error).__name__
            raise
        finally:
            row["compiled"] = [frame["key"] for frame in self.frames[frames:]]
            row["guards"] = list(range(guards, len(self.guards)))
            row["after"] = state_of(original, args, kwargs, results)

    def facts(self) -> Dict[str, Any]:
        """Returns all observations as JSON values."""
        kept = self.calls[:MAX_CALLS]
        return {
            "frames": self.frames,
            "inlined": self.inlined,
            "units": self.units,
            "guards": self.guards[:MAX_CALLS],
            "names": sorted(self.names)[:2000],
            "calls": kept,
            "calls_left_out": len(self.calls) - len(kept),
            "recompiles": _recompiles(),
            "lines": self.lines.facts() if self.lines is not None else {},
        }


def _under(builder: Any, values: Dict[str, Any]) -> Any:
    if not values:
        return builder

    def build(gm: Any, example_inputs: Any) -> Any:
        with settings.under("functorch", values):
            return builder(gm, example_inputs)

    return build


def _recompiles() -> List[str]:
    """Dynamo's own reasons for recompilations."""
    found = []
    for code, reasons in metrics.guard_failures().items():
        name = code_key(code) if hasattr(code, "co_name") else str(code)
        found += ["%s: %s" % (name, str(reason).split("  #")[0][:200]) for reason in list(reasons)[:40]]
    return list(dict.fromkeys(found))[:24]
