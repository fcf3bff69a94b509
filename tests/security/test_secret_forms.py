"""The ways in which a program holds a secret: split over literals, over lines, as an argument, in a list."""

from __future__ import annotations

import ast
import json
import random

import pytest

from accel_lab.reporting.redact.redactor import Redactor

from .secret_sorts import ALNUM, B64, Planted, key_lines, some, windows_of

RNG = random.Random(326033)
TOKEN = "gh" + "p_" + some(RNG, ALNUM, 36)
PASSWORD = some(RNG, ALNUM, 14)
ODD = "p@ss;w(0)rd, {} %$"
LINES = key_lines(RNG)
BEGIN, END = "-----BEGIN RSA PRIVATE " + "KEY-----", "-----END RSA PRIVATE " + "KEY-----"
PGP = ("-----BEGIN PGP PRIVATE " + "KEY BLOCK-----", "-----END PGP PRIVATE " + "KEY BLOCK-----")
HALVES = (TOKEN[:14], TOKEN[14:])
THIRDS = (TOKEN[:9], TOKEN[9:25], TOKEN[25:])


def quoted(*parts: str, glue: str = " ") -> str:
    return glue.join(f'"{part}"' for part in parts)


#: Sources in which {T} is a token, {P} a password, {A} and {B} the token's halves.
SPLIT = {
    "implicit": f"x = {quoted(*HALVES)}\n",
    "implicit over lines": f"x = (\n    {quoted(*THIRDS, glue=chr(10) + '    ')}\n)\n",
    "with comments between": f'x = (\n    "{HALVES[0]}"  # one\n    # two\n    "{HALVES[1]}"\n)\n',
    "plus": f"x = {quoted(*THIRDS, glue=' + ')}\n",
    "plus in parentheses": f'x = ("{THIRDS[0]}" + ("{THIRDS[1]}" + "{THIRDS[2]}"))\n',
    "backslash": f'x = "{THIRDS[0]}" \\\n    "{THIRDS[1]}{THIRDS[2]}"\n',
    "line continued inside": f'x = "{HALVES[0]}\\\n{HALVES[1]}"\n',
    "f-string and plain": f'n = 1\nx = f"{HALVES[0]}" "{HALVES[1]} {{n}}"\n',
    "literal in an f-string": f"x = f\"{HALVES[0]}{{'{HALVES[1]}'}}\"\n",
    "first half in an f-string": f"x = f\"{{'{HALVES[0]}'}}{HALVES[1]}\"\n",
    "two literals in an f-string": f"x = f\"{{'{HALVES[0]}'}}{{'{HALVES[1]}'}}\"\n",
    "bytes": f'x = b"{HALVES[0]}" b"{HALVES[1]}"\n',
    "escapes": 'x = "' + "".join(f"\\x{ord(c):02x}" for c in TOKEN) + '"\n',
    "join": f'x = "".join([{quoted(*THIRDS, glue=", ")}])\n',
    "raw": f"x = r'{HALVES[0]}' r'{HALVES[1]}'\n",
    "argument": f"print(1, {quoted(*HALVES)}, 2)\n",
    "comments": f"# {TOKEN}\n#   {TOKEN}\nx = 1\n",
}
KEYED = {
    "assignment": 'password = "{P}"\n',
    "annotated": 'password: str = "{P}"\n',
    "default": 'def f(a, *, password="{P}"):\n    return a\n',
    "annotated default": 'def f(db_password: str | None = "{P}"):\n    return 1\n',
    "keyword": 'f = print\nf(host="x", passwd="{P}")\n',
    "keyword over lines": 'f = dict\nf(\n    host="x",\n    passwd=\n        "{P}",\n)\n',
    "dict": 'conf = {"user": "x", "password": "{P}"}\n',
    "dict over lines": 'conf = {\n    "user": "x",\n    "password":\n        "{P}",\n}\n',
    "subscript": 'import os\nos.environ["DB_PASSWORD"] = "{P}"\n',
    "get": 'import os\nx = os.environ.get("DB_PASSWORD", "{P}")\n',
    "setdefault": 'import os\nos.environ.setdefault("MY_SECRET", "{P}")\n',
    "compare": 'password = input\nif password == "{P}":\n    pass\n',
    "pair": 'pairs = [("password", "{P}"), ("b", "c")]\n',
    "call": 'set_password = print\nset_password("{P}")\n',
    "argparse": 'import argparse\nargparse.ArgumentParser().add_argument("--password", default="{P}")\n',
    "auth": 'get = print\nget("https://x.org", auth=("somebody", "{P}"))\n',
    "auth class": 'HTTPBasicAuth = print\nx = HTTPBasicAuth("somebody", "{P}")\n',
    "auth over lines": 'get = print\nget(\n    auth=(\n        "somebody",\n        "{P}",\n    ),\n)\n',
    "cookies": 'get = print\nget("https://x.org", cookies={"sid": "{P}"})\n',
    "header": 'h = {"Authorization": "Bearer {P}"}\n',
    "header of another scheme": 'h = {"Authorization": "ApiKey {P}"}\n',
    "cookie header": 'h = {"Cookie": "a=b; sid={P}"}\n',
    "api key": 'client = dict(api_key="{P}")\n',
    "login": 'login = print\nlogin(key="{P}")\n',
    "command list": 'argv = ["docker", "login", "--password", "{P}", "x"]\n',
    "command string": 'cmd = "docker login -p {P} reg"\n',
    "or": 'import os\nx = os.environ.get("DB_PASSWORD") or "{P}"\n',
    "parentheses": 'password = (\n    "{P}"\n)\n',
    "pw": 'pw = "{P}"\n',
    "arguments of mysql": 'argv = ["mysql", "-u", "root", "-p{P}", "db"]\n',
    "arguments of sshpass": 'argv = ["sshpass", "-p", "{P}", "ssh", "x"]\n',
    "arguments of curl": 'argv = ["curl", "-u", "somebody:{P}", "https://x.org"]\n',
    "any program": 'cmd = "tool -p {P} run"\n',
    "pass option": 'cmd = "tool --pass {P} run"\n',
    "URL in an f-string": 'u = 1\nx = f"postgres://{u}:{P}@db/x"\n',
    "pwd": 'x = "Server=a;UID=sa;PWD={P};"\n',
    "split": f'password = "{PASSWORD[:7]}" "{PASSWORD[7:]}"\n',
    "bytes": 'secret_key = b"{P}"\n',
    "comment": "# password: {P}\nx = 1\n",
    "json in a literal": 'x = \'{"password": "{P}", "a": 1}\'\n',
    "json in a literal, escaped": 'x = "{\\"password\\": \\"{P}\\"}"\n',
    "docstring": '"""Run with --password {P}."""\n',
}
BLOCKS = {
    "lines": "x = '''\n" + "\n".join([BEGIN, *LINES, END]) + "\n'''\n",
    "one line": 'x = "' + "\\n".join([BEGIN, *LINES, END]) + '\\n"\n',
    "comments": "\n".join(f"# {line}" for line in [BEGIN, *LINES, END]) + "\nx = 1\n",
    "indented comments": "if 1:\n"
    + "\n".join(f"    #   {line}" for line in [BEGIN, *LINES, END])
    + "\n    x = 1\n",
    "implicit": "x = (\n" + "\n".join(f'    "{line}\\n"' for line in [BEGIN, *LINES, END]) + "\n)\n",
    "plus": "x = (" + "\n    + ".join(f'"{line}\\n"' for line in [BEGIN, *LINES, END]) + ")\n",
    "list": "x = '\\n'.join([" + ", ".join(f"'{line}'" for line in [BEGIN, *LINES, END]) + "])\n",
    "cut off": "x = '''" + "\n".join([BEGIN, *LINES]) + "'''\n",
    "cut off comments": "\n".join(f"# {line}" for line in [BEGIN, *LINES]) + "\nx = 1\n",
    "pgp": "x = '''\n" + "\n".join([PGP[0], "Version: x 1", "", *LINES, "=aB3d", PGP[1]]) + "\n'''\n",
    "service account": "x = '"
    + json.dumps({"private_key": "\n".join([BEGIN, *LINES, END]), "n": 1}).replace("\\", "\\\\")
    + "'\n",
}


