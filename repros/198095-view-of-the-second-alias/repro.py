"""#198095: two arguments share memory, the first is written, a view of the second is returned."""
import torch


def write_and_pick(whole, tail):
    whole.mul_(10)
    return tail[0]


def run(f):
    whole = torch.arange(12.0).reshape(4, 3)
    return f(whole, whole[1:])


want = run(write_and_pick)
got = run(torch.compile(write_and_pick, backend="aot_eager"))
torch.testing.assert_close(got, want)
