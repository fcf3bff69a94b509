"""Measures time, memory and counters of this process, on CPU and CUDA. Runs in the child."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

MEBI = 1 << 20


class Clock:
    """Times single calls, on CUDA with events; the device is idle before and after."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"

    def milliseconds(self, call: Callable[[], Any]) -> float:
        """Returns a call's duration in ms; the result is dropped, so that its memory is not kept."""
        if not self._cuda:
            began = time.perf_counter()
            call()
            return (time.perf_counter() - began) * 1e3
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    def seconds(self, call: Callable[[], Any]) -> float:
        """Returns a call's wall-clock time in seconds, which includes compilation on the host."""
        self.wait()
        began = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - began

    def wait(self) -> None:
        """Waits until the device is idle."""
        if self._cuda:
            torch.cuda.synchronize()


class Memory:
    """Measures peak memory since the last ``reset``: resident size, or CUDA's allocated memory."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"
        self.kind = "allocated on the device" if self._cuda else "resident in the process"
        #: False if the kernel cannot reset the peak, which is then that of the whole process.
        self.resets = True

    def reset(self) -> None:
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
            return
        try:
            with open("/proc/self/clear_refs", "w") as control:
                control.write("5")  # see proc(5): resets VmHWM
        except OSError:
            self.resets = False

    def now_mb(self) -> float:
        if self._cuda:
            return torch.cuda.memory_allocated() / MEBI
        return _status("VmRSS") or self.peak_mb()

    def peak_mb(self) -> float:
        if self._cuda:
            return torch.cuda.max_memory_allocated() / MEBI
        peak = _status("VmHWM")
        if peak is None:
            self.resets = False
            unit = MEBI if sys.platform == "darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        return peak


def _status(name: str) -> Any:
    """A size from ``/proc/self/status`` in MB; None if unavailable."""
    try:
        with open("/proc/self/status") as rows:
            for row in rows:
                if row.startswith(name + ":"):
                    return int(row.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def graphs() -> int:
    """Returns the number of graphs that Dynamo compiled (``torch/_dynamo/utils.py: counters``)."""
    return int(_counters().get("stats", {}).get("unique_graphs", 0))


def graph_breaks() -> Any:
    """Returns the number of graph breaks by reason."""
    return {str(reason): int(count) for reason, count in _counters().get("graph_break", {}).items()}


def generated_kernels() -> Any:
    """Returns the number of kernels that Inductor generated; None if it did not run.

    Source: ``torch/_inductor/metrics.py``.
    """
    module = sys.modules.get("torch._inductor.metrics")
    count = getattr(module, "generated_kernel_count", None)
    return int(count) if count is not None else None


def _counters() -> Any:
    module = sys.modules.get("torch._dynamo.utils")
    return getattr(module, "counters", {})


def machine(device: str) -> Any:
    """Returns the facts of machine and torch that affect the measurements."""
    facts = {"torch": str(torch.__version__), "threads": torch.get_num_threads(), "cpus": os.cpu_count()}
    if hasattr(os, "sched_getaffinity"):
        facts["cpus_allowed"] = len(os.sched_getaffinity(0))
    if device == "cuda":
        facts["device"] = torch.cuda.get_device_name()
        facts["cuda"] = str(torch.version.cuda)
    return facts
