from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.environments.commands import Commands
from accel_lab.environments.uv import slim as slim_module
from accel_lab.environments.uv.shared_objects import NotElf, SharedObject, Symbol, read_shared_object
from accel_lab.environments.uv.slim import add_stubs, assembly, is_left_out, plan, version_script
from accel_lab.execution.processes import process

GCC = shutil.which("gcc")
linux_gcc = pytest.mark.skipif(
    not (GCC and sys.platform.startswith("linux")), reason="needs gcc on Linux to make shared objects"
)


@pytest.mark.parametrize(
    ("package", "answer"),
    [
        ("nvidia-cublas-cu12", True),
        ("nvidia_cudnn_cu13", True),
        ("cuda-bindings", True),
        ("triton", True),
        ("pytorch-triton", True),
        ("numpy", False),
        ("cudalike", False),
        ("tritonclient", False),
    ],
)
def test_what_a_slim_install_leaves_out(package: str, answer: bool) -> None:
    assert is_left_out(package) is answer


def needs(*needed: str, undefined: tuple[Symbol, ...] = ()) -> SharedObject:
    return SharedObject(soname="", needed=needed, undefined=undefined)


def test_only_cuda_libraries_that_are_not_there_are_made_up() -> None:
    user = needs("libcublas.so.12", "libc.so.6", "libnvperf.so", "libgomp.so.1", "libtorch_cpu.so")
    assert set(plan([user], {"libnvperf.so", "libtorch_cpu.so"})) == {"libcublas.so.12"}


def test_a_symbol_goes_where_its_version_says_and_else_to_its_users_libraries() -> None:
    versioned = Symbol(name="cublasCreate_v2", library="libcublas.so.12", version="libcublas.so.12")
    others = (
        Symbol(name="memcpy", library="libc.so.6", version="GLIBC_2.14"),
        Symbol(name="PyList_New"),
        Symbol(name="_ZTVN10__cxxabiv1E"),
    )
    plain = Symbol(name="ncclCommInitAll")
    first = needs("libcublas.so.12", "libnccl.so.2", undefined=(versioned, plain, *others))
    second = needs("libtorch.so", undefined=(Symbol(name="cudaFree"),))
    made = plan([first, second], set())
    assert made["libcublas.so.12"] == {versioned, plain, Symbol(name="cudaFree")}
    assert made["libnccl.so.2"] == {plain, Symbol(name="cudaFree")}


def test_a_version_script_names_each_symbol_once() -> None:
    symbols = {Symbol(name="cuA", library="l", version="V1"), Symbol(name="cuA"), Symbol(name="cuB")}
    text = version_script(symbols)
    assert text == "V1 { global: cuA; };\nACCEL_LAB_STUB { global: cuB; };\n"
    assert version_script({Symbol(name="cuB")}) == "{ global: *; };\n"


def test_a_machine_that_no_body_is_known_for_is_refused() -> None:
    with pytest.raises(EnvironmentUnavailable, match="mips"):
        assembly([Symbol(name="cuA")], "mips")


LIBRARY = """
int cudaGetDeviceCount(int *n) { *n = 3; return 0; }
const char *cudaGetErrorString(int e) { return "real"; }
int cuData = 5;
int ncclThing(void) { return 1; }
"""
VERSIONS = "libcudart.so.12 { global: cudaGetDeviceCount; cudaGetErrorString; cuData; };"
USER = """
extern int cudaGetDeviceCount(int *); extern const char *cudaGetErrorString(int);
extern int cuData; extern int ncclThing(void); extern int cuMaybe(void) __attribute__((weak));
int count(void) { int n = -1; return cudaGetDeviceCount(&n) * 1000 + n; }
const char *words(void) { return cudaGetErrorString(100); }
int data(void) { return cuData; }
int thing(void) { return ncclThing() + (cuMaybe ? 1 : 0); }
"""


