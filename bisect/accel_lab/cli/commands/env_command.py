"""``accel-lab env``: lists, builds, verifies and removes the environments that the lab keeps."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from accel_lab.cli.environment_options import environment_options, read_options
from accel_lab.cli.kept_environments import KeptEnvironments
from accel_lab.cli.options import MAX_DAYS, Number
from accel_lab.cli.settings import config_option
from accel_lab.cli.streams import print_json
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.environments.index.line import HELP, select
from accel_lab.environments.providers import provider
from accel_lab.environments.store.folder import DAY_S
from accel_lab.environments.store.pruning import prune
from accel_lab.execution.processes import process

_MAX_BYTES = 10**18
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@click.group(name="env")
def command() -> None:
    """List, build, prune and verify environments, each with a release of torch."""


def store_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds the options that choose the environments: ``--provider``, ``--store``, ``--config``."""
    provider_option = click.option(
        "--provider",
        type=click.Choice(["uv", "docker"]),
        help="Only virtual environments, or only images. [default: both; with --store those of the folder]",
    )
    store_option = click.option("--store", metavar="FOLDER", help="Where environments are kept.")
    return provider_option(store_option(config_option(function)))


def json_option(function: Callable[..., int]) -> Callable[..., int]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


@command.command(name="list")
@store_options
@json_option
def list_command(store: str | None, provider: str | None, config: str | None, as_json: bool) -> int:
    """List the environments, most recently used first."""
    kept = KeptEnvironments(store, provider, config)
    rows = kept.rows()
    if as_json:
        answer = {"folder": str(kept.folder), "bytes": kept.bytes, "environments": rows}
        print_json(answer)
    elif not rows:
        click.echo(f"no environments in {kept.places}")
    else:
        table = [
            [
                row["key"],
                row["torch"],
                row["python"],
                "slim" if row["slim"] else "",
                row["era"] or "any",
                _size(row["bytes"]),
                _size(row["own_bytes"]),
                _age(row["made"]),
                "now" if row["in_use"] else _age(row["used"]) if row["used"] is not None else "not known",
            ]
            for row in rows
        ]
        heads = ["key", "torch", "python", "", "era", "size", "own", "age", "last use"]
        click.echo(tabulate(table, headers=heads, disable_numparse=True))
        for taken, where in kept.summary:
            click.echo(f"{_size(taken)} {where}")
    return 0


@command.command(name="build", help=f"Make the environments of VERSIONS ahead of a search: {HELP}.")
@click.argument("versions")
@click.option("--for", "script", metavar="SCRIPT", help="The script whose PEP 723 block says what it needs.")
@environment_options
@json_option
def build_command(versions: str, script: str | None, as_json: bool, **words: Any) -> int:
    """Returns exit code 3 if an environment cannot be made; the others are still made."""
    if script is not None and not Path(script).is_file():
        raise UsageError(f"{script} does not exist: --for takes the script that the environments are for")
    name, options = read_options({**words, "build_images": True}, Path(script) if script else None)
    rows: list[dict[str, Any]] = []
    with provider(name, options, run=process.run) as maker:
        line = select(versions, maker.releases(pre=options.pre))
        for number, release in enumerate(line, 1):
            sys.stderr.write(f"[{number}/{len(line)}] torch {release.version}\n")
            try:
                made = maker.make(maker.spec(release.version))
            except EnvironmentUnavailable as error:
                rows.append({"torch": release.version, "error": str(error)})
                sys.stderr.write(f"  not made: {error}\n")
                continue
            rows.append({"torch": release.version, **made.to_json()})
            state = (
                "was there" if made.cached else f"{made.seconds:.0f} s, {_size(made.size_bytes)} new on disk"
            )
            sys.stderr.write(f"  {made.spec.label}: {state}\n")
        notes = list(maker.notes)
    for note in notes:
        sys.stderr.write(f"note: {note}\n")
    if as_json:
        print_json({"provider": name, "environments": rows, "notes": notes})
    else:
        for row in rows:
            click.echo(f"{row['torch']:10s} {_place(row)}")
    return 3 if any("error" in row for row in rows) else 0


