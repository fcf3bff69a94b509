"""Slim install: a CUDA build of torch without the CUDA libraries, which CPU runs never call.

The loader needs every library and symbol that torch's own libraries name. Small stub libraries provide them:
the right sonames, symbol versions and symbols, with functions that return an error code.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.environments.commands import Commands, plain_environment

from .shared_objects import NotElf, SharedObject, Symbol, read_shared_object

#: Packages that CPU runs do not need. torch itself requires triton; a script that names triton gets it.
_LEFT_OUT = re.compile(r"(nvidia|cuda)(-.*)?|(pytorch-)?triton(-.*)?")
_LIBRARY = re.compile(r"lib(cu|nv|nccl)")
#: Names of CUDA functions. Unversioned symbols are stubbed only under these names, because stubs would shadow
#: other libraries' symbols.
_FUNCTION = re.compile(r"(__)?(cu|nv|nccl)", re.IGNORECASE)
_TEXT = re.compile(
    r"(GetErrorString|GetErrorName|GetStatusString|GetStatusName|GetLastError(String|Message))$"
)
_PLAIN = re.compile(r"[A-Za-z_.$][\w.$]*")
NO_DEVICE = 100  # cudaErrorNoDevice
_MOST_DATA = 4096
_COMPILERS = ("gcc", "cc", "clang")


def is_left_out(package: str) -> bool:
    """Whether a slim install leaves out the package."""
    return _LEFT_OUT.fullmatch(canonicalize_name(package)) is not None


@dataclass(frozen=True, kw_only=True)
class Stubs:
    """The stubs that replaced the CUDA libraries."""

    libraries: tuple[str, ...]
    symbols: int
    size_bytes: int


def add_stubs(site_packages: Path, commands: Commands) -> Stubs:
    """Writes a stub next to torch's libraries for each CUDA library that is needed and missing.

    Raises EnvironmentUnavailable without a C compiler.
    """
    target = site_packages / "torch" / "lib"
    objects = _shared_objects(site_packages)
    wanted = plan(objects.values(), {path.name for path in objects})
    if not wanted:
        return Stubs(libraries=(), symbols=0, size_bytes=0)
    compiler = find_compiler()
    if compiler is None:
        raise EnvironmentUnavailable("a slim install needs a C compiler (gcc): install one, or use --full")
    size = 0
    work = target / ".stubs"
    work.mkdir()
    try:
        for soname, symbols in wanted.items():
            size += _link(compiler, work, target / soname, symbols, commands)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Stubs(
        libraries=tuple(sorted(wanted)),
        symbols=len({symbol for symbols in wanted.values() for symbol in symbols}),
        size_bytes=size,
    )


def find_compiler() -> str | None:
    """Returns a C compiler that can link a stub, or None."""
    return next((path for name in _COMPILERS if (path := shutil.which(name))), None)


def _shared_objects(site_packages: Path) -> dict[Path, SharedObject]:
    found = {}
    for folder, _, names in os.walk(site_packages):
        for name in names:
            if re.search(r"\.so(\.[\d.]+)?$", name):
                path = Path(folder, name)
                try:
                    found[path] = read_shared_object(path)
                except NotElf:
                    continue  # a linker script or an empty file
    return found


def plan(objects: Iterable[SharedObject], present: set[str]) -> dict[str, set[Symbol]]:
    """Returns the missing libraries, and the symbols that each stub must define.

    A versioned symbol names its library. An unversioned one goes into every stub that its user loads, or into
    all stubs if the user relies on libraries loaded by others.
    """
    objects = list(objects)
    missing = {
        soname
        for each in objects
        for soname in each.needed
        if _LIBRARY.match(soname) and soname not in present
    }
    wanted: dict[str, set[Symbol]] = {soname: set() for soname in sorted(missing)}
    for each in objects:
        own = [soname for soname in each.needed if soname in missing]
        for symbol in each.undefined:
            if symbol.library in missing:
                wanted[symbol.library].add(symbol)
            elif not symbol.library and _FUNCTION.match(symbol.name):
                for soname in own or wanted:
                    wanted[soname].add(symbol)
    return wanted


def _link(compiler: str, work: Path, target: Path, symbols: Collection[Symbol], commands: Commands) -> int:
    source, script = work / f"{target.name}.s", work / f"{target.name}.map"
    source.write_text(assembly(symbols), encoding="utf-8")
    script.write_text(version_script(symbols), encoding="utf-8")
    said = commands(
        [
            *(
                compiler,
                "-shared",
                "-nostdlib",
                f"-Wl,-soname,{target.name}",
                f"-Wl,--version-script={script}",
            ),
            *("-Wl,-z,noexecstack", "-o", str(target), str(source)),
        ],
        plain_environment(),
        timeout_s=300.0,
    )
    if not said.ok:
        last = (said.stderr.strip().splitlines() or [said.why])[-1]
        raise EnvironmentUnavailable(f"the stub of {target.name} cannot be linked: {last[:200]}")
    return target.stat().st_size


_RETURNS: Mapping[str, tuple[str, str]] = {
    # machine: (return NO_DEVICE, return the address of a text)
    "x86_64": (f"movl ${NO_DEVICE}, %eax\n ret", "leaq .Ltext(%rip), %rax\n ret"),
    "aarch64": (f"mov w0, #{NO_DEVICE}\n ret", "adrp x0, .Ltext\n add x0, x0, :lo12:.Ltext\n ret"),
}


def assembly(symbols: Collection[Symbol], machine: str = os.uname().machine) -> str:
    """Returns the assembly of a stub: a body for all functions, one that returns a text, space for data."""
    if machine not in _RETURNS:
        raise EnvironmentUnavailable(f"a slim install cannot be made for {machine}: use --full")
    code, text = _RETURNS[machine]
    functions: list[str] = []
    texts: list[str] = []
    data: list[str] = []
    for name in sorted({symbol.name for symbol in symbols if _PLAIN.fullmatch(symbol.name)}):
        is_data = any(symbol.is_data for symbol in symbols if symbol.name == name)
        (data if is_data else texts if _TEXT.search(name) else functions).append(name)
    lines = [".text"]
    for names, body in ((functions, code), (texts, text)):
        lines += [f".globl {name}\n.type {name}, %function\n{name}:" for name in names]
        lines.append(f" {body}")
    lines.append('.section .rodata\n.Ltext: .asciz "no CUDA in this slim install"')
    lines.append(".bss\n.balign 64")
    for name in data:
        lines.append(
            f".globl {name}\n.type {name}, %object\n.size {name}, {_MOST_DATA}\n{name}: .zero {_MOST_DATA}"
        )
    return "\n".join(lines) + "\n"


def version_script(symbols: Collection[Symbol]) -> str:
    """Returns the linker's version script; symbols without a version go into a version of their own."""
    versions: dict[str, list[str]] = {}
    for symbol in sorted(symbols):
        if _PLAIN.fullmatch(symbol.name):
            versions.setdefault(symbol.version, []).append(symbol.name)
    named = {name for version, names in versions.items() if version for name in names}
    plain = [name for name in versions.pop("", []) if name not in named]
    blocks = [
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(set(names)))} }};"
        for version, names in sorted(versions.items())
    ]
    if not blocks:  # an anonymous version must be the only one
        return "{ global: *; };\n"
    if plain:
        blocks.append(f"ACCEL_LAB_STUB {{ global: {' '.join(f'{name};' for name in sorted(set(plain)))} }};")
    return "\n".join(blocks) + "\n"
