"""Tiles that contain indices: gathers, scatters and copies at offsets that are known only at run
time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.trainium.destinations import read, tile
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.tiles.index import Index, of_tile
from tilewright.targets.trainium.tiles.indexing import indexed, sliced
from tilewright.targets.trainium.tiles.view import View


def tile_index(run: Execution, view: View) -> Index:
    """A tile of integers as an index. In traced mode, its numbers are not known and are replaced by
    zeros."""
    run.function = "an index"
    chosen = tile(run, view, "the tile of indices")
    if chosen.dtype.is_float or len(chosen.shape) > 2:
        raise KernelError(
            "unsupported_indexing",
            f"a tile of {chosen.dtype}{list(chosen.shape)} is not an index: expected integers and "
            "at most two axes",
        )
    values = read(run, chosen).astype(np.int64) if run.valued else np.zeros(chosen.shape, np.int64)
    return of_tile(values, chosen)


def region(run: Execution, view: View, key: Any) -> View:
    """`view[key]`, where tiles in the key contain indices."""
    if type(key) is tuple and len(key) == len(view.shape):
        found = sliced(view, key)
        if found is not None:
            return found
    if isinstance(key, View):
        key = tile_index(run, key)
    elif isinstance(key, tuple):
        key = tuple([tile_index(run, i) if isinstance(i, View) else i for i in key])
    return indexed(view, key, run.language)
