"""A package index on the loopback, and a uv that installs in no time, for the tests of environments."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from accel_lab.core.process_exit import ProcessExit
from accel_lab.environments.index.releases import Wheel, read_wheel_name

MACHINE = "manylinux_2_28_x86_64"


def wheel_name(version: str, python: str = "cp311", machine: str = MACHINE, package: str = "torch") -> str:
    return f"{package}-{version}-{python}-{python}-{machine}.whl"


def wheel(version: str, python: str = "cp311", machine: str = MACHINE, **more: Any) -> Wheel:
    found = read_wheel_name(wheel_name(version, python, machine), "torch")
    assert found is not None
    return Wheel(**{**found.__dict__, **more})


def json_page(files: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """A page of the JSON API: content type and text."""
    return "application/vnd.pypi.simple.v1+json", json.dumps({"meta": {}, "name": "torch", "files": files})


def json_file(version: str, uploaded: str, python: str = "cp311", **more: Any) -> dict[str, Any]:
    return {
        "filename": wheel_name(version, python),
        "hashes": {"sha256": "ab" * 32},
        "size": 1000,
        "upload-time": f"{uploaded}T10:00:00.000000Z",
        "url": "unused",
        "yanked": False,
        **more,
    }


@dataclass
class FakeIndex:
    """Pages and files by path; ``asked`` are the requests that came, with their headers."""

    url: str = ""
    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    status: int = 200
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[FakeIndex]:
    """A package index that answers until the block ends."""
    index = FakeIndex()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append((self.path, dict(self.headers)))
            page, file = index.pages.get(self.path), index.files.get(self.path)
            kind, text = page or ("application/octet-stream" if file else "text/plain", "no such page")
            data = file or text.encode()
            self.send_response(index.status if page or file else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_HEAD(self) -> None:
            self.send_error(405)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class FakeRun:
    """Takes the place of ``process.run``: plays uv, the interpreters that it makes, and the C compiler.

    ``errors`` maps a step (``venv``, ``compile``, ``install``, ``python``) to what it says when it fails;
    ``resolves`` is what a resolution holds beside torch. ``during`` is called with each step.
    """

    def __init__(self, resolves: Sequence[str] = ("numpy==1.26.2", "sympy==1.12")) -> None:
        self.resolves = list(resolves)
        self.errors: dict[str, str] = {}
        self.undated: set[str] = set()
        self.commands: list[list[str]] = []
        self.environments: list[dict[str, str]] = []
        self.steps: list[str] = []
        self.during: Callable[[str], None] = lambda step: None
        self.torch_says: str = ""
        self.lock = threading.Lock()

    def __call__(
        self, command: Sequence[str], *, stdout: Path, stderr: Path, env: Mapping[str, str], **_: Any
    ) -> ProcessExit:
        words = [str(word) for word in command]
        step = self._step(words)
        with self.lock:
            self.commands.append(words)
            self.environments.append(dict(env))
            self.steps.append(step)
        self.during(step)
        stdout.write_text("")
        stderr.write_text(self.errors.get(step, ""))
        if step in self.errors:
            return ProcessExit(exit_code=2)
        said = getattr(self, f"_{step}")(words)
        if said is None:
            stderr.write_text(
                "warning: `x.whl` is missing an upload date, but user provided: 2024\n"
                "error: No solution found when resolving dependencies"
            )
            return ProcessExit(exit_code=1)
        stdout.write_text(said)
        return ProcessExit(exit_code=0)

    def words_of(self, step: str) -> list[str]:
        """The words of the last command of a step."""
        return next(
            c for c, s in zip(reversed(self.commands), reversed(self.steps), strict=True) if s == step
        )

    @staticmethod
    def _step(words: Sequence[str]) -> str:
        if "-c" in words:
            return "python"
        if words[1] == "venv":
            return "venv"
        return {"compile": "compile", "install": "install"}.get(words[2], "gcc")

    def _venv(self, words: Sequence[str]) -> str:
        folder = next(Path(word) for word in reversed(words) if word.endswith("/venv"))
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").write_text("#!/bin/false\n")
        (folder / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
        return ""

    def _compile(self, words: Sequence[str]) -> str | None:
        if "--exclude-newer" in words and self.undated:
            return None
        wanted = (
            next(Path(word) for word in words if word.endswith("requirements.in")).read_text().split("\n")
        )
        torch = next(line for line in wanted if line.startswith("torch=="))
        lines = [*self.resolves, torch]
        return "".join(f"{line}\n    # from http://index.example/simple\n" for line in lines)

    def _install(self, words: Sequence[str]) -> str:
        lock = next(Path(word) for word in words if word.endswith("lock.txt"))
        packages = lock.parent / "venv" / "lib" / "python3.11" / "site-packages"
        for line in lock.read_text().split():
            name, _, version = line.partition("==")
            (packages / name).mkdir()
            (packages / name / "__init__.py").write_text(f"__version__ = {version!r}\n")
            info = packages / f"{name}-{version}.dist-info"
            info.mkdir()
            (info / "WHEEL").write_text("Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_28_x86_64\n")
        return ""

    def _python(self, words: Sequence[str]) -> str:
        venv = Path(words[0]).parent.parent
        torch = sorted((venv / "lib" / "python3.11" / "site-packages").glob("torch-*.dist-info"))
        version = torch[0].name.removeprefix("torch-").removesuffix(".dist-info") if torch else ""
        facts = {"python": "3.11.7", "prefix": str(venv), "torch": self.torch_says or version, "error": ""}
        return "\n" + json.dumps({**facts, "packages": {"torch": version}}) + "\n"

    def _gcc(self, words: Sequence[str]) -> str:
        Path(words[words.index("-o") + 1]).write_bytes(b"stub")
        return ""
