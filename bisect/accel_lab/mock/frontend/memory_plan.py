"""Plans the arena: an address for each buffer by its lifetime, after a region of resident buffers."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel_lab.mock import faults
from accel_lab.mock.ir.loop_ir import HostNest, LoopProgram
from accel_lab.mock.sizes import whole_sticks


@dataclass(kw_only=True)
class Lifetime:
    """The lifetime of a buffer: when it is filled and read, as positions of nests (-1: before all)."""

    name: str
    bytes: int
    start: int
    uses: list[int] = field(default_factory=list)
    resident: bool = False

    @property
    def end(self) -> int:
        """The last position that needs the buffer."""
        return max([self.start, *self.uses])

    def meets(self, other: Lifetime) -> bool:
        """Whether both lifetimes overlap."""
        return any(a <= d and c <= b for a, b in self._spans() for c, d in other._spans())

    def _spans(self) -> list[tuple[int, int]]:
        if faults.active("buffer_reused_live") and self.end > self.start and not self.resident:
            # Fault: the buffer is free after its second last use, and taken again only for the last.
            before = max([self.start, *(use for use in self.uses if use < self.end)])
            return [(self.start, before), (self.end, self.end)]
        return [(self.start, self.end)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Byte addresses of the buffers that own bytes; an alias has the address of its owner."""

    addresses: dict[str, int]
    arena_bytes: int
    resident_bytes: int
    text: str


def lifetimes(program: LoopProgram, resident: set[str]) -> list[Lifetime]:
    """Returns the lifetimes of all used buffers that own bytes, resident ones first, then by start."""
    found: dict[str, Lifetime] = {}
    buffers = program.buffers

    def touch(name: str, position: int, *, filled: bool) -> None:
        root = buffers[buffers[name].alias_of or name]
        life = found.get(root.name)
        if life is None:
            stays = root.name in resident
            life = Lifetime(
                name=root.name,
                bytes=whole_sticks(root.layout.bytes),
                start=-1 if stays else position,
                resident=stays,
            )
            found[root.name] = life
        if not filled:
            life.uses.append(position)

    for position, nest in enumerate(program.nests):
        for name in nest.inputs:
            touch(name, position, filled=False)
        stored = (
            nest.writes if isinstance(nest, HostNest) else (*nest.writes.values(), *nest.spilled.values())
        )
        for made in stored:
            if made is not None:
                touch(made, position, filled=True)
    for result in program.results:
        if result.view is not None:
            touch(result.view.buffer, len(program.nests), filled=False)
    return sorted(found.values(), key=lambda life: (not life.resident, life.start, -life.bytes))


def plan(program: LoopProgram, resident: set[str]) -> Plan:
    """Assigns addresses by first fit: a buffer takes the lowest bytes that are free during its lifetime."""
    lives = lifetimes(program, resident)
    addresses: dict[str, int] = {}
    top = 0
    for life in lives:
        if life.resident:
            addresses[life.name] = top
            top += life.bytes
    resident_bytes = top
    active: list[Lifetime] = []
    for life in lives:
        if life.resident:
            continue
        active = [other for other in active if other.end >= life.start]
        taken = sorted((addresses[o.name], addresses[o.name] + o.bytes) for o in active if o.meets(life))
        address = resident_bytes
        for start, end in taken:
            if address + life.bytes <= start:
                break
            address = max(address, end)
        addresses[life.name] = address
        top = max(top, address + life.bytes)
        active.append(life)
    return Plan(
        addresses=addresses, arena_bytes=top, resident_bytes=resident_bytes, text=_text(lives, addresses, top)
    )


def _text(lives: list[Lifetime], addresses: dict[str, int], top: int) -> str:
    total = sum(life.bytes for life in lives)
    lines = [f"arena {top} bytes for {total} bytes of tensors"]
    for life in lives:
        start = addresses[life.name]
        kind = "resident" if life.resident else f"kernels {life.start} to {life.end}"
        lines.append(f"  {start:>12} to {start + life.bytes:>12}  {life.name}  {kind}")
    return "\n".join(lines) + "\n"
