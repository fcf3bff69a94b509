"""Provider ``docker``: one image for each release, from the table of pinned builds or by the user's name."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import docker.errors

from accel_lab.core.machine.environment import Environment, EnvironmentSpec, EnvironmentUnavailable, Release
from accel_lab.core.machine.locks import Lock
from accel_lab.environments.commands import Commands
from accel_lab.environments.index.pip_settings import pip_index
from accel_lab.environments.index.releases import order, parse_version, public
from accel_lab.environments.index.requirements import gather
from accel_lab.environments.options import EnvironmentOptions, Run
from accel_lab.environments.store.quick_check import ask_interpreter
from accel_lab.environments.uv.eras import era_of

from .build import BASE, BUILD_TIMEOUT_S, IMAGE, PYTHON_AT, RECIPE_KEY, SLIM, WHEELS, ImageBuilder, Say
from .client import Connect, connector, daemon_errors
from .pinned_builds import TABLE, Build, find_folder, read_table
from .runner import DockerRunner
from .uses import note_use, use_lock
from .wheels import Extra, WheelShelf

_VERSION = "{version}"
CHECK_TIMEOUT_S = 60.0


class Workspace(Protocol):
    """The part of ``execution.run_folder.workspace.Workspace`` that a runner needs."""

    @property
    def root(self) -> Path: ...
    @property
    def library(self) -> Path: ...
    @property
    def user_cwd(self) -> Path: ...


class DockerProvider:
    """Provides images by name: ``accel-lab-torch:2.13.0``, or ``options.image`` with the version filled in.

    ``build`` allows building a missing image (as ``options.build_images`` does), ``again`` builds it in any
    case. ``base`` replaces the table's base. ``say`` gets a line before each step of a build.
    """

    name = "docker"

    def __init__(
        self,
        options: EnvironmentOptions,
        run: Run,
        *,
        build: bool = False,
        again: bool = False,
        base: str = "",
        say: Say = lambda line: None,
        connect: Callable[[float], Connect] | None = None,
    ) -> None:
        self.notes: list[str] = []
        self._options = options
        self._build = build or again or options.build_images
        self._again = again
        self._held: dict[str, Lock] = {}
        self._lock = threading.Lock()
        needs = gather(options.with_packages, options.with_requirements, options.script)
        self._needs = needs.lines
        self.notes.extend(needs.notes)
        to = connect or (lambda timeout_s: connector(options.docker_host, timeout_s=timeout_s))
        self._connect = to(CHECK_TIMEOUT_S)
        self._pattern = options.image or IMAGE
        folder = find_folder(options.builds)
        table = options.builds or (folder / TABLE if folder else None)
        # The user's own images do not belong to the table's builds.
        self._table = {row.version: row for row in read_table(table)} if table and not options.image else {}
        self._builder: ImageBuilder | None = None
        if folder is not None:
            commands = Commands(run, options.build_timeout_s)
            index = options.index if options.index != type(options.index)() else pip_index()
            self._builder = ImageBuilder(
                connect=to(BUILD_TIMEOUT_S),
                folder=folder,
                shelf=WheelShelf(options.folder / "wheels", index, commands),
                commands=commands,
                store=options.folder,
                base=base,
                say=say,
            )

    # -- the protocol --------------------------------------------------------------------------

    def releases(self, *, pre: bool = False) -> list[Release]:
        """Returns the releases with an image, and with ``build`` those of the table too, oldest first.

        Raises :class:`EnvironmentUnavailable` if there is none.
        """
        found = {row.version: row.release() for row in self._table.values()} if self._build else {}
        for version in self._local():
            row = self._table.get(version)
            parsed = parse_version(version)
            early = parsed is not None and parsed.is_prerelease
            if early and not (pre or self._options.pre):
                continue
            found[version] = row.release() if row else Release(version=version, prerelease=early)
        if not found:
            raise EnvironmentUnavailable(
                f"no image {self._pattern.replace(_VERSION, '*')} here: make docker-build TORCH=VERSION"
            )
        return sorted(found.values(), key=lambda release: order(release.version))

    def spec(self, version: str, *, pins: Sequence[tuple[str, str]] = ()) -> EnvironmentSpec:
        """Returns the image of a release; with ``pins`` or packages of the script, an image made from it.

        The name of an existing image includes its digest, so that a later image of that name is another
        environment.
        """
        row = self._table.get(version)
        spec = EnvironmentSpec(
            provider=self.name,
            torch=version,
            python=row.python if row else self._options.python,
            packages=self._needs,
            pins=tuple(pins),
            exclude_newer=era_of(row.release()) if row else "",
            image=self._name(version),
        )
        image = spec.image
        if spec.pins or spec.packages:
            image = f"{image}-{replace(spec, image=row.recipe if row else image).key[:8]}"
        found = self._image(image)
        return replace(spec, image=image if found is None else f"{image}@{found.id}")

    def make(self, spec: EnvironmentSpec) -> Environment:
        """Returns the image, built if it is missing and building is allowed; its interpreter is checked
        first.

        Raises :class:`EnvironmentUnavailable` otherwise.
        """
        began = time.monotonic()
        row = self._table.get(spec.torch)
        image = spec.image.partition("@")[0]
        extra = Extra(pins=spec.pins, packages=spec.packages)
        base = self._name(spec.torch) if extra else image
        cached = True
        if self._image(base) is None or (row and self._again):
            self._make_image(spec.torch, base, row)
            cached = False
        if extra and self._image(image) is None:
            # Adding a few wheels to an existing image needs no permission.
            if row is None or self._builder is None:
                raise EnvironmentUnavailable(
                    f"no image {image}: the lab can put {extra.text} only upon builds of docker/builds.toml"
                )
            self._builder.extend(row, base, extra, image)
            cached = False
        found = self._image(image)
        if found is None:
            raise EnvironmentUnavailable(f"the image {image} went away")
        self._hold(str(found.id), image)
        spec = replace(spec, image=f"{image}@{found.id}")
        return self._environment(spec, row, found, 0.0 if cached else time.monotonic() - began, cached)

    def _hold(self, key: str, image: str) -> None:
        """Keeps other labs' `env prune` from removing an image while this provider is open."""
        with self._lock:
            if key not in self._held:
                lock = use_lock(self._options.folder, key)
                try:
                    if not lock.take(shared=True, wait_s=CHECK_TIMEOUT_S):
                        raise EnvironmentUnavailable(f"the image {image} is being removed by another lab")
                except OSError:
                    pass  # a read-only store holds no locks
                self._held[key] = lock
        note_use(self._options.folder, key)
        if self._image(key) is None:
            raise EnvironmentUnavailable(f"the image {image} was removed meanwhile")

    def close(self) -> None:
        """Releases the images that were used here."""
        with self._lock:
            held, self._held = self._held, {}
        for lock in held.values():
            lock.release()

    def __enter__(self) -> DockerProvider:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- running -------------------------------------------------------------------------------

    def runner(
        self, environment: Environment, workspace: Workspace, *, read: Sequence[Path] = ()
    ) -> DockerRunner:
        """Returns the function with which a prober runs commands in containers of this image.

        ``read`` are further files and folders that the script needs; its own folder and the user's are
        mounted anyway.
        """
        script = self._options.script
        return DockerRunner(
            connect=self._connect,
            image=str(environment.provenance["id"]),
            python=environment.python,
            read=[
                workspace.library.parent,
                workspace.user_cwd,
                *([script] if script is not None else []),
                *read,
            ],
            keep=workspace.root / "docker",
        )

    # -- images --------------------------------------------------------------------------------

    def _name(self, version: str) -> str:
        if _VERSION not in self._pattern:
            raise EnvironmentUnavailable(f"{self._pattern}: the name of the images must hold {_VERSION}")
        return self._pattern.replace(_VERSION, version)

    def _local(self) -> Iterator[str]:
        """Yields the versions that have an image with a matching name."""
        head, _, tail = self._pattern.partition(_VERSION)
        form = re.compile(re.escape(head) + r"(\d[^-]*)" + re.escape(tail))
        with closing(self._connect()) as client, daemon_errors("cannot list the images"):
            tags = [tag for image in client.images.list() for tag in image.tags]
        for tag in tags:
            match = form.fullmatch(tag)
            if match and parse_version(match[1]) is not None:
                yield match[1]

    def _image(self, name: str) -> Any:
        with closing(self._connect()) as client, daemon_errors(f"cannot look at {name}"):
            try:
                return client.images.get(name)
            except docker.errors.ImageNotFound:
                return None

    def _make_image(self, version: str, image: str, row: Build | None) -> None:
        if row is None or self._builder is None:
            why = "it has no row in docker/builds.toml" if not self._options.image else "pull or build it"
            raise EnvironmentUnavailable(f"no image {image}: {why}")
        if not self._build:
            raise EnvironmentUnavailable(f"no image {image}: make docker-build TORCH={version}")
        self._builder.build(row, image)

    def _environment(
        self, spec: EnvironmentSpec, row: Build | None, image: Any, seconds: float, cached: bool
    ) -> Environment:
        labels = dict(image.labels)
        python = labels.get(PYTHON_AT) or "python3"
        facts = self._ask(str(image.id), python)
        if public(facts["torch"]) != public(spec.torch):
            raise EnvironmentUnavailable(f"{spec.image} holds torch {facts['torch']}, not {spec.torch}")
        provenance: dict[str, Any] = {
            "image": spec.image.partition("@")[0],
            "id": str(image.id),
            "digests": list(image.attrs.get("RepoDigests") or ()),
            "base": labels.get(BASE, ""),
            "wheels": json.loads(labels.get(WHEELS) or "{}"),
            **{key: facts[key] for key in ("python", "torch", "packages") if key in facts},
        }
        if labels.get(SLIM) == "yes":
            provenance["slim"] = "without the CUDA libraries: stubs stand in for them"
        if row is not None and labels.get(RECIPE_KEY) not in (None, row.recipe):
            provenance["note"] = f"made from an older row of the table: make docker-build TORCH={row.version}"
        return Environment(
            spec=replace(spec, slim=labels.get(SLIM) == "yes"),
            python=python,
            provenance=provenance,
            size_bytes=int(image.attrs.get("Size") or 0),
            seconds=seconds,
            cached=cached,
        )

    def _ask(self, image: str, python: str) -> dict[str, Any]:
        """Asks the image's interpreter for its packages, in a container as strict as those of runs."""
        runner = DockerRunner(
            connect=self._connect, image=image, python=python, keep=self._options.folder / "docker"
        )
        return ask_interpreter(Commands(cast(Run, runner), CHECK_TIMEOUT_S), python)
