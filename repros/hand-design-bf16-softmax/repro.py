# A chain in bfloat16, compared bit by bit: compiled code keeps float32 between the operators.
import torch
import torch.nn.functional as F

torch.manual_seed(0)
x = torch.randn(8, 128, dtype=torch.bfloat16)


def chain(t):
    return F.gelu(t * 1.7 + 0.3) * torch.sigmoid(t) - t


assert torch.equal(torch.compile(chain)(x), chain(x)), "not the same bits"
