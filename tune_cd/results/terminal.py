"""What the commands print, without secrets, whoever prints it: a summary, a warning, a log."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from tune_cd.results.redaction import redact


@contextmanager
def redacted_output() -> Iterator[None]:
    """Redact standard output and error within; also a decorator."""
    before = sys.stdout, sys.stderr
    streams = _Redacted(before[0]), _Redacted(before[1])
    sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        with suppress(BrokenPipeError):  # the reader has gone, as with `| head`
            for stream in streams:
                stream.flush()
        sys.stdout, sys.stderr = before


class _Redacted:
    """A text stream that holds a line back until it is whole or flushed, since a secret may be written in pieces."""

    def __init__(self, stream: TextIO):
        self._stream, self._held, self._lock = stream, "", threading.RLock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._lock:
            whole, newline, rest = (self._held + text).rpartition("\n")
            self._held = rest
            if newline:
                self._stream.write(redact(whole) + newline)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        with self._lock:
            held, self._held = self._held, ""
            if held:
                self._stream.write(redact(held))
            self._stream.flush()
