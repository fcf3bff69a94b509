"""Checks every operator's real result against its meta (fake) kernel, for the rung ``meta``.

The graph after AOTAutograd is interpreted under a dispatch mode. The mode first runs each operator on fake
copies of its inputs, then compares shape, dtype, strides, and whether both raise. Mismatches are noted with
the operator's name; the run continues.

A composite operator may call a different kernel on fake tensors than on real ones (batch_norm does), and
Dynamo sees only the fake ones. ``watch_fake_kernels`` therefore checks in the other direction: it runs the
real kernel for each operator that Dynamo runs on fake tensors.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any, Dict, Iterator, List

from ..protocol import facts, files
from ..torch_internals.dispatch import fake_tensors, is_operator, without_modes

#: Tags of operators whose output metadata depends on values, or that change an argument's metadata.
_VALUE_TAGS = ("data_dependent_output", "dynamic_output_shape", "inplace_view")
#: Longest operator name, in bytes, written to the file while the meta kernel runs.
_MOST_NAME = 200


class MismatchLog:
    """Distinct mismatches in the order seen, at most 50.

    A file in ``folder`` names the operator whose meta kernel is running, in case the kernel never returns.
    """

    def __init__(self, folder: str) -> None:
        self.entries: List[Dict[str, str]] = []
        self._path = os.path.join(folder, files.META_KERNEL)
        self._file: Any = None
        self._inside = ""

    @contextlib.contextmanager
    def inside(self, op: Any) -> Iterator[None]:
        """Marks ``op`` as the operator whose meta kernel is running; calls can nest."""
        before, self._inside = self._inside, str(op)
        self._note()
        try:
            yield
        except Exception:
            raise
        except BaseException:  # the run was stopped inside the kernel
            self.add(op, *facts.NO_META_RESULT)
            raise
        finally:
            self._inside = before
            self._note()

    def _note(self) -> None:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.pwrite(self._file, self._inside.encode()[:_MOST_NAME].ljust(_MOST_NAME), 0)

    def add(self, op: Any, what: str, real: Any, fake: Any) -> None:
        entry = {"op": str(op), "what": what, "real": str(real), "fake": str(fake)}
        if entry not in self.entries and len(self.entries) < 50:
            self.entries.append(entry)


def checking_interpreter(gm: Any, log: Any) -> Any:
    """Returns a boxed callable that interprets ``gm`` under :func:`checking_mode`."""
    import torch

    interpreter = torch.fx.Interpreter(gm)

    def run(args: Any) -> Any:
        values = list(args)
        args.clear()
        with checking_mode(log):
            return interpreter.run(*values)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def checking_mode(log: MismatchLog) -> Any:
    """Returns a dispatch mode that checks each operator of eager code or of an interpreted graph."""
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    _, fake_mode_type = fake_tensors()
    skip_tags = _tags(*_VALUE_TAGS)

    class Check(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if not self._applies(func, args, kwargs):
                return func(*args, **kwargs)
            fake_result, fake_error, skipped = self._on_fakes(func, args, kwargs)
            try:
                result = func(*args, **kwargs)
            except Exception as error:
                if fake_error is None and not skipped and _refuses_any_values(func, args, kwargs):
                    log.add(func, "the real kernel raises, the meta kernel accepts", _line(error), "no error")
                raise
            if skipped:
                return result
            if fake_error is not None:
                log.add(
                    func, "the meta kernel raises, the real kernel accepts", "no error", _line(fake_error)
                )
                return result
            _compare(log, func, result, fake_result)
            return result

        @staticmethod
        def _applies(func: Any, args: Any, kwargs: Any) -> Any:
            if not is_operator(func) or any(t in func.tags for t in skip_tags):
                return False
            leaves = (
                pytree.tree_leaves((args, kwargs))
                if hasattr(pytree, "tree_leaves")
                else pytree.tree_flatten((args, kwargs))[0]
            )
            tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
            return (
                bool(tensors)
                and all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in tensors)
                and all(t.layout is torch.strided and not t.is_quantized for t in tensors)
            )

        @staticmethod
        def _on_fakes(func: Any, args: Any, kwargs: Any) -> Any:
            fake_mode = fake_mode_type(allow_fallback_kernels=False)

            def fake(value: Any) -> Any:
                return (
                    fake_mode.from_tensor(value, static_shapes=True)
                    if isinstance(value, torch.Tensor)
                    else value
                )

            try:
                fake_args, fake_kwargs = pytree.tree_map(fake, (args, kwargs))
            except Exception:
                return None, None, True
            try:
                with log.inside(func), fake_mode:
                    return func(*fake_args, **fake_kwargs), None, False
            except Exception as error:
                return (None, None, True) if _is_no_answer(error) else (None, error, False)

    return Check()


def _tags(*names: str) -> Any:
    import torch

    return tuple(getattr(torch.Tag, name) for name in names if hasattr(torch.Tag, name))


def _is_no_answer(error: Any) -> bool:
    """Whether this error means that the fake kernel is missing or cannot compute the metadata."""
    return isinstance(error, NotImplementedError) or type(error).__name__ in (
        "UnsupportedOperatorException",
        "DynamicOutputShapeException",
        "DataDependentOutputException",
        "UnsupportedFakeTensorException",
        "MetadataMismatchError",
    )


def _compare(log: MismatchLog, func: Any, result: Any, fake_result: Any) -> None:
    import torch
    from torch.utils import _pytree as pytree

    real_leaves, _ = pytree.tree_flatten(result)
    fake_leaves, _ = pytree.tree_flatten(fake_result)
    if len(real_leaves) != len(fake_leaves):
        log.add(func, "number of results", len(real_leaves), len(fake_leaves))
        return
    for real, fake in zip(real_leaves, fake_leaves):
        if isinstance(real, torch.Tensor) != isinstance(fake, torch.Tensor):
            log.add(func, "kind of result", type(real).__name__, type(fake).__name__)
        elif isinstance(real, torch.Tensor):
            _compare_tensors(log, func, real, fake)


def _compare_tensors(log: MismatchLog, func: Any, real: Any, fake: Any) -> None:
    import torch

    if tuple(real.shape) != tuple(fake.shape):
        log.add(func, "shape", tuple(real.shape), tuple(fake.shape))
    elif real.dtype != fake.dtype:
        log.add(func, "dtype", real.dtype, fake.dtype)
    elif real.layout is torch.strided and real.numel() > 0:
        pairs = [(r, f) for n, r, f in zip(real.shape, real.stride(), fake.stride()) if n > 1]
        if any(r != f for r, f in pairs):
            log.add(func, "stride", tuple(real.stride()), tuple(fake.stride()))


def _line(error: Any) -> Any:
    text = str(error).strip().splitlines()
    return type(error).__name__ + (": " + text[0][:200] if text else "")


#: Zeros are valid indices and bad divisors, ones the other way round.
_FILLINGS = (0, 1)


def _filled(tensor: Any, value: Any, device: Any) -> Any:
    """Returns a tensor of the same dtype, shape and strides, filled with ``value``."""
    import torch

    storage = torch.full((_extent(tensor),), value, dtype=tensor.dtype, device=device)
    return storage.as_strided(tuple(tensor.shape), tuple(tensor.stride()))


def _refuses_any_values(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether the real kernel raises on every filling: its error then depends on metadata, not on values."""
    import torch

    def other(leaf: Any, value: Any) -> Any:
        return _filled(leaf, value, leaf.device) if isinstance(leaf, torch.Tensor) else leaf

    try:
        _on_fillings(func, args, kwargs, other)
    except Exception:
        return True
    return False


