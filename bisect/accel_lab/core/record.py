"""Record: the base of dataclasses with a JSON form; reading refuses values of another type.

cattrs, which does this, is imported by the first record that is written or read. A probed interpreter lacks
cattrs: the parts of the lab that it imports create records but neither write nor read them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_origin, is_typeddict

from .untrusted.shapes import Table, misfit

if TYPE_CHECKING:
    from cattrs import Converter

Reader = Callable[[Any, Any], Any]

_KEY = "json"
_AFTER = "_json_after"
_Self = TypeVar("_Self", bound="Record")
_Getter = TypeVar("_Getter", bound=Callable[..., Any])


def as_json(
    *,
    name: str = "",
    digits: int | None = None,
    sparse: bool = False,
    hidden: bool = False,
    empty: bool = False,
) -> dict[str, Any]:
    """Returns the metadata of a field whose JSON is not simply its value under its own name.

    ``name``: the key. ``digits``: decimals that a number is rounded to. ``sparse``: omitted while it has its
    default. ``hidden``: never written. ``empty``: None is written as ``{}``.
    """
    how = {"name": name or None, "digits": digits, "sparse": sparse, "hidden": hidden, "empty": empty}
    return {_KEY: how}


def json_property(*, after: str = "") -> Callable[[_Getter], _Getter]:
    """Marks a property's getter to be written after the key ``after``, or first; it is not read back."""

    def mark(getter: _Getter) -> _Getter:
        setattr(getter, _AFTER, after)
        return getter

    return mark


class Record:
    """Base class of dataclasses with a JSON form.

    The JSON has the fields in their order, enums by value, tuples as lists; fields of type ``Any`` are
    written unchanged. A class with another JSON form overrides ``to_json``. ``forbids_extra_keys``: unknown
    keys are errors.
    """

    forbids_extra_keys: ClassVar[bool] = False

    def to_json(self) -> dict[str, Any]:
        kind: Any = type(self)
        row: dict[str, Any] = _writer(kind)(self)
        return row

    @classmethod
    def from_json(cls: type[_Self], data: Any) -> _Self:
        """Reads a record. Raises ValueError, one line that says where and what is wrong."""
        from cattrs import BaseValidationError, transform_error

        try:
            kind: Any = cls
            read: _Self = _reader(kind)(data, cls)
            return read
        except BaseValidationError as error:
            wrong, _, place = transform_error(error, "", _what)[0].rpartition(" @ ")
            raise ValueError(f"{place.lstrip('.') or cls.__name__}: {wrong}"[:300]) from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{cls.__name__}: {_what(error, None)}"[:300]) from None


def _what(error: BaseException, _: Any) -> str:
    text = "it is missing" if isinstance(error, KeyError) else str(error)
    return " ".join(text.split()) or type(error).__name__


@functools.cache
def _writer(cls: type[Any]) -> Callable[[Any], dict[str, Any]]:
    """Creates the function that writes a class's fields and its :func:`json_property` properties."""
    from cattrs.gen import make_dict_unstructure_fn, override

    changes: dict[str, Any] = {}
    order: list[str] = []
    sparse = False
    for field in fields(cls):
        how = field.metadata.get(_KEY) or as_json()[_KEY]
        digits = how["digits"]
        hook = None if digits is None else functools.partial(_rounded, digits)
        changes[field.name] = override(
            rename=how["name"],
            omit=how["hidden"] or None,
            omit_if_default=how["sparse"] or None,
            unstruct_hook=_or_empty if how["empty"] else hook,
        )
        order.append(how["name"] or field.name)
        sparse = sparse or how["sparse"]
    write = make_dict_unstructure_fn(cls, _converter(), **changes)
    more = {
        name: member.fget
        for name, member in vars(cls).items()
        if isinstance(member, property) and hasattr(member.fget, _AFTER)
    }
    if not (more or sparse):  # cattrs writes sparse fields last, so they have to be reordered
        return write
    for name, getter in more.items():
        after = getattr(getter, _AFTER)
        order.insert(order.index(after) + 1 if after else 0, name)

    def write_all(record: Any) -> dict[str, Any]:
        said = {name: getter(record) for name, getter in more.items() if getter}
        row = {**write(record), **_converter().unstructure(said)}
        return {name: row[name] for name in order if name in row}

    return write_all


