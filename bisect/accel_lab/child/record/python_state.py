"""Describes, as text, the Python state that a compiled region can read or write.

The walk covers the function's arguments, closure cells, globals (only the names in its code), its module or
object, and torch's modes; depth and number of entries are bounded. It reads ``__dict__`` and slots directly
and does not call the script's code.
"""

from __future__ import annotations

import collections
import dis
import enum
import itertools
import operator
import os
import sys
import sysconfig
import types
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import torch

from ..exceptions import short

MAX_ENTRIES = 240
MAX_DEPTH = 5
MAX_ITEMS = 24
#: Tensor arguments compared pairwise for shared memory.
MAX_TENSORS = 6

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_LIBRARY = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
#: Attributes of a module that are left out.
_PRIVATE = frozenset(
    {
        "_parameters", "_buffers", "_modules", "_backward_hooks", "_backward_pre_hooks", "_forward_hooks",
        "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs",
        "_forward_hooks_always_called", "_state_dict_hooks", "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_non_persistent_buffers_set",
        "_is_full_backward_hook", "_compiled_call_impl", "forward",
    }
)  # fmt: skip


def state_of(fn: Any, args: Any, kwargs: Any, results: Sequence[Any] = ()) -> Dict[str, str]:
    """Returns ``{path: description}`` of all reachable state; ``results`` has the call's result, if any."""
    walk = _Walk()
    try:
        names = _parameters(fn)
        names += ["args[%d]" % number for number in range(len(names), len(args))]
        arguments = [*zip(names, args), *kwargs.items()]
        for name, value in arguments:
            walk.visit(name, value, 0)
        walk.root(fn)
        walk.found.update(_memory(arguments))
        walk.found.update(_modes())
        for value in results:
            walk.seen.clear()
            walk.visit("returned", value, 1)
    except Exception as error:  # observation must not fail the script
        walk.found["(not all could be read)"] = type(error).__name__
    return walk.found


def _parameters(fn: Any) -> List[str]:
    """A function's positional parameter names, without ``self``."""
    fn = getattr(fn, "_orig_mod", fn)
    bound = not isinstance(fn, types.FunctionType)
    if isinstance(fn, types.MethodType):
        fn = fn.__func__
    elif bound:
        fn = getattr(type(fn), "forward", None) or type(fn).__dict__.get("__call__")
    code = getattr(fn, "__code__", None)
    return [] if code is None else list(code.co_varnames[: code.co_argcount])[int(bound) :]


def changes(before: Dict[str, str], after: Dict[str, str]) -> List[str]:
    """Returns the paths whose descriptions differ, including paths that only one side has."""
    return [path for path in {**before, **after} if before.get(path) != after.get(path)]


