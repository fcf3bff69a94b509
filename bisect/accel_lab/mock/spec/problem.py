"""The problems of a kernel spec, and the error that rejects the kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One violation of a rule by one kernel."""

    kernel: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"kernel {self.kernel}: {self.message} (rule {self.rule})"


class SpecError(ValueError):
    """Raised for an invalid kernel spec; ``problems`` has at least one violation."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems

    @property
    def kernel(self) -> str:
        """The kernel of the first problem."""
        return self.problems[0].kernel

    @property
    def rule(self) -> str:
        """The rule of the first problem."""
        return self.problems[0].rule