def _on_fillings(func: Any, args: Any, kwargs: Any, other: Any) -> Any:
    """Returns the real kernel's result on ``other(leaf, filling)`` for the first filling that it accepts.

    Raises the kernel's first error if it accepts none.
    """
    from torch.utils import _pytree as pytree

    refused = None
    for filling in _FILLINGS:
        leaves = functools.partial(other, value=filling)
        other_args, other_kwargs = pytree.tree_map(leaves, (args, kwargs))
        try:
            return func(*other_args, **other_kwargs)
        except Exception as error:
            refused = refused or error
    raise refused  # type: ignore[misc]


class _NotStatic(Exception):
    """Raised if the arguments have symbolic sizes, or more elements than the limit."""


#: An operator whose arguments have more elements than this in total is not checked.
_MOST_ELEMENTS = 1 << 26


def _on_real_fillings(func: Any, args: Any, kwargs: Any, most: float = float("inf")) -> Any:
    """Returns the real kernel's result with fake tensors replaced by zeros, or by ones if it refuses zeros.

    At most ``most`` elements are allocated for both fillings together. Raises :class:`_NotStatic`, or the
    real kernel's error.
    """
    import torch

    fake_type, _ = fake_tensors()
    symbolic = tuple(
        getattr(torch, name) for name in ("SymInt", "SymFloat", "SymBool") if hasattr(torch, name)
    )
    left = [most]

    def real_of(leaf: Any, value: Any) -> Any:
        if isinstance(leaf, symbolic):
            raise _NotStatic
        if not isinstance(leaf, fake_type):
            return leaf
        if not all(isinstance(n, int) for n in (*leaf.shape, *leaf.stride())):
            raise _NotStatic
        left[0] -= _extent(leaf)
        if left[0] < 0:
            raise _NotStatic
        return _filled(leaf, value, leaf.fake_device)

    with without_modes():
        return _on_fillings(func, args, kwargs, real_of)