@command.command(name="prune")
@click.argument("keys", nargs=-1)
@click.option(
    "--older-than", type=Number(0, MAX_DAYS), metavar="DAYS", help="Remove those not used for this many days."
)
@click.option(
    "--max-size",
    metavar="SIZE",
    help="Remove the least recently used until the rest takes at most SIZE (20G).",
)
@click.option("--all", "everything", is_flag=True, help="Remove all of them.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@store_options
@json_option
def prune_command(
    keys: tuple[str, ...],
    older_than: float | None,
    max_size: str | None,
    everything: bool,
    dry_run: bool,
    store: str | None,
    provider: str | None,
    config: str | None,
    as_json: bool,
) -> int:
    """Remove environments by KEYS, age or size, and downloads that none needs. Those in use stay.

    Only images that the lab has built are removed.
    """
    kept = KeptEnvironments(store, provider, config)
    named = kept.keys if everything else [_key(key, kept.keys) for key in keys]
    done, freed = prune(
        kept.store,
        images=kept.images,
        keys=named,
        older_than_s=None if older_than is None else older_than * DAY_S,
        max_bytes=None if max_size is None else _bytes(max_size),
        dry_run=dry_run,
    )
    if as_json:
        rows = [row.__dict__ for row in done]
        print_json({"dry_run": dry_run, "freed_bytes": freed, "environments": rows})
        return 0
    word = "would remove" if dry_run else "removed"
    for row in done:
        click.echo(f"{word if row.removed else 'kept'} {row.key} {row.label}: {row.why}")
    click.echo(f"{_size(freed)} {'would be ' if dry_run else ''}freed in {kept.places}")
    return 0


@command.command(name="verify")
@click.argument("keys", nargs=-1)
@click.option("--remove", is_flag=True, help="Remove what is damaged; it is made again when it is needed.")
@store_options
@json_option
def verify_command(
    keys: tuple[str, ...],
    remove: bool,
    store: str | None,
    provider: str | None,
    config: str | None,
    as_json: bool,
) -> int:
    """Check KEYS (default: all): files, packages, and that torch works. Exit code 3 if one fails."""
    kept = KeptEnvironments(store, provider, config)
    rows = []
    for key in [_key(key, kept.keys) for key in keys] or kept.keys:
        faults = kept.verify(key)
        removed = bool(faults) and remove and kept.try_remove(key)
        rows.append(
            {"key": key, "label": kept.label(key), "ok": not faults, "faults": faults, "removed": removed}
        )
        if not as_json:
            state = "ok" if not faults else "; ".join(faults) + (" (removed)" if removed else "")
            click.echo(f"{key} {kept.label(key)}: {state}")
    if as_json:
        print_json(rows)
    return 0 if all(row["ok"] for row in rows) else 3


def _place(row: dict[str, Any]) -> str:
    """Returns an environment's interpreter or image, or why it was not made."""
    if "error" in row:
        return f"not made: {row['error']}"
    return str(row["provenance"].get("image") or row["python"])


def _key(text: str, known: list[str]) -> str:
    """Resolves a unique prefix to the key of an environment."""
    found = [text] if text in known else [key for key in known if key.startswith(text)]
    if len(found) == 1:
        return found[0]
    how = "names more than one environment" if found else "is not a kept environment"
    raise UsageError(f"{text} {how}: see `accel-lab env list`")


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text!r} is not a size: write 500M or 20G")
    size = float(match[1]) * _UNITS[match[2].lower()]
    if size > _MAX_BYTES:
        raise UsageError(f"{text[:40]!r} is more than any disk has: write 500M or 20G")
    return int(size)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{count / 1e6:.0f} MB"


def _age(moment: float) -> str:
    seconds = max(0.0, time.time() - moment)
    if seconds >= DAY_S:
        return f"{seconds / DAY_S:.0f} d"
    return f"{seconds / 3600:.0f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
