"""Avro containers, one block at a time. A damaged file raises `ManifestError`, whatever is wrong with it."""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_iceberg_compaction.health.decoding import Decoder, Record, Wanted, compile_decoder
from airflow_iceberg_compaction.health.errors import ManifestError


def _fastest_zlib() -> Any:
    """ISA-L inflates about twice as fast as zlib and is what the extra `fast` installs."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    return isal_zlib


_zlib = _fastest_zlib()

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
PADDING = bytes(16)  # a varint cut off by the end of a block stops here instead of in foreign memory


def new_decoder(data: bytes) -> Decoder:
    from pyiceberg.avro.decoder import new_decoder as pyiceberg_decoder

    return pyiceberg_decoder(data)


@dataclass(frozen=True)
class AvroFile:
    """An Avro container: its header, and its blocks on demand."""

    path: str
    data: bytes
    metadata: Mapping[str, bytes]
    sync: bytes
    start: int

    @classmethod
    def parse(cls, path: str, data: bytes) -> AvroFile:
        """The file's header, or `ManifestError`."""
        if data[:4] != MAGIC:
            raise ManifestError(path, "not an Avro file")
        metadata: dict[str, bytes] = {}
        try:
            count, position = read_varint(data, 4)
            while count:
                if count < 0:
                    count = -count
                    _, position = read_varint(data, position)
                for _ in range(count):
                    key, position = _read_bytes(data, position)
                    metadata[key.decode("utf-8")], position = _read_bytes(data, position)
                count, position = read_varint(data, position)
            if position + SYNC_SIZE > len(data):
                raise EOFError
            metadata["avro.schema"].decode("utf-8")
        except KeyError as error:
            raise ManifestError(path, "its header has no schema") from error
        except (EOFError, UnicodeDecodeError) as error:
            raise ManifestError(path, "its header is damaged or cut off") from error
        return cls(path, data, metadata, data[position : position + SYNC_SIZE], position + SYNC_SIZE)

    @property
    def schema_text(self) -> str:
        return self.metadata["avro.schema"].decode("utf-8")

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """The number of records and the inflated bytes of each block, or `ManifestError`."""
        codec = self.metadata.get("avro.codec", b"null").decode("utf-8", "replace")
        inflate = CODECS.get(codec)
        if inflate is None:
            raise ManifestError(self.path, f"it is compressed with {codec!r}, which is none of {', '.join(CODECS)}")
        data, position = self.data, self.start
        while position < len(data):
            try:
                count, position = read_varint(data, position)
                length, position = read_varint(data, position)
            except EOFError as error:
                raise ManifestError(self.path, "it is cut off between two blocks") from error
            end = position + length
            if count < 0 or length < 0 or end + SYNC_SIZE > len(data):
                raise ManifestError(self.path, "it is cut off inside a block")
            if data[end : end + SYNC_SIZE] != self.sync:
                raise ManifestError(self.path, "a block does not end in the file's sync marker")
            try:
                block = inflate(data[position:end])
            except Exception as error:  # every codec has errors of its own
                raise ManifestError(self.path, f"a block cannot be inflated with {codec} ({error})") from error
            yield count, block
            position = end + SYNC_SIZE

    def records(
        self, wanted: Wanted, *, checked: bool = True, own_snapshot: int = 0, own_sequence: int = 0
    ) -> Iterator[list[Record]]:
        """The wanted fields of every record, one list per block, or `ManifestError`.

        ``own_snapshot`` and ``own_sequence`` are what live entries inherit. Unchecked reading is a third faster and, on
        a damaged file, may crash the process instead of raising: only for a process that may crash.
        """
        try:
            decode = compile_decoder(self.schema_text, wanted, checked)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ManifestError(self.path, f"its schema is not one Iceberg writes ({error})") from error
        for count, block in self.blocks():
            decoder = new_decoder(block + PADDING)
            records: list[Record] = []
            try:
                decode(decoder, count, len(block), records.append, own_snapshot, own_sequence)
            except (EOFError, ValueError, ArithmeticError, MemoryError, struct.error) as error:
                raise ManifestError(self.path, f"a record does not match the file's schema ({error})") from error
            if decoder.tell() != len(block):
                raise ManifestError(self.path, "a block is longer or shorter than its records")
            yield records


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """An Avro integer at ``position``, and where the next value starts."""
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise EOFError
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def _read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = read_varint(data, position)
    if not 0 <= length <= len(data) - position:
        raise EOFError
    return data[position : position + length], position + length


# -------------------------------------------------------------------------------------------------------------- codecs


def _inflate_deflate(data: bytes) -> bytes:
    return bytes(_zlib.decompress(data, -15))


def _inflate_zstandard(data: bytes) -> bytes:
    from pyiceberg.avro.codecs.zstandard_codec import ZStandardCodec

    return ZStandardCodec.decompress(data)


def _inflate_snappy(data: bytes) -> bytes:
    # pyarrow is a dependency already, python-snappy is not. Avro appends a CRC-32 of the plain bytes.
    import pyarrow

    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    plain = pyarrow.Codec("snappy").decompress(data[:-4], decompressed_size=size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise ValueError("checksum mismatch")
    return bytes(plain)


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _inflate_deflate,
    "zstandard": _inflate_zstandard,
    "snappy": _inflate_snappy,
    "bzip2": bz2.decompress,
}
