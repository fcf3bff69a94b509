"""Captures Dynamo's graphs when they are called: the graph, its inputs, and the value of every node.

``capture/graph<k>.json`` and its safetensors files suffice to run each graph without the user's script.
Captures do not disturb the run: inputs are copied before the call, and node values come from a second run on
copies, with the same random state.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List

import torch

from ..artifacts import write_json
from .graph_json import NotExpressible, describe_graph, encode
from .values import (
    Budget,
    Bundle,
    NotPlain,
    TooLarge,
    copies,
    describe_value,
    dtype_name,
    save_inputs,
    undisturbed,
)

SCHEMA = "accel-lab/capture/1"
GRAPHS, CALLS, MEGABYTES = 12, 4, 256


class Capture:
    """Captures the first calls of the first graphs of a run.

    ``limits`` may have ``graphs``, ``calls`` (per graph) and ``megabytes``.
    """

    def __init__(self, folder: str, limits: Any) -> None:
        limits = limits if isinstance(limits, dict) else {}
        self._folder = os.path.join(folder, "capture")
        self._graphs = int(limits.get("graphs", GRAPHS))
        self._calls = int(limits.get("calls", CALLS))
        self._budget = Budget(int(limits.get("megabytes", MEGABYTES)) << 20)
        self._count = 0
        self._order = 0

    def graph(self, gm: Any, region: Any) -> Any:
        """Describes a graph before compilation; returns a wrapper for the compiled graph."""
        number = self._count
        self._count += 1
        if number >= self._graphs:
            return _same
        record = CapturedGraph(self._folder, number, gm, region, self._budget)

        def wrap(compiled: Any) -> Any:
            def call(*args: Any) -> Any:
                if len(record.data["calls"]) >= self._calls or not record.expressible:
                    return compiled(*args)
                self._order += 1
                return record.call(compiled, args, self._order)

            return call

        return wrap


def _same(compiled: Any) -> Any:
    return compiled


class CapturedGraph:
    """A graph captured into ``folder``: its description and its saved calls."""

    def __init__(self, folder: str, number: int, gm: Any, region: Any, budget: Budget) -> None:
        self._folder = folder
        self._number = number
        self._budget = budget
        self.expressible = True
        self.data: Dict[str, Any] = {
            "schema": SCHEMA,
            "graph": number,
            "reason": "",
            "region": region["id"],
            "compile": {key: region[key] for key in ("backend", "options", "fullgraph", "dynamic")},
            "code": gm.code,
            "nodes": [],
            "functions": {},
            "sizes": {},
            "calls": [],
        }
        try:
            described, self._attributes = describe_graph(gm)
            self.data.update(described)
            self._gm = copy_of_graph(gm)
        except NotExpressible as error:
            self._refuse(str(error))
        except Exception as error:
            self._refuse("the graph could not be described: %r" % error)
        self._write()

    def _refuse(self, reason: str) -> None:
        self.expressible = False
        self.data["reason"] = self.data["reason"] or reason

    def _write(self) -> None:
        os.makedirs(self._folder, exist_ok=True)
        path = os.path.join(self._folder, "graph%d.json" % self._number)
        write_json(path, self.data, indent=1)

    def _path(self, call: int, what: str) -> str:
        name = "graph%d_call%d%s.safetensors" % (self._number, call, what)
        return os.path.join(self._folder, name)

    # -- calls ---------------------------------------------------------------------------------

    def call(self, compiled: Any, args: Any, order: int) -> Any:
        """Saves inputs and node values, calls ``compiled``, and hooks the outputs to save gradients."""
        index = len(self.data["calls"])
        entry: Dict[str, Any] = {"order": order, "reason": "", "file": "", "values": "", "backward": []}
        self.data["calls"].append(entry)
        try:
            with undisturbed():
                self._save_call(entry, index, args)
        except (NotPlain, TooLarge, NotExpressible) as error:
            entry["reason"] = str(error)
        except Exception as error:
            entry["reason"] = "the inputs could not be saved: %r" % error
        self._write()
        result = compiled(*args)
        if not entry["reason"]:
            self._watch_backward(entry, index, result)
        return result

    def _save_call(self, entry: Any, index: int, args: Any) -> None:
        placeholders = [node for node in self.data["nodes"] if node["op"] == "placeholder"]
        values = dict(zip((n["name"] for n in placeholders if n["name"] not in self._attributes), args))
        values.update(self._attributes)
        tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        bundle = Bundle(self._budget)
        state = torch.get_rng_state()
        bundle.flat("rng_state", "uint8", state)
        storages, described = save_inputs(list(tensors), list(tensors.values()), bundle)
        for name, value in values.items():
            if name not in described:
                described[name] = {"kind": "value", "value": encode(value)}
        entry.update(
            storages=storages,
            inputs=[dict(described[node["name"]], name=node["name"]) for node in placeholders],
            settings=thread_settings(),
        )
        bundle.write(self._path(index, ""))
        entry["file"] = os.path.basename(self._path(index, ""))
        self._save_values(entry, index, args)

    def _save_values(self, entry: Any, index: int, args: Any) -> None:
        """Interprets the graph on copies and saves every node's value."""
        bundle = Bundle(self._budget)
        metas: Dict[str, Any] = {}
        interpreter = _Values(self._gm, bundle, metas)
        try:
            interpreter.run(*copies(args))
        except Exception as error:
            entry["values_reason"] = "%s: %s" % (type(error).__name__, str(error)[:200])
        entry["metas"] = metas
        if not bundle.empty:
            bundle.write(self._path(index, "_values"))
            entry["values"] = os.path.basename(self._path(index, "_values"))

    def keep(self, args: Any, state: Any, settings: Any, gradients: Any) -> None:
        """Saves a call that was made elsewhere; if that fails, ``data`` has the reason.

        ``state`` and ``settings`` are the random state and the thread's settings before the call.
        ``gradients`` maps positions of outputs to their incoming gradients.
        """
        entry: Dict[str, Any] = {"order": 1, "reason": "", "file": "", "values": "", "backward": []}
        self.data["calls"].append(entry)
        try:
            with undisturbed():
                torch.set_rng_state(state)
                self._save_call(entry, len(self.data["calls"]) - 1, args)
                entry["settings"] = settings
                self._save_gradients(entry, len(self.data["calls"]) - 1, gradients)
        except (NotPlain, TooLarge, NotExpressible) as error:
            entry["reason"] = str(error)
        except Exception as error:
            entry["reason"] = "the inputs could not be saved: %r" % error
        self._write()

    def _save_gradients(self, entry: Any, index: int, gradients: Any) -> None:
        bundle = Bundle(self._budget)
        for position, gradient in sorted(gradients.items()):
            key = "g%d" % position
            bundle.values(key, gradient)
            known = {"output": position, "key": key, "size": list(gradient.shape)}
            known.update(dtype=dtype_name(gradient.dtype), stride=list(gradient.stride()))
            entry["backward"].append(known)
        if gradients:
            bundle.write(self._path(index, "_grads"))
            entry["grads"] = os.path.basename(self._path(index, "_grads"))

    def _watch_backward(self, entry: Any, index: int, result: Any) -> None:
        """Hooks the outputs to save their incoming gradients when a backward runs."""
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        gradients = Bundle(self._budget)

        def hook(position: int) -> Any:
            def keep(gradient: Any) -> None:
                if any(known["output"] == position for known in entry["backward"]):
                    return
                known = {"output": position, "key": "", "size": list(gradient.shape)}
                known["dtype"] = dtype_name(gradient.dtype)
                known["stride"] = list(gradient.stride())
                try:
                    with undisturbed():
                        gradients.values("g%d" % position, gradient)
                        known["key"] = "g%d" % position
                        gradients.write(self._path(index, "_grads"))
                        entry["grads"] = os.path.basename(self._path(index, "_grads"))
                except Exception as error:
                    known["reason"] = str(error)
                entry["backward"].append(known)
                self._write()

            return keep

        for position, output in enumerate(outputs):
            if isinstance(output, torch.Tensor) and output.requires_grad:
                try:
                    output.register_hook(hook(position))
                except Exception as error:
                    entry["backward_reason"] = "%r" % error


