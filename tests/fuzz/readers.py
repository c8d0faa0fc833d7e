"""Fuzzes what reads replies, bundles, kernel folders and object files: mutations, no feedback.

Every input must be read or refused with the reader's own error, within `HANG_S` of processor time.
"""

from __future__ import annotations

import importlib.util
import json
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tilewright.core.codec import to_json
from tilewright.core.config import Settings
from tilewright.core.errors import InputError
from tilewright.core.records import Argument, Check, Measured, MenuOption, Verdict, Workload
from tilewright.core.tasks import open_task
from tilewright.core.text import plain_text
from tilewright.native.image import BASE, linked
from tilewright.native.object_file import UnfitError, with_addresses
from tilewright.parts.languages import C
from tilewright.proposers.llm.edits import apply_edits, read_edits
from tilewright.proposers.llm.messages import Reply
from tilewright.proposers.llm.replies import ReplyFailed, read_code, read_plan
from tilewright.storage.bundle_file import pack, unpack
from tilewright.storage.evidence import read_evidence

EXPLOITS = Path(__file__).resolve().parents[1] / "exploits"
HANG_S = 20.0
LONGEST = 1 << 20
MENU = (MenuOption("unroll", "Unroll."), MenuOption("hoist", "Hoist."))
KERNEL = "void kernel(const float A[4], float C[4]) {\n  C[0] = A[0];\n}\n"
TOML = """\
target = "host-c"
operations = 64
reduction = 1
[tolerance]
absolute = 1e-3
[[argument]]
name = "A"
shape = [64]
dtype = "float32"
role = "input"
[[argument]]
name = "C"
shape = [8, 8]
dtype = "float32"
role = "output"
"""
WORDS = (
    b"```c\n", b"```\n", b"~~~\n", b"<think>", b"</think>", b"<reasoning>", b"OPTION:",
    b"EXPECTED:", b"<<<<<<< SEARCH\n", b"=======\n", b">>>>>>> REPLACE\n", b'{"code": "',
    b'{"plan":', b"kernel(", b"/*", b"\\ud800", b"\xff", b"\x1b[", b"\x1b]0;", b"\0", b"\n",
    b"\r", b" ", b"{", b"}", b"[", b"]", b'"', b"'", b"\\", b"999999999999999999999", b"-1",
    b"1e999", b"NaN", b"null", b"true", b"..", b"/", b"int8", b"[[argument]]\n", b"name =",
    b"shape =", b"inf", b"=", b".", b",", b"type", b"Measured",
)  # fmt: skip


def reply(data: bytes) -> None:
    """A model's reply, read in every way there is."""
    text = data.decode("latin-1").replace("\xff", "\ud800")
    for stop in ("end", "length"):
        found = Reply(text, stop)  # type: ignore[arg-type]
        code, plan, edits = read_code(found, C), read_plan(found, MENU), read_edits(found.text)
        edited = apply_edits(KERNEL, edits) if edits else ""
        texts = [found.text, *(t for t in (code, edited) if isinstance(t, str))]
        texts += [] if isinstance(plan, ReplyFailed) else [plan.option, plan.text, plan.expected]
        for each in texts:
            assert plain_text(each) == each, "it is not plain text"
            each.encode()
            C.normal_form(each)


def bundle(data: bytes) -> None:
    """A bundle: its file, and the document that such a text would be in one."""
    with suppress(InputError):
        unpack(data, "fuzzed.twb")
    document: object = None
    with suppress(ValueError, RecursionError):
        document = json.loads(data)
    if isinstance(document, dict):
        with suppress(InputError):
            for name in read_evidence(document).files:
                assert Path(name).name == name, "it leaves the folder"
                assert not name.startswith("."), "a hidden file"


def folder(data: bytes) -> None:
    """A kernel folder with this description; its reference is not run."""
    sentence = ""
    with tempfile.TemporaryDirectory(prefix="tilewright-fuzz-") as name:
        path = Path(name)
        (path / "workload.toml").write_bytes(data)
        (path / "kernel.c").write_text(KERNEL)
        (path / "reference.py").write_text("def reference(**arrays):\n    raise SystemExit\n")
        try:
            open_task(name, Settings().recorded())
        except InputError as error:
            sentence = str(error)
    assert "\n" not in sentence, "more than one line"


