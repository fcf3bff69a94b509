"""An accelerator's backend put into a script's text: every torch.compile, and nothing else."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.minimize.on_backend import NAME, Binding, with_backend

BINDING = f"from accel_lab import mock_backend as {NAME}"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("import torch\nf = torch.compile(g)\n", "f = torch.compile(g, backend=accelerator)"),
        ("import torch\nf = torch.compile(g, backend='mock')\n", "torch.compile(g, backend=accelerator)"),
        ("import torch\n@torch.compile\ndef f(): pass\n", "@torch.compile(backend=accelerator)\ndef f"),
        ("import torch\n@torch.compile()\ndef f(): pass\n", "@torch.compile(backend=accelerator)\ndef f"),
        (
            "import torch\nf = torch.compile(\n    g,  # the model\n    dynamic=True,\n)\n",
            "    dynamic=True, backend=accelerator,\n)",
        ),
        ("import torch\nf = torch.compile(lambda é: é, **o)(x)\n", "é, **o, backend=accelerator)(x)"),
        ("import torch\nclass A:\n    @torch.compile\n    def f(self): ...\n", "    @torch.compile(backend="),
    ],
)
def test_each_form_gets_it(source: str, wanted: str) -> None:
    text = with_backend(source, BINDING)
    assert text is not None
    ast.parse(text)
    assert wanted in text
    assert text.index(BINDING) > text.index("import torch")


@pytest.mark.parametrize("source", ["print(1)\n", "import re\nre.compile('x')\n", "model.compile()\n"])
def test_a_script_without_it_stays(source: str) -> None:
    assert with_backend(source, BINDING) is None


def test_the_binding_stands_behind_the_imports_and_before_the_rest() -> None:
    text = with_backend('"""What."""\nimport torch\nimport os\nx = torch.compile(f)\nimport re\n', BINDING)
    assert text is not None
    assert text.splitlines() == [
        '"""What."""',
        "import torch",
        "import os",
        BINDING,
        "x = torch.compile(f, backend=accelerator)",
        "import re",
    ]
    assert with_backend("torch.compile(f)", BINDING) == f"{BINDING}\ntorch.compile(f, backend=accelerator)"


def test_the_variables_are_set_before_anything_is_imported() -> None:
    source = '"""What."""\nfrom __future__ import annotations\nimport torch\nx = torch.compile(f)\n'
    text = Binding(code=BINDING, variables={"MOCK_FAULTS": "a'b"}).put_into(source)
    assert text is not None
    assert text.splitlines()[2:6] == [
        "import os",
        "",
        "os.environ.setdefault('MOCK_FAULTS', \"a'b\")",
        "import torch",
    ]
    assert Binding(code=BINDING).put_into(source) == with_backend(source, BINDING)
    assert Binding(code=BINDING, variables={"A": "b"}).put_into("print(1)\n") is None


def test_an_argument_in_brackets_is_not_broken() -> None:
    text = with_backend("import torch\nf = torch.compile((g))\n", BINDING)
    assert text is None or "backend=accelerator" in ast.unparse(ast.parse(text))


@given(st.lists(st.sampled_from(["torch.compile(f)", "torch.compile(f, dynamic=True)", "g(1)"]), max_size=6))
def test_as_many_as_there_are(calls: list[str]) -> None:
    text = with_backend("import torch\n" + "\n".join(calls) + "\n", BINDING)
    wanted = sum("compile" in call for call in calls)
    assert (text or "").count("backend=accelerator") == wanted
