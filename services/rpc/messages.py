"""Conversion between messages and records with the same field names.

Enum values become their lower-case names without prefix: `only` for SCRIPT_MODE_ONLY. Unset fields
get the record's default; fields that only one side has are skipped.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct

from services.validation import convert

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")


def record_of(message: Message, kind: type[_T], /, **more: Any) -> _T:
    """Convert a message to a record, with `more` fields; raises msgspec.ValidationError."""
    return convert(_fields(message) | more, kind)


def message_of(record: Struct | Mapping[str, Any], kind: type[_M], /, **more: Any) -> _M:
    """Convert a record, or a mapping of fields or paths such as `options.model`, to a message."""
    descriptor = cast("Descriptor", kind.DESCRIPTOR)
    return kind(**(_values(record, descriptor) | _values(more, descriptor)))


def enum_word(kind: Any, number: int) -> str:
    """Return the word of an enum value; a number if unknown, empty if unspecified."""
    known = kind.values_by_number.get(number)
    word = str(number) if known is None else known.name.removeprefix(_prefix(kind)).lower()
    return "" if word == "unspecified" else word


def _prefix(kind: Any) -> str:
    # Protobuf style: the values of ScriptMode begin with SCRIPT_MODE_.
    return f"{re.sub(r'(?<=.)(?=[A-Z])', '_', kind.name).upper()}_"


def _fields(message: Message) -> dict[str, Any]:
    return {
        field.name: [_read(field, one) for one in value]
        if field.is_repeated
        else _read(field, value)
        for field, value in message.ListFields()
    }


def _read(field: FieldDescriptor, value: Any) -> Any:
    match value:
        case Timestamp():
            return value.ToDatetime(UTC)
        case Duration():
            return value.ToTimedelta()
        case Message():
            return _fields(value)
        case _:
            return value if field.enum_type is None else enum_word(field.enum_type, value)


def _values(record: Struct | Mapping[str, Any], kind: Descriptor) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if isinstance(record, Struct):
        record = {field.name: getattr(record, field.name, None) for field in kind.fields}
    for path, value in record.items():
        if value is None or value == "":
            continue
        *parents, name = path.split(".")
        holder, of_holder = values, kind
        for parent in parents:
            holder = holder.setdefault(parent, {})
            of_holder = cast("Descriptor", of_holder.fields_by_name[parent].message_type)
        field = of_holder.fields_by_name[name]
        several = cast("Iterable[Any]", value) if field.is_repeated else ()
        holder[name] = [_encode(field, one) for one in several] or _encode(field, value)
    return values


def _encode(field: FieldDescriptor, value: Any) -> Any:
    if isinstance(value, Struct):
        return _values(value, cast("Descriptor", field.message_type))
    if not isinstance(value, str):
        return value
    if field.enum_type is not None:
        return f"{_prefix(field.enum_type)}{value.upper().replace('-', '_')}"
    return value.encode(errors="replace").decode()  # a file may have what the wire cannot carry