def _rounded(digits: int, value: Any) -> Any:
    return round(value, digits)


def _or_empty(value: Record | None) -> dict[str, Any]:
    return {} if value is None else value.to_json()


def _unless_empty(value: Any, kind: Any) -> Any:
    return None if value == {} else _converter().structure(value, kind)


@functools.cache
def _reader(cls: type[Any]) -> Reader:
    from cattrs.gen import make_dict_structure_fn, override

    changed = {f.name: f.metadata[_KEY] for f in fields(cls) if _KEY in f.metadata}
    names: dict[str, Any] = {
        name: override(rename=how["name"], struct_hook=_unless_empty if how["empty"] else None)
        for name, how in changed.items()
    }
    read = make_dict_structure_fn(
        cls, _converter(), _cattrs_forbid_extra_keys=cls.forbids_extra_keys, **names
    )
    return _checked(Table(), read)


@functools.cache
def _converter() -> Converter:
    """A converter that checks types; plain cattrs turns numbers into text and a text into a list."""
    from cattrs import Converter
    from cattrs.cols import (
        homogenous_tuple_structure_factory,
        list_structure_factory,
        mapping_structure_factory,
    )
    from cattrs.gen import make_hetero_tuple_structure_fn

    converter = Converter(unstruct_collection_overrides={tuple: list})

    def any_tuple(kind: Any) -> Reader:
        if get_args(kind)[-1] is Ellipsis:
            return homogenous_tuple_structure_factory(kind, converter)
        return make_hetero_tuple_structure_fn(kind, converter)

    def strict(fits: Callable[[Any], bool], shape: Any, reader: Callable[[Any], Reader]) -> None:
        converter.register_structure_hook_factory(fits, lambda kind: _checked(shape, reader(kind)))

    converter.register_structure_hook_factory(
        _is_record,
        lambda kind: _reader(kind) if _reads_fields(kind) else lambda value, kind: kind.from_json(value),
    )
    strict(lambda kind: get_origin(kind) is tuple, [object], any_tuple)
    strict(lambda kind: get_origin(kind) is list, [object], lambda k: list_structure_factory(k, converter))
    strict(lambda kind: get_origin(kind) is dict, Table(), lambda k: mapping_structure_factory(k, converter))
    converter.register_structure_hook_func(
        _is_record_or_text,
        lambda value, kind: (
            value if isinstance(value, str) else converter.structure(value, get_args(kind)[0])
        ),
    )
    # The values of a TypedDict were checked when it was read from the child.
    converter.register_structure_hook_func(is_typeddict, _checked(Table(), lambda value, kind: value))
    converter.register_unstructure_hook_func(is_typeddict, lambda value: value)
    for plain in (int, float, str, bool):  # str includes the enums
        read = _checked(plain, lambda value, kind: kind(value) if issubclass(kind, Enum) else value)
        converter.register_structure_hook(plain, read)
    converter.register_structure_hook(Path, _checked(str, lambda value, kind: kind(value)))
    converter.register_unstructure_hook_func(_is_record, lambda value: value.to_json())
    converter.register_unstructure_hook(str, lambda value: value.value if isinstance(value, Enum) else value)
    converter.register_unstructure_hook(Any, lambda value: value)
    return converter


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Record)


def _is_record_or_text(kind: Any) -> bool:
    return isinstance(kind, UnionType) and get_args(kind)[1:] == (str,) and _is_record(get_args(kind)[0])


def _reads_fields(kind: type[Record]) -> bool:
    """Whether a class does not override ``from_json``; errors then have the full path in the file."""
    return kind.from_json.__func__ is Record.from_json.__func__  # type: ignore[attr-defined]


def _checked(shape: Any, read: Reader) -> Reader:
    def checked(value: Any, kind: Any) -> Any:
        if wrong := misfit(value, shape):
            raise ValueError(wrong)
        return read(value, kind)

    return checked
