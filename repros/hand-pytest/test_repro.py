"""A test file: one test passes, one fails under torch.compile (the bug of #193757: a range check is lost)."""
import pytest
import torch
import torch.nn.functional as F


def test_relu():
    t = torch.linspace(-1, 1, 6)
    torch.testing.assert_close(torch.compile(torch.relu)(t), torch.relu(t))


def loss(p, y):
    return F.binary_cross_entropy(p, y)


@pytest.mark.parametrize("wrap", [lambda f: f, torch.compile], ids=["eager", "compiled"])
def test_targets_outside_the_range_are_refused(wrap):
    with pytest.raises(RuntimeError):
        wrap(loss)(torch.full((5,), 0.5), torch.full((5,), 2.0))
