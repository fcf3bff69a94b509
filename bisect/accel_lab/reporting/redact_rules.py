"""Where a text holds something private: rules that find spans, and spare what only looks alike."""

from __future__ import annotations

import bisect
import builtins
import ipaddress
import json
import keyword
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources


@dataclass(frozen=True, kw_only=True)
class Span:
    """``text[start:end]`` is private; ``kind`` says what it is."""

    start: int
    end: int
    kind: str
    secret: str


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of the machine and the person. ``learned`` users are replaced inside paths only."""

    homes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    learned: frozenset[str] = field(default_factory=frozenset)


_WORDS: dict[str, list[str]] = json.loads(
    resources.files(__package__).joinpath("redact_words.json").read_text(encoding="utf-8")
)

#: Account and machine names that tell nothing about anybody.
GENERIC = frozenset(_WORDS["generic"])
#: Words that a log or a graph of torch's holds anyway: as somebody's name they are replaced in paths only.
_COMMON = frozenset(_WORDS["common"]) | frozenset(keyword.kwlist) | {name.lower() for name in dir(builtins)}

_ENDINGS = frozenset(_WORDS["endings"])
_PLACEHOLDER = re.compile(r"(?:user|host|REDACTED_[A-Z_]+_)\d+\Z|(?:.*\.)?(?:invalid|example)\Z")

_KEY = (
    r"(?P<key>[A-Za-z0-9_.-]{0,60}?(?:api[_-]?key|access[_-]?key|secret|passw(?:or)?d|passphrase|token|credentials?|auth)"
    r"(?:[_-]?(?:id|key|value))?)"
)
_ASSIGNED = re.compile(
    r"(?<![A-Za-z0-9_.-])" + _KEY + r"[\"']?\]?\s*(?:=>|[=:])\s*(?:(?:bearer|basic|token)\s+)?[\"']?"
    r"(?P<s>[^\s\"',;)}\]&]{6,})",
    re.I,
)
_BEFORE = re.compile(
    r"(?<![A-Za-z0-9_.-])" + _KEY + r"[\"']?\]?\s*(?::\s*\w+\s*)?(?:[=:,(])\s*[A-Za-z]*[\"']*\Z", re.I
)
_BENIGN_KEY = re.compile(
    r"(?:pad|eos|bos|unk|sep|cls|mask|num|max|min|new|next|special|input|output|n|per|text|image|cache)_?-?tokens?"
    r"(?:_?id|_?value)?\Z",
    re.I,
)

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])(?P<s>"
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}"
    r"|sk-[A-Za-z0-9_-]{20,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|pypi-[A-Za-z0-9_-]{40,}|npm_[A-Za-z0-9]{36}|dckr_pat_[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r")(?![A-Za-z0-9])"
)
_PEM = re.compile(
    r"(?P<s>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))", re.S
)
_BEARER = re.compile(r"\b(?:bearer|basic)\s+(?P<s>[A-Za-z0-9._~+/-]{16,}=*)", re.I)
_URL_LOGIN = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://(?P<s>[^\s/@:\"'<>]{1,200}(?::[^\s/@\"'<>]{0,200})?)@", re.I
)
_EMAIL = re.compile(
    r"(?<![\w.+%@/-])(?P<s>[A-Za-z0-9][A-Za-z0-9._%+-]*@(?P<domain>(?:[A-Za-z0-9-]+\.)+(?P<end>[A-Za-z]{2,})))"
    r"(?![\w@(\[-]|\.[\w])"
)
_HOME = re.compile(
    r"(?:(?<![\w.:/\\~-])|(?<=file://))(?:/[\w.+-]+){0,4}?/(?:home|Users)/(?P<s>[A-Za-z0-9_][\w.-]*\w|\w)"
    r"|\b[A-Za-z]:[\\/]+Users[\\/]+(?P<w>[A-Za-z0-9_][\w.-]*\w|\w)"
)
_URL_HOST = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://(?:[^\s/@\"'<>]{0,400}@)?(?P<s>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)",
    re.I,
)
_INNER_HOST = re.compile(
    r"(?<![\w.-])(?P<s>(?P<first>[A-Za-z0-9][A-Za-z0-9-]*)(?:\.[A-Za-z0-9-]+)*"
    r"\.(?P<end>internal|corp|lan|intranet|localdomain|local|home|private))(?![\w(\[-]|\.\w)"
)
_IPV4 = re.compile(r"(?<![\w.+-])(?P<s>\d{1,3}(?:\.\d{1,3}){3})(?![\w+-]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?P<s>(?:fe80|f[cd][0-9a-f]{2}):[0-9a-f:]{2,39})(?![\w:.])", re.I)
_MAC = re.compile(r"(?<![\w:])(?P<s>(?:[0-9a-f]{2}:){5}[0-9a-f]{2})(?![\w:])", re.I)
#: A four-part number after one of these is a version: ``nvidia-curand-cu12==10.3.5.147``.
_VERSIONED = re.compile(
    r"(?:nvidia|cuda|cudnn|cublas|cu\d\d|version|driver|release|[=<>~!]=|\bv)[^/@]{0,40}\Z", re.I
)
_PUBLIC = re.compile(
    r"(?:.*\.)?(?:pytorch\.org|github\.com|githubusercontent\.com|python\.org"
    r"|huggingface\.co|nvidia\.com|kernel\.org|gnu\.org|llvm\.org|openai\.com|anaconda\.org|readthedocs\.io"
    r"|wikipedia\.org|arxiv\.org|w3\.org|json-schema\.org|apache\.org|google\.com|example\.(?:com|org|net))\Z",
    re.I,
)
_INNER = frozenset({"internal", "corp", "lan", "intranet", "localdomain", "local"})
_INDEX = re.compile(r"(?:index|proxy|registry|mirror|find[-_ ]links)[^\n]{0,60}\Z", re.I)


def spans(text: str, known: Known, *, before: str = "", spare: frozenset[str] = frozenset()) -> list[Span]:
    """The private spans of a text, none overlapping, in order.

    ``before`` is what stands on the same line before the text, so that ``token = "..."`` is known from
    its key; ``spare`` are words that must not be replaced on their own, for they are names in the code.
    """
    taken: list[Span] = []
    starts: list[int] = []
    for kind, start, end in _candidates(text, known, before, spare):
        place = bisect.bisect_left(starts, start)
        free = (place == 0 or taken[place - 1].end <= start) and (
            place == len(starts) or end <= starts[place]
        )
        secret = text[start:end]
        if start < end and free and not _PLACEHOLDER.match(secret):
            starts.insert(place, start)
            taken.insert(place, Span(start=start, end=end, kind=kind, secret=secret))
    return taken


def homes_in(text: str) -> set[str]:
    """The account names of the home directories that a text mentions."""
    found = (
        {match.group(_group(match)) for match in _HOME.finditer(text)}
        if "/" in text or "\\" in text
        else set()
    )
    return {name for name in found if not _PLACEHOLDER.match(name)}


def distinctive(name: str) -> bool:
    """Whether a name can be replaced wherever it stands alone, with little risk of hitting another word."""
    lowered = name.lower()
    return len(name) >= 4 and lowered not in GENERIC and lowered not in _COMMON


def _candidates(
    text: str, known: Known, before: str, spare: frozenset[str]
) -> Iterator[tuple[str, int, int]]:
    """All matches, the surest rule first: what one rule took, a later one leaves."""
    stripped = text.strip()
    key = _BEFORE.search(before) if before else None
    if key and stripped and not re.search(r"\s", stripped) and _secret_value(key.group("key"), stripped):
        yield "token", text.index(stripped), text.index(stripped) + len(stripped)
    lowered = text.lower()
    for kind, pattern, hints, accept in (*_SURE, *_own_rules(known, spare), *_GUESSED):
        if not hints or any(hint in lowered for hint in hints):
            for match in pattern.finditer(text):
                if accept is None or accept(match, before):
                    group = _group(match)
                    yield kind, match.start(group), match.end(group)


def _own_rules(known: Known, spare: frozenset[str]) -> Iterator[Rule]:
    """The rules for the homes, hosts and users that are known by name."""
    for home in known.homes:
        yield "home", _path_pattern(home), (home.lower(),), None
    yield "home", _HOME, ("/home/", "/users/", "\\users"), _is_home
    for host in known.hosts:
        free = distinctive(host) and host not in spare
        yield "host", _word_pattern(host) if free else _host_context(host), (host.lower(),), None
    for user in known.users:
        free = distinctive(user) and user not in spare
        yield "user", _word_pattern(user) if free else _user_context(user), (user.lower(),), None
        yield "user", _joined_user(user), (user.lower(),), None
    for user in sorted(known.learned - set(known.users)):
        yield "user", _user_context(user), (user.lower(),), None
        yield "user", _joined_user(user), (user.lower(),), None


def _group(match: re.Match[str]) -> str:
    return "s" if match.group("s") is not None else "w"


def _secret_value(key: str, value: str) -> bool:
    """Whether the value that stands with such a key is a secret, and not code, a number or a plain word."""
    if _BENIGN_KEY.search(key) or re.search(r"[(\[{<>$]", value) or value.lower() == key.lower():
        return False
    if _PLACEHOLDER.match(value) or re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", value):
        return False
    if re.search(r"passw|secret|passphrase", key, re.I) and len(value) >= 6:
        return not re.fullmatch(r"(?:true|false|none|null|\d+|\w*(?:password|secret)\w*)", value, re.I)
    return len(value) >= 12 and bool(re.search(r"\d", value)) and bool(re.search(r"[A-Za-z]", value))


def _is_assigned(match: re.Match[str], _before: str) -> bool:
    return _secret_value(match.group("key"), match.group("s"))


def _is_home(match: re.Match[str], _before: str) -> bool:
    return not _PLACEHOLDER.match(match.group(_group(match)))


def _is_email(match: re.Match[str], _before: str) -> bool:
    """An address and not a matrix product such as ``q@k.transpose`` or ``torch.float@w.to``."""
    name, _, domain = match.group("s").partition("@")
    if name == "git" or name.startswith(("torch.", "self.", "np.")) or _PLACEHOLDER.match(domain):
        return False
    end = match.group("end")
    if not end.islower() and not domain.isupper():
        return False
    end = end.lower()
    return end in _ENDINGS or (len(end) == 2 and len(name) >= 2 and len(domain.split(".")[-2]) >= 3)


def _is_inner_url_host(match: re.Match[str], before: str) -> bool:
    host = match.group("s").lower()
    if host in ("localhost", "127.0.0.1", "0.0.0.0") or _PLACEHOLDER.match(host) or _PUBLIC.match(host):
        return False
    if re.fullmatch(r"[\d.]+", host):
        return False
    if "." not in host:
        return True
    return bool(_INDEX.search(_line_before(match, before))) or host.rsplit(".", 1)[-1] in _INNER


def _is_inner_host(match: re.Match[str], _before: str) -> bool:
    """An internal machine, and not an attribute such as ``threading.local``."""
    first, end = match.group("first"), match.group("end")
    if first in ("torch", "self", "cls", "np", "threading", "os", "sys", "tf", "jax", "this", "usr"):
        return False
    around = match.string[max(match.start() - 12, 0) : match.start()]
    after = match.string[match.end() : match.end() + 2]
    if around.endswith(("import ", "from ", "_", "$")):
        return False
    if (
        around.endswith(("://", "@"))
        or re.match(r":\d", after)
        or re.search(r"host\w*\W{1,3}\Z", around, re.I)
    ):
        return True
    return end in ("internal", "corp", "lan", "intranet", "localdomain") or bool(re.search(r"[\d-]", first))


def _is_private_ip(match: re.Match[str], before: str) -> bool:
    """Private ranges, and any address that a URL or a login names; version numbers are spared."""
    try:
        address = ipaddress.ip_address(match.group("s"))
    except ValueError:
        return False
    line = _line_before(match, before)
    documentation = any(address in net for net in DOCUMENTATION)
    if address.is_loopback or address.is_unspecified or address.is_multicast or documentation:
        return False
    if line.endswith(("://", "@")):
        return True
    return (
        not _VERSIONED.search(line) and (address.is_private or address in _SHARED) and not address.is_reserved
    )


def _line_before(match: re.Match[str], before: str) -> str:
    """What stands before a match on its line, a hundred characters of it at most."""
    start = max(match.start() - 100, 0)
    return ((before if start == 0 else "") + match.string[start : match.start()]).rsplit("\n", 1)[-1][-100:]


def _is_ipv6(match: re.Match[str], _before: str) -> bool:
    try:
        return ipaddress.ip_address(match.group("s")).version == 6
    except ValueError:
        return False


#: Address ranges kept for examples (RFC 5737): the placeholders come from them.
DOCUMENTATION = tuple(
    ipaddress.ip_network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
)
_SHARED = ipaddress.ip_network("100.64.0.0/10")


def _path_pattern(path: str) -> re.Pattern[str]:
    return re.compile(rf"(?:(?<![\w.:/~-])|(?<=file://))(?P<s>{re.escape(path)})(?![\w.-]*\w)")


def _word_pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9_])(?P<s>{re.escape(word)})(?![A-Za-z0-9_])", re.I)


def _host_context(host: str) -> re.Pattern[str]:
    return re.compile(rf"(?:(?<=@)|(?<=://))(?P<s>{re.escape(host)})(?![A-Za-z0-9_])", re.I)


def _user_context(user: str) -> re.Pattern[str]:
    word = re.escape(user)
    return re.compile(
        rf"(?:(?<=/)|(?<=~)|(?<=\buser[=: ])|(?<=\bUSER=)|(?<=\blogin[=: ]))(?P<s>{word})(?=[/\s\"':,;)]|\Z)"
    )


def _joined_user(user: str) -> re.Pattern[str]:
    """Temporary folders that carry the account's name, as Inductor's default cache folder does."""
    return re.compile(
        rf"(?:(?<=torchinductor_)|(?<=pytest-of-)|(?<=triton_))(?P<s>{re.escape(user)})(?![A-Za-z0-9])"
    )


#: A kind, where to look, what a text in lower case must hold for that to be worth while, and a last check.
Rule = tuple[str, "re.Pattern[str]", tuple[str, ...], "Callable[[re.Match[str], str], bool] | None"]

_SURE: tuple[Rule, ...] = (
    ("private_key", _PEM, ("private key-----",), None),
    (
        "token",
        _TOKEN,
        ("gh", "glpat", "hf_", "sk-", "akia", "asia", "aiza", "ya29", "xox", "pypi-", "npm_", "dckr_", "eyj"),
        None,
    ),
    ("credential", _URL_LOGIN, ("://",), lambda m, _: m.group("s").lower() != "git"),
    ("token", _BEARER, ("bearer", "basic"), lambda m, _: bool(re.search(r"\d", m.group("s")))),
    (
        "token",
        _ASSIGNED,
        ("token", "secret", "passw", "passphrase", "key", "credential", "auth"),
        _is_assigned,
    ),
    ("email", _EMAIL, ("@",), _is_email),
)
_GUESSED: tuple[Rule, ...] = (
    ("host", _URL_HOST, ("://",), _is_inner_url_host),
    ("host", _INNER_HOST, tuple("." + end for end in (*_INNER, "home", "private")), _is_inner_host),
    ("ip", _IPV4, (), _is_private_ip),
    ("ip", _IPV6, ("fe80:", "fc", "fd"), _is_ipv6),
    ("mac", _MAC, (":",), lambda m, _: len(set(m.group("s").split(":"))) > 1),
)
