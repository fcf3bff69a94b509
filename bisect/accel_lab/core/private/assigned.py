"""Rules for secrets that are recognized by their context: a key, an option, a header, a login in a URL."""

from __future__ import annotations

import itertools
import re

from .rule import PLACEHOLDER, Accept, Rule, part, varied

_PASSWORD = r"passw(?:or)?d|passwd|passphrase|passcode|pwd|secret"
_WORDS = (
    rf"{_PASSWORD}|api[_-]?key|access[_-]?key|account[_-]?key|shared[_-]?(?:access[_-]?)?key|private[_-]?key"
    r"|subscription[_-]?key|encryption[_-]?key|signing[_-]?key|license[_-]?key|token|credentials?|auth(?:orization)?"
    r"|bearer|cookie|session[_-]?id|csrf|(?:db|smtp|mysql|ftp|mail|admin|root|login|ssh|sudo|proxy|redis|pg)[_-]?pass"
    r"|client[_-]?key[_-]?data|fernet"
    r"|(?<![A-Za-z])(?:pass|pw)(?=[\"'\s:=!])|webhook(?:[_-]?url)?|conn(?:ection)?[_-]?str(?:ing)?|dsn"
)
_SECRET_NAME = rf"(?:{_WORDS})(?:[_-]?(?:id|key|value|hex|b64))?"
_KEY = rf"(?P<key>[A-Za-z0-9_.-]{{0,60}}?{_SECRET_NAME})"
_HINTS = (
    *("token", "secret", "passw", "passphrase", "passcode", "pwd", "key", "credential", "auth", "bearer"),
    *("cookie", "session", "csrf", "pass", "webhook", "conn", "dsn"),
)
_HEAD_OF_KEY = re.compile(r"[A-Za-z0-9_.-]{1,60}\Z")
_NOT_IN_KEY = r"(?<![A-Za-z0-9_.-])"
_ASSIGNED = (
    rf"(?P<name>{_SECRET_NAME})\\?[\"']?\]?[ \t]{{0,20}}(?:=>|:=|[=!]=|[=:])[ \t]{{0,20}}"
    r"(?:\\?(?P<q>[\"'])(?P<w>(?:(?!(?P=q))[^\n\\]){4,2000})"
    r"|(?:(?:bearer|basic|token)[ \t]{1,20})?(?P<s>[^\s\"',;)}\]&\\]{4,2000}))"
)
#: Text that may precede a secret literal: ``token = "``, ``("password", "``, ``default="``.
_BEFORE = re.compile(
    rf"{_NOT_IN_KEY}{_KEY}[\"']?[\])]?\s{{0,9}}(?::\s{{0,9}}[\w.|\[\] ]{{1,30}}(?=\s{{0,9}}=))?\s{{0,9}}"
    r"(?P<sep>[=!]=|[=:,(]|=>|or(?=\s))(?:[^=\n]{0,80}\bdefault\s{0,3}=)?\s{0,9}\(?\s{0,9}[A-Za-z]{0,2}[\"']{0,3}\Z",
    re.I,
)
_LOGIN_CALL = re.compile(
    r"(?:\b\w{0,30}?auth(?!or)\w{0,20}|\bcredentials?|\blogin)\s{0,9}=?\s{0,9}\(\s{0,9}[A-Za-z]{0,2}(?:[\"'][^\"'\n]{0,100}[\"']\s{0,9},\s{0,9})?"
    r"(?:[A-Za-z]{0,2})\Z|\blogin\(\s{0,9}key\s{0,9}=\s{0,9}\Z",
    re.I,
)
_COOKIES = re.compile(r"\bcookies?\s{0,9}=\s{0,9}\{[^}]{0,200}:\s{0,9}[A-Za-z]{0,2}\Z", re.I)
_BENIGN_KEY = re.compile(
    r"(?:\A|[_.-])(?:pad|eos|bos|unk|sep|cls|mask|num|max|min|new|next|special|input|output|n|per|text|image|cache)_?-?tokens?"
    r"(?:_?id|_?value)?\Z",
    re.I,
)
_IS_PASSWORD = re.compile(rf"{_PASSWORD}|pass\Z", re.I)
_IS_PASS = re.compile(r"(?:\A|[^A-Za-z])(?:pass|pw)\Z", re.I)
_OTHER_P = re.compile(
    r"\b(?:mkdir|cp|patch|pytest|py\.test|ssh|scp|rsync|nmap|tar|run|ps|pkill|pgrep|renice|ionice|taskset|unzip|install"
    r"|docker|podman|nc|telnet|srun|sbatch|salloc|qsub|perl|ruby|git|make|cmake|time)\b"
)
_ASKS = re.compile(
    r"(?:\A|[_.])(?:get|read|load|fetch|find|has|is|check|validate|ask|prompt)\w{0,40}\Z", re.I
)
_PLAIN = frozenset(
    [
        "true",
        "false",
        "none",
        "null",
        "required",
        "optional",
        "missing",
        "invalid",
        "incorrect",
        "expired",
        "prompt",
        "string",
        "bytes",
        "object",
        "default",
        "empty",
        "unset",
        "hidden",
        "redacted",
        "changed",
        "unknown",
        "wrong",
        "error",
        "failed",
    ]
)
_CODE = re.compile(r"[(\[{<>$]")
_STANDS_FOR = re.compile(r"\$|[<{%*].{0,200}[>}%*]\Z|[x*.]{4,}\Z|/|~|\.{1,2}/")
_DOTTED = re.compile(r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60})+\Z")


