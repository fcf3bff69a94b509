"""Stores the float64 shadows of storages, each for the lifetime of its storage."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .tensors import PARTS, WIDE, covers, shadowed, storage_key, whole_storage

_SWEEP_BYTES = 256 << 20
_SWEEP_ROWS = 4096


class Unfollowed(Exception):
    """Raised if the float64 run cannot follow an operator."""


class Row:
    """The shadow of one storage; ``values`` None means that the storage has no reference.

    The weak reference keeps the storage's address from being reused.
    """

    __slots__ = ("alive", "part", "values")

    def __init__(self, storage: Any, part: torch.dtype, values: Optional[torch.Tensor]) -> None:
        self.alive = StorageWeakRef(storage)
        self.part = part
        self.values = values


class Rows:
    """Maps storages to rows; a storage without a row is exact.

    With ``wide_too``, storages that are float64 in the real run get rows too.
    """

    def __init__(self, wide_too: bool = False) -> None:
        self._wide_too = wide_too
        self._rows: Dict[int, Row] = {}
        self._unswept = 0
        self._sweep_at = _SWEEP_ROWS

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, tensor: torch.Tensor) -> Optional[Row]:
        """Returns the row of the tensor's storage if its dtype and size still match, else None."""
        storage = tensor.untyped_storage()
        row = self._rows.get(storage._cdata)
        if row is None:
            return None
        part, size = PARTS[tensor.dtype]
        if row.part is not part:
            return None
        if row.values is not None and row.values.numel() != storage.nbytes() // size:
            self.drop(tensor)
            return None
        return row

    def any_of(self, tensors: Iterable[torch.Tensor]) -> bool:
        return any(shadowed(tensor) and self.find(tensor) is not None for tensor in tensors)

    def put(self, tensor: torch.Tensor, values: Optional[torch.Tensor]) -> Row:
        """Sets the row of the tensor's storage; ``values`` None means no reference."""
        storage = tensor.untyped_storage()
        row = self._rows[storage._cdata] = Row(storage, PARTS[tensor.dtype][0], values)
        self._unswept += 0 if values is None else values.numel() * 8
        if self._unswept > _SWEEP_BYTES or len(self._rows) > self._sweep_at:
            self._unswept = 0
            self._rows = {key: row for key, row in list(self._rows.items()) if not row.alive.expired()}
            self._sweep_at = 2 * len(self._rows) + _SWEEP_ROWS
        return row

    def drop(self, tensor: torch.Tensor) -> None:
        """Removes the row; the storage is then exact."""
        self._rows.pop(storage_key(tensor), None)

    def give_up(self, tensors: Iterable[torch.Tensor]) -> None:
        """Marks the tensors' storages as without reference."""
        for tensor in tensors:
            if tensor.numel() and shadowed(tensor):
                self.put(tensor, None)

    def before_write(self, inputs: List[torch.Tensor], written: List[torch.Tensor]) -> None:
        """Creates rows for tensors about to be written; exact float64 needs one only with rounded inputs."""
        rounded = self.any_of(inputs)
        for tensor in written:
            # The operator reallocates an empty `out=`.
            if tensor.numel() == 0 or not shadowed(tensor) or self.find(tensor) is not None:
                continue
            if rounded or self._wide_too or tensor.dtype not in WIDE:
                try:
                    self.put(tensor, whole_storage(tensor))
                except RuntimeError:  # no memory
                    self.put(tensor, None)

    def after_write(self, written: List[torch.Tensor]) -> List[torch.Tensor]:
        """Returns the written tensors to follow; drops a row that was written through another dtype."""
        followed = []
        for tensor in written:
            row = self._rows.get(storage_key(tensor))
            if row is not None and not (shadowed(tensor) and PARTS[tensor.dtype][0] is row.part):
                self.drop(tensor)
                row = None
            kept = row is not None or self._wide_too or tensor.dtype not in WIDE
            if tensor.numel() and shadowed(tensor) and kept:
                followed.append(tensor)
        return followed

    def to_write(self, tensor: torch.Tensor, overwrites: bool) -> torch.Tensor:
        """Returns the row's values to write into; recreates them after a resize or if all are overwritten.

        Raises :class:`Unfollowed` if a part of the storage has no reference.
        """
        row = self.find(tensor)
        if row is None or (row.values is None and overwrites and covers(tensor)):
            row = self.put(tensor, whole_storage(tensor))
        if row.values is None:
            raise Unfollowed("a part of the storage has no reference")
        return row.values
