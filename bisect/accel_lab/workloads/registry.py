"""The registry of models and backends, and what each requires. Does not import torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from accel_lab.accelerators.discovery import GROUP
from accel_lab.core.errors import UsageError

SIZES = ("base", "small")
DTYPES = ("float32", "float16", "bfloat16")
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model. ``module`` creates it in the child; ``needs`` are the required packages besides torch.

    ``base`` is the module's own name for the size "base".
    """

    name: str
    title: str
    module: str
    needs: tuple[str, ...] = ()
    base: str = "base"

    def size(self, chosen: str) -> str:
        """Returns the module's name for a size of :data:`SIZES`."""
        return self.base if chosen == "base" else chosen


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One way to run a model.

    ``target`` is empty (not compiled), a backend name of torch.compile, ``module:attribute``, or for an
    ``adapter`` the name of its entry point. ``statistics`` is the ``module:attribute`` that reports the
    backend's statistics; adapters have a method for it.
    """

    name: str
    title: str
    target: str = ""
    adapter: bool = False
    statistics: str = ""


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            name="bert",
            title="BERT-base (transformers)",
            module="accel_lab.workloads.bert",
            needs=("transformers",),
        ),
        Model(
            name="bert-multilingual",
            title="BERT-base multilingual (transformers)",
            module="accel_lab.workloads.bert",
            needs=("transformers",),
            base="multilingual",
        ),
        Model(
            name="resnet18",
            title="ResNet-18 (torchvision)",
            module="accel_lab.workloads.resnet",
            needs=("torchvision",),
        ),
        Model(name="ssm", title="Selective state-space model", module="accel_lab.workloads.ssm"),
        Model(
            name="decoder",
            title="Decoder-only transformer, one token with a KV cache",
            module="accel_lab.workloads.decoder",
        ),
        Model(name="unet", title="Small UNet of a diffusion model", module="accel_lab.workloads.unet"),
    )
}

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Backend(name="eager", title="not compiled"),
        Backend(name="dynamo", title='backend="eager": the captured graph, run unchanged', target="eager"),
        Backend(name="aot", title='backend="aot_eager": + AOTAutograd', target="aot_eager"),
        Backend(name="inductor", title='backend="inductor": generated kernels', target="inductor"),
        Backend(
            name="mock",
            title="the mock accelerator",
            target="accel_lab.mock.backend:mock_backend",
            statistics="accel_lab.mock.runtime.run_statistics:collected",
        ),
    )
}


def choose_models(names: Iterable[str], everything: bool) -> list[Model]:
    """Returns the chosen models in registry order. Raises :class:`UsageError` for none or an unknown one."""
    wanted = set(MODELS if everything else names)
    if not wanted:
        raise UsageError(f"name a model with --model ({', '.join(MODELS)}), or take all of them with --all")
    unknown = sorted(wanted - set(MODELS))
    if unknown:
        raise UsageError(f"there is no model {unknown[0]!r}: choose from {', '.join(MODELS)}")
    return [model for model in MODELS.values() if model.name in wanted]


def choose_backends(names: Sequence[str], adapters: Collection[str]) -> list[Backend]:
    """Returns the named backends in order; without names all, adapters last.

    The lab's own names take precedence over an adapter's. Raises :class:`UsageError` for an unknown name.
    """
    known = dict(BACKENDS)
    for name in sorted(adapters):
        known.setdefault(
            name, Backend(name=name, title="an adapter of this environment", target=name, adapter=True)
        )
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no backend {name!r}: choose from {', '.join(known)}"
                f" (an accelerator adds its own by the entry-point group {GROUP})"
            )
    return [known[name] for name in dict.fromkeys(names or known)]


def lacking(model: Model, packages: Collection[str]) -> list[str]:
    """Returns the model's required packages that the probed environment lacks."""
    return [name for name in model.needs if name not in packages]