def is_secret(key: str, value: str, *, quoted: bool) -> bool:
    """Whether the value of such a key is a secret, and not code, a number or a plain word."""
    if _BENIGN_KEY.search(key) or value.lower() == key.lower() or PLACEHOLDER.search(value):
        return False
    if _STANDS_FOR.match(value) or (not quoted and _CODE.search(value)) or _DOTTED.match(value):
        return False
    if _IS_PASS.search(key):  # may also be a compiler pass
        if key.lower().endswith("pw"):
            return len(value) >= 8 and varied(value)
        return _is_mixed(value) or (len(value) >= 5 and not re.fullmatch(r"[\w.-]{1,2000}", value))
    if _IS_PASSWORD.search(key) and len(value) >= 5:
        plain = value.lower() in _PLAIN or value.isdigit()
        return not plain and not re.fullmatch(r"\w{0,40}(?:password|secret|passwd)\w{0,40}", value, re.I)
    return (len(value) >= 12 and varied(value)) or (len(value) >= 16 and _case_changes(value) >= 4)


def _is_mixed(value: str) -> bool:
    """Whether an alphanumeric word has digits and letters of both cases."""
    return varied(value) and value.isalnum() and value != value.lower() and value != value.upper()


def _case_changes(text: str) -> int:
    """Number of case changes in a word of letters; CamelCase has few."""
    if not text.isalpha():
        return 0
    return sum(a.isupper() != b.isupper() for a, b in itertools.pairwise(text))


def known_by_key(text: str, before: str) -> tuple[int, int] | None:
    """Returns the (start, end) of a secret in a literal, judged by its context ``before``; None if none."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    value, lead = text[start:end], before[-400:]
    if not value or not lead:
        return None
    if _LOGIN_CALL.search(lead) or _COOKIES.search(lead):
        return (start, end) if _may_be(value) else None
    found = _BEFORE.search(lead)
    if found is None:
        return None
    key, separator = found["key"], found["sep"]
    if separator == "(" and _ASKS.search(key):
        return None
    if re.search(r"authorization|auth[_-]?header", key, re.I):
        scheme = re.match(r"[A-Za-z-]{2,20}[ \t]+", value)
        start += scheme.end() if scheme else 0
        return (start, end) if _may_be(text[start:end]) else None
    if re.search(r"cookie\Z", key, re.I) and "=" in value:
        return start, end
    if re.search(r"\s", value) and (separator not in "=:" or not _IS_PASSWORD.search(key)):
        return None
    return (start, end) if is_secret(key, value, quoted=True) else None


def _may_be(value: str) -> bool:
    return len(value) >= 4 and not _STANDS_FOR.match(value) and not PLACEHOLDER.search(value)


def _assigned(match: re.Match[str], _before: str) -> bool:
    quoted = part(match) == "w"
    value = match.group(part(match))
    # The start of the key is read here, since a regex that begins with the key's end is faster.
    head = _HEAD_OF_KEY.search(match.string, max(match.start() - 60, 0), match.start())
    key = (head.group() if head else "") + match.group("name")
    if quoted and re.search(r"\s", value) and not _IS_PASSWORD.search(key):
        return False
    return is_secret(key, value, quoted=quoted)


def _option(match: re.Match[str], _before: str) -> bool:
    value = match.group(part(match))
    if match.group("key").lower().endswith(("file", "path", "stdin", "env", "prompt", "name")):
        return False
    key = "password" if match.group("key").lower() == "pass" else match.group("key")
    return not value.startswith("-") and is_secret(key, value, quoted=False)


def _given(match: re.Match[str], _before: str) -> bool:
    """Whether a short option's value may be a secret: no port, no number, no other option."""
    value = match.group("s")
    return not re.match(r"[\d:./]+\Z|-", value) and _may_be(value)


