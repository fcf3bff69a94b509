"""What to write instead of a graph break, and how to avoid a recompilation: reasons as torch writes them."""

from __future__ import annotations

import pytest

from accel_lab.inspection.advice import for_break, for_recompile


@pytest.mark.parametrize(
    ("reason", "source", "word"),
    [
        ("Failed to trace builtin operator", "print('x')", "reorderable_logging_functions"),
        ("builtin: print [<class 'ConstantVariable'>] False", "print(x)", "reorderable_logging_functions"),
        ("generic_jump TensorVariable()", "if y.sum() > 0:", "torch.where"),
        ("Data-dependent branching", "if y.sum() > 0:", "torch.where"),
        ("Tensor.item", "n = y.item()", "capture_scalar_outputs"),
        ("torch.* op returned non-Tensor", "n = y.item()", "capture_scalar_outputs"),
        ("dynamic shape operator: aten.nonzero.default", "y.nonzero()", "capture_dynamic_output_shape_ops"),
        ("Call to `torch._dynamo.graph_break()`", "torch._dynamo.graph_break()", "remove the call"),
        ("Skip calling `torch.compiler.disable()`d function", "helper(x)", "torch.compiler.disable"),
        ("Attempted to call function marked as skipped", "helper(x)", "excluded"),
    ],
)
def test_a_known_reason_has_a_remedy(reason: str, source: str, word: str) -> None:
    assert word in for_break(reason, source)


def test_a_word_in_the_source_alone_is_no_reason() -> None:
    assert for_break("Unsupported something new", "time = random + id") == ""


@pytest.mark.parametrize(
    ("guard", "word"),
    [
        ("tensor 'x' size mismatch at index 0. expected 3, actual 4", "mark_dynamic"),
        ("tensor 'x' dtype mismatch. expected Float, actual Double", "one dtype"),
        ("tensor 'L['x']' requires_grad mismatch. expected requires_grad=0", "gradients"),
        ("L['n'] == 3", "dynamic=True"),
        ("n == 1.5", "as a tensor"),
        ("L['mode'] == 'train'", "few values"),
        ("len(L['xs']) == 2", "one length"),
        ("___check_obj_id(L['f'], 140396304871232)", "create it once"),
        ("___check_type_id(n, 140360733250048), type=<class 'float'>", "one type"),
        ("GLOBAL_STATE changed: grad_mode ", "gradient mode"),
    ],
)
def test_a_known_guard_has_a_remedy(guard: str, word: str) -> None:
    assert word in for_recompile(guard)


def test_an_unknown_guard_has_none() -> None:
    assert for_recompile("something new about x") == ""
