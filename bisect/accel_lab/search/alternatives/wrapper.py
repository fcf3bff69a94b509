"""Alternative: the wrapper object that torch.compile returns fails by itself, with nothing compiled.

The ``uncompiled`` rung keeps the wrapper, so such a failure looks like the script's own. A true identity,
where torch.compile returns its argument, separates the two.
"""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Culprit
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import Switches

from .case import Alternative, Case, Moment, Ruling

NAME = "wrapper"
#: With this switch torch.compile(x) is x, and Module.compile() leaves the module unchanged.
IDENTITY: Switches = (("identity", True),)

#: torch's name of the wrapper, by the kind of argument (``regions[].wraps``).
_WRAPPERS = (
    ("module", "OptimizedModule"),
    ("method", "Module.compile"),
    ("function", "_TorchDynamoContext.__call__"),
)


def ask(case: Case) -> Ruling:
    """Tests whether the script passes when torch.compile returns its argument."""
    wrapped = case.row(Rung.UNCOMPILED)
    regions = wrapped.outcome.facts.get("regions") or [] if wrapped is not None else []
    bare = case.runner.one(Rung.UNCOMPILED, IDENTITY, "wrapper")
    if bare.verdict is not Verdict.GOOD:
        ruled_out = Considered(name=NAME, open=False, why=Evidence.of(EvidenceKind.FAILS_WITHOUT_WRAPPER))
        return Ruling(considered=ruled_out if bare.verdict is Verdict.BAD else None)
    wraps = {str(region.get("wraps")) for region in regions}
    kind, name = next((row for row in _WRAPPERS if row[0] in wraps), _WRAPPERS[-1])
    culprit = Culprit(
        stage=Stage.DYNAMO,
        confidence=Confidence.LIKELY,
        component=Component(kind="wrapper", name=name, detail=f"what torch.compile returns for a {kind}"),
        evidence=(Evidence.of(EvidenceKind.WRAPPER_FAILS, wrapped=kind),),
    )
    return Ruling(culprit=culprit, passing_run=bare, isolates=True)


def _applies(case: Case) -> bool:
    wrapped = case.row(Rung.UNCOMPILED)
    return case.fails_uncompiled and wrapped is not None and bool(wrapped.outcome.facts.get("regions"))


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#113422",  # a state_dict whose keys begin with _orig_mod.
    stages=frozenset({Stage.EAGER}),
    moment=Moment.STAGE,
    applies=_applies,
    ask=ask,
)