def _any_program(match: re.Match[str], _before: str) -> bool:
    """Whether the value of ``-p`` may be a password: the program does not use ``-p`` otherwise."""
    line = match.string[max(match.start() - 80, 0) : match.start()].rsplit("\n", 1)[-1]
    return varied(match.group("s")) and not _OTHER_P.search(line)


def _netrc(match: re.Match[str], _before: str) -> bool:
    around = match.string[max(match.start() - 200, 0) : match.end()]
    return _may_be(match.group("s")) and (
        "machine" in around or "default" in around or varied(match.group("s"))
    )


def _query(match: re.Match[str], _before: str) -> bool:
    key, value = match.group("key").lower(), match.group("s")
    if not _may_be(value):
        return False
    return (
        len(value) >= 16 if key in ("key", "code", "sig", "signature") else is_secret(key, value, quoted=True)
    )


def _login(match: re.Match[str], _before: str) -> bool:
    said = match.group("s")
    public = ("git", "hg", "svn", "user", "oauth2", "token", "anonymous")
    return len(said) >= 2 and said.lower() not in public and (len(said) < 4 or _may_be(said))


def _rule(kind: str, name: str, pattern: str, hints: tuple[str, ...], accept: Accept) -> Rule:
    return Rule(kind=kind, name=name, regex=pattern, flags=re.I, hints=hints, accept=accept)


