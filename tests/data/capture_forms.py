"""One script with what a capture must keep: sharing, layout, parameters, backward, sizes, modes, sequences."""
import torch

torch.manual_seed(0)


@torch.compile
def shared(whole, part, transposed):
    part.add_(1)
    return whole * 2 + transposed.t().sum(), torch.chunk(whole, 2)[1]


base = torch.arange(12.0).view(3, 4)
shared(base, base[1:], torch.randn(4, 3).t())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.register_buffer("scale", torch.tensor([1.0, 2.0], dtype=torch.float64))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return self.norm(y.float()) * self.scale.to(torch.float32)


net = torch.compile(Net())
net(torch.randn(5, 4, requires_grad=True)).square().sum().backward()


@torch.compile(dynamic=True)
def dynamic(x, flag):
    return x.reshape(-1, x.shape[0])[..., None] if flag else x


for size in (3, 5):
    dynamic(torch.ones(size, 2, dtype=torch.bfloat16), True)


@torch.compile
def noise(x):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)


with torch.no_grad():
    noise(torch.ones(4))


@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


@torch.compile
def custom(x):
    return twice(x)


custom(torch.ones(2))
print("same", torch.rand(1).item())
