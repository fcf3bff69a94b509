"""A docker daemon in this process: what it is asked is noted, how containers end is told beforehand."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker.errors
import requests


def api_error(text: str, status: int = 500) -> docker.errors.APIError:
    """The error that the SDK raises for an answer of the daemon."""
    response = requests.Response()
    response.status_code = status
    return docker.errors.APIError(text, response=response, explanation=text)


class FakeContainer:
    """Runs for ``looks`` looks at its state, then ends as ``end`` says."""

    def __init__(self, daemon: FakeDaemon, image: str, settings: dict[str, Any]) -> None:
        self.daemon = daemon
        self.image = image
        self.settings = settings
        self.labels = dict(settings.get("labels", {}))
        self.id = f"c{len(daemon.created)}"
        self.short_id = self.id
        self.signals: list[str] = []
        self.removed = False
        self.started = False
        self.looks = daemon.looks
        self.plan = json.loads(settings["command"][0]) if settings.get("command") else {}

    def start(self) -> None:
        if self.daemon.start_error is not None:
            raise self.daemon.start_error
        self.started = True
        if self.daemon.on_start is not None:
            self.daemon.on_start(self)

    def remove(self, force: bool = False, v: bool = False) -> None:
        if self.daemon.remove_errors:
            raise self.daemon.remove_errors.pop(0)
        self.removed = True
        self.daemon.containers_there = [c for c in self.daemon.containers_there if c is not self]

    def state(self) -> dict[str, Any]:
        if self.looks > 0 and not self.dead:
            self.looks -= 1
            return {"Status": "running", "OOMKilled": False, "ExitCode": 0}
        return {"Status": "exited", "OOMKilled": self.daemon.oom, "ExitCode": self.daemon.exit_code}

    @property
    def dead(self) -> bool:
        return self.daemon.dies_of in self.signals or "SIGKILL" in self.signals


class FakeImage:
    def __init__(
        self, name: str, labels: dict[str, str] | None = None, torch: str = "", size: int = 1000
    ) -> None:
        self.tags = [name]
        self.id = f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"
        self.labels = labels or {}
        self.torch = torch
        self.attrs = {"Size": size, "RepoDigests": []}
        self.made = 1.6e9
        # Its steps, the oldest first: what was done, and the bytes that it added.
        self.steps: list[tuple[str, int]] = [(f"COPY {name}", size), ("LABEL", 0)]


class FakeDaemon:
    """The client and the daemon in one."""

    def __init__(self, *images: FakeImage) -> None:
        self.there = {image.tags[0]: image for image in images}
        self.created: list[FakeContainer] = []
        self.containers_there: list[FakeContainer] = []
        self.builds: list[dict[str, Any]] = []
        self.looks = 2
        self.report: dict[str, Any] | None = {"exit_code": 0, "seconds": 0.5, "peak_mb": 7.0}
        self.said = ""
        self.oom = False
        self.exit_code = 0
        self.pids = 3
        self.usage = 50 << 20
        self.dies_of = "SIGINT"
        self.start_error: Exception | None = None
        self.create_error: Exception | None = None
        self.remove_errors: list[Exception] = []
        self.on_start: Callable[[FakeContainer], None] | None = None
        self.on_build: Callable[[Path, dict[str, Any]], None] | None = None
        self.security: list[str] = ["name=seccomp,profile=default"]
        self.closed = 0
        self.containers = _Containers(self)
        self.images = _Images(self)
        self.api = _Api(self)

    def connect(self) -> FakeDaemon:
        return self

    def info(self) -> dict[str, Any]:
        return {"SecurityOptions": self.security, "NCPU": 4}

    def close(self) -> None:
        self.closed += 1

    @property
    def last(self) -> FakeContainer:
        return self.created[-1]


class _Containers:
    def __init__(self, daemon: FakeDaemon) -> None:
        self._daemon = daemon

    def create(self, image: str, **settings: Any) -> FakeContainer:
        if self._daemon.create_error is not None:
            raise self._daemon.create_error
        ids = {found.id for found in self._daemon.there.values()}
        if self._daemon.there and image not in self._daemon.there and image not in ids:
            raise docker.errors.ImageNotFound(f"No such image: {image}")
        made = FakeContainer(self._daemon, image, settings)
        self._daemon.created.append(made)
        self._daemon.containers_there.append(made)
        return made

    def list(self, **_: Any) -> list[FakeContainer]:
        return list(self._daemon.containers_there)


class _Images:
    def __init__(self, daemon: FakeDaemon) -> None:
        self._daemon = daemon

    def get(self, name: str) -> FakeImage:
        for image in self._daemon.there.values():
            if name in (*image.tags, image.id):
                return image
        raise docker.errors.ImageNotFound(f"No such image: {name}")

    def list(self) -> list[FakeImage]:
        return list(self._daemon.there.values())

    def remove(self, name: str) -> None:
        image = self.get(name)
        if any(row["ImageID"] == image.id for row in self._daemon.api.containers(all=True)):
            raise api_error("conflict: a container is using it", 409)
        image.tags = [tag for tag in image.tags if name not in (tag, image.id)]
        if not image.tags:
            del self._daemon.there[next(key for key, one in self._daemon.there.items() if one is image)]

    def build(
        self, *, path: str, tag: str, labels: dict[str, str], **settings: Any
    ) -> tuple[FakeImage, Iterator[Any]]:
        asked = {"tag": tag, "labels": labels, **settings}
        if self._daemon.on_build is not None:
            self._daemon.on_build(Path(path), asked)
        self._daemon.builds.append(asked)
        if before := self._daemon.there.pop(tag, None):  # it stays, without its name
            before.tags.remove(tag)
            self._daemon.there[before.id] = before
        self._daemon.there[tag] = made = FakeImage(tag, labels)
        made.id = f"{made.id[:-4]}{len(self._daemon.builds):04}"
        return made, iter(())

    def prune(self, filters: dict[str, Any]) -> None:
        assert filters["dangling"] is True  # never the user's own images


class _Api:
    def __init__(self, daemon: FakeDaemon) -> None:
        self._daemon = daemon

    def _container(self, key: str) -> FakeContainer:
        return next(c for c in self._daemon.created if c.id == key)

    def images(self) -> list[dict[str, Any]]:
        return [
            {
                "Id": image.id,
                "RepoTags": list(image.tags) or None,
                "Labels": dict(image.labels) or None,
                "Size": image.attrs["Size"],
                "Created": image.made,
            }
            for image in self._daemon.there.values()
        ]

    def history(self, key: str) -> list[dict[str, Any]]:
        steps = self._daemon.images.get(key).steps
        return [{"Created": 1, "CreatedBy": text, "Size": size} for text, size in reversed(steps)]

    def containers(self, *, all: bool) -> list[dict[str, Any]]:
        assert all  # one that has ended holds its image too
        there = {image.id: image.id for image in self._daemon.there.values()}
        there |= {tag: image.id for image in self._daemon.there.values() for tag in image.tags}
        return [
            {"ImageID": there.get(c.image, c.image), "Labels": c.labels}
            for c in self._daemon.containers_there
        ]

    def inspect_container(self, key: str) -> dict[str, Any]:
        container = self._container(key)
        return {
            "State": container.state(),
            "HostConfig": {"PidsLimit": container.settings.get("pids_limit", 0)},
        }

    def attach_socket(self, key: str, params: dict[str, int]) -> Any:
        container = self._container(key)
        assert not container.started  # else a lab that is killed meanwhile would leave it
        assert container.settings["stdin_open"]
        assert not container.settings["detach"]
        assert params["stdin"] == params["stream"] == 1
        return io.BytesIO()

    def kill(self, key: str, signal: str) -> None:
        container = self._container(key)
        if container.dead:
            raise api_error("is not running", 409)
        container.signals.append(signal)

    def logs(self, key: str, **_: Any) -> bytes:
        container, report = self._container(key), self._daemon.report
        line = "" if report is None else f"\n{container.plan['token']} {json.dumps(report)}\n"
        return (self._daemon.said + line).encode()

    def stats(self, key: str, **_: Any) -> dict[str, Any]:
        return {
            "memory_stats": {"usage": self._daemon.usage, "stats": {"total_inactive_file": 10 << 20}},
            "pids_stats": {"current": self._daemon.pids},
        }