class _Walk:
    def __init__(self) -> None:
        self.found: Dict[str, str] = {}
        self.seen: Set[int] = set()
        self.modules: List[str] = []

    def root(self, fn: Any) -> None:
        """Visits the region's function, method, module or callable object."""
        fn = getattr(fn, "_orig_mod", fn)
        if isinstance(fn, types.MethodType):
            self.visit("self", fn.__self__, 0)
            self.function("", fn.__func__, 0)
        elif isinstance(fn, types.FunctionType):
            self.function("", fn, 0)
        else:
            self.visit("self", fn, 0)

    def visit(self, path: str, value: Any, depth: int) -> None:
        if len(self.found) >= MAX_ENTRIES:
            return
        kind = type(value)
        if kind in _SCALARS or isinstance(value, (enum.Enum, torch.dtype, torch.device)):
            self.found[path] = _text(value)
            return
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        if isinstance(value, torch.Tensor):
            self.found[path] = _tensor(value)
            self.found.update(_baked(path, value))
        elif isinstance(value, types.FunctionType):
            self.found[path] = "function " + value.__qualname__
            if depth < MAX_DEPTH and _of_script(value):
                self.function(path, value, depth + 1)
        elif isinstance(value, types.MethodType):
            self.visit(path + ".__self__", value.__self__, depth + 1)
            self.visit(path + ".__func__", value.__func__, depth)
        elif isinstance(value, type):
            self.found[path] = "class " + value.__qualname__
            if depth < MAX_DEPTH:
                self.cls(path, value, depth + 1)
        elif isinstance(value, types.ModuleType):
            return
        elif isinstance(value, (list, tuple, set, frozenset, dict, collections.deque)):
            self.container(path, value, depth)
        elif isinstance(value, torch.nn.Module):
            self.module(path, value, depth)
        else:
            self.thing(path, value, depth)

    def function(self, path: str, fn: Any, depth: int) -> None:
        """Visits what a function reads: closure cells, globals named in its code, defaults."""
        code = fn.__code__
        names = _names(code)
        inside = path + "." if path else ""
        for name, cell in zip(code.co_freevars, fn.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                self.found[inside + name] = "(empty cell)"
                continue
            self.visit(inside + name, value, depth)
        for name in names:
            if name not in fn.__globals__:
                continue
            value = fn.__globals__[name]
            if isinstance(value, types.ModuleType):
                self.attributes_of_module(name, value, _attributes(code), depth)
            else:
                self.visit(name, value, depth)
        for number, value in enumerate(fn.__defaults__ or ()):
            self.visit("%sdefault %d" % (inside, number), value, depth + 1)

    def attributes_of_module(self, path: str, module: Any, names: Sequence[str], depth: int) -> None:
        """Visits the attributes ``names`` of a module, if the module is the script's own."""
        if not _is_script_file(getattr(module, "__file__", None) or "") and module.__name__ != "__main__":
            return
        for name in names:
            value = module.__dict__.get(name)
            if value is not None and not isinstance(value, types.ModuleType):
                self.visit("%s.%s" % (path, name), value, depth + 1)

    def cls(self, path: str, kind: Any, depth: int) -> None:
        if kind.__module__.split(".")[0] in ("torch", "builtins") or not _is_script_file(_file_of(kind)):
            return
        for name, value in list(vars(kind).items()):
            if name.startswith("__") and name != "__call__":
                continue
            value = getattr(value, "__func__", value)
            if isinstance(value, property):
                value = value.fget
            if isinstance(value, types.FunctionType):
                self.function("%s.%s" % (path, name), value, depth + 1)
            else:
                self.visit("%s.%s" % (path, name), value, depth)

    def container(self, path: str, value: Any, depth: int) -> None:
        pairs = isinstance(value, dict)
        items = list(dict.items(value)) if pairs else list(value)
        if isinstance(value, (set, frozenset)):
            items = sorted(items, key=_text)
        shown = []
        for number, item in enumerate(items[:MAX_ITEMS]):
            key, inner = item if pairs else (number, item)
            shown.append(("%s: " % _text(key) if pairs else "") + _text(inner))
        more = ", ..." if len(items) > MAX_ITEMS else ""
        self.found[path] = "%s of %d: %s%s" % (type(value).__name__, len(items), ", ".join(shown), more)
        if depth >= MAX_DEPTH:
            return
        for number, item in enumerate(items[:MAX_ITEMS]):
            key, inner = item if pairs else (number, item)
            if type(inner) not in _SCALARS:
                self.visit("%s[%s]" % (path, _text(key)), inner, depth + 1)

    def module(self, path: str, module: Any, depth: int) -> None:
        self.found[path] = "%s, %s" % (
            type(module).__qualname__,
            "training" if module.training else "evaluating",
        )
        if depth >= MAX_DEPTH:
            return
        if not any(path.startswith(known + ".") for known in self.modules):
            self.modules.append(path)
            self.found["hooks(%s)" % path] = _hooks(module)
        data = module.__dict__
        for name in ("_parameters", "_buffers", "_modules"):
            for key, value in (data.get(name) or {}).items():
                self.visit("%s.%s" % (path, key), value, depth + 1)
        for name, value in data.items():
            if name not in _PRIVATE and not name.startswith(("_is_torch", "_torchdynamo", "_dynamo")):
                self.visit("%s.%s" % (path, name), value, depth + 1)
        self.cls("type(%s)" % path, type(module), depth + 1)
        forward = type(module).forward
        if isinstance(forward, types.FunctionType) and _of_script(forward):
            self.function(path, forward, depth + 1)

    def thing(self, path: str, value: Any, depth: int) -> None:
        """Visits another object; attributes are read only if its class is the script's own."""
        kind = type(value)
        self.found[path] = "%s%s" % (kind.__qualname__, _progress(value))
        if depth >= MAX_DEPTH or not _is_script_file(_file_of(kind)):
            return
        data: Dict[str, Any] = {}
        try:
            data.update(object.__getattribute__(value, "__dict__"))
        except AttributeError:
            pass
        for base in kind.__mro__:
            slots = base.__dict__.get("__slots__") or ()
            for name in (slots,) if isinstance(slots, str) else slots:
                member = base.__dict__.get(name)
                if isinstance(member, types.MemberDescriptorType):
                    try:
                        data[name] = member.__get__(value)
                    except AttributeError:
                        continue
        for name, inner in data.items():
            self.visit("%s.%s" % (path, name), inner, depth + 1)
        if kind.__qualname__ not in path:
            self.visit(kind.__qualname__.split(".")[-1], kind, depth + 1)


def _hooks(module: Any) -> str:
    """The number of hooks of a module and its submodules, by kind (pytorch#186507)."""
    counts: Dict[str, int] = {}
    for part in itertools.islice(module.modules(), MAX_ENTRIES):
        for name in _HOOKS:
            counts[name] = counts.get(name, 0) + len(part.__dict__.get(name) or ())
    return ", ".join("%d %s" % (count, name.strip("_")) for name, count in counts.items() if count) or "none"


def _text(value: Any) -> str:
    if type(value) in _SCALARS:
        return repr(value)[:80]
    if isinstance(value, enum.Enum):
        return "%s.%s" % (type(value).__name__, value.name)
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if isinstance(value, torch.Tensor):
        return "tensor"
    return "<%s>" % type(value).__name__


def _tensor(value: Any) -> str:
    """A tensor's metadata; values are left out, as they may change without a recompilation."""
    try:
        text = "%s %s %s" % (type(value).__name__, str(value.dtype)[6:], list(value.shape))
        if value.layout is torch.strided:
            text += " strides %s" % (list(value.stride()),)
        return text + " %s" % value.device
    except Exception:
        return type(value).__name__


def _baked(path: str, value: Any) -> Dict[str, str]:
    """Tensor properties that compiled code depends on but no graph shows, unless as in a new tensor."""
    found: Dict[str, Any] = {}
    try:
        found["requires_grad"] = value.requires_grad
        found["is_inference()"] = value.is_inference()
        found["is_conj()"] = value.is_conj()
        found["is_neg()"] = value.is_neg()
        found["storage_offset()"] = value.storage_offset() if value.layout is torch.strided else 0
        found["_backward_hooks"] = len(value._backward_hooks or ())
        found["grad"] = value.is_leaf and value.requires_grad and value.grad is not None
        found["is_leaf"] = "" if value.is_leaf else "False"
    except Exception:  # a subclass may refuse any of them
        pass
    return {"%s.%s" % (path, name): str(worth) for name, worth in found.items() if worth}


def _memory(arguments: Sequence[Tuple[str, Any]]) -> Dict[str, str]:
    """For each pair of tensor arguments: whether they are one object or share memory."""
    tensors = [(name, value) for name, value in arguments if isinstance(value, torch.Tensor)][:MAX_TENSORS]
    found = {}
    for (one, left), (two, right) in itertools.combinations(tensors, 2):
        found["overlap(%s, %s)" % (one, two)] = "the same tensor" if left is right else _shared(left, right)
    return found


def _shared(left: Any, right: Any) -> str:
    try:
        (start, end), (first, last) = _bytes_of(left), _bytes_of(right)
    except Exception:  # no storage of its own: sparse, a subclass, a device without addresses
        return "(not known)"
    return "they share memory" if start < last and first < end else "apart"


def _bytes_of(tensor: Any) -> Tuple[int, int]:
    """The address range ``(start, end)`` of a strided tensor."""
    if not tensor.numel():
        return (0, 0)
    span = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride()))
    start = tensor.data_ptr()
    return (start, start + (span + 1) * tensor.element_size())


