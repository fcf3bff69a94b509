"""Redaction: nothing private stays, nothing else changes, and Python stays Python."""

from __future__ import annotations

import ast
import json
import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accel_lab.reporting.redact.redactor import Redactor

# Odd escapes are wanted here; newer Pythons warn of them.
pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence", 'ignore:"')


def redactor() -> Redactor:
    return Redactor(
        homes=["/home/alice", "/data/people/alice", "/root"],
        users=["alice", "root", "max"],
        hosts=["box77", "box77.acme.corp", "localhost"],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/x.py and /home/alice", "/home/user1/x.py and /home/user1"),
        ("/data/people/alice/f", "/home/user1/f"),
        ("/data/people/carol2/f /pile/alicent/f", "/data/people/user1/f /pile/alicent/f"),
        ("/root/.cache /rootfs /root", "/home/user1/.cache /rootfs /home/user1"),
        ("/net/home/bob/z file:///home/bob/x", "/net/home/user1/z file:///home/user1/x"),
        ("C:\\Users\\carol\\x.py", "C:\\Users\\user1\\x.py"),
        ("/tmp/torchinductor_alice/x", "/tmp/torchinductor_user1/x"),
        ("owned by Alice", "owned by user1"),
        ("alice on box77.acme.corp, box77", "user1 on host1.invalid, host1"),
        ("ask bob.x@uni.edu.", "ask person1@mail.invalid."),
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuv12", "HF_TOKEN=REDACTED_TOKEN_1"),
        ("x ghp_abcdefghijklmnopqrstuvwx y", "x REDACTED_TOKEN_1 y"),
        ("AKIAABCDEFGHIJKLMNOP", "REDACTED_TOKEN_1"),
        ("api_key: 'abcd1234efgh5678'", "api_key: 'REDACTED_TOKEN_1'"),
        ("password = hunter22", "password = REDACTED_TOKEN_1"),
        ("Authorization: Bearer abcdefgh12345678ijkl", "Authorization: Bearer REDACTED_TOKEN_1"),
        ("https://bob:pw@pypi.acme.corp/simple", "https://REDACTED_CREDENTIAL_1@host1.invalid/simple"),
        ("--index-url https://pypi.acme-corp.com/x", "--index-url https://host1.invalid/x"),
        ("http://buildbox:8080/x", "http://host1:8080/x"),
        ("db01.internal and db.acme.corp", "host1.invalid and host2.invalid"),
        ("http://10.0.0.5/ 192.168.1.7", "http://192.0.2.1/ 192.0.2.2"),
        ("00:1a:2b:3c:4d:5e fe80::1", "REDACTED_MAC_1 2001:db8::1"),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb",
            "a\nREDACTED_PRIVATE_KEY_1\nb",
        ),
    ],
)
def test_private_parts_are_replaced(text: str, expected: str) -> None:
    made = redactor()
    assert made.text(text, "f") == expected
    again = redactor()
    again.learn(text)
    assert again.text(expected, "f") == expected


