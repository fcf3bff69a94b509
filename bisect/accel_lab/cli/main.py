"""The command ``accel-lab``: imports only the subcommand that is called."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence

import click

from accel_lab import __version__
from accel_lab.cli import internal_errors, logs
from accel_lab.cli.option_names import SETTABLE
from accel_lab.cli.settings import make_settable
from accel_lab.cli.streams import ReaderGone, close_quietly, guarded_streams
from accel_lab.execution.processes.interruptible import INTERRUPTED, StopSignals

#: Maps a command to its module in ``cli.commands`` and its line of help, so that ``--help`` imports none.
COMMANDS: dict[str, tuple[str, str]] = {
    "bisect": ("bisect", "Find the stage of the compiler at which a script fails, with evidence."),
    "minimize": ("minimize", "Minimize a failing script, or a captured graph."),
    "run": ("run", "Run a script once under one rung of the ladder."),
    "bench": (
        "bench",
        "Measure models (BERT, ResNet-18, a decoder, a UNet, ...) under the backends.",
    ),
    "triage": ("triage", "Bisect many scripts, and say how many distinct faults they are."),
    "record": ("record", "Run a job once, as it is, and keep the first compiled graph that fails."),
    "matrix": ("matrix", "Run a script on every release of a line, on every rung of the ladder."),
    "diff": ("diff", "Compare two ways of running a script's compiled regions, value by value."),
    "guards": ("guards", "Report graphs, graph breaks, guards and recompilations of a script."),
    "capture": ("capture", "Write down every layer of the compiler for a script: graphs, loop IR, kernels."),
    "check": ("check", "Check a script's graphs against the constraints of an accelerator."),
    "report": ("report", "Write the report of an earlier run again, or print where it is."),
    "bundle": ("bundle", "Write the bundle of an earlier run again."),
    "verify": ("verify", "Check a bundle and run it again: MATCH or MISMATCH."),
    "env": ("env", "List, build, prune and verify the environments of the releases."),
    "list": ("runs", "List earlier runs."),
    "clean": ("clean", "Remove earlier runs."),
    "dashboard": ("dashboard", "Serve a web page on this machine: start bisections, browse the runs."),
    "demo": ("demo", "Show all of this on a shipped script, in two minutes."),
    "doctor": ("doctor", "Say what this machine and an interpreter have."),
}


class Lazy(click.Group):
    """A group that imports the module of a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"accel_lab.cli.commands.{COMMANDS[cmd_name][0]}_command")
        command: click.Command = module.command
        logs.add_options(command)
        if cmd_name in SETTABLE:
            make_settable(command, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="accel-lab")
def cli() -> None:
    """A bisect lab for PyTorch's compiler stack.

    Start with: accel-lab bisect SCRIPT
    """


logs.add_options(cli, variables=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs ``accel-lab`` and exits. The lab's errors become one line on standard error and an exit code."""
    stopped = StopSignals().heed()
    with guarded_streams():
        sys.exit(stopped.exit_code(run(argv)))


def run(argv: Sequence[str] | None) -> int:
    """Runs one command in this process and returns its exit code.

    An unexpected exception is a bug of the lab: exit code 3, never 1.
    """
    try:
        code = cli.main(args=list(argv) if argv is not None else None, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show(sys.stderr)
        return 2
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        close_quietly()
        return 128 + signal.SIGPIPE
    except Exception as error:
        line, code = internal_errors.explained(error)
        sys.stderr.write(f"accel-lab: {line}\n")
        return code
    finally:
        logs.close()


if __name__ == "__main__":
    main()
