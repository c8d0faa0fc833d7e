"""A problem's own `Model` in PyTorch, eager and compiled, as baselines on a GPU."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.records import Argument
from tilewright.targets.cuda.device.baselines import in_every_way
from tilewright.targets.cuda.models.answer_arguments import Form

_PLAIN = (bool, int, float, str, type(None))


def baselines_of_model(form: Form, text: str) -> Mapping[str, str]:
    """The computation of each baseline, by name: the `Model` of a problem's text at full size.

    Empty if the model is called with, or returns, anything other than float32 arrays and plain
    values, or returns more than one array.
    """
    plain = all(isinstance(i, (Argument, *_PLAIN)) for i in form.inputs)
    floats = all(a.dtype == "float32" for a in form.arguments)
    if not plain or not floats or len(form.outputs) != 1:
        return {}
    return in_every_way(
        {
            "given": [a.name for a in form.arguments if a.is_given],
            "shapes": [list(a.shape) for a in form.arguments],
            "model": text,
            "inputs": [None if isinstance(i, Argument) else {"value": i} for i in form.inputs],
            "state": list(form.state),
        }
    )
