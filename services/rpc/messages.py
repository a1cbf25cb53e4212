"""Messages as records whose fields are called the same, and back.

An enum's value is its name in lower case without that of the enum: `only` of SCRIPT_MODE_ONLY. What
a message does not set has the record's default, and what one of the two does not have is left out.
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
    """A message as a record, with more fields in place of its own.

    Raises msgspec.ValidationError where it has values of no meaning.
    """
    return convert(_fields(message) | more, kind)


def message_of(record: Struct | Mapping[str, Any], kind: type[_M], /, **more: Any) -> _M:
    """A record as a message: what it has by the names of the message's fields, and `more`.

    Times may be datetimes, and None is not set. Instead of a record, its fields by their names, or
    by paths such as `options.model`.
    """
    descriptor = cast("Descriptor", kind.DESCRIPTOR)
    return kind(**(_values(record, descriptor) | _values(more, descriptor)))


def enum_word(kind: Any, number: int) -> str:
    """The word of a value of an enum's descriptor: the number where it has none, empty where it is
    unspecified."""
    known = kind.values_by_number.get(number)
    word = str(number) if known is None else known.name.removeprefix(_prefix(kind)).lower()
    return "" if word == "unspecified" else word


def _prefix(kind: Any) -> str:
    # Protobuf's style: the values of ScriptMode begin with SCRIPT_MODE_.
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
        holder[name] = [_written(field, one) for one in several] or _written(field, value)
    return values


def _written(field: FieldDescriptor, value: Any) -> Any:
    if isinstance(value, Struct):
        return _values(value, cast("Descriptor", field.message_type))
    if not isinstance(value, str):
        return value
    if field.enum_type is not None:
        return f"{_prefix(field.enum_type)}{value.upper().replace('-', '_')}"
    return value.encode(errors="replace").decode()  # a file may have what the wire cannot carry
