"""Times the last call of each compiled region, compiled and uncompiled, after the script has ended.

A copy of the user's script imports this file and no other part of the lab. ``start(torch)`` replaces
``torch.compile`` by a version that keeps the arguments of each region's last call. At exit both sides are
called alternately, and the last line of standard error has the medians in seconds.
"""

from __future__ import annotations

import atexit
import functools
import json
import statistics
import sys
import time
from typing import Any, Callable, Dict, List

#: Limits per region: number of pairs of calls, and seconds after which no new pair starts.
MOST_PAIRS, MOST_S = 60, 2.0
#: Prefix of the result line.
MARK = "accel-lab-region-seconds "


def start(torch: Any) -> None:
    """Replaces ``torch.compile``; the result is printed at exit unless no region was called."""
    regions: List[Dict[str, Any]] = []
    real = torch.compile

    @functools.wraps(real)
    def compile(model: Any = None, **words: Any) -> Any:
        if model is None:
            return lambda function: compile(function, **words)
        compiled = real(model, **words)
        region: Dict[str, Any] = {"plain": model}
        regions.append(region)
        if hasattr(compiled, "_orig_mod"):  # a module must stay a module
            region["compiled"] = compiled.forward
            compiled.__dict__["forward"] = _kept(region)
            return compiled
        region["compiled"] = compiled
        return functools.wraps(model)(_kept(region))

    torch.compile = compile
    atexit.register(_report, regions)


def _kept(region: Dict[str, Any]) -> Callable[..., Any]:
    def call(*args: Any, **words: Any) -> Any:
        result = region["compiled"](*args, **words)
        region["call"] = (args, words)
        return result

    return call


def _report(regions: List[Dict[str, Any]]) -> None:
    pairs, compiled, plain = 0, 0.0, 0.0
    try:
        for region in [one for one in regions if "call" in one]:
            ours, theirs = _timed(region)
            compiled, plain = compiled + statistics.median(ours), plain + statistics.median(theirs)
            pairs = max(pairs, len(ours))
    except Exception:  # a call may need something that is gone after the script has ended
        return
    if pairs:
        said = {"compiled": compiled, "plain": plain, "runs": pairs}
        sys.stderr.write("\n%s%s\n" % (MARK, json.dumps(said)))


def _timed(region: Dict[str, Any]) -> Any:
    args, words = region["call"]
    ours: List[float] = []
    theirs: List[float] = []
    end = time.perf_counter() + MOST_S
    while len(ours) < MOST_PAIRS and (not ours or time.perf_counter() < end):
        for function, seconds in ((region["compiled"], ours), (region["plain"], theirs)):
            began = time.perf_counter()
            function(*args, **words)
            seconds.append(time.perf_counter() - began)
    return ours, theirs
