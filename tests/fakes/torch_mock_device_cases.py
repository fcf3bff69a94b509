"""What a process with the mock device installed must see; run as a program, for torch has one such device."""

from __future__ import annotations

import copy
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from accel_lab.mock.backend import aot_mock_backend, mock_backend
from accel_lab.mock.device import Device
from accel_lab.mock.runtime import torch_device
from accel_lab.mock.runtime.run_statistics import collected


def refused(value: Any) -> bool:
    """Whether the device refuses a tensor by naming its dtype."""
    try:
        value.to("mock")
    except TypeError as error:
        return f"cannot hold {value.dtype}" in str(error) and "float32" in str(error)
    return False


def gradient() -> Any:
    """A gradient computed on tensors of the device."""
    leaf = torch.arange(3.0).to("mock").requires_grad_()
    (leaf * leaf).sum().backward()
    return leaf.grad.cpu()


def region(x: Any, weight: Any) -> Any:
    """A region that also makes a tensor, returns a view and an input, and changes an input."""
    y = torch.relu(torch.exp(x) @ weight) + torch.arange(5, device=x.device)
    x.mul_(2)
    return y, y.t(), weight


def compiled() -> dict[str, bool]:
    """``torch.compile`` over tensors of the device, forward and backward, against the host uncompiled."""
    x, weight = torch.randn(8, 70), torch.randn(70, 5)
    there, weight_there = x.to("mock"), weight.to("mock").requires_grad_()
    weight.requires_grad_()
    before = collected().to_json()["transfers"]
    got = torch.compile(region, backend=mock_backend)(there, weight_there)
    (got[0].sum() + got[1].sum()).backward()
    skipped = collected().to_json()["transfers"] == before
    want = region(x, weight)
    (want[0].sum() + want[1].sum()).backward()

    def close(one: Any, two: Any) -> bool:
        return bool(torch.allclose(one.detach().cpu(), two.detach(), rtol=1e-3, atol=1e-3))

    return {
        "compiled": got[0].device.type == "mock" and close(got[0], want[0]),
        "compiled_view": got[1].shape == (5, 8) and close(got[1], want[1]),
        "compiled_mutation": close(there, x),
        "compiled_backward": weight_there.grad.device.type == "mock"
        and close(weight_there.grad, weight.grad),
        "compiled_on_kernels": collected().kernels > 0,
        "compiled_by_the_reference": by_the_reference(there, x),
        "compiled_without_transfers": skipped,
        "compiled_to_host": close(torch.compile(lambda t: (t + 1).cpu(), backend=mock_backend)(there), x + 1),
        "compiled_training": trained(),
    }


def by_the_reference(there: Any, x: Any) -> bool:
    """Whether the reference front end makes kernels for tensors of the device, and these are right."""
    before = collected().kernels
    backend = aot_mock_backend(front_end="reference", back_end="reference")
    got = torch.compile(lambda t: t.relu() + 1, backend=backend)(there)
    return collected().kernels > before and bool(torch.allclose(got.cpu(), x.relu() + 1))


def trained() -> bool:
    """Two steps of an optimizer on a module of the device and on its twin on the host."""
    host = torch.nn.Sequential(torch.nn.Linear(7, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
    there = copy.deepcopy(host).to("mock")
    x = torch.randn(4, 7)
    for module, call, data in (
        (host, host, x),
        (there, torch.compile(there, backend=mock_backend), x.to("mock")),
    ):
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            call(data).pow(2).mean().backward()
            optimizer.step()
    pairs = zip(host.parameters(), there.parameters(), strict=True)
    return all(torch.allclose(a, b.detach().cpu(), rtol=1e-3, atol=1e-3) for a, b in pairs)


def main() -> None:
    """Print one JSON object: each case and whether it holds."""
    if not torch_device.available():
        try:
            torch_device.install()
        except torch_device.DeviceUnavailable as error:
            print(json.dumps({"available": False, "said": "torch.compile" in str(error)}))
        return
    device = Device(memory_bytes=1 << 20)
    torch_device.install(device)
    torch_device.install(device)
    host = torch.arange(6 * 65.0).view(6, 65)
    there = host.to("mock")
    taken = torch_device.memory().in_use
    line = there.view(-1)
    line[65:130].fill_(-1)
    cases = {
        "device": there.device.type == "mock",
        "allocated": taken >= 6 * 65 * 4,
        "aliases": bool((there.cpu()[1] == -1).all()) and torch.equal(there.cpu()[0], host[0]),
        "strides": torch.equal(host[1:, ::2].t().to("mock").cpu(), host[1:, ::2].t()),
        "float64": refused(torch.zeros(2, dtype=torch.float64)),
        "complex64": refused(torch.zeros(2, dtype=torch.complex64)),
        "empty": host[:0].to("mock").cpu().shape == (0, 65),
        "operators": torch.equal((host.to("mock") * 2 + 1).sum(1).cpu(), (host * 2 + 1).sum(1)),
        "resized": torch.equal(host.to("mock").neg().abs().cpu(), host),
        "in_place": torch.equal(host.to("mock").add_(1).cpu(), host + 1),
        "cast": host.to("mock").to(torch.bfloat16).cpu().dtype == torch.bfloat16,
        "factories": torch.equal(torch.ones(3, device="mock").cpu(), torch.ones(3)),
        "module": torch.nn.Linear(65, 3).to("mock")(host.to("mock")).cpu().shape == (6, 3),
        "gradient": torch.equal(gradient(), torch.arange(3.0) * 2),
        "counted": any(entry["reason"] == torch_device.REASON for entry in collected().fallbacks.values()),
        "repr": "mock" in repr(there),
    }
    try:
        torch.zeros(1 << 20, device="mock")
    except MemoryError as error:
        cases["too_large"] = "do not fit" in str(error)
    log = Path(os.environ["ACCEL_LAB_MOCK_ARTIFACTS"], "transfers.jsonl").read_text("utf-8").splitlines()
    entry = json.loads(log[0])
    cases["logged"] = entry["transfer"] == "to_device" and entry["shape"] == [6, 65]
    del there, line
    gc.collect()
    cases["freed"] = torch_device.memory().in_use == 0
    cases.update(compiled())
    print(json.dumps({"available": True, **cases}))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bisect"))
    main()
