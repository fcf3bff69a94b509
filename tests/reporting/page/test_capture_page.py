"""The page of a capture, its pictures and its JSON, from layers as a child writes them."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest

import accel_lab.reporting
import fakes_layers
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.inspection import layers
from accel_lab.inspection.captured import Captured, File, Kernel
from accel_lab.reporting.page import capture as page
from accel_lab.reporting.page import graph_picture
from accel_lab.reporting.words import capture as words

SCHEMA = Path(str(accel_lab.reporting.__file__)).with_name("capture.schema.json")


@pytest.fixture
def captured(tmp_path: Path) -> Captured:
    fakes_layers.write(tmp_path / "probe")
    (tmp_path / "layers").mkdir()
    found = tuple(layers.read(ChildFiles(tmp_path / "probe")))
    return Captured(
        program="model <b>.py",
        torch="2.14.1",
        backend="own",
        folder=str(tmp_path),
        failed="ValueError: " + fakes_layers.BAD,
        layers=found,
        texts={
            layer.order: File(path=f"layers/{layer.order}.py", title=layer.title, text=fakes_layers.BAD)
            for layer in found
        },
        kernels=(Kernel.from_facts(fakes_layers.KERNEL),),
        code=(File(path="code/output_code_0.py", title="wrapper", text="call()"),),
        mock=(),
        tlparse="",
        notes=(words.NO_TLPARSE,),
    )


def test_the_json_keeps_to_its_schema(captured: Captured) -> None:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    data = json.loads(json.dumps(captured.to_json()))
    validator = jsonschema.Draft202012Validator(schema)
    assert [error.message for error in validator.iter_errors(data)] == []
    data["layers"][0]["memory_estimate"]["peak_bytes"] = -1
    assert not validator.is_valid(data)


def test_the_page_escapes_what_a_script_says_and_loads_nothing(captured: Captured, tmp_path: Path) -> None:
    page.write(captured, tmp_path)
    text = (tmp_path / "index.html").read_text("utf-8")
    assert "<script" not in text and "&lt;script&gt;alert(1)" in text
    assert not re.search(r'(src|href)="(?!#|data:|layers/|code/)', text)
    assert "y = x * 2" in text and "estimate" in text and words.NO_TLPARSE in text


def test_pictures_are_xml_and_name_every_node(captured: Captured, tmp_path: Path) -> None:
    page.write(captured, tmp_path)
    root = ET.fromstring((tmp_path / "layers" / "0.svg").read_text("utf-8"))
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 5 and any("aten.mul.Tensor" in title for title in titles)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) == 4


def test_boxes_of_one_row_do_not_overlap() -> None:
    wide = [
        layers.Node(name=f"x{n}", op="placeholder", target="x", inputs=(), tensors=(), source="", code="")
        for n in range(12)
    ]
    last = layers.Node(
        name="all",
        op="call_function",
        target="aten.cat.default",
        inputs=tuple(one.name for one in wide),
        tensors=(),
        source="",
        code="",
    )
    svg = graph_picture.picture([*wide, last], title="wide")
    boxes = [
        (float(x), float(y), float(w))
        for x, y, w in re.findall(r'<rect x="([-\d.]+)" y="([\d.]+)" width="(\d+)"', svg)
    ]
    first = sorted(box for box in boxes if box[1] == min(row for _, row, _ in boxes))
    assert len(first) == 12
    assert all(a[0] + a[2] <= b[0] for a, b in itertools.pairwise(first))
    assert graph_picture.picture([], title="none") == ""


def test_the_terminal_says_that_memory_is_an_estimate(captured: Captured) -> None:
    text = words.terminal(captured)
    assert "1 graph, 3 layers, 1 generated kernel" in text
    assert "80 bytes" in text and "Memory is an estimate" in text and "The script failed: ValueError" in text
