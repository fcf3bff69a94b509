"""Reports on the compilations of one function or module in the current process, without a script."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from accel_lab.child.hooks.compile_log import CompileLog

from .compile_report import CompileReport


class GuardInspector:
    """Compiles ``target``, calls it, and reports graphs, guards and recompilations.

    ``target`` is a function or a ``torch.nn.Module``; ``options`` are passed to ``torch.compile``. Creating
    an inspector resets Dynamo in this process and installs a hook; :meth:`close` or the end of a ``with``
    block removes the hook.

    >>> with GuardInspector(f, backend="eager") as inspector:
    ...     inspector(torch.ones(3))
    ...     inspector(torch.ones(4))
    ...     report = inspector.report()
    """

    def __init__(self, target: Callable[..., Any], **options: Any) -> None:
        import torch._dynamo

        torch._dynamo.reset()
        self._log = CompileLog()
        self._compiled: Callable[..., Any] = torch.compile(target, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the compiled target and propagates its exceptions."""
        return self._compiled(*args, **kwargs)

    def report(self) -> CompileReport:
        """Returns the report on all compilations so far."""
        return CompileReport.from_facts(self._log.facts())

    def close(self) -> None:
        """Removes the hook from Dynamo."""
        self._log.close()

    def __enter__(self) -> GuardInspector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
