"""Imports and calls a user's Python code with limits of time and memory, and turns its faults into
`WorkloadError`.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import os
import posix
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from signal import SIG_IGN
from types import CodeType, FrameType, ModuleType

from tilewright.core.errors import WorkloadError
from tilewright.core.files import MAX_TEXT_BYTES, read_text
from tilewright.core.text import plain_text
from tilewright.parts.memory import memory_limit

REFERENCE_TIMEOUT_S = 60
"""Time limit in seconds for one call of the user's reference, which is called about a dozen times
before a search begins.
"""


class _WithoutBytecode(SourceFileLoader):
    """Compiles the present text of a file, and creates no __pycache__ in the user's folder.

    Python's own cache does not notice a new text that has the same length and was written within
    the same second.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file, which is always read as UTF-8.

        If the file could name another encoding, such as UTF-7, a comment could contain code.
        """
        text = read_text(Path(self.path), MAX_TEXT_BYTES)
        code: CodeType = self.source_to_code(text, self.path)
        return code


def import_file(path: Path) -> ModuleType:
    """The module in a user's file; `WorkloadError` if importing it fails."""
    if path.suffix != ".py":
        raise WorkloadError(f"{path} is not a Python file. Give a file whose name ends in .py.")
    loader = _WithoutBytecode("tilewright_reference", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with users_code(f"{path}: importing it", "it must define functions and do nothing else"):
        loader.exec_module(module)
    return module


@contextmanager
def users_code(what: str, remedy: str) -> Iterator[None]:
    """Raise `WorkloadError` if the user's code raises anything, or does not return in time."""
    # The user's own exceptions may derive from BaseException, and printing them may fail.
    most = most_reference_bytes()
    try:
        with _kept_streams(), _no_exit(), _time_limit(REFERENCE_TIMEOUT_S), memory_limit(most):
            yield
    except _ForbiddenError as error:
        message = f"{what} {error}; {remedy}."
    except _TooLongError:
        message = f"{what} took more than {REFERENCE_TIMEOUT_S} s; {remedy}, and faster."
    except MemoryError:
        message = (
            f"{what} needs more than {most / 2**30:.3g} GiB of memory, half of what this machine "
            f"has; {remedy} with less, or choose smaller shapes."
        )
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) != SIG_IGN:
            raise  # Ctrl-C; if Ctrl-C is ignored, the user's code raised the exception
        try:
            said = plain_text(f"{type(error).__name__}: {error}"[:300])
        except BaseException:
            said = plain_text(type(error).__name__[:300])
        if isinstance(error, ModuleNotFoundError):
            remedy = "install it in the Python environment that runs tilewright"
        elif isinstance(error, SyntaxError):
            remedy = "correct this line"
        message = f"{what} raised {' '.join(said.split()).rstrip('.: ')}; {remedy}."
    else:
        return
    raise WorkloadError(message)


def most_reference_bytes() -> int:
    """The number of bytes that the user's code may allocate in addition to the present memory of
    the process.
    """
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


class _ForbiddenError(BaseException):
    """What the user's code did to this process, as the predicate of a sentence."""


_EXIT = os._exit
_STREAMS = {0: "standard input", 1: "standard output", 2: "standard error"}


@contextmanager
def _no_exit() -> Iterator[None]:
    """Raises `_ForbiddenError` if the enclosed code calls `os._exit`, which would end this process
    without a message. Processes that the code forks may call it.
    """
    here = os.getpid()

    def refuse(status: int) -> None:
        if os.getpid() != here:
            _EXIT(status)
        raise _ForbiddenError("called os._exit")

    os._exit = posix._exit = refuse  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = posix._exit = _EXIT


@contextmanager
def _kept_streams() -> Iterator[None]:
    """Raises `_ForbiddenError` if the enclosed code closes or replaces the descriptors of standard
    input, output or error, which are restored.
    """
    before: dict[int, tuple[int, os.stat_result]] = {}
    for number in _STREAMS:
        with suppress(OSError):  # it is closed already
            copy = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
            before[number] = copy, os.fstat(number)
    changed: list[int] = []
    try:
        yield
    finally:
        for number, (copy, status) in before.items():
            try:
                is_kept = os.path.samestat(os.fstat(number), status)
            except OSError:
                is_kept = False
            with suppress(OSError):  # the code has closed the copy too
                if not is_kept:
                    changed.append(number)
                    os.dup2(copy, number)
                os.close(copy)
    if changed:  # an exception of the code is reported instead
        names = " and ".join(_STREAMS[number] for number in changed)
        raise _ForbiddenError(f"closed or replaced {names}")


class _TooLongError(BaseException):
    """Raised in the user's code, where `except Exception` does not catch it."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raises `_TooLongError` in the enclosed code, between two Python instructions."""
    if threading.current_thread() is not threading.main_thread():
        with _time_limit_of_thread(seconds):
            yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _time_limit_of_thread(seconds: float) -> Iterator[None]:
    """`_time_limit` in a thread other than the main one. Only the main thread receives signals."""
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    thread, inside = ctypes.c_ulong(threading.get_ident()), threading.Lock()
    ended = False

    def stop() -> None:
        with inside:
            if not ended:
                raise_in(thread, ctypes.py_object(_TooLongError))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with inside:
            ended = True
            raise_in(thread, None)  # cancels an exception that is still pending
        timer.cancel()
