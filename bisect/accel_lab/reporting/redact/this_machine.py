"""Finds the names of the account and the machine that the lab runs on."""

from __future__ import annotations

import getpass
import os
import pwd
import socket
from pathlib import Path


def account_homes() -> set[str]:
    """Returns every path of the home directory."""
    home = os.path.expanduser("~")
    return {str(Path.home()), home, os.path.realpath(home), os.environ.get("HOME", "")}


def account_names() -> set[str]:
    """Returns the account's names, and the person's name if known: whole, and its longer parts."""
    users = {os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")}
    try:
        users.add(getpass.getuser())
        person = pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0].strip()
    except (OSError, KeyError, ImportError):
        person = ""  # no account for this user id, as in many containers
    if " " in person:
        users |= {person, *(part for part in person.split() if len(part) >= 5)}
    return users - {""}


def machine_names() -> set[str]:
    """Returns the machine's names, with and without their domains."""
    hosts = {socket.gethostname(), os.environ.get("HOSTNAME", ""), os.uname().nodename}
    return {name for host in hosts for name in (host, host.split(".", 1)[0]) if name}
