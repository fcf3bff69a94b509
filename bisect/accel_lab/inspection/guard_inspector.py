"""GuardInspector: the report on one function or module, in this process, without a script."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from accel_lab.child.hooks.compile_log import CompileLog

from .compile_report import CompileReport


class GuardInspector:
    """Compile ``target``, call it as often as wanted, and read what Dynamo made of it.

    ``target`` is a function or a ``torch.nn.Module``; ``options`` go to ``torch.compile``. Dynamo's state of
    this process is reset when the inspector is made, and its hook is taken out by :meth:`close` or at the end
    of a ``with`` block.

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
        """Call the compiled target; raises what it raises."""
        return self._compiled(*args, **kwargs)

    def report(self) -> CompileReport:
        """What has been compiled so far."""
        return CompileReport.from_facts(self._log.facts())

    def close(self) -> None:
        """Take the hook out of Dynamo."""
        self._log.close()

    def __enter__(self) -> GuardInspector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
