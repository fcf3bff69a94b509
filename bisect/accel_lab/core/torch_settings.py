"""The settings of torch that a search turns: the only place of the lab, beside its child, that names them.

The child sets them as they are named here, and a workaround prints them for the user to paste.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DYNAMO = "torch._dynamo.config"
FUNCTORCH = "torch._functorch.config"
INDUCTOR = "torch._inductor.config"

#: The other truth value than the one that holds, whichever that is on a release.
FLIP = "flip"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting as it is tried."""

    module: str
    key: str
    value: Any

    @property
    def words(self) -> str:
        """The setting as a reader is told of it."""
        return f"{self.key} switched over" if self.value == FLIP else f"{self.key}={self.value}"

    @property
    def code(self) -> str:
        """The line that makes the setting so in a script; empty where the value depends on the release."""
        return "" if self.value == FLIP else f"{self.module}.{self.key} = {self.value!r}"


def _settings(module: str, **values: Any) -> tuple[Setting, ...]:
    return tuple(Setting(module=module, key=key, value=value) for key, value in values.items())


#: What can be switched off, or made simpler, in Inductor's kernel stage.
KERNEL: dict[str, dict[str, Any]] = {
    "fusion": {"max_fusion_size": 1, "epilogue_fusion": False},
    "epilogue_fusion": {"epilogue_fusion": False},
    "vectorisation": {"cpp.simdlen": 1},
    "inplace_buffers": {"inplace_buffers": False},
    "buffer_reuse": {"allow_buffer_reuse": False},
    "post_grad_passes": {"use_post_grad_passes": False},
    "pattern_matcher": {"pattern_matcher": False},
    "loop_tail_vec": {"cpp.enable_loop_tail_vec": False},
    "horizontal_fusion": {"cpp.max_horizontal_fusion_size": 1},
    "loop_ordering": {"loop_ordering_after_fusion": False},
    "split_reductions": {"split_reductions": False},
    "layout": {"layout_optimization": False},
    "padding": {"comprehensive_padding": False},
    "memory_planning": {"memory_planning": False},
    "memory_order": {"reorder_for_peak_memory": False},
    "freezing": {"freezing": False},
    "threads": {"cpp.threads": 1},
    "precision_casts": {"emulate_precision_casts": True},
}

#: What Dynamo generalises and replays.
OF_DYNAMO = _settings(
    DYNAMO,
    recompile_limit=10_000,
    allow_unspec_int_on_nn_module=True,
    specialize_float=False,
    automatic_dynamic_shapes=False,
    assume_static_by_default=False,
    inline_inbuilt_nn_modules=False,
    guard_nn_modules=True,
    enable_faithful_generator_behavior=FLIP,
    fake_tensor_cache_enabled=False,
)
#: Those of them that only say how much one graph is generalised.
GENERALISING = frozenset(
    {
        "recompile_limit",
        "allow_unspec_int_on_nn_module",
        "specialize_float",
        "automatic_dynamic_shapes",
        "assume_static_by_default",
        "guard_nn_modules",
    }
)
#: What AOTAutograd replays, donates and traces.
OF_AOT = _settings(
    FUNCTORCH,
    backward_pass_autocast="off",
    view_replay_for_aliased_outputs=FLIP,
    donated_buffer=FLIP,
    guess_tangent_strides_as_outputs=FLIP,
    cse=False,
    functionalize_rng_ops=FLIP,
)
#: What the min-cut partitioner saves and recomputes.
OF_PARTITIONER = _settings(
    FUNCTORCH,
    activation_memory_budget=1.0,
    treat_parameters_as_free_to_save=False,
    recompute_views=FLIP,
    aggressive_recomputation=FLIP,
    ban_recompute_not_in_allowlist=FLIP,
    ban_recompute_reductions=FLIP,
    ban_recompute_materialized_backward=FLIP,
)

#: Random numbers as eager draws them; roundings as eager makes them.
FALLBACK_RANDOM = Setting(module=INDUCTOR, key="fallback_random", value=True)
EMULATE_CASTS = Setting(module=INDUCTOR, key="emulate_precision_casts", value=True)

#: The caches that may answer in a compiler's place, as torch calls what turns each on.
GRAPH_CACHE = f"{INDUCTOR}.fx_graph_cache"
AUTOGRAD_CACHE = f"{FUNCTORCH}.enable_autograd_cache"
