"""The torch settings that searches change; only this module and the child name settings of torch.

The child applies them by these names, and a workaround prints them for the user to paste.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

DYNAMO = "torch._dynamo.config"
FUNCTORCH = "torch._functorch.config"
INDUCTOR = "torch._inductor.config"

#: Negate the boolean that is the release's default.
FLIP = "flip"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of torch with the value to try."""

    module: str
    key: str
    value: Any

    @property
    def words(self) -> str:
        """The setting in words."""
        return f"{self.key} inverted" if self.value == FLIP else f"{self.key}={self.value}"

    @property
    def code(self) -> str:
        """The line that applies the setting in a script; empty if the value depends on the release."""
        return "" if self.value == FLIP else f"{self.module}.{self.key} = {self.value!r}"


def _settings(module: str, **values: Any) -> tuple[Setting, ...]:
    return tuple(Setting(module=module, key=key, value=value) for key, value in values.items())


#: Features of Inductor's kernel stage and the settings that disable or simplify them.
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

#: Settings of Dynamo's generalization (dynamic shapes, guards) and replay.
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
#: Those that only control how general one graph is.
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
#: Settings of AOTAutograd: alias replay, buffer donation, tracing.
OF_AOT = _settings(
    FUNCTORCH,
    backward_pass_autocast="off",
    view_replay_for_aliased_outputs=FLIP,
    donated_buffer=FLIP,
    guess_tangent_strides_as_outputs=FLIP,
    cse=False,
    functionalize_rng_ops=FLIP,
)
#: Settings of the min-cut partitioner: what is saved and what is recomputed.
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

#: Settings that give eager's random numbers and eager's roundings.
FALLBACK_RANDOM = Setting(module=INDUCTOR, key="fallback_random", value=True)
EMULATE_CASTS = Setting(module=INDUCTOR, key="emulate_precision_casts", value=True)

#: The settings that enable caches, which can hide the compiler's behaviour.
GRAPH_CACHE = f"{INDUCTOR}.fx_graph_cache"
AUTOGRAD_CACHE = f"{FUNCTORCH}.enable_autograd_cache"

#: Groups of Inductor's passes by the graph that they transform, and the setting that disables each.
PASS_GROUPS = {
    "pre-grad": Setting(module=INDUCTOR, key="use_pre_grad_passes", value=False),
    "joint": Setting(module=INDUCTOR, key="use_joint_graph_passes", value=False),
    "post-grad": Setting(module=INDUCTOR, key="use_post_grad_passes", value=False),
}
NO_PATTERNS = Setting(module=INDUCTOR, key="pattern_matcher", value=False)
#: The setting that turns off torch.compile altogether.
NO_DYNAMO = Setting(module=DYNAMO, key="disable", value=True)
#: Settings that make Dynamo specialize more; tried if a guard is missing.
MORE_GUARDS = (
    Setting(module=DYNAMO, key="guard_nn_modules", value=True),
    Setting(module=DYNAMO, key="automatic_dynamic_shapes", value=False),
)
#: The setting that makes Dynamo guard against hooks that are added to a module later.
GUARD_HOOKS = Setting(module=DYNAMO, key="skip_nnmodule_hook_guards", value=False)
_LOWERING = "torch._inductor.lowering"
_DECOMPOSITION = "torch._inductor.decomposition"
_DRIVERS = {"pre_grad", "joint_graph", "post_grad"}
#: The file that calls the reinplacing pass.
REINPLACING = "torch/_inductor/fx_passes/post_grad.py"


def inductor_lines(values: dict[str, Any]) -> list[str]:
    """Returns the lines that apply Inductor settings in a script."""
    return [Setting(module=INDUCTOR, key=key, value=value).code for key, value in values.items()]


def cache_lines(tag: str, torch: str) -> list[str]:
    """Returns lines that keep torch from using code cached before a workaround that no cache key includes.

    ``torch`` is the release. Before 2.6 the setting did not exist, and compiled graphs were not cached by
    default.
    """
    numbers = re.match(r"(\d+)\.(\d+)", torch)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < (2, 6):
        return []
    return ["import torch.compiler.config", f"torch.compiler.config.cache_key_tag = {tag!r}"]


def fallback_lines(operator: str, *, decomposed: bool = False, native: Sequence[str] = ()) -> list[str]:
    """Returns the lines that make Inductor call the eager kernel of one operator (``aten.min.dim``).

    ``decomposed``: its decomposition is removed too. So are the Python kernels of the operators in
    ``native``, with which torch's dispatcher would decompose them: those for autograd's and composite keys
    (``torch/_ops.py: py_kernels``).
    """
    name = f"torch.ops.{operator}"
    lines = [f"import {_LOWERING}"]
    if decomposed:
        lines += [
            f"import {_DECOMPOSITION}",
            f"{_DECOMPOSITION}.decompositions.pop({name}, None)",
        ]
    for one in native:
        kernels = f"torch.ops.{one}.py_kernels"
        lines += [
            f"for _key in [key for key in {kernels} if 'Autograd' in str(key) or 'Composite' in str(key)]:",
            f"    del {kernels}[_key]",
            f"torch.ops.{one}._dispatch_cache.clear()",
        ]
    return [*lines, f"{_LOWERING}.make_fallback({name}, warn=False, override_decomp=True)"]


def pass_lines(name: str, file: str) -> list[str]:
    """Returns the lines that disable an FX pass, a function in a file of torch; empty if it is unnamed."""
    stem = file.rpartition("/")[2].removesuffix(".py")
    if stem not in _DRIVERS or not name.isidentifier():
        return []
    module = f"torch._inductor.fx_passes.{stem}"
    return [f"import {module}", f"{module}.{name} = lambda graph, *args, **kwargs: graph"]