@pytest.mark.parametrize(
    "text",
    [
        "x @ y",
        "q@k.transpose(-2, -1)",
        "a@b.mT + x@y.T - x@w.to(device)",
        "torch.float@x.dtype",
        "@torch.compile",
        "2.13.0+cpu 3.11.7",
        "nvidia-curand-cu12==10.3.5.147",
        "cuda driver 10.3.5.147",
        "127.0.0.1 0.0.0.0 localhost",
        "git@github.com:pytorch/pytorch.git",
        "https://github.com/pytorch/pytorch/issues/1",
        "threading.local torch.distributed.internal self.x.local",
        "pad_token: '<pad>' num_tokens=123456789012a eos_token_id=50256aaaaaaa",
        "token = tokens[0]; secret = os.environ['X']; password = getpass.getpass()",
        "x[fc::2]",
        "max error, torch.max(x), x.max()",
        "https://x.org/home/page docs/home/page",
        "cuda:0 aten.add.Tensor f32[3, 3]",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    made = redactor()
    assert made.text(text, "f") == text
    assert made.ledger() == []


def test_short_or_common_names_are_replaced_in_paths_only() -> None:
    assert redactor().text("/scratch/max/x.max() max", "f") == "/scratch/max/x.max() max".replace(
        "/max/", "/user1/"
    )


def test_same_secret_same_placeholder_in_every_file() -> None:
    made = redactor()
    assert made.text("/home/bob/x", "a") == "/home/user1/x"
    assert made.text("torchinductor_bob and /home/dave", "b") == "torchinductor_user1 and /home/user2"
    assert made.text("dave@uni.edu DAVE@UNI.EDU", "c") == "person1@mail.invalid person1@mail.invalid"


def test_ledger_counts_and_names_no_secret() -> None:
    made = redactor()
    made.text("/home/bob /home/bob x@uni.edu token=hf_abcdefghijklmnopqrstuv12", "a.txt")
    made.text("/home/bob", "b.txt")
    ledger = made.ledger()
    assert {"kind": "home", "placeholder": "user1", "count": 3, "files": ["a.txt", "b.txt"]} in ledger
    assert [row["kind"] for row in ledger] == ["email", "home", "token"]
    assert not any(secret in json.dumps(ledger) for secret in ("bob", "uni.edu", "hf_"))


SOURCE = r'''
import os
TOKEN = "abcd1234efgh5678"
os.environ["HF_TOKEN"] = "zzzz1111yyyy2222"
login(token='qqqq9999wwww8888', pad_token="abcd1234efgh5678x")
x = "\nalice@acme.com \x61lice C:\\Users\\carol\\x"
alice = 3
print(f"{alice} {'/home/bob/x'!r:'>10} {{alice}} /home/bob {d['k']:{w}} bob@acme.com\n")
z = 1  # /home/bob
b = b"/home/bob\u0041"
r = rf"\d{x}/home/bob{{}}"
t = f"""{
  "a" if x else f'{"/home/bob"}'
} /home/bob"""
y = x @ w @ z.T
s = """first
/home/bob/second\
third"""
'''
REDACTED = r'''
import os
TOKEN = "REDACTED_TOKEN_1"
os.environ["HF_TOKEN"] = "REDACTED_TOKEN_2"
login(token='REDACTED_TOKEN_3', pad_token="abcd1234efgh5678x")
x = "\nperson1@mail.invalid \x61lice C:\\Users\\user2\\x"
alice = 3
print(f"{alice} {'/home/user1/x'!r:'>10} {{alice}} /home/user1 {d['k']:{w}} person2@mail.invalid\n")
z = 1  # /home/user1
b = b"/home/user1\u0041"
r = rf"\d{x}/home/user1{{}}"
t = f"""{
  "a" if x else f'{"/home/user1"}'
} /home/user1"""
y = x @ w @ z.T
s = """first
/home/user1/second\
third"""
'''


def test_python_changes_in_strings_and_comments_only() -> None:
    made = Redactor(users=["alice"])
    made.text("/home/bob /home/carol", "first")
    assert made.python(SOURCE, "s.py") == REDACTED
    compile(REDACTED, "s.py", "exec")
    assert made.warnings == []


def test_a_name_that_is_also_an_identifier_stays_in_strings() -> None:
    """getattr(x, "alice") must go on finding what the code calls alice."""
    source = 'x.alice = 1\nprint(getattr(x, "alice"), "/scratch/alice/d")\n'
    expected = 'x.alice = 1\nprint(getattr(x, "alice"), "/scratch/user1/d")\n'
    assert Redactor(users=["alice"]).python(source, "s.py") == expected


def test_what_is_no_python_is_plain_text() -> None:
    assert redactor().python("def (: /home/bob", "s.py") == "def (: /home/user1"
    assert redactor().any('x = "/home/bob', "s.py") == 'x = "/home/user1'


def test_windows_line_ends_and_tabs_stay() -> None:
    source = 'if x:\r\n\ty = "/home/bob"  # /home/bob\r\n'
    assert redactor().python(source, "s.py") == source.replace("bob", "user1")


def test_json_values_know_their_key() -> None:
    made = redactor()
    value = {
        "packages": {"nvidia-curand-cu12": "10.3.5.147"},
        "api_key": "abcd1234efgh5678",
        "n": [1, "/home/bob"],
    }
    assert made.value(value, "e.json") == {
        "packages": {"nvidia-curand-cu12": "10.3.5.147"},
        "api_key": "REDACTED_TOKEN_1",
        "n": [1, "/home/user1"],
    }


def test_this_machine_is_known() -> None:
    made = Redactor.for_this_machine()
    home = str(Path.home())
    assert home + "/x" not in made.text(f"see {home}/x", "f")


_SECRETS = st.sampled_from(
    [
        "/home/alice",
        "/home/bob",
        "bob@uni.edu",
        "hf_abcdefghijklmnopqrstuv12",
        "10.1.2.3",
        "box77",
        "db01.internal",
    ]
)
_FILL = st.text(st.sampled_from(" \n\t,;()[]{}<>'\"\\#é/"), max_size=6)


@given(st.lists(st.tuples(_FILL, _SECRETS)))
def test_no_secret_stays_and_once_is_enough(parts: list[tuple[str, str]]) -> None:
    text = "".join(f"{fill} {secret} " for fill, secret in parts)
    made = redactor()
    shown = made.text(text, "f")
    for word in ("alice", "bob", "uni.edu", "hf_abc", "10.1.2.3", "box77", "db01"):
        assert word not in shown
    assert made.text(shown, "f") == shown
    assert sum(row["count"] for row in made.ledger()) == len(parts)


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    made = redactor()
    shown = made.text(text, "f")
    assert made.text(shown, "f") == shown
    made.python(text, "f.py")


@example(parts=[("", "'", ["/home/bob", "\\x41", "/home/bob", "\\x41"])])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "r", "b", "f", "rf", "u"]),
            st.sampled_from(["'", '"', "'''", '"""']),
            st.lists(
                st.sampled_from(
                    [
                        "/home/bob",
                        " ",
                        "\\n",
                        "\\\\",
                        "\\x41",
                        "\\0",
                        "\\N{DIGIT ONE}",
                        "bob@uni.edu",
                        "x",
                        "\\'",
                    ]
                )
                | st.text(string.ascii_letters, max_size=3),
                max_size=6,
            ),
        ),
        max_size=4,
    )
)
def test_python_still_means_the_same(parts: list[tuple[str, str, list[str]]]) -> None:
    """Whatever the literal's form, its value is the redacted value and everything else is untouched."""
    lines = [
        f"v{n} = {prefix}{quote}{''.join(body)} {quote}" for n, (prefix, quote, body) in enumerate(parts)
    ]
    source = "\n".join(lines) + "\n"
    try:
        before: dict[str, object] = {}
        exec(compile(source, "s", "exec"), before)
    except (SyntaxError, ValueError):
        return
    made = Redactor()
    made.text("/home/bob", "first")
    shown = made.python(source, "s.py")
    after: dict[str, object] = {}
    exec(compile(shown, "s", "exec"), after)
    for name, value in before.items():
        if name.startswith("v") and isinstance(value, str):
            assert after[name] == made.text(value, "v")
    assert [type(node) for node in ast.walk(ast.parse(source))] == [
        type(node) for node in ast.walk(ast.parse(shown))
    ]


def kinds(source: str) -> list[type]:
    return [type(node) for node in ast.walk(ast.parse(source))]
