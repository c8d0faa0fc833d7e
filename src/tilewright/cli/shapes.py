"""`tilewright optimize --shapes`: writes one file with a kernel for each shape of a set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tilewright.cli.output import check_outputs, write_json, write_text
from tilewright.core.config import Settings
from tilewright.core.errors import OutputError
from tilewright.core.records import Failed

if TYPE_CHECKING:
    from tilewright.cli.progress import Progress
    from tilewright.families.running import Row, ShapeSetResult
    from tilewright.search.events import OnEvent
    from tilewright.search.summary import Summary

INTERRUPTED = 130


def optimize_shapes(
    task: str,
    shapes: Path,
    settings: Settings,
    project: Path,
    jobs: int | None,
    output: Path,
    json: Path | None,
    began: float | None,
) -> None:
    """Search for each shape, write the C file, and print the result for each shape.

    The time of the first shape's budget is counted from `began` (`time.monotonic`).

    The exit code is 1 if the file gives a wrong result for a shape of the set, or is slower than
    its starting kernel. After Ctrl-C, the exit code is 130, and the same command continues.
    """
    from tilewright.cli.console import notes, results
    from tilewright.cli.progress import Progress
    from tilewright.families.running import optimize_shape_set, read_shape_set

    check_outputs(output=output, json=json)
    shape_set = read_shape_set(task, shapes, settings)

    def tell(summary: Summary) -> None:
        speedup = f"{summary.gain:.2f}x" if summary.gain else "no faster kernel"
        notes().print(f"{summary.workload}: {speedup}, run {summary.run_id}", markup=False)

    def listen() -> AbstractContextManager[OnEvent]:
        return _listening(Progress(settings.budget))

    found = optimize_shape_set(
        shape_set,
        settings,
        project=project,
        workers=jobs,
        listen=listen,
        on_run=tell,
        began=began,
    )
    if found is None:
        notes().print("interrupted; repeat the command to continue", markup=False)
        raise typer.Exit(INTERRUPTED)
    write_text(output, found.source)
    headers = _write_headers(output, found.headers)
    for line in _lines(found):
        results().print(line, markup=False, soft_wrap=True)
    results().print(f"kernel_dispatch is in {output}", markup=False, soft_wrap=True)
    if headers is not None:
        results().print(
            f"the headers that its compilation needs are in {headers}", markup=False, soft_wrap=True
        )
    files = {"file": str(output), "headers": None if headers is None else str(headers)}
    write_json(json, {**files, "speedup": found.speedup, **_json(found)})
    if found.speedup is None:
        raise typer.Exit(1)


def _write_headers(output: Path, headers: Mapping[str, str]) -> Path | None:
    """Write the headers into a folder beside the C file, and return the folder; None without
    headers, or if the C file went to a pipe or a device.
    """
    if not headers or not output.is_file():
        return None
    folder = output.with_name(f"{output.stem}_headers")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"the folder {folder} for headers cannot be made ({error.strerror}). Remove the file "
            "with this name, or give another -o."
        ) from error
    for name, text in headers.items():
        write_text(folder / name, text)
    return folder


@contextmanager
def _listening(progress: Progress) -> Iterator[OnEvent]:
    with progress:
        yield progress.on_event


def _lines(found: ShapeSetResult) -> list[str]:
    lines = [_line(row) for row in found.inside]
    if found.speedup is not None:
        quantity = found.inside[0].quantity
        lines.append(
            f"Called through kernel_dispatch, the kernels are {found.speedup:.2f}x as fast as the "
            f"starting kernels (geometric mean over {len(found.inside)} shapes, {quantity})."
        )
    lines += [f"outside the set, {_line(row)}" for row in found.outside]
    if found.refusal:
        lines.append(
            f"For other sizes kernel_dispatch returns 1 and computes nothing: {found.refusal}"
        )
    elif not found.outside:
        lines.append(
            "For other sizes kernel_dispatch calls the starting kernel, which was not "
            "checked for them."
        )
    return lines


def _line(row: Row) -> str:
    if isinstance(row.dispatched, Failed):
        return (
            f"{row.workload}: {row.dispatched.kind} through kernel_dispatch: {row.dispatched.log}"
        )
    through = f"{row.start:,.0f} -> {row.dispatched:,.0f} {row.unit}, {row.speedup:.2f}x"
    direct = f" (called directly: {row.best:,.0f})" if row.best is not None else ", correct"
    return f"{row.workload}: {through}{direct}"


def _json(found: ShapeSetResult) -> dict[str, object]:
    def row(one: Row) -> dict[str, object]:
        failed = one.dispatched if isinstance(one.dispatched, Failed) else None
        return {
            **asdict(one),
            "dispatched": None if failed else one.dispatched,
            "failure": failed.kind if failed else None,
            "speedup": one.speedup,
        }

    rows = {"inside": found.inside, "outside": found.outside}
    return {**{name: [row(r) for r in of] for name, of in rows.items()}, "refusal": found.refusal}
