"""The loop IR of the mock: views, which reshapes cost nothing, strides, and the text form."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from accel_lab.mock.frontend.access import Space, same_bytes, strides  # noqa: E402
from accel_lab.mock.ir.layout import Layout, row_major  # noqa: E402
from accel_lab.mock.ir.loop_ir import LoopBuffer, View, whole  # noqa: E402
from mock_front_end_cases import lowered  # noqa: E402

pytestmark = pytest.mark.torch


def place(layout: Layout, index: tuple[int, ...]) -> int:
    """The element number of a logical index, by the layout's definition."""
    where = 0
    for dim, at in enumerate(index):
        wide, narrow = layout.stride_of(dim)
        stick = dim == layout.stick_dim
        where += (at // layout.lanes) * wide + (at % layout.lanes) * narrow if stick else at * wide
    return where


def test_views_broadcast_and_reshape_by_ones() -> None:
    view = whole(LoopBuffer(name="x", size=(3, 1, 5), format="fp32"))
    assert view.expanded((2, 3, 4, 5)).dims == (None, 0, None, 2)
    assert view.expanded((2, 3, 4, 5)).broadcast
    assert view.permuted((2, 0, 1)).size == (5, 3, 1)
    moved = view.reshaped_by_ones((3, 5))
    assert moved is not None and moved.dims == (0, 2)
    assert view.reshaped_by_ones((15,)) is None


def indices(size: tuple[int, ...], number: int) -> tuple[int, ...]:
    found = []
    for extent in reversed(size):
        found.append(number % extent)
        number //= extent
    return tuple(reversed(found))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_free_reshape_leaves_every_element_where_it_is(data: st.DataObject) -> None:
    factors = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 32, 64, 96]), min_size=1, max_size=4))
    if math.prod(factors) > 20_000:
        return

    def cut() -> tuple[int, ...]:
        size, product = [], 1
        for factor in factors:
            product *= factor
            if data.draw(st.booleans()):
                size.append(product)
                product = 1
        return (*size, product)

    old_size, new_size = cut(), cut()
    order = tuple(data.draw(st.permutations(range(len(old_size)))))
    old = Layout(size=old_size, order=order, format=data.draw(st.sampled_from(["fp32", "fp16"])))
    new = same_bytes(old, new_size)
    if new_size == old_size:
        assert new is not None
    if new is not None:
        for number in range(math.prod(old_size)):
            assert place(old, indices(old_size, number)) == place(new, indices(new_size, number))


def test_heads_split_and_merge_without_a_copy() -> None:
    hidden = row_major((2, 37, 128), "fp32")
    heads = same_bytes(hidden, (2, 37, 4, 32))
    assert heads is not None and heads.order == (0, 2, 1, 3)
    assert same_bytes(heads.permuted((0, 2, 1, 3)), (8, 37, 32)) is not None
    assert same_bytes(row_major((2, 37, 120), "fp32"), (2, 37, 4, 30)) is None


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_strides_walk_the_elements(data: st.DataObject) -> None:
    loops = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 33, 64]), min_size=1, max_size=3)))
    axes = range(len(loops))
    space = Space(
        loops=loops, order=tuple(data.draw(st.permutations(axes))), lanes=data.draw(st.sampled_from([32, 64]))
    )
    kept = data.draw(st.permutations(axes))[: data.draw(st.integers(0, len(loops)))]
    dims = tuple(kept.index(axis) if axis in kept else None for axis in axes)
    order = tuple(data.draw(st.permutations(range(len(kept)))))
    layout = Layout(size=tuple(loops[axis] for axis in kept), order=order, format="fp32")
    found = strides(View(buffer="x", dims=dims, size=loops), layout, space)
    if found is None:
        return
    assert (
        sum((extent - 1) * step for extent, step in zip(space.extents, found, strict=True)) < layout.elements
    )
    for number in range(math.prod(loops)):
        index = indices(loops, number)
        walked = 0
        for (axis, kind), step in zip(space.axes, found, strict=True):
            at = index[axis]
            walked += step * {"outer": at, "sticks": at // space.lanes, "lanes": at % space.lanes}[kind]
        assert walked == place(layout, tuple(index[axis] for axis in kept))


def test_the_text_says_loops_maps_and_sources() -> None:
    program = lowered(lambda x, y: (x + y.t()).sum(1), torch.randn(3, 65), torch.randn(65, 3))
    text = program.texts["loop_ir.txt"]
    assert "for i0 in 3, i1 in 65:" in text
    assert "[i1, i0]" in text
    assert "i1 in 65 reduced" in text
    assert "scratchpad" in program.texts["tiled.txt"]
