"""Reads and changes the settings of Dynamo, AOTAutograd (functorch) and Inductor."""

from __future__ import annotations

import contextlib
import importlib
import operator
import sys
import warnings
from typing import Any, Dict, Iterator, Mapping

from ..exceptions import NotApplicable

_MODULES = {
    "dynamo": "torch._dynamo.config",
    "functorch": "torch._functorch.config",
    "inductor": "torch._inductor.config",
}


def of(owner: str) -> Any:
    """Returns the config module of ``dynamo``, ``functorch`` or ``inductor``."""
    return importlib.import_module(_MODULES[owner])


def require(owner: str, names: Any) -> None:
    """Raises :class:`NotApplicable` if this torch lacks one of the settings ``names``."""
    for name in names:
        if not has_config(of(owner), name):
            raise NotApplicable("this torch has no setting %s.%s" % (_MODULES[owner], name))


def change(owner: str, values: Mapping[str, Any]) -> None:
    """Changes settings for the rest of the process; the value ``flip`` inverts a flag.

    Raises :class:`NotApplicable` for an unknown setting.
    """
    require(owner, values)
    module = of(owner)
    for name, value in values.items():
        setattr(module, name, _value(module, name, value))


def under(owner: str, values: Mapping[str, Any]) -> Any:
    """Returns a context with other settings; the value ``flip`` inverts a flag."""
    module = of(owner)
    return module.patch({name: _value(module, name, value) for name, value in values.items()})


def _value(module: Any, name: str, value: Any) -> Any:
    return not getattr(module, name) if value == "flip" else value


@contextlib.contextmanager
def patched(module: Any, **values: Any) -> Iterator[Any]:
    """Changes settings inside the context; those that this torch lacks are skipped (``__`` means a dot).

    Yields the names of the settings that were changed.
    """
    have = {}
    for name, value in values.items():
        dotted = name.replace("__", ".")
        if has_config(module, dotted):
            have[dotted] = value
    with contextlib.ExitStack() as stack:
        if have:
            stack.enter_context(module.patch(have))
        yield tuple(have)


def has_config(module: Any, name: str) -> bool:
    """Whether a torch config module has the (dotted) entry ``name``."""
    try:
        operator.attrgetter(name)(module)
    except AttributeError:
        return False
    return True


def changed_config() -> Any:
    """Returns ``{name: repr(value)}`` of scalar settings that differ from their defaults."""
    changed: Dict[str, str] = {}
    for name in _MODULES.values():
        module = sys.modules.get(name)
        entries = getattr(module, "_config", None)
        if not isinstance(entries, dict):
            continue
        for key, entry in entries.items():
            if getattr(entry, "alias", None) is not None or getattr(entry, "deprecated", False):
                continue
            default = getattr(entry, "default", entry)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    value = getattr(module, key)
                if value != default and type(value) in (bool, int, float, str, type(None)):
                    changed[name + "." + key] = repr(value)
            except Exception:
                continue
    return changed
