"""What is wrong with a kernel spec: one problem, and the error that refuses the kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One broken rule of one kernel."""

    kernel: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"kernel {self.kernel}: {self.message} (rule {self.rule})"


class SpecError(ValueError):
    """A kernel spec that the device refuses; ``problems`` are its broken rules, at least one."""

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
