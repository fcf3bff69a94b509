"""Finds the commits between two releases that touched a piece's lines, in the user's clone of PyTorch.

Nothing is fetched: if the clone lacks a tag, or the history between two, an error says so.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.probe import Limits
from accel_lab.core.releases.flip_change import Commit, Piece
from accel_lab.core.text import command_line, shorten
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.execution.processes import process

MOST_COMMITS = 20
_LIMITS = Limits(timeout_s=180.0, output_mb=8)
#: Disables what a clone's configuration could start, and prompts and fetches of git.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager")
_ALONE = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
_FIELD, _ROW = "\x1f", "\x1e"
_RESOLVED = re.compile(
    r"^Pull Request resolved: https://github\.com/[\w.-]+/[\w.-]+/pull/(\d{1,9})\s*$", re.M
)
_NUMBER = re.compile(r"\(#(\d{1,9})\)\s*$")


def log_command(piece: Piece, older: str, newer: str) -> list[str]:
    """Returns the git command that shows what touched a piece; empty if its lines are unknown."""
    if len(piece.lines) != 2:
        return []
    first, last = piece.lines
    return ["git", "log", f"-L{first},{last}:{piece.file}", f"v{older}..v{newer}"]


def shown_commands(pieces: Sequence[Piece], older: str, newer: str) -> list[str]:
    """Returns those commands as a user would type them."""
    found = [log_command(piece, older, newer) for piece in pieces]
    return [command_line(*command) for command in found if command]


def commits_of(clone: Path, pieces: Sequence[Piece], older: str, newer: str, folder: Path) -> list[Commit]:
    """Returns the commits between tags ``v{older}`` and ``v{newer}`` that touched the pieces, newest first.

    ``folder`` holds git's output. Raises :class:`LabError` with what the clone lacks.
    """
    git = _Git(clone, folder)
    if git.answer("rev-parse", "--git-dir") is None:
        raise LabError(f"{clone} is not a clone of PyTorch that git can read")
    for release in (older, newer):
        if git.answer("rev-parse", "--verify", "--quiet", f"refs/tags/v{release}^{{commit}}") is None:
            raise LabError(f"the clone {clone} has no tag v{release}: run git fetch --tags in it")
    if (git.answer("rev-parse", "--is-shallow-repository") or "").strip() == "true":
        raise LabError(f"the clone {clone} is shallow: run git fetch --unshallow in it")
    found: dict[str, Commit] = {}
    for piece in pieces:
        command = log_command(piece, older, newer)
        if not command:
            continue
        words = ("--no-patch", "--no-color", "--no-ext-diff", f"--format=%H{_FIELD}%s{_FIELD}%b{_ROW}")
        said = git.answer(command[1], *words, *command[2:])
        if said is None:
            raise LabError(f"git could not follow the lines of {piece.file} in {clone}")
        for commit in read_log(said):
            found.setdefault(commit.sha, commit)
    return list(found.values())[:MOST_COMMITS]


def read_log(text: str) -> list[Commit]:
    """Parses the commits in git's output."""
    found = []
    for row in text.split(_ROW):
        parts = row.strip("\n").split(_FIELD)
        if len(parts) == 3 and re.fullmatch(r"[0-9a-f]{40,64}", parts[0]):
            match = _RESOLVED.search(parts[2]) or _NUMBER.search(parts[1])
            pull = int(match[1]) if match else None
            found.append(Commit(sha=parts[0], subject=shorten(parts[1], 200), pull=pull))
    return found


class _Git:
    """Runs git on one clone without changing it."""

    def __init__(self, clone: Path, folder: Path) -> None:
        self._clone = clone
        self._folder = folder

    def answer(self, *words: str) -> str | None:
        """Returns what git printed; None if it failed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = uuid.uuid4().hex
        out, err = self._folder / f"{name}.out.txt", self._folder / f"{name}.err.txt"
        ended = process.run(
            ["git", "-C", str(self._clone), *_QUIET, *words],
            cwd=self._folder,
            env={**os.environ, **_ALONE},
            stdout=out,
            stderr=err,
            limits=_LIMITS,
            marker=f"git-{name}",
        )
        text = ChildFiles(self._folder).text(out.name) or ""
        for path in (out, err):
            path.unlink(missing_ok=True)
        return text if ended.exit_code == 0 else None
