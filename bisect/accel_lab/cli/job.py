"""What ``bisect`` and ``minimize`` share: the request out of the options, and the run with its end."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from accel_lab.cli.finish import exit_code, show, write_files
from accel_lab.cli.options import find_python, limits_from, read_stdin, split_program
from accel_lab.cli.progress import Progress
from accel_lab.core.errors import UsageError
from accel_lab.core.findings import Findings
from accel_lab.execution.prober import Interrupted
from accel_lab.lab import Oracle
from accel_lab.numerics.tolerances import ComparisonConfig
from accel_lab.session import Request, Session, read_program

Show = Callable[[Findings], None]


def read_request(
    program: tuple[str, ...],
    module: str | None,
    *,
    python: str | None,
    timeout: float,
    memory: int,
    stdin: str | None,
    out: str | None,
    check: str | None,
    fail_regex: str | None,
    signed_zero: bool,
    cold: bool,
    jobs: int,
    package: str | None,
) -> Request:
    """The request that the options describe; raises :class:`UsageError` in one line."""
    script, args = split_program(module, program)
    try:
        re.compile(fail_regex or "")
    except re.error as error:
        raise UsageError(f"--fail-regex is not a regular expression: {error}") from None
    return Request(
        program=read_program(script, module, args),
        python=find_python(python),
        out=Path(out).resolve() if out else None,
        limits=limits_from(timeout, memory),
        oracle=Oracle(
            check=check, fail_regex=fail_regex, comparison=ComparisonConfig(signed_zero=signed_zero)
        ),
        cold=cold,
        stdin=read_stdin(stdin),
        workers=jobs,
        package=Path(package).resolve() if package else None,
    )


def work(
    request: Request,
    folder: Path,
    *,
    bundle: bool,
    as_json: bool,
    quiet: bool,
    command: str = "bisect",
    show_text: Show | None = None,
) -> int:
    """Run it, write its files, print the result; returns the exit code."""
    progress = Progress(quiet=quiet, program=request.program.path)
    session = Session(request, folder, progress, progress.smaller)
    try:
        findings = session.run()
    except Interrupted:
        progress.done()
        sys.stderr.write(f"interrupted; go on with: accel-lab {command} --resume {folder}\n")
        found = session.findings
        if found is not None and found.baseline:
            write_files(found, folder, bundle=False)
            best = (found.repro or {}).get("script")
            if best:
                sys.stderr.write(f"the smallest program so far: {best}\n")
        return 130
    progress.done()
    write_files(findings, folder, bundle=bundle)
    if show_text is not None and not as_json:
        show_text(findings)
    else:
        show(findings, as_json=as_json, quiet=quiet)
    return exit_code(findings)