class _Values(torch.fx.Interpreter):
    """Interprets a graph and copies every node's value right after the node ran."""

    def __init__(self, gm: Any, bundle: Bundle, metas: Any) -> None:
        super().__init__(gm)
        self._bundle = bundle
        self._metas = metas

    def run_node(self, node: Any) -> Any:
        result = super().run_node(node)
        if node.op not in ("output", "placeholder"):
            self._keep(node.name, result)
        if node.op != "output":
            with contextlib.suppress(Exception):
                self._metas[node.name] = describe_value(result, encode)
        return result

    def _keep(self, name: str, value: Any) -> None:
        if isinstance(value, (tuple, list)):
            for index, item in enumerate(value):
                self._keep("%s.%d" % (name, index), item)
        elif isinstance(value, torch.Tensor):
            with contextlib.suppress(NotPlain, TooLarge):
                self._bundle.values(name, value)


def copy_of_graph(gm: Any) -> Any:
    """Returns a copy of the graph, because a compiler may change the original or its constants."""
    return torch.fx.GraphModule(gm, _copied(gm))


def _copied(gm: Any) -> Any:
    graph = torch.fx.Graph()
    output = graph.graph_copy(gm.graph, {})
    if output is not None:
        graph.output(output)
    return graph


def thread_settings() -> Dict[str, Any]:
    """Returns the thread's grad mode, inference mode, default dtype and autocast."""
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "default_dtype": dtype_name(torch.get_default_dtype()),
        "autocast": _autocast(),
    }


def _autocast() -> List[Dict[str, Any]]:
    found = []
    for device in ("cpu", "cuda"):
        try:
            enabled = torch.is_autocast_enabled(device)
            dtype = torch.get_autocast_dtype(device)
        except TypeError:  # torch 2.3 and older have a function per device
            enabled = torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled()
            dtype = torch.get_autocast_cpu_dtype() if device == "cpu" else torch.get_autocast_gpu_dtype()
        if enabled:
            found.append({"device": device, "dtype": dtype_name(dtype)})
    return found
