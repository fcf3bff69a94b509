"""Writes a backport: a module that serves a later release's fix on the release that fails.

The file is readable and meant to be kept: an import hook, the lines that it exchanges, and a check that the
release's file is the one that they were made for.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence

from accel_lab.core.releases.flip_change import FilePatch, FlipChange

from .companions import module_of

#: Module name under which a script imports the backport.
NAME = "torch_backport"
#: Maximum lines; a longer backport is not worth pasting into a project.
MOST_LINES = 600

_HOOK = '''"""Serves {symbols} of torch {fixed} on torch {release}: a backport of one fix.

Import it before torch: ``import {name}``. It exchanges the lines below when torch's own file is imported and
changes nothing on disk. On another release, or where that file is another one, importing it is an error.
Written by accel-lab. The exchanged lines are PyTorch's, under its BSD-style licence (its file LICENSE).
"""

import hashlib
import importlib.machinery
import importlib.metadata
import os
import sys

RELEASE = {release!r}
#: Of each module: the SHA-256 of its file, and (first line, counted from 0, last line, lines instead).
CHANGES = {changes}


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name):
        digest, hunks = CHANGES[name]
        source = self.get_data(self.path)
        if hashlib.sha256(source).hexdigest() != digest:
            raise ImportError(f"{{self.path}} is not the file of torch {{RELEASE}}: remove this backport")
        lines = source.decode().split("\\n")
        for first, last, new in reversed(hunks):
            lines[first:last] = new
        return compile("\\n".join(lines), self.path, "exec", dont_inherit=True)


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name in CHANGES else None
        if spec is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


if importlib.metadata.version("torch").partition("+")[0] != RELEASE:
    raise ImportError(f"{name} is for torch {{RELEASE}} only: remove it")
if set(CHANGES) & set(sys.modules):
    raise ImportError("import {name} before torch")
# What torch compiled and cached without the backport is not what it compiles with it.
_TAG = "TORCH_COMPILE_CACHE_KEY_TAG"
os.environ[_TAG] = os.environ.get(_TAG, "") + "{name}-{digest}"
sys.meta_path.insert(0, _Finder)
'''


def hunks_of(base: str, mixed: str) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Returns (first line, end line, new lines) of each difference; lines are split at line feeds."""
    one, two = base.split("\n"), mixed.split("\n")
    matcher = difflib.SequenceMatcher(None, one, two, autojunk=False)
    return tuple((a, b, tuple(two[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


def patch_of(files: Sequence[tuple[str, str, str]]) -> tuple[FilePatch, ...]:
    """Returns the patches of files given as (path, old text, new text); empty above ``MOST_LINES`` lines."""
    rows = tuple(
        FilePatch(file=path, sha256=hashlib.sha256(base.encode()).hexdigest(), hunks=hunks_of(base, mixed))
        for path, base, mixed in files
    )
    return rows if sum(row.lines for row in rows) <= MOST_LINES else ()


def backport_text(change: FlipChange, *, release: str, fixed: str) -> str:
    """Returns the text of the backport module; empty without a patch."""
    if not change.found or not change.patch:
        return ""
    lines = []
    for row in change.patch:
        lines.append(f"    {module_of(row.file)!r}: (")
        lines += [f"        {row.sha256!r},", "        ["]
        for first, last, new in row.hunks:
            lines.append(f"            ({first}, {last}, [")
            lines += [f"                {line!r}," for line in new]
            lines.append("            ]),")
        lines += ["        ],", "    ),"]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    symbols = ", ".join(f"{piece.symbol} ({piece.file})" for piece in change.pieces)
    return _HOOK.format(
        name=NAME,
        release=release,
        fixed=fixed,
        digest=digest,
        symbols=re.sub(r"[^\w.#(),/ -]+", " ", symbols),  # a statement's key may hold anything
        changes="\n".join(["{", *lines, "}"]),
    )
