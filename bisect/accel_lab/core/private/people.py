"""Rules for home directories, account names and e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .rule import PLACEHOLDER, Accept, Rule, Rules, part
from .words import COMMON, ENDINGS, GENERIC, distinctive


@dataclass(frozen=True, kw_only=True)
class Known:
    """Private names that are known for this machine and user.

    ``learned`` users are replaced in paths only, ``secrets`` and ``words`` everywhere.
    """

    homes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    learned: frozenset[str] = field(default_factory=frozenset)
    secrets: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


#: A distinctive name of at least this length is replaced inside longer words too.
INSIDE = 6
_NAME = r"[A-Za-z0-9_](?:[\w.-]{0,60}\w)?"
_START = r"(?:(?<![\w.:/\\~-])|(?<=file://))"
_HOME = (
    rf"{_START}(?:/[\w.+-]{{1,80}}){{0,6}}?/(?P<root>home\d?|homes|users?|people|scratch)/"
    rf"(?P<s>{_NAME}(?:(?:[ ](?-i:[A-Z])[\w.-]{{1,40}}){{1,2}}(?=/))?)"
    rf"|\b[A-Za-z]:[\\/]{{1,4}}Users[\\/]{{1,4}}"
    rf"(?P<w>\w[\w.-]{{0,40}}(?:[ ][\w.-]{{1,40}}){{0,2}}(?=[\\/\"'])"
    rf"|{_NAME}(?:[ ](?-i:[A-Z])[\w.-]{{1,40}}){{0,2}})"
)
_AFS = rf"{_START}/afs/[\w.-]{{1,60}}/(?:user|usr|home|users)/(?:\w/){{0,2}}(?P<s>{_NAME})"
_TILDE = r"(?<![\w/.~\\)\]])~(?P<s>[a-z_][a-z0-9_-]{2,31})(?=/)"
_EMAIL = (
    r"(?<![\w.+%@/-])(?P<s>[A-Za-z0-9][A-Za-z0-9._%+-]{0,80}@(?P<domain>(?:[A-Za-z0-9-]{1,63}\.){1,8}(?P<end>[A-Za-z]{2,24})))"
    r"(?![\w@(\[-]|\.[\w])"
)
_SSH = (
    r"\b(?:ssh|scp|sftp|rsync|sshfs|mosh)\b[^\n]{0,100}?\s"
    r"(?P<s>[A-Za-z_][\w.-]{0,40}@[A-Za-z0-9][\w.-]{0,100})"
)


def homes_in(text: str) -> set[str]:
    """Returns the account names in the home paths of a text."""
    found = {
        match.group(part(match))
        for rule in HOMES.candidates(text, text.lower())
        for match in rule.pattern.finditer(text)
        if rule.accept is None or rule.accept(match, "")
    }
    return {name for name in found if not PLACEHOLDER.match(name)}


def _is_home(match: re.Match[str], _before: str) -> bool:
    """Whether a path is a home: any name under /home and /Users, elsewhere no common word or file."""
    name = match.group(part(match))
    if PLACEHOLDER.match(name):
        return False
    root = match.group("root")
    if root is None or root.lower().startswith("home") or root == "Users":
        return True
    rest = match.string[match.end() : match.end() + 1]
    if name.lower() in GENERIC or name.lower() in COMMON:
        return False
    return rest in ("/", "\\") or not re.search(r"\.\w{1,8}\Z", name)


def _is_email(match: re.Match[str], _before: str) -> bool:
    """Whether a match is an address, and not a matrix product such as ``q@k.transpose``."""
    name, _, domain = match.group("s").partition("@")
    if name == "git" or name.startswith(("torch.", "self.", "np.")) or PLACEHOLDER.match(domain):
        return False
    end = match.group("end")
    if not end.islower() and not domain.isupper():
        return False
    end = end.lower()
    return end in ENDINGS or (len(end) == 2 and len(name) >= 2 and len(domain.split(".")[-2]) >= 3)


HOMES = Rules(
    (
        Rule(
            kind="home",
            name="home",
            regex=_HOME,
            flags=re.I,
            hints=("/home", "/user", "/people/", "/scratch/", "\\users", ":/users"),
            accept=_is_home,
        ),
        Rule(kind="home", name="afs", regex=_AFS, flags=re.I, hints=("/afs/",)),
        Rule(
            kind="home",
            name="tilde",
            regex=_TILDE,
            hints=("~",),
            accept=lambda m, _: m.group("s") not in GENERIC,
        ),
    )
)
#: Environment variables that name a person.
_VARIABLE = (
    r"\b(?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER|SBATCH_ACCOUNT|SLURM_JOB_ACCOUNT)=[\"']?"
    r"(?P<s>[A-Za-z_][\w.-]{1,40})"
)
#: A shell prompt or a remote file: ``somebody@machine:~/x``.
_PROMPT = r"(?<![\w.@/+-])(?P<s>[A-Za-z_][\w.-]{1,31}@[A-Za-z][\w-][\w.-]{1,60})(?=:[~/])"
_PUBLIC_KEY = (
    r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3})[ ]AAAA[A-Za-z0-9+/=]{20,2000}[ ]"
    r"(?P<s>[^\s\"'@]{1,60}@[^\s\"']{1,100})"
)


def _is_login(match: re.Match[str], _before: str) -> bool:
    said = match.group("s")
    return said.split("@")[0] not in ("git", "hg") and not PLACEHOLDER.search(said)


EMAILS: tuple[Rule, ...] = (
    Rule(kind="email", name="e-mail", regex=_EMAIL, hints=("@",), accept=_is_email),
    Rule(
        kind="user",
        name="login of ssh",
        regex=_SSH,
        hints=("@",),
        accept=_is_login,
    ),
    Rule(kind="user", name="prompt", regex=_PROMPT, hints=("@",), accept=_is_login),
    Rule(kind="user", name="comment of a public key", regex=_PUBLIC_KEY, hints=(" aaaa",), accept=_is_login),
    Rule(
        kind="user",
        name="variable of an account",
        regex=_VARIABLE,
        hints=("user", "logname", "account"),
        accept=lambda m, _: m.group("s").lower() not in GENERIC and not PLACEHOLDER.match(m.group("s")),
    ),
)


def own_rules(known: Known, keep: frozenset[str]) -> Iterator[Rule]:
    """Yields the rules for known words, secrets, homes, hosts and users."""
    for word in known.words:
        yield _literal("word", word, rf"(?P<s>{re.escape(word)})", re.I)
    for secret in known.secrets:
        regex = rf"(?P<s>{re.escape(secret)})"
        yield Rule(kind="token", name="learned", regex=regex, hints=(secret,), folded=False)
    for home in known.homes:
        path = re.escape(home)
        yield _literal("home", home, rf"(?:(?<![\w.:/~-])|(?<=file://))(?P<s>{path})(?![.-]{{0,9}}\w)")
    yield from HOMES
    for host in known.hosts:
        free = distinctive(host) and host not in keep
        edge = r"(?<![A-Za-z0-9])" if free else r"(?:(?<=@)|(?<=://))"
        yield _literal("host", host, rf"{edge}(?P<s>{re.escape(host)})(?![A-Za-z0-9])", re.I)
    for user in known.users:
        yield from _user_rules(user, keep)
    for user in sorted(known.learned - set(known.users)):
        yield from _in_paths(user)


def _user_rules(user: str, keep: frozenset[str]) -> Iterator[Rule]:
    """Rules for a user: common words in paths only, short names as part of a word, longer ones anywhere."""
    yield from _in_paths(user)
    if not distinctive(user):
        return

    def is_no_name(match: re.Match[str], _before: str) -> bool:
        return _around(match) not in keep

    word = re.escape(user)
    inside = rf"(?P<s>{word})" if len(user) >= INSIDE else rf"(?<![A-Za-z])(?P<s>{word})(?![A-Za-z])"
    yield _literal("user", user, inside, re.I, is_no_name)
    if len(user) < INSIDE:
        capital = re.escape(user.capitalize())
        yield _literal("user", user, rf"(?<=[a-z0-9])(?P<s>{capital})(?![a-z])", 0, is_no_name)


def _around(match: re.Match[str]) -> str:
    """The identifier around a match, at most 100 characters to either side."""
    text, start, end = match.string, match.start(), match.end()
    before, after = text[max(start - 100, 0) : start], text[end : end + 100]
    left, right = (re.match(r"\w*", side) for side in (before[::-1], after))
    return (left.group()[::-1] if left else "") + match.group("s") + (right.group() if right else "")


def _in_paths(user: str) -> Iterator[Rule]:
    """Rules for places where a name can only be a user: paths, logins, Inductor's temporary folder."""
    word = re.escape(user)
    keys = r"(?:(?<=/)|(?<=~)|(?<=\buser[=: ])|(?<=\bUSER=)|(?<=\blogin[=: ]))"
    yield _literal("user", user, rf"{keys}(?P<s>{word})(?=[/\s\"':,;)]|\Z)")
    folders = r"(?:(?<=torchinductor_)|(?<=pytest-of-)|(?<=triton_))"
    yield _literal("user", user, rf"{folders}(?P<s>{word})(?![A-Za-z0-9])")


def _literal(kind: str, word: str, regex: str, flags: int = 0, accept: Accept | None = None) -> Rule:
    return Rule(kind=kind, name="known", regex=regex, flags=flags, hints=(word.lower(),), accept=accept)
