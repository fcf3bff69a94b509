"""Checks an environment before use by asking its interpreter for its torch and packages."""

from __future__ import annotations

import json
import os
from typing import Any

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.environments.commands import Commands, plain_environment

# This runs on the pinned interpreter, so on every Python of the line. Without `full` torch's version is read
# but torch is not imported: that takes seconds, and the first probe does it anyway.
_ASK = r"""
import json, os, sys
try:
    import importlib.metadata as metadata
except ImportError:
    metadata = None
said = {"python": "%d.%d.%d" % sys.version_info[:3], "prefix": sys.prefix, "torch": "", "error": ""}
if metadata is not None:
    said["packages"] = {
        d.metadata["Name"]: d.version for d in metadata.distributions() if d.metadata["Name"]
    }
try:
    if sys.argv[1] == "full":
        import torch
        said["torch"] = torch.__version__
        said["cuda"] = bool(torch.cuda.is_available())
        if torch.ones(2, 3).mm(torch.ones(3, 2)).sum().item() != 12.0:
            said["error"] = "torch multiplies wrongly"
    else:
        import importlib.util
        spec = importlib.util.find_spec("torch")
        names = {}
        if spec is None or not spec.origin:
            said["error"] = "torch is not installed"
        else:
            with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
                exec(file.read(), names)
            said["torch"] = str(names["__version__"])
except BaseException as error:
    said["error"] = "%s: %s" % (type(error).__name__, str(error).strip().split("\n")[-1][:300])
print("\n" + json.dumps(said))
"""
TIMEOUT_S = 600.0


def ask_interpreter(
    commands: Commands, python: str, *, full: bool = False, isolated: bool = True
) -> dict[str, Any]:
    """Returns an interpreter's ``python``, ``torch`` and ``packages``; ``full`` imports torch and uses it.

    ``isolated`` ignores the user's PYTHONPATH and user site-packages. Raises :class:`EnvironmentUnavailable`
    if the interpreter does not start or has no working torch.
    """
    env = {**(plain_environment() if isolated else os.environ), "PYTHONDONTWRITEBYTECODE": "1"}
    if full:
        env["CUDA_VISIBLE_DEVICES"] = ""
    flags = ["-I"] if isolated else []
    command = [python, *flags, "-c", _ASK, "full" if full else "quick"]
    said = commands(command, env, timeout_s=TIMEOUT_S)
    lines = said.stdout.strip().splitlines()
    try:
        facts: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        last = (said.stderr.strip().splitlines() or [said.why or "it says nothing"])[-1]
        raise EnvironmentUnavailable(f"{python} does not run as a Python interpreter: {last[:200]}") from None
    if facts.get("error") or not facts.get("torch"):
        raise EnvironmentUnavailable(f"torch does not work in {python}: {facts.get('error')}")
    return facts
