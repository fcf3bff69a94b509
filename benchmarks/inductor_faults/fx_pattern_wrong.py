"""A pattern of the post-grad pattern matcher has a wrong replacement: log(exp(x) + 1) is taken for x."""

import torch
from torch._inductor.fx_passes.post_grad import pass_patterns
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_graph_pattern

aten = torch.ops.aten


@register_graph_pattern(
    CallFunction(
        aten.log.default,
        CallFunction(aten.add.Tensor, CallFunction(aten.exp.default, KeywordArg("x")), 1),
    ),
    pass_dict=pass_patterns[1],
)
def softplus_is_x(match, x):
    match.replace_by_example(lambda x: x * 1, [x])
