# Silent: vectorised code takes exp(x) - 1 for expm1(x), so values near zero lose most of their digits.
import torch


def growth(rates):
    return torch.expm1(rates)


print(torch.compile(growth)(torch.linspace(1e-6, 3e-5, 64)))
