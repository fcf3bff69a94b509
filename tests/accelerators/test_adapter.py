"""Adapters: what they tell becomes constraints, packages are found, broken ones are told apart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import accel_lab  # noqa: E402
from accel_lab.accelerators import discovery  # noqa: E402
from accel_lab.accelerators.adapter import AcceleratorAdapter  # noqa: E402
from accel_lab.accelerators.capabilities import AcceleratorCapabilities  # noqa: E402
from accel_lab.accelerators.constraints.catalogue import (  # noqa: E402
    ConstraintError,
    GraphView,
    check_graph,
)
from accel_lab.accelerators.discovery import AdapterError, adapters  # noqa: E402
from accel_lab.accelerators.loading import adapter_from, load_adapter  # noqa: E402
from accel_lab.accelerators.provenance import environment_of  # noqa: E402
from accel_lab.accelerators.settings import SettingError  # noqa: E402
from accel_lab.mock.adapter import MockAdapter  # noqa: E402
from accel_lab.search.accelerator.replacements import SETTINGS, Replacement  # noqa: E402

pytestmark = pytest.mark.torch

EXAMPLE = Path(__file__).parents[1] / "data" / "example_adapter"


@pytest.fixture(scope="module")
def tinychip(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The example's package, installed into a folder without network, and importable."""
    source, target = tmp_path_factory.mktemp("source") / "example", tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, source)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    ]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(target), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(target))
        yield target
    sys.modules.pop("tinychip", None)


class Plain(AcceleratorAdapter):
    """The least that an adapter is."""

    name = "plain"
    capabilities = AcceleratorCapabilities()

    def compile(self, graph_module: Any, example_inputs: Any) -> Any:
        return graph_module


def entry(value: Any, name: str = "other") -> Any:
    """What stands for an entry point that loads a value, or raises it."""

    class Entry:
        def load(self) -> Any:
            if isinstance(value, Exception):
                raise value
            return value

    made: Any = Entry()
    made.name, made.value = name, "package:thing"
    return made


def test_the_public_names_are_the_classes() -> None:
    assert accel_lab.AcceleratorAdapter is AcceleratorAdapter
    assert accel_lab.AcceleratorCapabilities is AcceleratorCapabilities


