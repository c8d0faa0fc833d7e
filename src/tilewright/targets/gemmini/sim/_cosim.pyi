from typing import Any

SOURCE_HASH: str

def config_fields() -> list[str]: ...
def run_kernel(
    config: dict[str, int],
    elf: bytes,
    regions: list[tuple[int, Any, bool, str, bool]],
    later: list[list[Any]],
    symbol: str,
    timing: bool,
    order_by_timing: bool,
    every_cycle: bool,
    limit_cycles: int | None,
    max_instructions: int,
    max_host_s: float | None,
    joins: list[tuple[int, int]] | None,
) -> dict[str, Any]: ...
def run_program(
    config: dict[str, int],
    elf: bytes,
    segments: list[tuple[int, Any]],
    read: list[tuple[int, int]],
    timing: bool,
    every_cycle: bool,
    max_instructions: int,
) -> dict[str, Any]: ...