def checked(source: str, *secrets: str) -> str:
    """The redacted source: Python of the same form, and no piece of the secrets in it."""
    ast.parse(source)
    made = Redactor()
    made.learn(source, "a.py")
    shown = made.python(source, "a.py")
    assert shape(source) == shape(shown)
    found = Planted(text="", parts=secrets)
    assert [piece for piece in windows_of(found.parts) if piece in shown] == [], shown
    assert "REDACTED_" in shown
    assert made.warnings == []
    return shown


def shape(source: str) -> list[type]:
    """The nodes of a source but for its constants: an f-string loses one that becomes empty."""
    return [type(node) for node in ast.walk(ast.parse(source)) if not isinstance(node, ast.Constant)]


@pytest.mark.parametrize("form", SPLIT)
def test_a_token_split_over_literals(form: str) -> None:
    checked(SPLIT[form], TOKEN)


@pytest.mark.parametrize("form", SPLIT)
def test_what_python_joins_is_one_placeholder(form: str) -> None:
    """The redacted program says one placeholder where the token was, so that its message is compared."""
    if form in ("comments", "join"):
        return
    space: dict[str, object] = {}
    exec(compile(checked(SPLIT[form], TOKEN), form, "exec"), space)
    value = space.get("x", "REDACTED_TOKEN_1")
    text = value.decode() if isinstance(value, bytes) else str(value)
    assert text.split()[0] == "REDACTED_TOKEN_1"


