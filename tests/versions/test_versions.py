"""The version axis between the command line and the processes: verdicts, flips, both sides, resume."""

from __future__ import annotations

import json
import venv
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from accel_lab import session as session_module
from accel_lab.cli.commands.report_command import again
from accel_lab.cli.finish import write_files
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Environment, EnvironmentSpec, Index
from accel_lab.core.probe import Limits, Program
from accel_lab.core.releases.versions import Tested as Row
from accel_lab.core.releases.versions import Versions
from accel_lab.core.signature import Signature
from accel_lab.core.verdict import Verdict
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.execution.builds import Build
from accel_lab.execution.prober import Prober
from accel_lab.execution.programs import read_program
from accel_lab.reporting.schema import findings_json, load_schema
from accel_lab.reporting.words import versions as since
from accel_lab.reporting.words.summary import summarise
from accel_lab.request import Request, load_request
from accel_lab.search.diagnosis import Options
from accel_lab.search.repeats import Tally
from accel_lab.search.workarounds.releases import of_releases
from accel_lab.session import Session
from accel_lab.versions import line as line_module
from accel_lab.versions.build_verdict import TargetFailure
from accel_lab.versions.failing_release import first_failing, order
from accel_lab.versions.line import VersionsRequest
from accel_lab.versions.release_judge import ReleaseJudge
from accel_lab.versions.release_session import ReleaseSessions, Setting, clean_environment
from fakes_releases import Behave, Deed, FakeProvider, broken_between

NAMES = ["2.4.0", "2.5.0", "2.6.0", "2.7.0", "2.8.0", "2.9.0"]
BOOM = TargetFailure(signature=Signature(kind="exception", type="ValueError", message="boom"))
QUICK = Options(components=False)


def sessions(tmp_path: Path, provider: FakeProvider) -> ReleaseSessions:
    script = tmp_path / "s.py"
    script.write_text("import torch\n")
    setting = Setting(program=Program(path=str(script)), folder=tmp_path / "run", limits=Limits(timeout_s=30))
    setting.folder.mkdir()
    return ReleaseSessions(setting, provider)


def answer(tmp_path: Path, behave: Behave, wanted: TargetFailure = BOOM, **changes: Any) -> Row:
    """What one release answers when it behaves so."""
    provider = FakeProvider(behave=behave, names=["2.6.0"], **changes)
    with ReleaseJudge(sessions(tmp_path, provider), wanted) as asker:
        return asker.judge("2.6.0")


def always(deed: Deed, uncompiled: Deed = "ok") -> Behave:
    return lambda release, rung, job: uncompiled if rung == "uncompiled" else deed


@pytest.mark.parametrize(
    ("deed", "uncompiled", "verdict", "why"),
    [
        ("ok", "ok", Verdict.GOOD, ""),
        (("ValueError", "boom"), "ok", Verdict.BAD, ""),
        (("ValueError", "another"), "ok", Verdict.DIFFERENT, "another way: ValueError: another"),
        (("KeyError", "boom"), "ok", Verdict.DIFFERENT, "KeyError"),
        # The same failure with nothing compiled, or a script that cannot run there, is not the compiler's.
        (("ValueError", "boom"), ("ValueError", "boom"), Verdict.SKIP, "with nothing compiled"),
        (("AttributeError", "no compile"), ("AttributeError", "no compile"), Verdict.SKIP, "no compile"),
        (("ValueError", "boom"), ("KeyError", "other"), Verdict.BAD, ""),
    ],
)
def test_one_release(tmp_path: Path, deed: Deed, uncompiled: Deed, verdict: Verdict, why: str) -> None:
    row = answer(tmp_path, always(deed, uncompiled))
    assert row.verdict is verdict
    assert why in row.why if why else row.why == ""


def test_a_failure_of_eager_kernels_is_followed_as_such(tmp_path: Path) -> None:
    row = answer(tmp_path, always(("ValueError", "boom"), ("ValueError", "boom")), replace(BOOM, eager=True))
    assert row.verdict is Verdict.BAD


