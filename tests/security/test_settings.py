"""Settings files of strangers, and broken ones: each ends in one line, none is obeyed, none hangs the lab."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from accel_lab import config
from accel_lab.cli import settings
from accel_lab.cli.main import main
from accel_lab.core.untrusted import settings_files

ROOT = os.geteuid() == 0
STRANGER = 65_534
SOUND = "provider = 'uv'\n"
HANG_S = 60
Make = Callable[[Path], "Path | None"]

needs_tomllib = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="TOML is read by tomllib, of Python 3.11"
)


@pytest.fixture(autouse=True)
def _nothing_waits() -> Iterator[None]:
    """End a test that waits for ever, for instance for somebody to write into a pipe."""

    def ended(number: int, frame: object) -> None:
        raise RuntimeError("it hangs")

    kept = signal.signal(signal.SIGALRM, ended)
    signal.alarm(HANG_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, kept)


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_reported", set())


@dataclass(frozen=True)
class Said:
    code: int
    lines: list[str]


def ask(
    start: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> Said:
    """What the command line does in a folder: its exit code, and what it says on standard error."""
    monkeypatch.chdir(start)
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["env", "list", "--provider", "uv", *words])
    said = capsys.readouterr().err
    assert said.isprintable() or not (set(said) - {"\n"} & set(map(chr, [*range(32), *range(127, 160)])))
    return Said(code=int(ended.value.code or 0), lines=said.splitlines())


# -- files that are not as they should be ------------------------------------------------------------------


def text(content: str | bytes, name: str = config.FILE) -> Make:
    def made(folder: Path) -> None:
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        (folder / name).write_bytes(data)

    return made


def link_to(target: str) -> Make:
    return lambda folder: (folder / config.FILE).symlink_to(target)


def special(kind: int, device: int = 0) -> Make:
    return lambda folder: os.mknod(folder / config.FILE, kind | 0o600, device)


def pipe(name: str) -> Make:
    return lambda folder: os.mkfifo(folder / name)


def directory(folder: Path) -> None:
    (folder / config.FILE).mkdir()


def sparse(folder: Path) -> None:
    with open(folder / config.FILE, "wb") as stream:
        stream.truncate(4 << 30)


PYPROJECT = config.PROJECT
REFUSED: dict[str, Make] = {
    # kinds of file
    "a directory": directory,
    "a pipe": pipe(config.FILE),
    "a link to a device": link_to("/dev/zero"),
    "a link to a terminal": link_to("/dev/tty"),
    "a link to nothing": link_to("nowhere.toml"),
    "a link to itself": link_to(config.FILE),
    "a link to a folder": link_to("."),
    "a sparse file of 4 GB": sparse,
    "a file of 1 MB": text("# " + "x" * (1 << 20)),
    # not TOML
    "binary": text(bytes(range(256)) * 8),
    "NUL bytes": text("provider = 'uv'\0\n"),
    "not UTF-8": text(b"provider = '\xff\xfe'\n"),
    "half a surrogate pair": text("provider = '\ud800'\n"),
    "UTF-16": text("provider = 'uv'\n".encode("utf-16")),
    "an ELF file": text(b"\x7fELF\x02\x01\x01" + b"\0" * 64),
    "a zip": text(b"PK\x03\x04" + b"\0" * 64),
    "half a table": text("[tool.accel-lab\n"),
    "a setting twice": text("provider = 'uv'\nprovider = 'local'\n"),
    "arrays in arrays": text("with = " + "[" * 50_000 + "]" * 50_000),
    "tables in tables": text("with = " + "{a=" * 40_000 + "1" + "}" * 40_000),
    "a dotted name of 50,000 parts": text("a" + ".a" * 50_000 + " = 1\n"),
    "a dotted table of 50,000 parts": text("[a" + ".a" * 50_000 + "]\nb = 1\n"),
    "a deep table of the mock": text("[mock" + ".a" * 20_000 + "]\nb = 1\n"),
    "a number of 10,000 digits": text("pre = " + "9" * 10_000 + "\n"),
    "thousands of sections": text("".join(f"[a{n}]\n" for n in range(20_000))),
    # wrong types
    "a number for text": text("provider = 3\n"),
    "NaN for text": text("provider = nan\n"),
    "a list for text": text("cert = ['a']\n"),
    "a date for text": text("store = 1979-05-27\n"),
    "a table for text": text("[provider]\na = 1\n"),
    "text for a flag": text("pre = 'yes'\n"),
    "a negative number for a flag": text("pre = -1\n"),
    "infinity for a flag": text("pre = inf\n"),
    "numbers in a list": text("find-links = [1, 2]\n"),
    "a list in a list": text("pythons = [['python']]\n"),
    "a table in a list": text("with = [{a = 1}]\n"),
    "a number for the lab's table": text("[tool]\naccel-lab = 3\n", PYPROJECT),
    "a list for the lab's table": text("[[tool.accel-lab]]\n", PYPROJECT),
    "text for the mock's table": text("mock = 'strict'\n"),
    "a date in the mock's table": text("[mock]\nalignment = 1979-05-27\n"),
    "NaN in the mock's table": text("[mock]\nalignment = nan\n"),
    "infinity in the mock's table": text("[mock]\nmax_memory = inf\n"),
    "a table in the mock's table": text("[mock.settings]\nalignment = 1\n"),
    "numbers in a list of the mock's": text("[mock]\ndtypes = [1]\n"),
    # values that cannot be meant
    "an unknown setting": text("exec = 'rm -rf /'\n"),
    "an unknown table": text("[run]\ncommand = 'sh'\n"),
    "an unknown setting of a project": text("[tool.accel-lab]\npythn = 'x'\n", PYPROJECT),
    "an unknown provider's escapes": text("provider = '\\u001b]0;owned\\u0007'\n".replace("'", '"')),
    "a name with escapes": text('"\\u001b[2J\\u009b31m" = 1\n'),
    "a name of 100,000 letters": text("a" * 100_000 + " = 1\n"),
    "a NUL in a path": text('store = "a\\u0000b"\n'),
    "a path of 100,000 letters": text("store = '" + "a" * 100_000 + "'\n"),
    "an override in a path": text('cert = "a\\u202egpj.exe"\n'),
    "a line break in a path": text('store = "a\\nb"\n'),
    "nobody's home": text("store = '~nobody-is-called-so/x'\n"),
    "5,000 interpreters": text("pythons = [" + "'a'," * 5_000 + "]\n"),
    "another word for slim": text("slim = 'perhaps'\n"),
    "a control character in the mock's table": text('[mock]\nartifacts = "a\\u0007"\n'),
}
if ROOT:
    REFUSED["a device"] = special(stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    REFUSED["a socket"] = special(stat.S_IFSOCK)


def test_there_are_enough_of_them() -> None:
    assert len(REFUSED) + len(UNREAD) >= 50


@needs_tomllib
@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_file_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    REFUSED[name](tmp_path)
    said = ask(tmp_path, monkeypatch, capsys)
    assert said.code == 2
    assert len(said.lines) == 1 and said.lines[0].startswith("accel-lab: "), said.lines
    assert config.FILE in said.lines[0] or PYPROJECT in said.lines[0]
    assert len(said.lines[0]) < 1_000


# -- files that somebody else may have written -----------------------------------------------------------


def mode(folder_mode: int, file_mode: int, name: str = config.FILE) -> Make:
    def made(folder: Path) -> None:
        text(
            "provider = 'conda'\n" if name == config.FILE else "[tool.accel-lab]\nprovider = 'conda'\n", name
        )(folder)
        (folder / name).chmod(file_mode)
        folder.chmod(folder_mode)

    return made


def owned(uid: int, gid: int, *, folder_too: bool = False, file_mode: int = 0o644) -> Make:
    def made(folder: Path) -> None:
        mode(0o755, file_mode)(folder)
        os.chown(folder / config.FILE, uid, gid)
        if folder_too:
            os.chown(folder, uid, gid)

    return made


def parent(folder_mode: int, uid: int | None = None, *, git: bool = False) -> Make:
    """A folder above the one where the lab is started, which has the settings."""

    def made(folder: Path) -> Path:
        above = folder / "above"
        start = above / "mine"
        start.mkdir(parents=True)
        text("provider = 'conda'\n")(above)
        if git:
            (above / ".git").mkdir()
        for path in (above, above / config.FILE, *([above / ".git"] if git else [])):
            if uid is not None:
                os.chown(path, uid, uid)
        above.chmod(folder_mode)
        return start

    return made


def linked(file_mode: int, folder_mode: int = 0o755) -> Make:
    """A link in a sound folder to settings in another."""

    def made(folder: Path) -> Path:
        other, start = folder / "other", folder / "start"
        other.mkdir()
        start.mkdir()
        mode(folder_mode, file_mode)(other)
        (start / config.FILE).symlink_to(other / config.FILE)
        return start

    return made


def by_an_access_list(folder: Path) -> None:
    """The folder's owner lets another user write; what the group's bits show is the list's mask."""
    mode(0o755, 0o644)(folder)
    entry = b"".join(
        tag.to_bytes(2, "little") + rights.to_bytes(2, "little") + who.to_bytes(4, "little")
        for tag, rights, who in (
            (0x01, 6, 0xFFFFFFFF),
            (0x02, 6, STRANGER),
            (0x04, 4, 0xFFFFFFFF),
            (0x10, 6, 0xFFFFFFFF),
            (0x20, 4, 0xFFFFFFFF),
        )
    )
    try:
        os.setxattr(folder / config.FILE, "system.posix_acl_access", (2).to_bytes(4, "little") + entry)
    except OSError:
        pytest.skip("the file system has no access lists")


