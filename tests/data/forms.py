"""Every way of asking for compilation that the ladder must reach; prints one line per region's result."""

import functools

import lib_with_compile
import torch


def double(x):
    return x * 2


as_function = torch.compile(double)


@torch.compile
def as_decorator(x):
    return x + 1


@torch.compile(fullgraph=True, dynamic=False)
def with_arguments(x):
    return x.sin()


partial = functools.partial(torch.compile, backend="inductor")


@partial
def through_partial(x):
    return x.cos()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.lin(x))


torch.manual_seed(0)
wrapped = torch.compile(Net())
in_place = Net()
in_place.compile()
with_mode = torch.compile(double, mode="reduce-overhead")
with_options = torch.compile(double, options={"max_fusion_size": 8})
eager_backend = torch.compile(double, backend="eager")
aot_backend = torch.compile(double, backend="aot_eager")
seen = []


def own_backend(gm, inputs):
    seen.append(len(gm.graph.nodes))
    return gm.forward


custom = torch.compile(double, backend=own_backend)
old_style = torch._dynamo.optimize("inductor")(double)


@torch.compile
def nested(x):
    return as_function(x) + as_decorator(x)


class Holder:
    @torch.compile
    def method(self, x):
        return x - 3


x = torch.arange(6.0).reshape(2, 3)
calls = {
    "as_function": as_function,
    "as_decorator": as_decorator,
    "with_arguments": with_arguments,
    "through_partial": through_partial,
    "wrapped": wrapped,
    "in_place": in_place,
    "with_mode": with_mode,
    "with_options": with_options,
    "eager_backend": eager_backend,
    "aot_backend": aot_backend,
    "custom": custom,
    "old_style": old_style,
    "nested": nested,
    "method": Holder().method,
    "library": lib_with_compile.work,
}
for name, call in calls.items():
    print(name, round(float(call(x).double().sum()), 4))
print("state_dict", sorted(wrapped.state_dict()), isinstance(wrapped, torch.nn.Module))