def _around_fake_kernels(around: Any) -> None:
    """Makes ``around(run, mode, func, args, kwargs)`` compute the fake result of each operator.

    ``run()`` returns the result of torch's fake kernel. Patches ``FakeTensorMode.dispatch``.
    """
    _, mode_type = fake_tensors()
    original = mode_type.dispatch

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return around(lambda: original(self, func, types, args, kwargs), self, func, args, kwargs)

    mode_type.dispatch = dispatch


def correct_meta_kernels(names: Any) -> None:
    """Makes the operators ``names`` take the metadata of their fake results from the real kernel.

    The real kernel runs on zeros of the same shapes and strides, or on ones if it refuses zeros; if it
    refuses both, its error is raised. Calls with symbolic shapes keep torch's fake kernel.
    """
    import torch
    from torch.utils import _pytree as pytree

    fake_type, _ = fake_tensors()
    wanted = set(names)

    def corrected(run: Any, mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
        if str(func) not in wanted:
            return run()
        try:
            real = _on_real_fillings(func, args, kwargs)
        except _NotStatic:
            return run()

        def fake_of(tensor: Any) -> Any:
            if not isinstance(tensor, torch.Tensor):
                return tensor
            with without_modes():
                meta = torch.empty_strided(
                    tuple(tensor.shape), tuple(tensor.stride()), dtype=tensor.dtype, device="meta"
                )
            return fake_type(mode, meta, tensor.device)

        return pytree.tree_map(fake_of, real)

    _around_fake_kernels(corrected)


def watch_fake_kernels(log: MismatchLog) -> None:
    """Makes each fake result be compared with the real kernel's result on zeros, or on ones.

    Covers ``aten`` and ``prims`` operators that draw no random numbers and whose output metadata does not
    depend on values.
    """
    skip_tags = _tags(*_VALUE_TAGS, "nondeterministic_seeded")

    def watched(run: Any, mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
        known = is_operator(func) and func.namespace in ("aten", "prims")
        if not known or any(tag in func.tags for tag in skip_tags):
            return run()
        try:
            real = _on_real_fillings(func, args, kwargs, most=_MOST_ELEMENTS)
        except Exception:  # it refuses both fillings, or they cannot be made
            return run()
        try:
            with log.inside(func):
                result = run()
        except Exception as error:
            if not _is_no_answer(error):
                log.add(func, "the meta kernel raises, the real kernel accepts", "no error", _line(error))
            raise
        _compare(log, func, real, result)
        return result

    _around_fake_kernels(watched)


def _extent(tensor: Any) -> Any:
    return (
        1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()) if n > 0) if tensor.numel() else 0
    )
