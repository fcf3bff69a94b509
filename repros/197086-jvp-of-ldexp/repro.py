"""#197086: the forward-mode derivative of ldexp, compiled by aot_eager."""
import torch

power = torch.tensor([1.0, -2.0, 3.0])


def tangent(x, v):
    return torch.func.jvp(lambda t: torch.ldexp(t, power), (x,), (v,))[1]


x, v = torch.rand(3), torch.rand(3)
got = torch.compile(tangent, backend="aot_eager")(x, v)
torch.testing.assert_close(got, v * 2**power)
