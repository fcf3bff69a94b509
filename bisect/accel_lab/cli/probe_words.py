"""Describes a probe in words for the progress line: ``kernel: every operator falls back to eager``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accel_lab.core.probe import Probe
from accel_lab.search.accelerator.replacements import LABELS, SETTINGS, Replacement
from accel_lab.search.localize.kernel import bare, operator
from accel_lab.search.switches import KERNEL_SWITCHES

_AS_IT_IS = (("front_end", "main"), ("back_end", "main"))
#: Most names that are listed; more are only counted.
_SPELT = 2


def question(probe: Probe) -> str:
    """Describes a probe: its rung, its switches, and whether its process is fresh."""
    if probe.edited:
        return "a workaround: your script with a few lines changed" + ("" if probe.bare else ", recorded")
    if probe.bare:
        compiles = not dict(probe.switches).get("disable_everywhere")
        return "plain run" if compiles else "plain run, not compiled"
    changes = [text for name, value in probe.switches if (text := switch(name, value))]
    if not probe.limits.record_mb:
        changes.append("nothing recorded")
    name = ": ".join(filter(None, (probe.rung.value, "; ".join(changes))))
    return name + (" (cold)" if probe.cold else "")


def switch(name: str, value: Any) -> str:
    """Describes one switch of a probe."""
    known = next((row.label for row in KERNEL_SWITCHES if row.settings == ((name, value),)), "")
    if name in _WORDS:
        return _WORDS[name](value)
    if known:
        return known
    if name == "mock" and isinstance(value, Mapping):
        return _mock(value)
    if name in ("adapter", "inductor") and isinstance(value, Mapping):
        return _pairs(value)
    return name if value is True else f"{name}={value}"


def _pairs(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items() if value != "")


def _mock(settings: Mapping[str, Any]) -> str:
    """Describes what is replaced in the mock; empty if front end and back end are the originals."""
    left = {key: value for key, value in settings.items() if value != "" and (key, value) not in _AS_IT_IS}
    more = []
    if left.pop("trace", False):
        more.append("every layer dumped")
    if kernels := left.pop("by_reference", None):
        more.append("on the reference: " + _listed([str(kernel) for kernel in kernels], "kernels"))
    row = next((ask for ask, options in SETTINGS.items() if options == left), None)
    replaced = _pairs(left) if row is None else "" if row is Replacement.MAIN else LABELS[row]
    return "; ".join(filter(None, (replaced, *more)))


def _listed(names: Sequence[str], plural: str) -> str:
    unique = list(dict.fromkeys(names))
    return " and ".join(unique) if len(unique) <= _SPELT else f"{len(names)} {plural}"


def _left_out(value: Mapping[str, Any]) -> str:
    """Describes the switch ``off``: the applications left out, by subsystem, all or some."""
    parts = []
    for subsystem, keys in value.items():
        plural = subsystem.replace("_", " ")
        if subsystem == "lowerings":
            who = (
                "every operator"
                if keys == "all"
                else _listed([operator(key).removesuffix(".default") for key in keys], "operators")
            )
            one = keys == "all" or len(set(map(operator, keys))) == 1
            parts.append(f"{who} {'falls' if one else 'fall'} back to eager")
        elif keys == "all":
            parts.append(f"no {plural}")
        else:
            parts.append("without " + _listed([bare(key) for key in keys], plural))
    return ", ".join(parts)


#: Switches of the front end's localization (``search/localize/question_budget.py``), in words.
_FRONT: Mapping[str, Callable[[Any], str]] = {
    "outside": lambda keys: f"{len(keys)} operator{'s' * (len(keys) != 1)} outside AOTAutograd",
    "eager": lambda keys: (
        "not compiled: " + _listed([str(key).split(" ", 1)[0] for key in keys], "functions")
    ),
    "stop": lambda place: f"Dynamo's trace ends at place {place[1]} of {str(place[0]).split(' ', 1)[0]}",
    "guard_on": lambda paths: "recompiled when " + _listed(list(paths), "values") + " changes",
    "functorch": _pairs,
    "dynamo": _pairs,
    "fullgraph": lambda value: f"fullgraph={value}",
}


def _front(value: Mapping[str, Any]) -> str:
    parts = [_FRONT[key](more) for key, more in value.items() if key in _FRONT and more]
    return ", ".join(parts) or "state before and after each call"


def _bisector(value: Mapping[str, Any]) -> str:
    less = f" without {value['subsystem']}" if value.get("subsystem") else ""
    return f"torch's CompilerBisector, {value.get('backend')}{less}"


_WORDS: Mapping[str, Callable[[Any], str]] = {
    "off": _left_out,
    "front": _front,
    "bisector": _bisector,
    "layers": lambda value: "every layer dumped",
    "trace": lambda value: "torch's structured trace",
    "annotate": lambda value: "kernel lines annotated",
    "sanitize": lambda value: "address sanitizer",
    "divergence": lambda value: "intermediate values compared",
    "python_kernels": lambda value: f"Python kernels: {value}",
    "native_kernels": lambda ops: "native kernel of " + _listed(list(ops), "operators"),
    "other_random": lambda seed: f"another random seed ({seed})",
    "other_rounding": lambda number: f"results perturbed by 1 ULP ({number})",
    "shadow": lambda value: "float64 reference",
    "show_pass": lambda name: f"graph around {bare(str(name))}",
    "meta_fix": lambda ops: "meta kernel corrected: " + _listed(list(ops), "operators"),
    "correct_inputs": lambda value: "inputs converted to their captured dtypes",
    "meta_eager": lambda value: "meta kernels checked as operators are called",
    "meta_watch": lambda value: "meta kernels checked as Dynamo calls them",
    "contiguous": lambda value: "contiguous inputs for every operator",
    "fresh": lambda value: "recompiled at every call",
    "identity": lambda value: "torch.compile returns its argument",
    "disable_everywhere": lambda value: "no torch.compile in other processes",
    "other_processes": lambda value: "in other processes as well",
    "hold": lambda value: f"regions {', '.join(value)} kept on a passing rung",
    "caches": lambda names: f"caches on: {', '.join(names)}",
    "together": lambda value: "fused loops run as one",
}
