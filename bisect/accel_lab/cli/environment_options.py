"""Defines the options that choose builds of torch and their sources; several commands share them.

An option overrides the lab's configuration, which overrides pip's configuration.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from accel_lab.cli.settings import config_option, read_settings
from accel_lab.config import Config
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Index
from accel_lab.core.machine.places import environments_folder
from accel_lab.environments.index.pip_settings import pip_index
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.environments.providers import NAMES

F = TypeVar("F", bound=Callable[..., Any])


def environment_options(command: F) -> F:
    """Adds the options for the provider, the packages and their index."""
    for decorate in reversed(
        (
            click.option(
                "--provider",
                type=click.Choice(NAMES),
                help="Where builds of torch come from: interpreters of this machine (local), new virtual "
                "environments (uv), images (docker). [default: local with --pythons, else uv]",
            ),
            click.option(
                "--pythons",
                metavar="PATHS",
                help=f"The interpreters of the local provider, separated by {os.pathsep!r}.",
            ),
            click.option(
                "--python-version",
                metavar="X.Y",
                help="The Python of all releases. [default: the one here that most releases support]",
            ),
            click.option("--index-url", metavar="URL", help="Package index. [default: as pip is configured]"),
            click.option("--extra-index-url", metavar="URL", multiple=True, help="One more package index."),
            click.option(
                "--find-links", metavar="PLACE", multiple=True, help="A folder or page with wheels."
            ),
            click.option("--cert", metavar="FILE", help="CA certificates to trust. [default: as for pip]"),
            click.option(
                "--nightly-index-url", metavar="URL", help="An index of nightly builds; it needs --pre."
            ),
            click.option(
                "--with",
                "with_packages",
                metavar="PACKAGE",
                multiple=True,
                help="A package that the script needs: NAME or NAME==VERSION.",
            ),
            click.option(
                "--with-requirements",
                metavar="FILE",
                multiple=True,
                help="A requirements file of the script. Its PEP 723 block is read anyway.",
            ),
            click.option("--pre", is_flag=True, help="Pre-releases and nightlies count as releases too."),
            click.option("--full", is_flag=True, help="Install the CUDA libraries even without a GPU."),
            click.option("--slim", is_flag=True, help="Leave out the CUDA libraries even with a GPU."),
            click.option(
                "--store",
                metavar="FOLDER",
                help="Where environments are kept. [default: in the cache folder]",
            ),
            click.option(
                "--image",
                metavar="NAME",
                help="For docker: the images' name, {version} in it is the release.",
            ),
            click.option(
                "--build-images", is_flag=True, help="For docker: build the images that are missing."
            ),
            click.option(
                "--docker-host", metavar="URL", help="For docker: the daemon. [default: DOCKER_HOST]"
            ),
            config_option,
        )
    ):
        command = decorate(command)
    return command


def read_options(
    words: Mapping[str, Any], script: Path | None = None, *, folder: Path | None = None
) -> tuple[str, EnvironmentOptions]:
    """Returns the provider's name and its options, from a command's options, the configuration and pip's.

    ``script`` supplies the PEP 723 block. ``folder`` is where the search for settings starts.
    """
    config = read_settings(words.get("config"), folder=folder)
    pythons = tuple(filter(None, (words["pythons"] or "").split(os.pathsep))) or config.list("pythons")
    provider = words["provider"] or ("local" if words["pythons"] else "") or config.text("provider")
    provider = provider or ("local" if pythons else "uv")
    if provider not in NAMES:
        raise UsageError(f"there is no provider {provider!r}: use {', '.join(NAMES)}")
    python = words["python_version"] or config.text("python-version")
    if python and not re.fullmatch(r"3\.[0-9]{1,3}", python):
        raise UsageError(f"--python-version takes a version such as 3.11, not {python!r}")
    store = words["store"] or config.text("store")
    requirements = words["with_requirements"] or config.list("with-requirements")
    return provider, EnvironmentOptions(
        python=python,
        index=_index(words, config),
        with_packages=tuple(words["with_packages"]) or config.list("with"),
        with_requirements=tuple(Path(name) for name in requirements),
        script=script,
        slim=_slim(words, config),
        pre=words["pre"] or bool(config.values.get("pre")),
        folder=Path(store).expanduser().resolve() if store else environments_folder(),
        pythons=pythons,
        image=words["image"] or config.text("image"),
        build_images=words["build_images"],
        docker_host=words["docker_host"] or "",
    )


def _slim(words: Mapping[str, Any], config: Config) -> str:
    if words["full"] and words["slim"]:
        raise UsageError("--full and --slim contradict each other")
    return "no" if words["full"] else "yes" if words["slim"] else config.text("slim") or "auto"


def _index(words: Mapping[str, Any], config: Config) -> Index:
    """Merges the index settings field by field: the option, else the configuration's, else pip's."""
    mine, pip = config.index, pip_index()
    return Index(
        url=words["index_url"] or mine.url or pip.url,
        extra_urls=tuple(words["extra_index_url"]) or mine.extra_urls or pip.extra_urls,
        find_links=tuple(words["find_links"]) or mine.find_links or pip.find_links,
        ca_bundle=words["cert"] or mine.ca_bundle or pip.ca_bundle,
        nightly_url=words["nightly_index_url"] or mine.nightly_url,
    )
