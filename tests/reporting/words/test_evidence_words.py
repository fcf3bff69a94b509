"""Evidence and its words: each kind has a sentence, the lab makes each, and sentences are made here alone."""

from __future__ import annotations

import ast
import inspect
import string
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from accel_lab.core.evidence import Evidence, EvidenceKind, Fact
from accel_lab.core.findings import ByDesign, Considered, Culprit, Findings
from accel_lab.core.probe import Program
from accel_lab.core.releases.flip_details import FlipDetails, SideRow
from accel_lab.core.releases.versions import Flip, Versions
from accel_lab.core.stages import Confidence, Stage
from accel_lab.reporting.schema import findings_json, load_schema
from accel_lab.reporting.words.evidence import WORDS, line_of, sentences, words_of
from accel_lab.reporting.words.evidence.template import Words

PACKAGE = Path(__file__).resolve().parents[3] / "bisect" / "accel_lab"
#: Where evidence is made.
MAKERS = [*sorted((PACKAGE / "search").rglob("*.py")), *sorted((PACKAGE / "versions").rglob("*.py"))]

SEEN = Evidence.of(EvidenceKind.RUNG_ADDS_FAILURE, below="fx", at="kernel", same=True)
SENTENCE = "passes at fx and fails in the same way at kernel, which adds Inductor's lowering, scheduler"


def needed(words: Words) -> set[str]:
    """The facts that a kind's words name."""
    if callable(words):
        return set(inspect.signature(words).parameters)
    return {name for _, name, _, _ in string.Formatter().parse(words) if name is not None}


def calls() -> Iterator[tuple[str, ast.Call]]:
    for file in MAKERS:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                yield file.relative_to(PACKAGE).as_posix(), node


def made() -> Iterator[tuple[str, EvidenceKind, set[str | None]]]:
    """Each place that makes evidence, with the kind and the names of the facts."""
    for file, call in calls():
        if ast.unparse(call.func) == "Evidence.of":
            assert len(call.args) == 1 and isinstance(call.args[0], ast.Attribute), (file, call.lineno)
            yield f"{file}:{call.lineno}", EvidenceKind[call.args[0].attr], {k.arg for k in call.keywords}


def test_each_kind_has_words_and_is_made_with_the_facts_that_they_name() -> None:
    assert set(WORDS) == set(EvidenceKind)
    places = list(made())
    assert {kind for _, kind, _ in places} == set(EvidenceKind) - {EvidenceKind.SAID}
    for place, kind, facts in places:
        assert facts == needed(WORDS[kind]), f"{place}: {kind} needs {sorted(needed(WORDS[kind]))}"


def test_no_sentence_of_evidence_is_made_in_a_search() -> None:
    """Text of the lab's own is never put where evidence goes, nor a fact that is a whole clause."""
    wrong = []
    for place, call in calls():
        name = ast.unparse(call.func)
        if name == "Evidence.of":
            texts = [k.value for k in call.keywords]
            wrong += [f"{place}:{t.lineno}" for t in texts if _is_text(t)]
        elif name == "Evidence.said" or name.endswith("evidence.append"):
            wrong += [f"{place}:{t.lineno}" for t in call.args if _is_text(t)]
        else:
            held = [k.value for k in call.keywords if k.arg in ("evidence", "why", "considered")]
            wrong += [
                f"{place}:{inner.lineno}"
                for value in held
                if isinstance(value, (ast.Tuple, ast.List))
                for inner in value.elts
                if _is_text(inner)
            ]
    assert wrong == []


def _is_text(node: ast.expr) -> bool:
    """Text with a space in it that stands in the source: ``""`` is a fact that is not there."""
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value.strip(" ,;:")
        for part in ast.walk(node)
    )


EXAMPLES: dict[str, Fact] = {
    "at": "kernel",
    "below": "fx",
    "conflict": "unchecked",
    "maker": "lowering",
    "wrapped": "module",
}


def example(words: Words) -> dict[str, Fact]:
    """A value for each fact, of the type that a function of the words says."""
    types: dict[str, object] = {}
    if callable(words):
        types = {name: one.annotation for name, one in inspect.signature(words).parameters.items()}
    values: dict[object, Fact] = {"bool": True, "int": 2, "float": 2.5, "list[str]": ["a", "b"]}
    return {
        name: EXAMPLES.get(name, values.get(types.get(name), f"<{name}>")) for name in sorted(needed(words))
    }