def evidence() -> dict[str, Any]:
    """A bundle's document."""
    argument = Argument("C", (4,), "float32", "output")
    outcome = to_json(Measured(2.0, "ns", "measured", 0.5, Verdict((Check(1, "small"),))))
    settings = to_json(Settings().recorded())
    return {
        "run": {"id": "1", "task": "host-c:gemm-16x16x16", "settings": settings, "versions": {}},
        "workload": to_json(Workload("host-c:gemm-16x16x16", "host-c", (argument,), 4)),
        "files": {"kernel.c": KERNEL}, "start": KERNEL, "winner": KERNEL,
        "start_outcome": outcome, "winner_outcome": outcome,
    }  # fmt: skip


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def replies() -> list[bytes]:
    """Hostile replies, and good ones."""
    texts = [_module(path).TEXT for path in sorted((EXPLOITS / "replies").glob("*.py"))]
    texts += [f"```c\n{KERNEL}```\n", "OPTION: hoist\nEXPECTED: 10 %\n\nHoist it.\n"]
    texts += ['{"option": "hoist", "plan": "Hoist it."}', json.dumps({"code": KERNEL})]
    texts += ["<<<<<<< SEARCH\n  C[0] = A[0];\n=======\n  C[0] = 1;\n>>>>>>> REPLACE\n"]
    return [text[:4096].replace("\ud800", "\xff").encode("latin-1", "replace") for text in texts]


def bundles() -> list[bytes]:
    """Good bundles, as files and as documents."""
    return [pack(evidence()), json.dumps(evidence()).encode()]


def object_file(data: bytes) -> None:
    """The object file of a native kernel, read and linked."""
    with suppress(UnfitError):
        image = linked.__wrapped__(data, 2)
        assert BASE <= image.entry < BASE + len(image.code)
        with_addresses(data, image.sections_at)


def object_files() -> list[bytes]:
    """Right ones, with every kind of part that they may have."""
    elf = _module(EXPLOITS.parent / "unit" / "host_c" / "elf_objects.py")
    moved = [(0, 2, 3, -4), (4, 4, 4, -4), (8, 9, 1, -4)]
    parts = (
        elf.Part(".text", elf.RETURN * 16, elf.ALLOC | elf.EXECUTE, relocations=moved),
        elf.Part(".data", bytes(16), elf.ALLOC | elf.WRITE, relocations=[(0, 1, 1, 0)]),
        elf.Part(".bss", kind=elf.NOBITS, flags=elf.ALLOC | elf.WRITE, size=100),
        elf.Part(".rodata.cst4", bytes(4)),
    )
    names = (elf.KERNEL, elf.Name("bss", 3), elf.Name("data", 2), elf.Name("expf"))
    return [elf.Written().bytes(), elf.Written(parts, names).bytes()]


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "replies": (reply, replies),
    "bundles": (bundle, bundles),
    "folders": (folder, lambda: [TOML.encode()]),
    "objects": (object_file, object_files),
}


def mutated(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """A few changes: bytes, words, and blocks removed, repeated or taken from another input."""
    for _ in range(rng.randint(1, 6)):
        at = rng.randint(0, len(data))
        end = min(len(data), at + rng.choice((1, 2, 8, 64, 1024)))
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[end:]
        elif kind == 2:
            data = data[:at] + rng.choice(WORDS) + data[at:]
        elif kind == 3:
            times = rng.choice((2, 3, 100, 10_000))
            data = data[:at] + data[at:end] * times + data[end:]
        elif kind == 4:
            data = data[:at] + rng.choice(WORDS) * rng.choice((2, 50, 5_000)) + data[at:]
        else:
            other = rng.choice(others)
            data = data[:at] + other[rng.randint(0, len(other)) :]
        data = data[:LONGEST]
    return data


@contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds:g} s of processor time")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def fuzz(name: str, seconds: float, seed: int) -> int:
    """1 after a finding, which is left in the current folder; else 0."""
    target, make = TARGETS[name]
    rng = random.Random(seed)
    corpus = make()
    tried, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        data = corpus[tried] if tried < len(corpus) else mutated(rng.choice(corpus), corpus, rng)
        tried += 1
        try:
            with _processor_time(HANG_S):
                target(data)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            traceback.print_exc(limit=-6)
            found = Path(f"finding-{name}-{seed}-{tried}")
            found.write_bytes(data)
            print(f"fuzz: {name}: {type(error).__name__}; the input is in {found}", file=sys.stderr)
            return 1
        if tried % 20 == 0 and len(data) < 1 << 14:  # the next mutations build on some of these
            if len(corpus) < 500:
                corpus.append(data)
            else:
                corpus[rng.randrange(len(corpus))] = data
    print(f"fuzz: {name}: {tried} inputs in {time.process_time() - start:.0f} s of CPU time")
    return 0
