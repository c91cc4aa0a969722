"""Bundle files: plain, gzip or zstd by the end of their name when written, by their first bytes when read."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import os
import secrets
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.errors import InvalidRequestError
from jobledger.projections.bundles import LINE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import BinaryIO

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
ZSTD_LEVEL: Final = 6
MISSING: Final = "zstd needs Python 3.14 or the package zstandard; install jobledger[audit], or name the file …jsonl.gz"


@contextmanager
def written(target: Path | str, *, is_new: bool = False) -> Generator[Callable[[bytes], object]]:
    """Write a file that appears under its name only when it is whole; ``-`` is the standard output, uncompressed.

    ``is_new``: it never takes the place of a file that exists, however late that came.

    Raises:
        InvalidRequestError: its name asks for a compression that is not installed.
        FileExistsError: there is such a file, and ``is_new`` was asked for.
    """
    if str(target) == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    pack = _packer(path)
    if is_new and path.exists():
        raise FileExistsError(str(path))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with draft.open("xb") as file:
            with pack(file) as packed:
                yield packed.write
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            path.hardlink_to(draft)  # unlike a rename it fails where the name is taken
        else:
            draft.replace(path)
        _settle(path.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()


def _settle(folder: Path) -> None:
    """Let the file's name survive a power failure, too; where folders cannot be opened, the system does that itself."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _packer(path: Path) -> Callable[[BinaryIO], Any]:
    if path.suffix == ".gz":
        return lambda file: gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
    if path.suffix not in (".zst", ".zstd"):
        return contextlib.nullcontext
    own, library = _zstd()
    if own is not None:
        return lambda file: own.ZstdFile(file, "w", level=ZSTD_LEVEL)
    if library is None:
        raise InvalidRequestError("file", MISSING)
    return lambda file: library.ZstdCompressor(level=ZSTD_LEVEL).stream_writer(file, closefd=False)


@contextmanager
def lines_in(source: Path | str) -> Generator[Iterator[bytes]]:
    """The lines of a file, whichever way it is packed; ``-`` is the standard input.

    Raises:
        InvalidRequestError: its compression is not installed, a line is too long, or the packing is damaged.
    """
    with contextlib.ExitStack() as stack:
        file: Any = _stdin() if str(source) == "-" else stack.enter_context(Path(source).open("rb"))
        start = file.peek(4)[:4]
        if start.startswith(GZIP):
            file = stack.enter_context(gzip.GzipFile(fileobj=file, mode="rb"))
        elif start == ZSTD:
            file = stack.enter_context(_unpacked(file))
        yield _lines(file)


def _stdin() -> Any:
    """The standard input, which may be something that cannot look ahead."""
    raw: Any = sys.stdin.buffer
    return raw if hasattr(raw, "peek") else io.BufferedReader(io.BytesIO(raw.read()))


def _unpacked(file: Any) -> Any:
    own, library = _zstd()
    if own is not None:
        return own.ZstdFile(file, "r")
    if library is None:
        raise InvalidRequestError("file", MISSING)
    reader = library.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=False)
    return io.BufferedReader(reader, 1024 * 1024)


def _lines(file: Any) -> Iterator[bytes]:
    while line := _line(file):
        if len(line) > LINE_BYTES_MAX:
            raise InvalidRequestError("file", f"a line is longer than {LINE_BYTES_MAX:,} bytes; this is no bundle")
        yield line


def _line(file: Any) -> bytes:
    try:
        line: bytes = file.readline(LINE_BYTES_MAX + 1)
    except Exception as error:  # each library has its own errors for packing that is damaged or cut off
        problem = f"it cannot be unpacked ({type(error).__name__}); it is damaged or not whole"
        raise InvalidRequestError("file", problem) from error
    return line


def _zstd() -> tuple[Any, Any]:
    """The standard library's zstd and the installed one, each ``None`` where it is not there."""
    found: list[Any] = []
    for name in ("compression.zstd", "zstandard"):
        try:
            found.append(importlib.import_module(name))
        except ImportError:
            found.append(None)
    return found[0], found[1]
