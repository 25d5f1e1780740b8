"""Puts the row groups of many small Parquet files into one file in memory: Arrow takes four times as long to open a
file of one row as to read the row.

A file is "PAR1", its pages, the footer, the footer's length, "PAR1". The footer is a struct in Thrift's compact
protocol, of the fields 1 version, 2 schema, 3 number of rows, 4 row groups, and others. The footers of one writer and
schema differ in the numbers of a row group alone, among them the offsets of the columns' pages. See
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

import re
from collections.abc import Sequence

MAGIC, LAST = b"PAR1", 8  # the number of bytes behind a footer
ROWS, GROUP, OFFSET = (3,), (4, 0), (3, 9)  # paths of field numbers and places in lists; OFFSET: below a column
TEXT, LIST, STRUCT, NUMBERS = 8, 9, 12, (4, 5, 6)  # Thrift's types
NUMBER = rb"[\x80-\xff]*[\x00-\x7f]"

Places = dict[tuple[int, ...], tuple[int, int, int]]
"""Path of a value in a footer -> its type, begin and end."""


def spliced(files: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """One Parquet file with the rows of all files that are like the first one, and the places of these in `files`.

    Raises ValueError, LookupError or RecursionError if the first one is no Parquet file of one row group.
    """
    footers = [data[-LAST - int.from_bytes(data[-LAST:-4], "little") : -LAST] for data in files]
    first, places = footers[0], Places()
    _walk(first, 0, STRUCT, (), places)
    (_, rows, listed), (_, begin, end) = places[ROWS], places[GROUP]
    head, tail, like = first[:begin], first[end:], _pattern(first, places)
    parts, groups, used, size = [MAGIC], list[bytes](), list[int](), 0
    for place, (data, footer) in enumerate(zip(files, footers)):
        found = like.fullmatch(footer, begin, max(begin, len(footer) - len(tail)))
        if found and footer.startswith(head) and footer.endswith(tail):
            parts.append(data[len(MAGIC) : -LAST - len(footer)])
            groups.append(_moved(found, size))
            used.append(place)
            size += len(parts[-1])
    listing = bytes([first[listed], 15 << 4 | STRUCT]) + _written(len(used))
    footer = first[:rows] + _written(2 * len(used)) + listing + b"".join(groups) + tail
    return b"".join([*parts, footer, len(footer).to_bytes(4, "little"), MAGIC]), used


def _walk(data: bytes, at: int, kind: int, path: tuple[int, ...], places: Places) -> int:
    """Enter a value and all in it into `places`; returns its end. kind: its type. at: its begin."""
    begin = at
    if kind in NUMBERS:
        _, at = _number(data, at)
    elif kind == TEXT:
        length, at = _number(data, at)
        at += length
    elif kind == LIST:
        length, inner, at = data[at] >> 4, data[at] & 15, at + 1
        if length == 15:
            length, at = _number(data, at)
        if inner <= 2:  # of truth values, which no footer has
            raise ValueError(f"a list of Thrift's type {inner}")
        for place in range(length):
            at = _walk(data, at, inner, (*path, place), places)
    elif kind == STRUCT:
        field = 0
        while data[at]:
            field += data[at] >> 4
            at = _walk(data, at + 1, data[at] & 15, (*path, field), places)
        at += 1
    elif kind > 2:  # 1 and 2 are truth values of a struct
        raise ValueError(f"a value of Thrift's type {kind}")
    places[path] = kind, begin, at
    return at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a byte, seven bits in each, and its end. Signed ones are doubled, if not negative."""
    value = shift = 0
    while data[at] >= 128:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


def _written(value: int) -> bytes:
    """The inverse of `_number`."""
    written = bytearray()
    while value >= 128:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def _pattern(footer: bytes, places: Places) -> re.Pattern[bytes]:
    """Row groups like a footer's, whatever their numbers. Its groups are the columns' offsets."""
    _, last, end = places[GROUP]
    parts = list[bytes]()
    for path, (kind, begin, after) in places.items():
        if path[: len(GROUP)] == GROUP and kind in NUMBERS:
            number = b"(" + NUMBER + b")" if path[4:] == OFFSET else NUMBER
            parts += [re.escape(footer[last:begin]), number]
            last = after
    return re.compile(b"".join([*parts, re.escape(footer[last:end])]), re.DOTALL)


def _moved(group: re.Match[bytes], by: int) -> bytes:
    """A row group whose pages begin so many bytes later."""
    parts, last, data = list[bytes](), group.start(), group.string
    for begin, after in map(group.span, range(1, group.re.groups + 1)):
        parts += [data[last:begin], _written(_number(data, begin)[0] + 2 * by)]
        last = after
    return b"".join([*parts, data[last : group.end()]])
