"""A pattern of the post-grad pattern matcher whose replacement is wrong."""
import torch
from torch._inductor.fx_passes.post_grad import pass_patterns
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_graph_pattern

aten = torch.ops.aten


@register_graph_pattern(
    CallFunction(aten.sinh.default, CallFunction(aten.asinh.default, KeywordArg("x"))),
    pass_dict=pass_patterns[1],
)
def sinh_of_asinh_is_twice_x(match, x):
    match.replace_by_example(lambda x: x * 2, [x])


def fn(t):
    return torch.sinh(torch.asinh(t)) + 1


t = torch.linspace(1, 2, 8)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