def test_a_sentence_names_its_facts_and_survives_the_way_through_json() -> None:
    for kind, words in WORDS.items():
        facts = example(words)
        seen = Evidence(kind=kind, facts=facts)
        said = words_of(seen)
        assert said and not said.startswith(kind.value + ":") and said == " ".join(said.split()), kind
        assert all(str(fact) in said for name, fact in facts.items() if fact == f"<{name}>"), kind
        assert Evidence.from_json(seen.to_json()) == seen


def test_equal_evidence_is_found_again() -> None:
    again = Evidence.of(EvidenceKind.RUNG_ADDS_FAILURE, below="fx", at="kernel", same=True)
    assert again == SEEN and hash(again) == hash(SEEN) and again in (SEEN,)
    other = Evidence.of(EvidenceKind.RUNG_ADDS_FAILURE, below="fx", at="kernel", same=False)
    assert other != SEEN
    with pytest.raises(TypeError, match="no fact"):
        Evidence.of(EvidenceKind.UNASKED, question=None)  # type: ignore[arg-type]


def test_findings_hold_sentences_and_their_records() -> None:
    open_one = Considered(name="layout", open=True, why=Evidence.of(EvidenceKind.FAILS_CONTIGUOUS))
    culprit = Culprit(
        stage=Stage.KERNEL, confidence=Confidence.LIKELY, evidence=(SEEN,), alternatives=(open_one,)
    )
    flip = Flip(
        after="2.6.0",
        at="2.7.0",
        kind="introduced",
        details=FlipDetails(
            good=SideRow(torch="2.6.0"), bad=SideRow(torch="2.7.0", ladder=(), warnings=(SEEN, "as text"))
        ),
    )
    found = Findings(
        program=Program(path="x.py"),
        verdict="fails",
        culprits=[culprit],
        warnings=[SEEN, "as text"],
        versions=Versions(flips=(flip,)),
    )
    data = findings_json(found)
    jsonschema.validate(data, load_schema())
    row = data["culprits"][0]
    assert data["culprit"] == row and row["evidence"] == sentences([SEEN])
    assert row["evidence"][0].startswith(SENTENCE[:50])
    assert row["observations"] == [
        {"kind": "rung_adds_failure", "facts": {"below": "fx", "at": "kernel", "same": True}}
    ]
    assert list(row)[list(row).index("evidence") + 1] == "observations"
    assert row["alternatives"][0]["words"] == words_of(open_one.why)
    assert data["warnings"] == [line_of(SEEN), "as text"]
    assert data["versions"]["flips"][0]["details"]["bad"]["warnings"] == [line_of(SEEN), "as text"]
    read = Versions.from_json(data["versions"])
    assert read.flips[0].details is not None
    assert read.flips[0].details.bad.warnings == (line_of(SEEN), "as text")
    again = Culprit.from_json(row)
    assert again.evidence == (SEEN,) and again.alternatives[0].why == open_one.why


def test_a_report_of_before_has_its_sentences() -> None:
    row = {"stage": "kernel", "confidence": "likely", "component": None, "evidence": ["it passes", "x"]}
    row["alternatives"] = [{"name": "layout", "open": True, "words": "who knows"}]
    read = Culprit.from_json(row)
    assert sentences(read.evidence) == ["it passes", "x"]
    assert read.alternatives[0].why == Evidence.said("who knows")
    reason = ByDesign.from_json({"kind": "rounding", "setting": "s", "words": "w", "evidence": ["e"]})
    assert words_of(reason.why) == "w" and sentences(reason.evidence) == ["e"]


def test_a_stranger_s_record_is_refused_or_listed() -> None:
    for wrong in (None, [], {"kind": "said"}, {"kind": "other", "facts": {}}, {"kind": "said", "facts": [1]}):
        with pytest.raises(ValueError, match="Evidence"):
            Evidence.from_json(wrong)
    with pytest.raises(ValueError, match="a fact is"):
        Evidence.from_json({"kind": "said", "facts": {"text": {"deep": 1}}})
    alien = Evidence.from_json({"kind": "rung_adds_failure", "facts": {"at": "no rung", "{x}": "y" * 999}})
    said = words_of(alien)
    assert said.startswith("rung_adds_failure: at no rung, {x} yyy") and len(said) <= 300
    lacking = Evidence.from_json({"kind": "wrong_value", "facts": {"name": "f{0}", "call": "one"}})
    assert words_of(lacking) == "wrong_value: name f{0}, call one"
    braces = Evidence.from_json({"kind": "said", "facts": {"text": "{kind.__class__} {0}"}})
    assert words_of(braces) == "{kind.__class__} {0}"
