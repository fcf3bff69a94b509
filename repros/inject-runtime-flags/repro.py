"""The generated code is right and its compiler flags are not: finite-math-only folds isnan() to false."""
import torch
import torch._inductor.cpp_builder as cpp_builder

real_flags = cpp_builder._get_ffast_math_flags


def wrong_flags(*args):
    return [f for f in real_flags(*args) if f != "fno-finite-math-only"] + ["ffinite-math-only"]


cpp_builder._get_ffast_math_flags = wrong_flags


def fn(t):
    return torch.where(torch.isnan(t), 0.0, t) + 1


t = torch.full((5,), float("nan"))
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
