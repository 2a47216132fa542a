"""Iceberg type names and PyIceberg's types."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.types import PrimitiveType


def type_name(kind: object) -> str:
    """The name of a type as health writes it: ``decimal(10,2)``, without a space."""
    return str(kind).replace(", ", ",")


@functools.cache
def primitive_type(name: str) -> PrimitiveType:
    from pydantic import TypeAdapter
    from pyiceberg.types import IcebergType, PrimitiveType

    kind = TypeAdapter(IcebergType).validate_python(name.replace(",", ", "))
    if not isinstance(kind, PrimitiveType):
        raise TypeError(f"{name} is not a primitive type")
    return kind
