"""Notes every decomposition, FX pass and lowering that is applied, and switches chosen ones off.

torch asks ``CompilerBisector.disable_subsystem`` before each of them (``torch/_inductor/
compiler_bisector.py``, from 2.6 on). Here that question is answered by us, without its files.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Tuple

MAX_NAMES = 4000


class Subsystems:
    """``off`` maps a subsystem's name to the applications to leave out, or to ``"all"``.

    An application is known by its name and its turn among those of that name (``aten.t.default#0``): a
    number among all would mean another one as soon as something before it is left out.
    """

    def __init__(self, off: Any) -> None:
        self.off = off or {}
        self.applied: Dict[str, List[str]] = {}
        self._turns: Dict[Tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def install(self) -> bool:
        """Take the place of torch's own bisector; False where this torch has none."""
        try:
            from torch._inductor.compiler_bisector import CompilerBisector
        except ImportError:
            return False
        if not hasattr(CompilerBisector, "disable_subsystem"):
            return False

        def disable_subsystem(cls: Any, backend: Any, subsystem: str, debug_info: Any = None) -> Any:
            return self._ask(subsystem, debug_info)

        CompilerBisector.disable_subsystem = classmethod(disable_subsystem)
        return True

    def _ask(self, subsystem: str, debug_info: Any) -> bool:
        with self._lock:
            names = self.applied.setdefault(subsystem, [])
            name = _name(subsystem, debug_info)
            turn = self._turns.get((subsystem, name), 0)
            self._turns[(subsystem, name)] = turn + 1
            key = "%s#%d" % (name, turn)
            if len(names) < MAX_NAMES:
                names.append(key)
            off = self.off.get(subsystem, ())
            return off == "all" or key in off


def _name(subsystem: str, debug_info: Any) -> Any:
    """What is applied, in words; a lowering's node is taken with its operator."""
    if debug_info is None:
        return subsystem
    for cell in getattr(debug_info, "__closure__", None) or ():
        node = cell.cell_contents
        if hasattr(node, "op") and hasattr(node, "target"):
            return "%s target=%s" % (node.name, node.target)
    try:
        text = str(debug_info())
    except Exception:
        return subsystem
    if "overload='" in text and "op='" in text:  # <OpOverload(op='aten.x', overload='default')>
        return (
            text.split("op='", 1)[1].split("'", 1)[0] + "." + text.split("overload='", 1)[1].split("'", 1)[0]
        )
    return text


#: The functions of Inductor that run its FX passes; what they call by a name of their module is a pass.
_DRIVERS = (
    ("torch._inductor.fx_passes.pre_grad", "pre_grad_passes"),
    ("torch._inductor.fx_passes.joint_graph", "joint_graph_passes"),
    ("torch._inductor.fx_passes.post_grad", "post_grad_passes"),
)
FUNCTIONS = "pass_functions"


def wrap_pass_functions(subsystems: Any) -> None:
    """Count, and switch off, the pass functions that torch calls without asking its bisector.

    A function that is switched off does nothing and returns None; one that cannot be left out makes
    the run fail in another way, which is then no cure.
    """
    import functools
    import importlib
    import types

    for module_name, driver_name in _DRIVERS:
        try:
            module = importlib.import_module(module_name)
            driver = getattr(module, driver_name)
        except (ImportError, AttributeError):
            continue
        for name in driver.__code__.co_names:
            function = module.__dict__.get(name)
            if not isinstance(function, types.FunctionType) or "fx_passes" not in function.__module__:
                continue
            if name in ("lazy_init", "is_same_dict", "is_gpu", driver_name):
                continue
            setattr(module, name, _counted(subsystems, function, name, functools))


def _counted(subsystems: Any, function: Any, name: str, functools: Any) -> Any:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if subsystems._ask(FUNCTIONS, lambda: name):
            return None
        return function(*args, **kwargs)

    return run