def _progress(value: Any) -> str:
    """The position of a generator or built-in iterator, without advancing it."""
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return " (ended)" if frame is None else " (at line %d)" % frame.f_lineno
    if type(value).__module__ == "builtins" and hasattr(type(value), "__length_hint__"):
        try:
            return " with %d left" % operator.length_hint(value)
        except Exception:
            return ""
    return ""


def _names(code: Any, depth: int = 0) -> List[str]:
    """The globals that a code object and its nested code objects access."""
    found = [
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL") and isinstance(step.argval, str)
    ]
    for value in code.co_consts:
        if isinstance(value, types.CodeType) and depth < 4:
            found += _names(value, depth + 1)
    return list(dict.fromkeys(found))


def _attributes(code: Any) -> List[str]:
    return [step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_ATTR", "LOAD_METHOD")]


def _of_script(fn: Any) -> bool:
    return _is_script_file(fn.__code__.co_filename)


def _file_of(kind: Any) -> str:
    module: Optional[Any] = sys.modules.get(kind.__module__)
    if kind.__module__ == "__main__":
        return "__main__"
    return getattr(module, "__file__", None) or ""


def _is_script_file(path: str) -> bool:
    """Whether a file is the user's: not of torch, an installed package or the standard library."""
    if path == "__main__":
        return True
    if not path or path.startswith("<") or short(path) != path.replace(os.sep, "/"):
        return False
    return "/site-packages/" not in path and not os.path.realpath(path).startswith(_LIBRARY)


def _modes() -> Dict[str, str]:
    """torch's global modes that affect compilation."""
    found = {
        "torch.get_default_dtype()": str(torch.get_default_dtype()),
        "torch.is_grad_enabled()": str(torch.is_grad_enabled()),
        "torch.is_inference_mode_enabled()": str(torch.is_inference_mode_enabled()),
        "torch.are_deterministic_algorithms_enabled()": str(torch.are_deterministic_algorithms_enabled()),
        "torch.get_num_threads()": str(torch.get_num_threads()),
        "torch.get_float32_matmul_precision()": str(torch.get_float32_matmul_precision()),
    }
    for name, ask in (
        ("torch.is_autocast_enabled('cpu')", lambda: torch.is_autocast_enabled("cpu")),
        ("torch.get_autocast_dtype('cpu')", lambda: torch.get_autocast_dtype("cpu")),
        ("torch.get_default_device()", lambda: str(torch.get_default_device())),
    ):
        try:
            found[name] = str(ask())
        except Exception:
            continue
    return found