#: The most reliable rules first.
ASSIGNED: tuple[Rule, ...] = (
    _rule(
        "credential",
        "login in a URL",
        r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://(?P<s>[^\s/@:\"'<>]{0,200}(?::[^\s/\"'<>]{0,200})?)@",
        ("://",),
        _login,
    ),
    _rule(
        "token",
        "authorization header",
        r"authorization\\?[\"']?[ \t]{0,9}[:=,][ \t]{0,9}\\?[\"']?"
        r"(?:[A-Za-z-]{2,30}[ \t]{1,9})?(?P<s>[^\s\"'<>\\]{6,4000})",
        ("authorization",),
        lambda m, _: _may_be(m.group("s")) and not re.search(r"[({\[]", m.group("s")),
    ),
    _rule(
        "token",
        "bearer",
        r"\b(?:bearer|basic)[ \t]{1,9}(?P<s>[A-Za-z0-9._~+/-]{16,}=*)",
        ("bearer", "basic"),
        lambda m, _: varied(m.group("s")),
    ),
    _rule(
        "token",
        "cookie header",
        r"(?<![\w-])(?:set-)?cookie\\?[\"']?[ \t]{0,9}:[ \t]{0,9}\\?[\"']?(?P<s>[^\n\"'\\]{6,4000})",
        ("cookie",),
        lambda m, _: "=" in m.group("s") and _may_be(m.group("s")),
    ),
    _rule(
        "token",
        "cookie option",
        r"(?:--cookie|\s-b)[ =]{1,9}(?P<q>[\"'])(?P<s>[^\"'\n]{1,60}=[^\"'\n]{4,2000})",
        ("--cookie", "-b"),
        lambda m, _: _may_be(m.group("s")),
    ),
    Rule(kind="token", name="assigned", regex=_ASSIGNED, flags=re.I, hints=_HINTS, accept=_assigned),
    _rule(
        "token",
        "option",
        r"(?<![\w-])--?(?P<key>(?:[a-z0-9]{1,20}-){0,3}(?:password|passwd|passphrase|pwd|pass|token|secret|api-?key"
        r"|access-?key|secret-?key|auth|credentials?)(?:-[a-z]{1,12})?)(?:[ \t]{1,9}|=)"
        r"(?:[\"'](?P<w>[^\"'\n]{4,400})|(?P<s>[^\s\"',;)\]]{4,400}))",
        ("pass", "pwd", "token", "secret", "key", "auth", "credential"),
        _option,
    ),
    _rule(
        "token",
        "short option",
        r"\b(?:sshpass|login|svn|htpasswd|expect|psftp|plink|pscp|mongo\w{0,9}|mysql\w{0,9}|mariadb\w{0,9}|snowsql"
        r"|sqlcmd|bcp|ldap\w{1,9}|redis-cli|kinit)\b[^\n]{0,120}?\s-[pPwa][ =]?[\"']?(?P<s>[^\s\"']{4,200})",
        ("-p", "-w", "-a"),
        _given,
    ),
    _rule(
        "token",
        "short option of any program",
        r"(?<=\s)-p[ =][\"']?(?P<s>[^\s\"'/.=:,;)\]]{8,100})(?=[\s\"']|\Z)",
        ("-p",),
        _any_program,
    ),
    _rule(
        "token",
        "password after a user",
        r"\s(?:-u|-U|--user(?:name)?)[ =]?[^\s\"']{1,80}\s{1,5}(?:-p|--pass)[ =]?[\"']?"
        r"(?P<s>[^\s\"']{4,200})",
        ("-p", "--pass"),
        _given,
    ),
    _rule(
        "credential",
        "login of a client",
        r"\b(?:curl|wget|https?|httpie)\b[^\n]{0,200}?\s(?:-u|--user|--proxy-user|-U)[ =]?[\"']?"
        r"(?P<s>[^\s\"':]{1,60}:[^\s\"']{3,200})",
        ("-u", "--user", "--proxy-user"),
        lambda m, _: _may_be(m.group("s")) and not m.group("s").startswith("http"),
    ),
    _rule(
        "token",
        "netrc",
        r"\blogin\s{1,9}\S{1,200}\s{1,9}(?:account\s{1,9}\S{1,200}\s{1,9})?password\s{1,9}(?P<s>\S{1,300})",
        ("password",),
        _netrc,
    ),
    _rule(
        "credential",
        "netrc login",
        r"\bmachine\s{1,9}\S{1,200}\s{1,9}login\s{1,9}(?P<s>\S{1,200})",
        ("machine",),
        lambda m, _: _may_be(m.group("s")) and m.group("s").lower() not in ("user", "token", "oauth2"),
    ),
    _rule(
        "token",
        "password in prose",
        r"\bpassw(?:or)?d\s{1,3}(?:is|was)\s{1,3}[\"'`]?(?P<s>[^\s\"'`,;]{5,200})",
        ("passw",),
        lambda m, _: varied(m.group("s")) and _may_be(m.group("s")),
    ),
    _rule(
        "credential",
        "login of a call",
        r"\b\w{0,30}?auth(?!or)\w{0,20}\s{0,3}=?\s{0,3}\(\s{0,9}[\"'](?P<s>[^\"'\n]{1,100})[\"']\s{0,9},",
        ("auth",),
        lambda m, _: _may_be(m.group("s")),
    ),
    _rule(
        "token",
        "password of a call",
        r"\b\w{0,30}?auth(?!or)\w{0,20}\s{0,3}=?\s{0,3}\(\s{0,9}[\"'][^\"'\n]{1,100}[\"']\s{0,9},\s{0,9}[\"'](?P<s>[^\"'\n]{4,200})[\"']",
        ("auth",),
        lambda m, _: _may_be(m.group("s")),
    ),
    _rule(
        "token",
        "URL query",
        r"[?&;](?:amp;)?(?P<key>(?:[a-z0-9_-]{0,30}?)(?:sig|signature|key|code|token|secret|password|credential|auth))="
        r"(?P<s>[^\s&\"'<>#\\]{6,2000})",
        ("=",),
        _query,
    ),
)