def test_capabilities_take_names_and_torch_objects_alike() -> None:
    named = AcceleratorCapabilities(
        dtypes=frozenset({"float16", "torch.int64"}), denied=frozenset({"aten.relu.default", "conv2d"})
    )
    given = AcceleratorCapabilities(
        dtypes=frozenset({torch.float16, torch.int64}),
        denied=frozenset({torch.relu, torch.nn.functional.conv1d}),
    )
    assert named == given
    assert named.denied == {"relu", "convolution"}
    narrow = AcceleratorCapabilities(dtypes=frozenset({"float16", "int64"}), int64=False)
    assert narrow.dtypes == {torch.float16}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"dtypes": frozenset({"float17"})}, "float17"),
        ({"denied": frozenset({"reluu"})}, "there is relu"),
        ({"alignment": 0}, "alignment is a whole number"),
        ({"max_memory": 1}, "max_memory is a number of bytes"),
    ],
)
def test_wrong_capabilities_say_what_is_allowed(given: Any, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        AcceleratorCapabilities(**given)


def test_the_example_is_found_compiles_and_differentiates(tinychip: Path) -> None:
    found = adapters()
    assert {"mock", "tinychip"} <= set(found)
    adapter = load_adapter("tinychip")
    assert adapter.capabilities.denied == {"linalg_lu_factor", "convolution"}
    x = torch.randn(4, 8, requires_grad=True)

    def region(x: Any) -> Any:
        return (x * x.sin()).sum(-1, keepdim=True).expand(4, 8) * 2

    wanted = torch.autograd.grad(region(x).sum(), x)[0]
    torch._dynamo.reset()
    result = torch.compile(region, backend=adapter.backend)(x)
    torch.testing.assert_close(result, region(x))
    torch.testing.assert_close(torch.autograd.grad(result.sum(), x)[0], wanted)
    constraints = {violation["constraint"] for violation in adapter.statistics().violations}
    assert constraints == {"alignment"}  # the column of size 1


def test_the_example_shows_its_bug_and_its_limits(tinychip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = load_adapter("tinychip")
    x = torch.ones(2, 8)
    monkeypatch.setenv("TINYCHIP_BUG", "back")
    torch._dynamo.reset()
    assert torch.compile(lambda x: x * 3, backend=adapter.backend)(x)[0].tolist() == [3.0] * 7 + [0.0]
    torch._dynamo.reset()
    with pytest.raises(Exception, match="linalg_lu_factor is on the deny-list") as raised:
        torch.compile(torch.linalg.lu_factor, backend=adapter.backend, options={"strict": True})(
            torch.ones(8, 8)
        )
    inner: Any = getattr(raised.value, "inner_exception", raised.value)
    assert isinstance(inner, ConstraintError)
    assert {violation.constraint for violation in inner.violations} >= {"unsupported"}


def test_the_mock_is_an_adapter_with_ways_of_its_own() -> None:
    adapter = load_adapter("mock")
    assert isinstance(adapter, MockAdapter)
    assert [rung.blames for rung in adapter.rungs()] == ["mock.transfer", "mock.back_end", "mock.front_end"]
    x, y = torch.randn(3, 65), torch.randn(65, 2)

    def region(x: Any, y: Any) -> Any:
        return torch.relu(x @ y) + 1

    for backend in (adapter.backend, *(adapter.backend_at(rung) for rung in adapter.rungs())):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(region, backend=backend)(x, y), region(x, y))


def silent(name: str, /, **members: Any) -> Any:
    return type(name, (Plain,), {"__module__": __name__, **members})


@pytest.mark.parametrize(
    ("loaded", "says"),
    [
        (ImportError("no module named chip_driver"), "cannot be imported: ImportError: no module named chip"),
        (int, "is the class int, not an AcceleratorAdapter"),
        (42, "is a int, not an AcceleratorAdapter"),
        (lambda: "x", "gives a str, not an AcceleratorAdapter"),
        (type("Half", (AcceleratorAdapter,), {}), "does not define capabilities, compile, name"),
        (silent("NoInit", __init__=lambda self: None), "does not call super"),
        (silent("Dies", __init__=lambda self: 1 / 0), "cannot be instantiated: ZeroDivisionError"),
        (silent("Nameless", name=""), "has the name ''"),
        (silent("Dict", capabilities={}), "has capabilities of type dict"),
        (silent("Asks", capabilities=property(lambda self: 1 / 0)), "cannot report its capabilities"),
    ],
)
def test_a_broken_adapter_is_one_clear_error(loaded: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda: {discovery.GROUP: [entry(loaded)]})
    with pytest.raises(AdapterError, match=says) as raised:
        load_adapter("other")
    assert "'other' (package:thing)" in str(raised.value)


def test_unknown_and_doubled_names_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        AdapterError, match="there is no adapter 'nothing' in this environment; there is mock"
    ):
        load_adapter("nothing")
    monkeypatch.setattr(metadata, "entry_points", lambda: {discovery.GROUP: [entry(Plain, "mock")]})
    with pytest.raises(AdapterError, match="two adapters are called 'mock'"):
        adapters()
    doubled = [entry(Plain), entry(Plain)]
    doubled[1].value = "another:thing"
    monkeypatch.setattr(metadata, "entry_points", lambda: {discovery.GROUP: doubled})
    with pytest.raises(AdapterError, match="two adapters are called 'other': package:thing and another"):
        discovery.registered()


def test_an_adapter_is_taken_as_class_function_or_object() -> None:
    made = Plain()
    assert adapter_from(made) is made
    assert isinstance(adapter_from(Plain), Plain)
    assert isinstance(adapter_from(lambda: Plain()), Plain)
    assert discovery.GROUP == "accel_lab.adapters"