def link(source: str, target: Path, *more: str) -> None:
    assert GCC
    target.parent.mkdir(parents=True, exist_ok=True)
    file = target.with_suffix(".c")
    file.write_text(source)
    command = [GCC, "-shared", "-fPIC", "-o", str(target), str(file), *more]
    subprocess.run(command, check=True, timeout=60)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Site-packages with a torch that needs a CUDA library, which is then taken away."""
    folder = tmp_path / "site-packages"
    lib = folder / "torch" / "lib"
    lib.mkdir(parents=True)
    script = tmp_path / "versions.map"
    script.write_text(VERSIONS)
    away = tmp_path / "away" / "libcudart.so.12"
    named = ("-Wl,-soname,libcudart.so.12", f"-Wl,--version-script={script}")
    link(LIBRARY.replace("int ncclThing(void) { return 1; }", ""), away, *named)
    nccl = tmp_path / "away" / "libnccl.so.2"
    link("int ncclThing(void) { return 1; }", nccl, "-Wl,-soname,libnccl.so.2")
    link(USER, lib / "libtorch.so", str(away), str(nccl), "-Wl,-rpath,$ORIGIN")
    (lib / "text.so").write_text("/* a linker script */")
    (lib / "empty.so").touch()
    return folder


@linux_gcc
def test_the_needs_of_a_shared_object_are_read(packages: Path) -> None:
    found = read_shared_object(packages / "torch" / "lib" / "libtorch.so")
    assert {"libcudart.so.12", "libnccl.so.2"} <= set(found.needed)
    by_name = {symbol.name: symbol for symbol in found.undefined}
    assert by_name["cudaGetDeviceCount"].library == "libcudart.so.12"
    assert by_name["cudaGetDeviceCount"].version == "libcudart.so.12"
    assert by_name["ncclThing"] == Symbol(name="ncclThing")
    assert "cuMaybe" not in by_name
    assert read_shared_object(packages.parent / "away" / "libnccl.so.2").soname == "libnccl.so.2"
    for name in ("text.so", "empty.so"):
        with pytest.raises(NotElf):
            read_shared_object(packages / "torch" / "lib" / name)


@linux_gcc
def test_with_stubs_the_library_loads_and_every_function_says_no_device(packages: Path) -> None:
    library = packages / "torch" / "lib" / "libtorch.so"
    ask = (
        "import ctypes, sys\nl = ctypes.CDLL(sys.argv[1])\nl.words.restype = ctypes.c_char_p\n"
        "print(l.count(), l.words().decode(), l.data(), l.thing(), sep='|')"
    )
    command = [sys.executable, "-I", "-c", ask, str(library)]
    before = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert before.returncode != 0
    made = add_stubs(packages, Commands(process.run, 60.0))
    assert made.libraries == ("libcudart.so.12", "libnccl.so.2")
    assert made.symbols == 4
    assert made.size_bytes > 0
    after = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert after.stdout.strip() == "99999|no CUDA in this slim install|0|100"  # 100 * 1000 - 1
    assert sorted(p.name for p in library.parent.iterdir() if p.name.startswith(".")) == []


@linux_gcc
def test_without_a_compiler_it_is_said_what_to_do(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slim_module, "find_compiler", lambda: None)
    with pytest.raises(EnvironmentUnavailable, match="needs a C compiler"):
        add_stubs(packages, Commands(process.run, 60.0))


@linux_gcc
def test_a_stub_that_cannot_be_linked_is_one_line(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slim_module, "assembly", lambda symbols: "no assembly\n")
    with pytest.raises(
        EnvironmentUnavailable, match=r"the stub of libcudart\.so\.12 cannot be linked"
    ) as refused:
        add_stubs(packages, Commands(process.run, 60.0))
    assert "\n" not in str(refused.value)
    assert not (packages / "torch" / "lib" / ".stubs").exists()


def test_an_environment_that_needs_no_stub_gets_none(tmp_path: Path) -> None:
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    assert add_stubs(tmp_path, Commands(process.run, 60.0)).libraries == ()