@pytest.mark.parametrize("form", KEYED)
def test_a_password_by_what_stands_before_it(form: str) -> None:
    checked(KEYED[form].replace("{P}", PASSWORD), PASSWORD)


@pytest.mark.parametrize("form", ["assignment", "keyword", "dict", "default", "auth"])
def test_a_password_with_odd_characters(form: str) -> None:
    checked(KEYED[form].replace("{P}", ODD), ODD)


@pytest.mark.parametrize("form", BLOCKS)
def test_a_key_block(form: str) -> None:
    checked(BLOCKS[form], *LINES)


def test_homes_on_windows() -> None:
    source = (
        'x = "C:\\\\Users\\\\Maria Zimmer\\\\x.py"\ny = r"c:\\users\\maria\\x"\nz = "c:\\\\users\\\\maria"\n'
    )
    shown = checked_names(source)
    assert "aria" not in shown
    assert "immer" not in shown


def checked_names(source: str) -> str:
    shown = Redactor().python(source, "a.py")
    ast.parse(shown)
    return shown


def test_a_netrc_file() -> None:
    text = f"machine api.wandb.ai\n  login user\n  password {PASSWORD}\n"
    text += f"machine b login somebody password {PASSWORD}\n"
    shown = Redactor().text(text, ".netrc")
    assert PASSWORD not in shown
    assert "somebody" not in shown


def test_a_secret_that_one_text_gives_away_is_taken_out_of_all() -> None:
    made = Redactor()
    made.learn(f'password = "{PASSWORD}"\n', "a.py")
    assert made.text(f"wrong: {PASSWORD}!", "log.txt") == "wrong: REDACTED_TOKEN_1!"
    assert made.python(f'x = "{PASSWORD}"\n', "b.py") == 'x = "REDACTED_TOKEN_1"\n'
    assert made.message(f"wrong: {PASSWORD}!") == "wrong: <private>!"


def test_parts_of_a_secret_that_a_message_has_whole() -> None:
    """Put together at run time: the message gives it away, the parts stand in the source and its trace."""
    source = f'a = "{HALVES[0]}"\nb = "{HALVES[1]}"\nraise ValueError("bad " + a + b)\n'
    made = Redactor()
    made.learn(source, "a.py")
    made.learn(f"ValueError: bad {TOKEN}")
    shown = made.python(source, "a.py") + made.text(
        f'  b = "{HALVES[1]}"\nValueError: bad {TOKEN}', "stderr.txt"
    )
    assert [piece for piece in windows_of((TOKEN,)) if piece in shown] == []


def test_arguments_of_a_command() -> None:
    shown = Redactor().value(
        {"args": ["--user", "x", "--api-token", PASSWORD + "9", "--n", "3"]}, "report.json"
    )
    assert shown == {"args": ["--user", "x", "--api-token", "REDACTED_TOKEN_1", "--n", "3"]}


def test_names_inside_words() -> None:
    made = Redactor(users=["marlene", "tomek", "ab"], hosts=["gpubox7"])
    text = "runmarlene7 /x/marlene_out Tomek tomek_3 tomekin runTomek ab abc gpubox7_log abx"
    expected = "runuser17 /x/user1_out user2 user2_3 tomekin runuser2 ab abc host1_log abx"
    assert made.text(text, "f") == expected
    source = "marlene_net = 1\nprint(globals()['marlene_net'], 'marlene_out')\n"
    assert made.python(source, "a.py") == "marlene_net = 1\nprint(globals()['marlene_net'], 'user1_out')\n"


def test_a_name_with_digits_in_a_normalised_message() -> None:
    made = Redactor(users=["marlene7"], hosts=["gpubox-12"])
    assert made.text("failed for marlene<n> on gpubox<n>", "report.json").count("<n>") == 0


def test_words_that_a_person_names() -> None:
    made = Redactor(words=["Hydra Project", "mimas"])
    assert made.text("the HYDRA project and xmimas7", "f") == "the REDACTED_WORD_1 and xREDACTED_WORD_27"
    assert (
        made.python("mimas = 'mimas'  # Mimas\n", "a.py") == "mimas = 'REDACTED_WORD_2'  # REDACTED_WORD_2\n"
    )


@pytest.mark.parametrize("length", [64, 63, 40])
def test_base64_data_of_a_repro_stays(length: int) -> None:
    """Inputs that are written down in a script must come back as they were."""
    data = some(random.Random(length), B64, length)
    source = f'import base64\ndata = base64.b64decode("{data}")\n'
    assert Redactor().python(source, "a.py") == source
