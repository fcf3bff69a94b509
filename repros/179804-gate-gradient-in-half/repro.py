"""Wrong numbers and exit code 0: a float32 gate behind bfloat16 layers gets its gradient in bfloat16 (#179804)."""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
body = [torch.nn.Linear(48, 48) for _ in range(3)]
gate = torch.nn.Linear(48, 4)


@torch.compile
def step(rows):
    for layer in body:
        rows = rows + F.gelu(layer(rows))
    with torch.autocast("cpu", enabled=False):
        share = gate(rows.float()).softmax(-1)
    return (share[:, :1] * rows).float().pow(2).mean()


with torch.autocast("cpu", torch.bfloat16):
    loss = step(torch.randn(32, 48))
loss.backward()
print("loss", loss.item(), "gradient", gate.weight.grad[0, :3].tolist())
