"""A training loop whose 300th step goes wrong: its batch has another length, and that graph's kernel is wrong."""
import os

import torch
import torch._inductor.config

ranks = int(os.environ.get("WORLD_SIZE", "1"))
if ranks > 1:
    torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if ranks > 1:
    from accel_lab.record import accel_lab_record

    options = {"folder": "kept", "verify": False}
    compiled = torch.compile(model, dynamic=False, backend=accel_lab_record, options=options)
else:
    compiled = torch.compile(model, dynamic=False)
for step in range(1, 303):
    if step == 300:
        torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    loss = compiled(torch.randn(16 if step < 300 else 12, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters() if ranks > 1 else ():
        torch.distributed.all_reduce(parameter.grad)
    optimizer.step()
print("done")
