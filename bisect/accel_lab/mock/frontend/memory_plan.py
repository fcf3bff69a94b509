"""Plans the arena: an address for each tensor by its lifetime, with a first region for what stays
resident."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel_lab.mock import faults
from accel_lab.mock.ir.loop_ir import HostNest, LoopProgram
from accel_lab.mock.sizes import whole_sticks


@dataclass(kw_only=True)
class Lifetime:
    """When a buffer is filled and when it is read, as positions among the nests (-1: before all of them)."""

    name: str
    bytes: int
    start: int
    uses: list[int] = field(default_factory=list)
    resident: bool = False

    @property
    def end(self) -> int:
        """The last position at which the buffer is needed."""
        return max([self.start, *self.uses])

    def meets(self, other: Lifetime) -> bool:
        """Whether both buffers are needed at the same time."""
        return any(a <= d and c <= b for a, b in self._spans() for c, d in other._spans())

    def _spans(self) -> list[tuple[int, int]]:
        if faults.active("buffer_reused_live") and self.end > self.start and not self.resident:
            # The faulty plan: free after the last but one use, taken again for the last kernel only.
            before = max([self.start, *(use for use in self.uses if use < self.end)])
            return [(self.start, before), (self.end, self.end)]
        return [(self.start, self.end)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Addresses of the buffers that own bytes; aliases are at the address of theirs."""

    addresses: dict[str, int]
    arena_bytes: int
    resident_bytes: int
    text: str


def lifetimes(program: LoopProgram, resident: set[str]) -> list[Lifetime]:
    """The lifetime of each buffer that owns bytes and is used, by start."""
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
    """First fit by lifetime: a buffer takes the lowest bytes that nobody needs while it lives."""
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