def test_what_an_adapter_does_not_deny_is_taken_to_be_there() -> None:
    def said(capabilities: AcceleratorCapabilities) -> set[str]:
        view = GraphView(graph_module=graph, level="aten")
        return {v.op for v in check_graph(view, capabilities.constraints()) if v.constraint == "unsupported"}

    def region(x: Any) -> Any:
        return torch.rand_like(x) @ torch.special.bessel_j0(x)

    graph = make_fx(region, tracing_mode="fake")(torch.ones(3, 3))
    assert said(AcceleratorCapabilities()) == set()
    assert said(AcceleratorCapabilities(denied=frozenset({"aten.mm"}))) == {"mm"}
    assert said(AcceleratorCapabilities(supported=frozenset({"mm"}))) == {"rand_like", "special_bessel_j0"}


def test_the_mocks_parts_are_those_that_the_search_knows() -> None:
    parts = {part.name: dict(part.options) for part in MockAdapter().parts()}
    assert parts == {row.value: options for row, options in SETTINGS.items() if row is not Replacement.MAIN}


def test_options_that_an_adapter_does_not_have_are_refused() -> None:
    with pytest.raises(SettingError, match="the adapter plain has no options: speed"):
        Plain().configured({"speed": 3})
    with pytest.raises(SettingError, match=r"no setting 'back_ends'.*did you mean back_end"):
        MockAdapter().configured({"back_ends": "reference"})
    assert MockAdapter({"cores": 3}).configured({"cache": False}).capabilities.max_memory == 16 * 1024**3


# ---- what a run depended on


def test_the_variables_of_the_mock_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCK_FAULTS", "tail_stick_dropped")
    monkeypatch.delenv("MOCK_CORES", raising=False)
    found = environment_of(MockAdapter(), adapters()["mock"])
    assert found.variables["MOCK_FAULTS"] == "tail_stick_dropped"
    assert found.variables["MOCK_CORES"] is None
    assert found.package == "accel_lab"
    assert found.version == accel_lab.__version__


def test_the_package_of_an_adapter_is_recorded(tinychip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYCHIP_BUG", "back")
    found = environment_of(load_adapter("tinychip"), adapters()["tinychip"])
    assert found.to_json() == {
        "variables": {"TINYCHIP_BUG": "back"},
        "package": "tinychip",
        "version": "1.0",
        "commit": "",
    }


@pytest.mark.parametrize("packed", [False, True])
def test_the_commit_is_that_of_the_checkout_or_what_pip_wrote(tmp_path: Path, packed: bool) -> None:
    checkout, installed = tmp_path / "chip", tmp_path / "chip-1.dist-info"
    for folder in (checkout / ".git" / "refs" / "heads", installed):
        folder.mkdir(parents=True)
    (checkout / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    if packed:
        (checkout / ".git" / "packed-refs").write_text("# pack-refs\n12ab refs/heads/main\n")
    else:
        (checkout / ".git" / "refs" / "heads" / "main").write_text("12ab\n")
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: chip\nVersion: 1\n")
    (installed / "direct_url.json").write_text(f'{{"url": "{checkout.as_uri()}", "dir_info": {{}}}}')
    chip: Any = entry(Plain)
    chip.dist = metadata.PathDistribution(installed)
    assert environment_of(Plain(), chip).commit == "12ab"
    (installed / "direct_url.json").write_text('{"url": "x", "vcs_info": {"commit_id": "34cd"}}')
    assert environment_of(Plain(), chip).commit == "34cd"


def test_a_traced_clone_shows_its_transfers(tmp_path: Path) -> None:
    program = """
import json, sys, torch
from accel_lab.accelerators.loading import load_adapter

adapter = load_adapter("mock").configured({"trace": True, "folder": sys.argv[1]})
torch.compile(lambda x: x.clone(), backend=adapter.backend)(torch.ones(4, 65))
print(json.dumps(adapter.observations()["statistics"]["kernels"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(accel_lab.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["0"]), done.stderr
    log = [json.loads(line) for line in (tmp_path / "transfers.jsonl").read_text("utf-8").splitlines()]
    assert [(entry["transfer"], entry["shape"]) for entry in log] == [
        ("to_device", [4, 65]),
        ("to_host", [4, 65]),
    ]
