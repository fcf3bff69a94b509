"""Collects the script's requirements: ``--with``, requirements files, and its PEP 723 block."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from accel_lab.core.errors import UsageError
from accel_lab.core.untrusted.settings_files import parse_toml

#: Packages whose version follows from torch's: each of their releases belongs to one of torch.
FOLLOWERS = frozenset({"torchvision", "torchaudio", "torchtext", "torchdata", "triton", "functorch"})

_BLOCK = re.compile(
    r"(?m)^# /// script[ \t]*$\r?\n(?P<content>(?:^#(?:[ \t].*)?$\r?\n){1,300}?)^# ///[ \t]*$"
)
_DEPTH = 10  # nesting of requirements files


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Requirement lines for the installer, and a note for each line that was changed."""

    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def gather(packages: Sequence[str], files: Sequence[Path], script: Path | None = None) -> Requirements:
    """Collects everything that the script needs besides torch. Raises :class:`UsageError`."""
    found = [(line, "--with") for line in packages]
    for file in files:
        found += [(line, str(file)) for line in read_requirements(file)]
    if script is not None:
        found += [(line, f"the script's own metadata ({script.name})") for line in script_needs(script)]
    return _settle(found)


def _settle(found: Iterable[tuple[str, str]]) -> Requirements:
    """Drops torch, whose version the line sets, and the versions of packages that follow torch."""
    lines, notes = [], []
    for line, origin in found:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            raise UsageError(
                f"{line!r} from {origin} is not a requirement: write NAME or NAME==VERSION"
            ) from None
        name = canonicalize_name(wanted.name)
        if name == "torch":
            if wanted.specifier or wanted.url or wanted.marker:
                notes.append(f"{line!r} from {origin} is left out: the line of releases sets torch")
            continue
        if name in FOLLOWERS and (wanted.specifier or wanted.url):
            notes.append(f"{line!r} from {origin}: its version follows from torch's, so any is taken")
            wanted.specifier, wanted.url = SpecifierSet(), None
            line = str(wanted)
        lines.append(line.strip())
    return Requirements(lines=tuple(dict.fromkeys(lines)), notes=tuple(dict.fromkeys(notes)))


def name_of(line: str) -> str:
    """Returns the normalised package name of a requirement, or an empty string."""
    wanted = _unconditional(line)
    return canonicalize_name(wanted.name) if wanted is not None else ""


def exact_version(line: str) -> str:
    """Returns the version of ``NAME==VERSION``, or an empty string for any other requirement."""
    wanted = _unconditional(line)
    pins = list(wanted.specifier) if wanted is not None else []
    exact = len(pins) == 1 and pins[0].operator in ("==", "===") and not pins[0].version.endswith("*")
    return pins[0].version if exact else ""


def _unconditional(line: str) -> Requirement | None:
    """Parses a requirement without its marker; None if it is invalid."""
    try:
        return Requirement(line.partition(";")[0])
    except InvalidRequirement:
        return None


def read_requirements(file: Path, depth: int = 0) -> list[str]:
    """Reads the requirements of a file and of the files that it includes. Raises :class:`UsageError`."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"the requirements file {file} cannot be read: {reason}") from None
    found: list[str] = []
    for number, line in enumerate(re.sub(r"\\\r?\n", " ", text).splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", line).strip()
        included = re.match(r"(?:-r|--requirement)[\s=]*(\S+)$", line)
        if not line:
            continue
        if included:
            if depth >= _DEPTH:
                raise UsageError(f"{file}: requirements files include each other in a circle")
            found += read_requirements(file.parent / included[1], depth + 1)
        elif line.startswith("-"):
            option = re.split(r"[\s=]", line)[0]
            raise UsageError(f"{file}:{number}: {option} is not read here: give it to accel-lab as an option")
        else:
            found.append(_absolute(re.sub(r"\s--hash[=\s]\S+", "", line).strip(), file.parent))
    return found


def _absolute(line: str, folder: Path) -> str:
    """Makes the relative path in ``NAME @ ./wheel`` absolute, starting at the file's folder."""
    name, at, target = (piece.strip() for piece in line.partition("@"))
    if at and re.match(r"\.{0,2}/", target):
        return f"{name} @ {(folder / target).resolve().as_uri()}"
    return line


def script_needs(script: Path) -> list[str]:
    """Returns the dependencies in a script's ``# /// script`` block (PEP 723), or an empty list."""
    try:
        text = script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []  # whoever runs the script reports it
    blocks = [match["content"] for match in _BLOCK.finditer(text)]
    if not blocks:
        return []
    if len(blocks) > 1:
        raise UsageError(f"{script}: there are {len(blocks)} `# /// script` blocks, one is allowed")
    lines = (line[2:] if line.startswith("# ") else line[1:] for line in blocks[0].splitlines())
    data = parse_toml("\n".join(lines), f"the `# /// script` block of {script}")
    needs = data.get("dependencies", [])
    if not isinstance(needs, list) or not all(isinstance(line, str) for line in needs):
        raise UsageError(f"{script}: dependencies in the `# /// script` block must be a list of strings")
    return needs
