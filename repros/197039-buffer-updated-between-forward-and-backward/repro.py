"""#197039: the running gain of a layer is updated (through .data) after forward and before backward."""
import torch


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("gain", torch.full((4,), 0.5))

    def forward(self, x):
        return x * torch.sigmoid(self.gain)


def gradient(gate, run):
    x = torch.ones(4, requires_grad=True)
    out = run(x)
    gate.gain.data.fill_(9.0)
    out.sum().backward()
    return x.grad


plain, fast = Gate(), Gate()
want = gradient(plain, plain)
got = gradient(fast, torch.compile(fast, backend="aot_eager_decomp_partition"))
torch.testing.assert_close(got, want)