def other_group() -> int:
    """A group that is nobody's private one."""
    return next((gid for gid in os.getgroups() if gid != os.getegid()), STRANGER)


UNREAD: dict[str, Make] = {
    "a file that all may write to": mode(0o755, 0o666),
    "a file that all may write to, and nobody read": mode(0o755, 0o622),
    "a folder that all may write to": mode(0o777, 0o644),
    "a sticky folder, as /tmp is": mode(0o1777, 0o644),
    "a sticky folder, the file closed": mode(0o1777, 0o600),
    "a folder that all may only write to": mode(0o733, 0o644),
    "a project's file that all may write to": mode(0o755, 0o666, PYPROJECT),
    "a project's folder that all may write to": mode(0o777, 0o644, PYPROJECT),
    "a parent folder that all may write to": parent(0o777, git=True),
    "a sticky parent folder": parent(0o1777),
    "a link to a file that all may write to": linked(0o666),
    "a link into a folder that all may write to": linked(0o644, 0o777),
    "an access list": by_an_access_list,
}
OF_A_STRANGER: dict[str, Make] = {
    "a stranger's file": owned(STRANGER, STRANGER),
    "a stranger's file, closed": owned(STRANGER, STRANGER, file_mode=0o600),
    "a stranger's folder": owned(STRANGER, STRANGER, folder_too=True),
    "a stranger's group may write": owned(0, STRANGER, file_mode=0o664),
    "a stranger's parent folder": parent(0o755, STRANGER, git=True),
    "a uid that nobody has": owned(3_000_000, 3_000_000, folder_too=True),
}


