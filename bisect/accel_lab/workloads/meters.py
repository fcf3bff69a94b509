"""Clocks, memory and counters of the measured process, for the CPU and for CUDA. Runs in the child."""

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
    """Times one call at a time; on CUDA by events, and nothing is in flight before or after."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"

    def milliseconds(self, call: Callable[[], Any]) -> float:
        """How long the call took. Its result is dropped inside, so that its memory is not kept."""
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
        """How long its user waits for the call: compiling is work of the host, so its clock counts."""
        self.wait()
        began = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - began

    def wait(self) -> None:
        """Return when the device has done all that it was given."""
        if self._cuda:
            torch.cuda.synchronize()


class Memory:
    """The peak since the last ``reset``: resident in the process, or what CUDA's allocator gave out."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"
        self.kind = "allocated on the device" if self._cuda else "resident in the process"
        #: False where the kernel cannot forget an earlier peak: then it is that of the whole process so far.
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
    """A size of ``/proc/self/status`` in MB; None where there is none."""
    try:
        with open("/proc/self/status") as rows:
            for row in rows:
                if row.startswith(name + ":"):
                    return int(row.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def graphs() -> int:
    """How many graphs Dynamo has handed to a backend (``torch/_dynamo/utils.py: counters``)."""
    return int(_counters().get("stats", {}).get("unique_graphs", 0))


def graph_breaks() -> Any:
    """The reasons for which Dynamo ended a graph early, each with its number."""
    return {str(reason): int(count) for reason, count in _counters().get("graph_break", {}).items()}


def generated_kernels() -> Any:
    """How many kernels Inductor has generated (``torch/_inductor/metrics.py``); None where it did not run."""
    module = sys.modules.get("torch._inductor.metrics")
    count = getattr(module, "generated_kernel_count", None)
    return int(count) if count is not None else None


def _counters() -> Any:
    module = sys.modules.get("torch._dynamo.utils")
    return getattr(module, "counters", {})


def machine(device: str) -> Any:
    """What the numbers depend on and the interpreter knows."""
    facts = {"torch": str(torch.__version__), "threads": torch.get_num_threads(), "cpus": os.cpu_count()}
    if hasattr(os, "sched_getaffinity"):
        facts["cpus_allowed"] = len(os.sched_getaffinity(0))
    if device == "cuda":
        facts["device"] = torch.cuda.get_device_name()
        facts["cuda"] = str(torch.version.cuda)
    return facts
