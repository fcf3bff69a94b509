"""Rules for host names and network addresses."""

from __future__ import annotations

import ipaddress
import re

from .rule import PLACEHOLDER, Rule, line_before
from .words import GENERIC, INNER, INNER_DOUBTFUL, is_public

_URL_HOST = r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://(?:[^\s/@\"'<>]{0,400}@)?(?P<s>[a-z0-9](?:[a-z0-9.-]{0,200}[a-z0-9])?)"
_ENDS = "|".join(sorted(INNER | INNER_DOUBTFUL, key=lambda end: (-len(end), end)))
_INNER_HOST = (
    r"(?<![\w.-])(?P<s>(?P<first>[A-Za-z0-9][A-Za-z0-9-]{0,62})(?:\.[A-Za-z0-9-]{1,63}){0,6}"
    rf"\.(?P<end>{_ENDS}))(?![\w(\[-]|\.\w)"
)
_IPV4 = r"(?<![\w.+-])(?P<s>\d{1,3}(?:\.\d{1,3}){3})(?![\w+-]|\.\d)"
_IPV6 = r"(?<![\w:.])(?P<s>[23f][0-9a-f]{2,3}:[0-9a-f:]{2,39})(?![\w:.])"
_MAC = r"(?<![\w:-])(?P<s>[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5}|(?:-[0-9a-f]{2}){5}))(?![\w:-])"
#: A four-part number after one of these is a version, such as ``nvidia-curand-cu12==10.3.5.147``.
_VERSIONED = re.compile(
    r"(?:nvidia|cuda|cudnn|cublas|cu\d\d|version|driver|release|build)[^/@]{0,40}\Z|[=<>~!]=\s{0,2}\Z",
    re.I,
)
#: After one of these a four-part number is an address.
_ADDRESSED = re.compile(
    r"(?:\b(?:host|addr(?:ess)?|ip|ipv4|server|peer|remote|listen\w*|connect\w*|connection|ssh|ping|inet|nameserver"
    r"|gateway|proxy|endpoint|master_addr|node|bind\w*|from|to)"
    r"[\"'\]]{0,2}[ \t]{0,3}[=:(]{0,1}[ \t]{0,3}[\"'(]{0,2})\Z",
    re.I,
)
_INDEX = re.compile(r"(?:index|proxy|registry|mirror|find[-_ ]links)[^\n]{0,60}\Z", re.I)
_HERE = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "::1"})
_NO_MACHINE = frozenset({"torch", "self", "cls", "np", "threading", "os", "sys", "tf", "jax", "this", "usr"})

#: Address ranges reserved for documentation (RFC 5737); placeholders are taken from them.
DOCUMENTATION = tuple(
    ipaddress.ip_network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
)
_SHARED = ipaddress.ip_network("100.64.0.0/10")


def _is_inner_url_host(match: re.Match[str], before: str) -> bool:
    host = match.group("s").lower()
    if host in _HERE or PLACEHOLDER.match(host) or is_public(host):
        return False
    if re.fullmatch(r"[\d.]+", host):
        return False
    if "." not in host:
        return True
    return bool(_INDEX.search(line_before(match, before))) or host.rsplit(".", 1)[-1] in INNER


def _is_inner_host(match: re.Match[str], _before: str) -> bool:
    """Whether a match is an internal host, and not an attribute such as ``threading.local``."""
    first, end = match.group("first"), match.group("end")
    if first in _NO_MACHINE or PLACEHOLDER.match(match.group("s")):
        return False
    around = match.string[max(match.start() - 12, 0) : match.start()]
    after = match.string[match.end() : match.end() + 2]
    if around.endswith(("import ", "from ", "_", "$")):
        return False
    if (
        around.endswith(("://", "@"))
        or re.match(r":\d", after)
        or re.search(r"host\w{0,9}\W{1,3}\Z", around, re.I)
    ):
        return True
    if match.group("s").lower().endswith((".svc.cluster.local", ".cluster.local")):
        return True
    if end.lower() in INNER_DOUBTFUL or end.lower() == "local":
        return bool(re.search(r"[\d-]", match.group("s")))
    return end.lower() in INNER


def _is_address(match: re.Match[str], before: str) -> bool:
    """Whether a match is a non-public address, or a public one that by context or numbers is no version."""
    try:
        address = ipaddress.ip_address(match.group("s"))
    except ValueError:
        return False
    line = line_before(match, before)
    documentation = any(address in net for net in DOCUMENTATION)
    if address.is_loopback or address.is_unspecified or address.is_multicast or documentation:
        return False
    if address.is_reserved:
        return False
    if line.endswith(("://", "@")):
        return True
    if _VERSIONED.search(line):
        return False
    if address.is_private or address in _SHARED or _ADDRESSED.search(line):
        return True
    after = match.string[match.end() : match.end() + 7]
    if re.match(r":\d{2,5}(?!\d)", after) or re.match(r"/\d{1,2}(?!\d)", after):
        return True
    octets = [int(octet) for octet in match.group("s").split(".")]
    return octets[0] >= 100 or sum(octet >= 100 for octet in octets) >= 2


def _is_ipv6(match: re.Match[str], _before: str) -> bool:
    """Whether a match is a link-local, local or global address, not a slice such as ``x[2000::2]``."""
    text = match.group("s").lower()
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address in ipaddress.ip_network("2001:db8::/32"):
        return False
    if text.startswith(("fe80", "fc", "fd")) and text.index(":") == 4:
        return True
    groups = [group for group in text.split(":") if group]
    return (
        text[0] in "23"
        and text.index(":") == 4
        and (len(groups) >= 5 or (len(groups) >= 3 and any(c in "abcdef" for c in text)))
    )


#: Environment variables that name a machine.
_VARIABLE = (
    r"\b(?:HOSTNAME|HOST|COMPUTERNAME|SLURMD_NODENAME|SLURM_(?:JOB_|STEP_)?NODELIST|SLURM_TOPOLOGY_ADDR|MASTER_ADDR"
    r"|SSH_CONNECTION|SSH_CLIENT)=[\"']?(?P<s>[A-Za-z0-9][\w.:\[\]-]{2,100})"
)


def _is_named(match: re.Match[str], _before: str) -> bool:
    host = match.group("s").lower()
    return host not in GENERIC and host not in _HERE and not PLACEHOLDER.match(host) and not is_public(host)


MACHINES: tuple[Rule, ...] = (
    Rule(
        kind="host",
        name="host of a URL",
        regex=_URL_HOST,
        flags=re.I,
        hints=("://",),
        accept=_is_inner_url_host,
    ),
    Rule(
        kind="host",
        name="internal host",
        regex=_INNER_HOST,
        flags=re.I,
        hints=tuple("." + end for end in sorted(INNER | INNER_DOUBTFUL)),
        accept=_is_inner_host,
    ),
    Rule(
        kind="host",
        name="variable of a machine",
        regex=_VARIABLE,
        hints=("host", "computername", "nodename", "nodelist", "slurm_", "master_addr", "ssh_c"),
        accept=_is_named,
    ),
    Rule(kind="ip", name="IPv4", regex=_IPV4, hints=(".",), accept=_is_address),
    Rule(kind="ip", name="IPv6", regex=_IPV6, flags=re.I, hints=(":",), accept=_is_ipv6),
    Rule(
        kind="mac",
        name="MAC",
        regex=_MAC,
        flags=re.I,
        hints=(":", "-"),
        accept=lambda m, _: len(set(m.group("s").replace("-", ":").split(":"))) > 1,
    ),
)