def _unread(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = make(tmp_path) or tmp_path
    said = ask(start, monkeypatch, capsys)
    assert said.code == 0, said.lines
    assert len(said.lines) == 1, said.lines
    assert "is not read" in said.lines[0] and "--config" in said.lines[0]


@needs_tomllib
@pytest.mark.parametrize("name", UNREAD)
def test_what_others_may_write_is_left_unread(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _unread(UNREAD[name], tmp_path, monkeypatch, capsys)


@needs_tomllib
@pytest.mark.skipif(not ROOT, reason="only root can give a file away, as a stranger would have to")
@pytest.mark.parametrize("name", OF_A_STRANGER)
def test_what_belongs_to_a_stranger_is_left_unread(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _unread(OF_A_STRANGER[name], tmp_path, monkeypatch, capsys)


@needs_tomllib
@pytest.mark.skipif(ROOT, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mode(0o755, 0o000)(tmp_path)
    said = ask(tmp_path, monkeypatch, capsys)
    assert said.code == 2 and len(said.lines) == 1 and "Permission denied" in said.lines[0]


@needs_tomllib
@pytest.mark.parametrize("make", [pipe(PYPROJECT), lambda folder: (folder / PYPROJECT).mkdir()])
def test_a_projects_file_of_another_kind_is_in_nobodys_way(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path)
    said = ask(tmp_path, monkeypatch, capsys)
    assert said.code == 0 and len(said.lines) == 1 and "left unread" in said.lines[0]


# -- what is read ----------------------------------------------------------------------------------------


@needs_tomllib
def test_settings_of_ones_own_are_read(tmp_path: Path) -> None:
    for folder_mode, file_mode in ((0o755, 0o644), (0o700, 0o600), (0o555, 0o444)):
        folder = tmp_path / f"{folder_mode:o}"
        folder.mkdir()
        (folder / config.FILE).write_text(SOUND)
        (folder / config.FILE).chmod(file_mode)
        folder.chmod(folder_mode)
        found = config.load(folder)
        assert found.text("provider") == "uv" and not found.notes


@needs_tomllib
def test_a_link_between_sound_folders_is_followed(tmp_path: Path) -> None:
    other, start = tmp_path / "dotfiles", tmp_path / "start"
    other.mkdir()
    start.mkdir()
    (other / "lab.toml").write_text(SOUND)
    (start / config.FILE).symlink_to(other / "lab.toml")
    found = config.load(start)
    assert found.text("provider") == "uv" and not found.notes


@needs_tomllib
def test_the_group_of_the_user_alone_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A umask of 002, which distributions that give each user a group of their own have."""
    (tmp_path / config.FILE).write_text(SOUND)
    (tmp_path / config.FILE).chmod(0o664)
    tmp_path.chmod(0o775)
    monkeypatch.setattr(settings_files, "_is_own_group", lambda state: True)
    assert config.load(tmp_path).text("provider") == "uv"
    monkeypatch.setattr(settings_files, "_is_own_group", lambda state: False)
    found = config.load(tmp_path)
    assert found.text("provider") == "" and len(found.notes) == 1


@pytest.mark.parametrize(
    ("name", "primary", "members", "own"),
    [
        ("ann", True, [], True),
        ("ann", True, ["ann"], True),
        ("ann", True, ["bob"], False),
        ("staff", True, [], False),
        ("ann", False, [], False),
    ],
)
def test_what_a_private_group_is(
    name: str, primary: bool, members: list[str], own: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = tmp_path.stat()

    class User:
        pw_name, pw_gid = "ann", state.st_gid if primary else state.st_gid + 1

    class Group:
        gr_name, gr_gid, gr_mem = name, state.st_gid, members

    monkeypatch.setattr(settings_files.pwd, "getpwuid", lambda uid: User)
    monkeypatch.setattr(settings_files.grp, "getgrgid", lambda gid: Group)
    assert settings_files._is_own_group(state) is own


@needs_tomllib
def test_the_search_ends_at_the_repository(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "src" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / config.FILE).write_text("provider = 'local'\n")
    assert config.load(inner).text("provider") == ""  # neither a repository nor the home folder is above
    (tmp_path / "repo" / ".git").mkdir()
    assert config.load(inner).text("provider") == ""
    (tmp_path / "repo" / config.FILE).write_text(SOUND)
    assert config.load(inner).text("provider") == "uv"
    (inner.parent / ".git").write_text("gitdir: elsewhere\n")  # a worktree, or a submodule
    assert config.load(inner).text("provider") == ""


@needs_tomllib
def test_the_search_ends_at_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "home" / "work"
    inner.mkdir(parents=True)
    (tmp_path / config.FILE).write_text("provider = 'local'\n")
    (tmp_path / "home" / config.FILE).write_text(SOUND)
    assert config.load(inner).text("provider") == ""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert config.load(inner).text("provider") == "uv"
    assert config.load(tmp_path / "home").text("provider") == "uv"


@needs_tomllib
def test_a_user_may_have_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / config.FILE).write_text(SOUND)
    monkeypatch.setattr(settings_files.os.path, "expanduser", lambda path: path)
    assert config.load(tmp_path).text("provider") == "uv"


@needs_tomllib
@pytest.mark.skipif(not ROOT, reason="only root can give a file away, as a stranger would have to")
def test_a_strangers_repository_is_no_root(tmp_path: Path) -> None:
    inner = tmp_path / "above" / "mine"
    inner.mkdir(parents=True)
    (tmp_path / "above" / config.FILE).write_text(SOUND)
    (tmp_path / "above" / ".git").mkdir()
    assert config.load(inner).text("provider") == "uv"
    os.chown(tmp_path / "above" / ".git", STRANGER, STRANGER)
    assert config.load(inner).text("provider") == ""


@needs_tomllib
def test_a_file_that_is_named_is_read_whoever_may_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mode(0o1777, 0o666)(tmp_path)
    (tmp_path / config.FILE).write_text(f"store = '{tmp_path / 'kept'}'\n")
    said = ask(tmp_path, monkeypatch, capsys, "--config", config.FILE)
    assert said == Said(code=0, lines=[])
    assert config.load(tmp_path, tmp_path / config.FILE).text("store") == str(tmp_path / "kept")


@needs_tomllib
@pytest.mark.parametrize("content", ["provider = 3\n", "with = " + "[" * 9_000, "\0", None])
def test_a_bad_file_that_is_named_is_one_line(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = tmp_path / "mine.toml"
    if content is not None:
        named.write_text(content)
    said = ask(tmp_path, monkeypatch, capsys, "--config", str(named))
    assert said.code == 2 and len(said.lines) == 1 and "mine.toml" in said.lines[0]


@needs_tomllib
def test_a_projects_file_without_the_table_cannot_be_named(tmp_path: Path) -> None:
    (tmp_path / PYPROJECT).write_text("[project]\nname = 'x'\n")
    with pytest.raises(config.UsageError, match="has no"):
        config.load(tmp_path, tmp_path / PYPROJECT)