def test_a_release_that_enters_no_region_says_nothing(tmp_path: Path) -> None:
    def behave(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        return "ok"

    provider = FakeProvider(behave=behave, names=["2.6.0"])
    real = provider.runner

    def no_regions(environment: Any, workspace: Any) -> Any:
        inner = real(environment, workspace)

        def run(command: Any, **words: Any) -> Any:
            ended = inner(command, **words)
            if "once" in command:
                path = Path(json.loads(Path(command[-1]).read_text())["folder"], "result.json")
                path.write_text(path.read_text().replace('"id": 0, "name": "f", "backend": "inductor"', ""))
                result = json.loads(path.read_text())
                result["facts"]["regions"] = []
                path.write_text(json.dumps(result))
            return ended

        return run

    provider.runner = no_regions  # type: ignore[method-assign]
    with ReleaseJudge(sessions(tmp_path, provider), BOOM) as asker:
        row = asker.judge("2.6.0")
    assert row.verdict is Verdict.SKIP
    assert "no compiled region" in row.why


def test_plain_and_recorded_run_that_part_are_asked_again(tmp_path: Path) -> None:
    def only_plain(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        return ("ValueError", "boom") if job["bare"] else "ok"

    row = answer(tmp_path, only_plain)
    assert row.verdict is Verdict.SKIP
    assert "plain run failed" in row.why

    (tmp_path / "two").mkdir()
    seeds = []

    def sometimes(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        if rung == "uncompiled" or job["bare"]:
            return "ok"
        seeds.append(job["seed"])
        return ("ValueError", "boom") if job["seed"] == 2 else "ok"

    row = answer(tmp_path / "two", sometimes)
    assert row.verdict is Verdict.GOOD  # both first runs pass: a failure that never came is not looked for

    (tmp_path / "three").mkdir()

    def now_and_then(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        if rung == "uncompiled":
            return "ok"
        return ("ValueError", "boom") if job["bare"] or job["seed"] == 2 else "ok"

    row = answer(tmp_path / "three", now_and_then)
    assert row.verdict is Verdict.BAD
    assert "runs" in row.why


def test_a_flaky_failure_needs_many_passes_and_says_how_sure_it_is(tmp_path: Path) -> None:
    flaky = replace(BOOM, tally=Tally(runs=10, failures=7), verdicts=4)
    runs = []

    def passes(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        runs.append(rung)
        return "ok"

    row = answer(tmp_path, passes, flaky)
    assert row.verdict is Verdict.GOOD
    assert row.runs > 4
    assert 0 < row.error <= 0.05

    (tmp_path / "b").mkdir()

    def third(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        fails = rung != "uncompiled" and not job["bare"] and job["seed"] == 3
        return ("ValueError", "boom") if fails else "ok"

    assert answer(tmp_path / "b", third, flaky).verdict is Verdict.BAD


def test_a_release_that_cannot_be_had_is_a_skip_with_its_line(tmp_path: Path) -> None:
    row = answer(tmp_path, always("ok"), missing={"2.6.0": "no wheel for this Python"})
    assert (row.verdict, row.why, row.runs) == (Verdict.SKIP, "no wheel for this Python", 0)


def test_what_no_one_foresaw_at_one_release_does_not_end_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unforeseen(self: FakeProvider, spec: EnvironmentSpec) -> Environment:
        raise TypeError("neither str nor None")

    monkeypatch.setattr(FakeProvider, "make", unforeseen)
    row = answer(tmp_path, always("ok"))
    assert row.verdict is Verdict.SKIP
    assert row.why.startswith(
        "internal error of accel-lab: TypeError: neither str nor None (test_versions.py:"
    )


def test_order_of_the_search_for_a_failing_release() -> None:
    assert list(order(NAMES))[:3] == ["2.9.0", "2.4.0", "2.6.0"]
    assert sorted(order(NAMES)) == sorted(NAMES)
    assert list(order(["a"])) == ["a"]


def test_seek_passes_over_what_fails_uncompiled(tmp_path: Path) -> None:
    def behave(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        if release == "2.9.0":
            return ("AttributeError", "gone")
        return ("ValueError", "boom") if release == "2.4.0" and rung != "uncompiled" else "ok"

    provider = FakeProvider(behave=behave, names=NAMES)
    found = first_failing(sessions(tmp_path, provider), NAMES)
    assert found.version == "2.4.0"
    assert [row.verdict for row in found.tested] == [Verdict.SKIP, Verdict.BAD]


# -- the whole, from a request to findings -------------------------------------------------------------


class Lab:
    """A request on a fake provider, with an interpreter that has no torch."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: FakeProvider) -> None:
        venv.create(tmp_path / "v", with_pip=False)
        script = tmp_path / "s.py"
        script.write_text("import torch\nprint('x')\n")
        monkeypatch.setattr(line_module, "provider", lambda name, options, run: provider)
        self.provider = provider
        self.request = Request(
            program=read_program(str(script), None, ()),
            python=str(tmp_path / "v" / "bin" / "python"),
            versions=VersionsRequest(spec="all", provider="uv", options=EnvironmentOptions()),
            options=QUICK,
            workers=4,
        )
        self.folder = tmp_path / "run"
        self.folder.mkdir(exist_ok=True)

    def run(self, request: Request | None = None) -> dict[str, Any]:
        findings = Session(request or self.request, self.folder).run()
        self.findings = findings
        data = findings_json(findings)
        jsonschema.validate(data, load_schema())
        return data


def test_introduced_and_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = FakeProvider(
        behave=broken_between("2.6.0", "2.8.0", NAMES),
        names=NAMES,
        packages={name: {"numpy": "1.26" if name < "2.7" else "2.1"} for name in NAMES},
        files={
            name: {
                "torch/_inductor/fx_passes/a.py": "x = 1\n" if "2.6" <= name < "2.8" else "x = 2\n",
                "torch/_inductor/fx_passes/b.py": "y\n",
                "torch/_dynamo/c.py": name,
            }
            for name in NAMES
        },
    )
    lab = Lab(tmp_path, monkeypatch, provider)
    data = lab.run()
    versions = data["versions"]
    assert [(f["kind"], f["after"], f["at"]) for f in versions["flips"]] == [
        ("introduced", "2.5.0", "2.6.0"),
        ("fixed", "2.7.0", "2.8.0"),
    ]
    assert (versions["last_good"], versions["first_bad"], versions["fixed_in"]) == ("2.5.0", "2.6.0", "2.8.0")
    line = since.headline(Versions.from_json(versions))
    assert line == "introduced in 2.6.0 (good: 2.5.0), fixed in 2.8.0 (bad: 2.7.0)"
    assert data["verdict"] == "fails"
    assert data["culprit"]["stage"] == "fx_passes"
    # Both sides of both flips had the ladder run on them.
    stages = {row["torch"]: row["stage"] for row in versions["tested"]}
    assert (stages["2.6.0"], stages["2.7.0"]) == ("fx_passes", "fx_passes")
    assert versions["axes"]["same"] is True
    details = versions["flips"][0]["details"]
    assert {row["rung"]: row["verdict"] for row in details["good"]["ladder"]}["fx"] == "good"
    assert {row["rung"]: row["verdict"] for row in details["bad"]["ladder"]}["fx"] == "bad"
    # Of the failing stage's two files one differs; Dynamo's is no concern of it.
    assert [(row["path"], row["added"]) for row in details["files"]["changed"]] == [
        ("torch/_inductor/fx_passes/a.py", 1)
    ]
    assert [row["kind"] for row in details["code"]] == ["output_code"]
    assert "2.5.0" in details["code"][0]["good"] and "2.6.0" in details["code"][0]["bad"]
    assert details["companions"]["culprits"] == ["torch"]
    swapped = versions["flips"][1]["details"]["companions"]
    assert swapped["culprits"] == ["torch"]


def test_the_same_files_on_both_sides_make_the_flip_suspect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = FakeProvider(
        behave=broken_between("2.6.0", None, NAMES),
        names=NAMES,
        files={name: {"torch/_inductor/fx_passes/a.py": "x = 1\n"} for name in NAMES},
    )
    data = Lab(tmp_path, monkeypatch, provider).run()
    flip = data["versions"]["flips"][0]
    assert flip["details"]["files"]["changed"] == []
    assert any("none of the 1 files of fx_passes differ" in note for note in flip["notes"])


def test_a_companion_is_blamed_and_not_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def behave(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        numpy = job["pins"].get("numpy", "1.26" if release < "2.7" else "2.1")
        return ("ValueError", "boom") if numpy == "2.1" and rung in ("fx", "kernel") else "ok"

    provider = FakeProvider(
        behave=behave,
        names=NAMES,
        packages={name: {"numpy": "1.26" if name < "2.7" else "2.1"} for name in NAMES},
    )
    data = Lab(tmp_path, monkeypatch, provider).run()
    flip = data["versions"]["flips"][0]
    assert (flip["after"], flip["at"]) == ("2.6.0", "2.7.0")
    assert flip["details"]["companions"]["culprits"] == ["numpy"]
    assert flip["details"]["companions"]["proven"]
    assert any(note.startswith("companions: not torch but numpy") for note in flip["notes"])


def test_what_cannot_be_had_or_fails_otherwise_blurs_a_flip_into_a_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = broken_between("2.7.0", None, NAMES)

    def behave(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        return ("KeyError", "x") if release == "2.5.0" and rung == "kernel" else inner(release, rung, job)

    provider = FakeProvider(behave=behave, names=NAMES, missing={"2.6.0": "no wheel"})
    data = Lab(tmp_path, monkeypatch, provider).run()
    flip = data["versions"]["flips"][0]
    assert (flip["after"], flip["at"], flip["between"]) == ("2.4.0", "2.7.0", ["2.5.0", "2.6.0"])
    assert any("no wheel" in note for note in flip["notes"])
    assert any("KeyError" in note for note in flip["notes"])


def test_no_release_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Lab(tmp_path, monkeypatch, FakeProvider(behave=always("ok"), names=NAMES)).run()
    assert data["verdict"] == "passes"
    assert data["versions"]["flips"] == []
    assert "no release that was tried fails" in data["versions"]["why"]


def test_a_resumed_run_asks_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = FakeProvider(behave=broken_between("2.6.0", None, NAMES), names=NAMES)
    lab = Lab(tmp_path, monkeypatch, provider)
    first = lab.run()
    asked = len(provider.runs)
    second = lab.run(load_request(lab.folder))
    assert len(provider.runs) == asked
    assert second["versions"]["flips"] == first["versions"]["flips"]


def test_a_request_with_a_line_survives_its_json() -> None:
    options = EnvironmentOptions(
        python="3.11", with_requirements=(Path("r.txt"),), with_packages=("numpy<2",), script=Path("s.py")
    )
    asked = VersionsRequest(
        spec="2.4..2.6", provider="uv", options=options, own=True, metric=("latency", 1.3)
    )
    assert VersionsRequest.from_json(json.loads(json.dumps(asked.to_json()))) == asked


def test_a_password_of_the_index_is_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Index(url="https://user:secret@index.example/simple")
    asked = VersionsRequest(spec="all", provider="uv", options=EnvironmentOptions(index=secret))
    written = json.dumps(asked.to_json())
    assert "secret" not in written
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/other")
    assert VersionsRequest.from_json(json.loads(written)).options.index.url == "https://index.example/simple"
    # What pip is configured with has it, so a resumed run gets in again.
    monkeypatch.setattr("accel_lab.environments.options.pip_index", lambda: secret)
    assert VersionsRequest.from_json(json.loads(written)).options.index == secret


def test_a_named_interpreter_without_torch_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, monkeypatch, FakeProvider(behave=always("ok"), names=NAMES))
    assert lab.request.versions is not None
    named = replace(lab.request, versions=replace(lab.request.versions, own=True))
    with pytest.raises(Exception, match="no usable torch"):
        lab.run(named)


def test_a_line_without_releases_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, monkeypatch, FakeProvider(behave=always("ok"), names=NAMES))
    assert lab.request.versions is not None
    with pytest.raises(UsageError):
        lab.run(replace(lab.request, versions=replace(lab.request.versions, spec="3.0..3.1")))


def test_a_pinned_build_does_not_see_the_packages_of_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    own = str(Path(sys.prefix) / "lib" / "python3.11" / "site-packages")
    env = clean_environment({"PYTHONPATH": f"{own}:/home/x/src", "PYTHONHOME": "/x", "A": "1"})
    assert env == {"PYTHONPATH": "/home/x/src", "A": "1"}


def test_the_report_of_a_line_is_written_again_without_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = FakeProvider(behave=broken_between("2.6.0", "2.8.0", NAMES), names=NAMES)
    lab = Lab(tmp_path, monkeypatch, provider)
    first = lab.run()
    write_files(lab.findings, lab.folder, bundle=True)
    asked, made = len(provider.runs), len(provider.made)
    found = again(lab.folder)
    assert (len(provider.runs), len(provider.made)) == (asked, made)
    second = findings_json(found)
    for name in ("versions", "ladder", "culprit", "verdict", "environment"):
        assert second[name] == first[name], name
    page = (lab.folder / "report.html").read_text()
    assert "introduced in 2.6.0 (good: 2.5.0), fixed in 2.8.0 (bad: 2.7.0)" in page
    with zipfile.ZipFile(lab.folder / "bundle.zip") as bundle:
        issue = bundle.read("ISSUE.md").decode()
    assert "Over releases of torch: introduced in 2.6.0" in issue
    assert "2.7.0 fails" in issue


def test_where_packages_cannot_be_held_what_differs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = FakeProvider(
        behave=broken_between("2.6.0", None, NAMES),
        names=NAMES,
        packages={name: {"numpy": "1.26" if name < "2.6" else "2.1"} for name in NAMES},
        pinnable=False,
    )
    data = Lab(tmp_path, monkeypatch, provider).run()
    (flip,) = data["versions"]["flips"]
    assert "companions" not in flip["details"]
    assert any("numpy 1.26 and 2.1" in note and "cannot be held" in note for note in flip["notes"])


def test_a_search_that_is_stopped_keeps_what_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab: Lab
    inner = broken_between("2.6.0", None, NAMES)

    def behave(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        if release == "2.5.0":
            assert session.line is not None
            session.line.interrupt()
        return inner(release, rung, job)

    provider = FakeProvider(behave=behave, names=NAMES)
    lab = Lab(tmp_path, monkeypatch, provider)
    session = Session(lab.request, lab.folder)
    with pytest.raises(Interrupted):
        session.run()
    assert session.findings is not None
    kept = session.findings.versions
    assert kept is not None and not kept.complete
    assert {row.torch: row.verdict for row in kept.tested}["2.9.0"] is Verdict.BAD
    # Gone on with, it ends as it would have.
    provider.behave = inner
    data = lab.run(load_request(lab.folder))
    assert [(f["after"], f["at"]) for f in data["versions"]["flips"]] == [("2.5.0", "2.6.0")]


@pytest.mark.parametrize("fails", [True, False])
def test_the_users_own_build_on_the_line_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """It is the newest of the line. Failing, it is diagnosed there; passing, an older one is."""
    behave = broken_between("2.8.0" if fails else "2.5.0", None if fails else "2.9.0", NAMES)
    provider = FakeProvider(behave=behave, names=NAMES, name="local")
    lab = Lab(tmp_path, monkeypatch, provider)
    provider.pythons = {"2.9.0": lab.request.python}
    newest = provider.make(provider.spec("2.9.0"))
    own = partial(Prober, runner=provider.runner(newest, None))
    monkeypatch.setattr(session_module, "Prober", own)
    build = Build(python=lab.request.python, torch="2.9.0", facts={"torch": "2.9.0"})
    monkeypatch.setattr(session_module, "inspect_build", lambda python, folder: build)
    data = lab.run(replace(lab.request, cold=True))
    assert provider.runs.count(("2.9.0", "plain")) == 1
    flips = [(f["kind"], f["after"], f["at"]) for f in data["versions"]["flips"]]
    rows = {row["torch"]: row for row in data["versions"]["tested"]}
    if fails:
        assert flips == [("introduced", "2.7.0", "2.8.0")]
        assert rows["2.9.0"]["stage"] == "fx_passes"
        assert data["environment"]["torch"] == "2.9.0"
    else:
        assert flips[-1] == ("fixed", "2.8.0", "2.9.0")
        assert any("does not fail on your own build" in line for line in data["warnings"])
        assert rows["2.9.0"]["environment"]["outcome"].startswith("probes/")


@pytest.mark.parametrize(
    ("torch", "headline"),
    [
        ("2.10.1", "fixed by 2.10.1, your own build (bad: 2.9.0)"),
        ("2.3.1", "introduced after 2.3.1, your own build (bad: 2.4.0)"),
    ],
)
def test_the_users_own_build_is_a_side_of_the_flip_where_all_releases_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str, headline: str
) -> None:
    provider = FakeProvider(behave=broken_between("2.4.0", None, NAMES), names=NAMES)
    lab = Lab(tmp_path, monkeypatch, provider)
    passing = FakeProvider(behave=always("ok"), names=(torch,), name="local")
    own = partial(Prober, runner=passing.runner(passing.make(passing.spec(torch)), None))
    monkeypatch.setattr(session_module, "Prober", own)
    build = Build(python=lab.request.python, torch=f"{torch}+cpu", facts={"torch": torch})
    monkeypatch.setattr(session_module, "inspect_build", lambda python, folder: build)
    data = lab.run(replace(lab.request, cold=True))
    assert data["versions"]["flips"] == []
    assert since.headline(Versions.from_json(data["versions"])) == headline
    assert not any("not torch's" in note for note in data["versions"]["notes"])
    assert torch in next(of_releases(lab.findings)).code
    assert headline in summarise(lab.findings)
