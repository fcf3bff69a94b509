"""The object that torch.compile returns: a script can fail by that alone, with nothing compiled behind it.

The ``uncompiled`` rung keeps the wrapper, so what fails there looks like the script's own failure. A true
identity, where torch.compile returns its argument, tells the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from accel_lab.core.findings import Component, Culprit, Step
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.climb import Climber, Switches

#: torch.compile(x) is x, and Module.compile() leaves the module as it is.
IDENTITY: Switches = (("identity", True),)

#: What stands around the argument, by what the argument is (``regions[].wraps``), and its name in torch.
_WRAPPERS = (
    ("module", "OptimizedModule", "puts around a module"),
    ("method", "Module.compile", "puts into the module's __call__"),
    ("function", "_TorchDynamoContext.__call__", "puts around a function"),
)


def look(climber: Climber, ladder: Sequence[Step]) -> Culprit | None:
    """The wrapper as the culprit, where its argument alone passes; None where it fails all the same.

    A state_dict whose keys begin with ``_orig_mod.`` is the case that taught it (pytorch#113422).
    """
    wrapped = next((step for step in ladder if step.rung is Rung.UNCOMPILED), None)
    if wrapped is None or wrapped.verdict is not Verdict.BAD:
        return None
    regions = wrapped.outcome.facts.get("regions") or []
    if not regions:
        return None
    bare = climber.one(Rung.UNCOMPILED, IDENTITY, "wrapper")
    if bare.verdict is not Verdict.GOOD:
        return None
    wraps = {str(region.get("wraps")) for region in regions}
    kind, name, where = next((row for row in _WRAPPERS if row[0] in wraps), _WRAPPERS[-1])
    return Culprit(
        stage=Stage.DYNAMO,
        confidence=Confidence.LIKELY,
        component=Component(kind="wrapper", name=name, detail=f"what torch.compile returns for a {kind}"),
        evidence=(
            "passes when torch.compile returns its argument, fails with the wrapper that torch.compile "
            f"{where} and nothing compiled",
        ),
    )
