"""Which kernels are made of a problem's model, and why none is made of others."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tilewright import evaluating, run
from tilewright.core.config import Settings
from tilewright.core.errors import NotTimedError, ToolchainMissingError
from tilewright.core.records import Candidate, Failed, Verdict
from tilewright.core.tasks import open_task
from tilewright.core.templates import MACROS, parse_template
from tilewright.targets.cuda.models.formulas import OtherError
from tilewright.targets.cuda.models.oracle import find_torch
from tilewright.targets.cuda.models.recognition import recognised
from tilewright.targets.cuda.models.statements import texts_of
from tilewright.targets.cuda.models.task import ModelTask
from tilewright.targets.cuda.occupancy import architectures

R, C = (64, 16), (48, 32)
"""Extents at the problem's own sizes, and at those of the check."""


class Graph:
    """The operations of a model, as the process that runs it writes them down, at both sizes."""

    def __init__(self) -> None:
        self.said: tuple[list[Any], list[Any]] = ([], [])

    def __call__(
        self, does: str, shape: Sequence[Any], *given: Any, **words: Any
    ) -> tuple[Any, ...]:
        name = f"{len(self.said[0])}.0"
        for way, operations in enumerate(self.said):
            said = [array(*g[:2], way, *g[2:]) if isinstance(g, tuple) else g for g in given]
            is_mask = does.partition(".")[0] in ("gt", "ge", "lt", "le", "eq", "ne")
            kind = "bool" if is_mask else "int64" if does.startswith("arange") else "float32"
            gives = [array("", shape, way, kind)]
            operations.append(
                {"does": f"aten.{does}", "given": said, "words": words, "gives": gives}
            )
        return name, shape

    def kernels(self) -> Any:
        last = f"{len(self.said[0]) - 1}.0"
        return recognised(*({"operations": o, "outputs": [last]} for o in self.said))

    def read(self) -> Any:
        (kernel,) = self.kernels()
        return kernel


def array(name: str, shape: Sequence[Any], way: int, dtype: str = "float32") -> dict[str, Any]:
    sizes = [size[way] if isinstance(size, tuple) else size for size in shape]
    return {"array": name, "shape": sizes, "dtype": f"torch.{dtype}"}


X, Y, BIAS = ("input 0", (R, C)), ("input 1", (R, C)), ("self.b", (C,))


def only_text(graph: Graph) -> str:
    (found,) = texts_of(graph.kernels(), architectures()["sm_90"], "").values()
    template = parse_template(found[0], MACROS)
    assert template is not None
    return found[0]


def test_element_wise_operations_are_one_kernel() -> None:
    graph = Graph()
    first = graph("add.Tensor", (R, C), X, BIAS)
    second = graph("relu.default", (R, C), first)
    graph("mul.Tensor", (R, C), second, 0.5)
    assert graph.read().words == "a chain of element-wise operations"
    text = only_text(graph)
    assert "(v_a0.at[v] + a1[place % n0])" in text
    assert "* 0.5f)" in text
    assert "torch::empty({(int)a0.size(0), (int)a0.size(1)}, a0.options())" in text


def test_rows_are_passed_over_once_for_each_total() -> None:
    graph = Graph()
    graph("_softmax.default", (R, C), X, -1, False)
    assert graph.read().words == "an operation on rows"
    text = only_text(graph)
    assert text.index("of_row<MOST>(total0") < text.index("of_row<SUM>(total1")
    assert "expf(v_a0.at[v] - total0)" in text


def test_a_product_ends_with_what_follows_it() -> None:
    graph = Graph()
    weights = ("self.w", ((8, 8), R))
    right = graph("t.default", (R, (8, 8)), weights)
    product = graph("addmm.default", (C, (8, 8)), ("self.b", ((8, 8),)), ("input 0", (C, R)), right)
    graph("tanh.default", (C, (8, 8)), product)
    assert graph.read().words == "a product that is followed by element-wise operations"
    text = only_text(graph)
    assert "Right factor{a1.data_ptr<float>(), right_step, terms};" in text
    assert "TUNE(SPLIT, 1)" in text
    assert "tanhf(" in text


def test_comparisons_and_selections_are_part_of_a_kernel() -> None:
    graph = Graph()
    mask = graph("gt.Tensor", (R, C), X, BIAS)
    zero = graph("scalar_tensor.default", (), 0.0)
    graph("where.self", (R, C), mask, X, zero)
    graph("masked_fill.Scalar", (R, C), X, mask, -math.inf)
    assert "? (-INFINITY) : v_a0.at[v])" in only_text(graph)
    graph("where.self", (R, C), mask, X, zero)
    text = only_text(graph)
    assert "v_a0.at[v] > a1[place % n0] ? 1.0f : 0.0f" in text
    assert "!= 0.0f ? v_a0.at[v] : 0.0f)" in text


def test_causal_masks_are_computed_from_the_place_of_an_element() -> None:
    graph = Graph()
    scores = graph("mm.default", (R, C), ("input 0", (R, R)), ("input 1", (R, C)))
    ones = graph("ones.default", (R, C), [64, 48])
    mask = graph("eq.Scalar", (R, C), graph("tril.default", (R, C), ones), 0)
    graph("masked_fill.Scalar", (R, C), scores, mask, -math.inf)
    text = only_text(graph)
    assert "(place / added.n0 - place % added.n0 < added.n1 ? 1.0f : 0.0f)" in text
    assert "(-INFINITY) : value" in text
    assert list(graph.read().arrays) == ["input 0", "input 1"]
    graph = Graph()
    graph("triu.default", (R, C), X, 2)
    graph_text = only_text(graph)
    assert "0u - place / n0 + place % n0 - 2u < n1 ? 1.0f : 0.0f)" in graph_text
    assert "(int)a0.size(1) - 2)" in graph_text
    graph = Graph()
    graph("tril.default", (R, C), X, -1000)
    assert "- 1000u < 0u ?" in only_text(graph)


def test_positions_are_compared_as_numbers() -> None:
    graph = Graph()
    across = graph("arange.start_step", (C,), -3, 200, 2)
    keys, rows = (*across, "int64"), ("input 1", (R, (1, 1)), "int64")
    earlier = graph("le.Tensor", (R, C), keys, rows)
    graph("where.self", (R, C), earlier, X, 0.0)
    text = only_text(graph)
    assert "((float)(int)(place % n0 * 2u - 3u) <= a1[place / n0] ? 1.0f : 0.0f)" in text
    assert "const int64_t *a1" in text
    for given, why in (((1 << 25,), "counts"), ((0.5,), "counts")):
        graph = Graph()
        keys = (*graph("arange.start", (C,), 0, *given), "int64")
        last = graph("arange.start", (C,), *given, 0)
        graph("ge.Tensor", (C,), keys, (*last, "int64"))
        with pytest.raises(OtherError, match=why):
            graph.kernels()


def test_attention_in_one_operation_is_two_products_and_rows() -> None:
    graph = Graph()
    q, k, v = ((f"input {i}", ((2, 2), (3, 3), R, (16, 16))) for i in range(3))
    name = "_scaled_dot_product_flash_attention_for_cpu.default"
    graph(name, q[1], q, k, v, 0.0, True, attn_mask=None, scale=None)
    scores, rows, product = graph.kernels()
    assert scores.words == "a product that is followed by element-wise operations"
    assert (rows.words, product.words) == ("an operation on rows", "a product")
    (text,) = (found for found, _ in list(texts_of(graph.kernels(), architectures()["sm_90"], "")
                                          .values())[:1])  # fmt: skip
    assert "(value * 0.25f)" in text
    assert ": (-INFINITY));" in text
    graph = Graph()
    graph("_safe_softmax.default", (R, C), X, -1)
    assert graph.read().words == "an operation on rows"
    graph = Graph()
    graph(name, q[1], q, k, v, 0.5, True)
    with pytest.raises(OtherError, match="dropout or fewer keys"):
        graph.kernels()


def test_small_values_are_computed_again_for_each_element() -> None:
    graph = Graph()
    scale = graph("add.Tensor", (C,), BIAS, 1.0)
    graph("mul.Tensor", (R, C), X, scale)
    model = graph.read()
    assert model.grid == (R, C)
    text = only_text(graph)
    assert "(a1[place % n0] + 1.0f)" in text
    graph = Graph()
    seen = graph("view.default", (C, (1, 1)), graph("add.Tensor", (C,), BIAS, 1.0))
    graph("mul.Tensor", (C, C), ("input 0", (C, C)), seen)
    assert "(a1[place / n0] + 1.0f)" in only_text(graph)


def test_rows_whose_elements_are_not_adjacent_have_a_kernel_of_their_own() -> None:
    graph = Graph()
    cube = ("input 0", (R, C, (8, 8)))
    mean = graph("mean.dim", (R, (1, 1), (8, 8)), cube, [1], True)
    graph("sub.Tensor", (R, C, (8, 8)), cube, mean)
    model = graph.read()
    assert (model.columns, model.inner) == ((C,), ((8, 8),))
    text = only_text(graph)
    assert "of_columns<SUM, WIDTH>(total0, parts);" in text
    assert "int columns = (int)a0.size(1);" in text
    assert "rows, columns, 8);" in text


@pytest.mark.parametrize("form", ["square", "newton"])
@pytest.mark.parametrize("begins", ["elements", "product", "rows", "broadcast"])
def test_values_that_are_used_several_times_are_written_once(form: str, begins: str) -> None:
    """Written out, these formulas have at least 2 to the power of 32 operations."""
    graph, wide = Graph(), (R, R)
    shape: Sequence[Any] = (R,) if begins == "broadcast" else (R, R)
    matrix = ("input 0", wide)
    scale: Any = ("self.a", (R,)) if begins == "broadcast" else ("input 1", wide)
    chains = []
    first: Any = {
        "elements": lambda: matrix,
        "product": lambda: graph("mm.default", wide, matrix, ("self.w", wide)),
        "rows": lambda: graph("sum.dim_IntList", (R, (1, 1)), matrix, [1], True),
        "broadcast": lambda: ("self.b", (R,)),
    }[begins]()
    if begins == "rows":
        shape, scale = (R, (1, 1)), first
    for _ in range(2):  # the same values are computed twice
        x = first
        for _ in range(98 if form == "square" else 32):
            if form == "square":
                x = graph("mul.Tensor", shape, x, x)
            else:
                correction = graph("rsub.Scalar", shape, graph("mul.Tensor", shape, scale, x), 2)
                x = graph("mul.Tensor", shape, x, correction)
        chains.append(x)
    both = graph("add.Tensor", shape, *chains)
    graph("mul.Tensor", wide, both, both if begins == "product" else matrix)
    model = graph.read()
    assert model == graph.read()
    assert len(repr(model)) < 2000
    statements = re.findall(r"float t\d+ =", only_text(graph))
    assert len(statements) == (98 if form == "square" else 96) + 2


def test_the_place_of_the_largest_element_is_the_first_one_with_its_value() -> None:
    graph = Graph()
    graph("argmax.default", (R,), X, 1)
    for way in graph.said:
        way[0]["gives"][0]["dtype"] = "torch.int64"
    assert graph.read().words == "an operation on rows"
    text = only_text(graph)
    assert "(v_a0.at[v] == total0 ? column : 3.4e38f)" in text
    assert "a0.options().dtype(torch::kLong)" in text


def test_groups_of_channels_are_rows_of_one_kernel() -> None:
    graph = Graph()
    shape = (R, (8, 8), C)
    graph("native_group_norm.default", shape, ("input 0", shape), ("self.w", ((8, 8),)), None,
          64, 8, 48, 4, 1e-5)  # fmt: skip
    graph.said[1][0]["given"][3:6] = [16, 8, 32]
    text = only_text(graph)
    assert "int columns = (2 * (int)a0.size(2));" in text


def test_operations_without_an_influence_on_the_result_are_left_out() -> None:
    graph = Graph()
    graph("sum.dim_IntList", (C,), X, [0])
    graph("add_.Tensor", (), ("self.count", ()), 1)
    graph("relu.default", (R, C), X)
    assert graph.read().words == "a chain of element-wise operations"
    graph = Graph()
    graph("add_.Tensor", (C,), BIAS, 1)
    graph("add.Tensor", (R, C), X, BIAS)
    with pytest.raises(OtherError, match="changes an array"):
        graph.read()


def test_a_row_without_its_first_axis_is_broadcast() -> None:
    graph = Graph()
    mean = graph("mean.dim", (C,), X, [0])
    graph("sub.Tensor", (R, C), X, mean)
    model = graph.read()
    assert (model.columns, model.inner) == ((R,), (C,))
    assert "v_a0.at[v] - " in only_text(graph)


@pytest.mark.parametrize(
    ("operations", "says"),
    [
        ([("cummax.default", (R, C), X, 1)], "it computes cummax"),
        ([("gt.Scalar", (R, C), X, 0)], "its result is a mask"),
        ([("ones_like.default", (R, C), X)], "does not depend on its arrays"),
        ([("view.default", (R, C), X), ("add_.Tensor", (R, C), ("0.0", (R, C)), 1)],
         "an array that it may use elsewhere"),
        ([("add_.Tensor", (R, C), X, 1)], "an array that it may use elsewhere"),
        ([("max_pool2d_with_indices.default", (R, C), X, [4096, 2])], "one thread can process"),
        ([("avg_pool1d.default", (R, C), X, [2], [2], [0], True)], "round up the number"),
        ([("_adaptive_avg_pool2d.default", (R, C), X, [3, 4])], "it computes _adaptive_avg_pool2d"),
        ([("adaptive_max_pool2d.default", (R, C), X, [3, 4])], "it computes adaptive_max_pool2d"),
        ([("bmm.default", ((70_000, 4), R, R), ("input 0", ((70_000, 4), R, C)),
           ("input 1", ((70_000, 4), C, R)))], "more than 65535 pairs"),
        ([("convolution.default", ((70_000, 4), 32, C), ("input 0", ((70_000, 4), 4, C)),
           ("self.w", (32, 4, 1)), None, [1], [0], [1], False, [0], 1)], "more than 65535 groups"),
        ([("select.int", (R,), ("input 0", (R, C), "int64"), 1, 0)], "reorders integers"),
        ([("embedding.default", (R, C), X, ("input 1", (R,)))], "numbers of the rows"),
        ([("convolution.default", (2, 8, C), ("input 0", (2, 4, C)), ("self.w", (8, 4, C)), None,
           [1], [0], [1], False, [0], 1)], "windows of its convolution depend"),
        ([("mul.Scalar", (R, C), X, math.nan)], "it computes with nan"),
        ([("mul.Tensor", (R, C), X, {"unknown": "dict"})], "other than its arrays"),
        ([("add.Tensor", (R, C), X, 1), ("sum.dim_IntList", (), ("self.b", (C,)), [0]),
          ("mul.Tensor", (R, C), ("0.0", (R, C)), ("1.0", ()))], "arrays of several sizes"),
        ([("gather.default", (R, C), X, 0, 3)], "it gathers several elements of a row"),
        ([("argmax.default", (R,), ("input 0", (R, (1 << 25, 8))), 1)], "more than 2.24 elements"),
        ([("argmax.default", (R,), X, 1), ("argmax.default", (), ("0.0", (R,)), 0)],
         "integers that another one computes"),
        ([("argmax.default", (R,), ("input 0", (R, C), "int64"), 1)], "computes with torch.int64"),
        ([("gather.default", (R, 1), ("input 0", (R, C), "int64"), 1,
           ("input 1", (R, 1), "int64"))],
         "computes with torch.int64"),
        ([("mul.Tensor", (R, C), X, ("input 1", (R, C), "bool"))], "an array of truth values"),
        ([], "it computes nothing"),
        ([("t.default", (C, R), X)], "it computes nothing"),
    ],
)  # fmt: skip
def test_other_models_are_told_why(operations: Sequence[Any], says: str) -> None:
    graph = Graph()
    for does, shape, *given in operations:
        graph(does, shape, *given)
    with pytest.raises(OtherError, match=says):
        graph.read()


def test_an_operation_that_does_not_fit_begins_another_kernel() -> None:
    graph = Graph()
    product = graph("mm.default", (R, R), X, ("input 1", (C, R)))
    scaled = graph("mul.Tensor", (R, R), product, 0.5)
    rows = graph("_softmax.default", (R, R), scaled, 1, False)
    again = graph("mm.default", (R, C), rows, ("input 2", (R, C)))
    graph("sum.default", (), again)
    kernels = graph.kernels()
    assert [kernel.words for kernel in kernels] == [
        "a product that is followed by element-wise operations",
        "an operation on rows",
        "a product",
        "an operation on rows",
        "an operation on rows",
    ]
    text = only_text(graph)
    template = parse_template(text, MACROS)
    assert template is not None
    names = [parameter.name for parameter in template.parameters]
    assert len(names) == len(set(names))
    assert {"TM_OF_PRODUCT", "SPLIT_OF_PRODUCT2", "THREADS_OF_ROWS"} <= {*names}
    assert "TM_OF_PRODUCT2" not in names  # products have the same parameters
    assert math.prod(len(parameter.values) for parameter in template.parameters) <= 100_000
    assert "step1::answer(step0)" in text
    assert "return step4::answer(step3);" in text
    assert "answer(torch::Tensor a0, torch::Tensor a1, torch::Tensor a2) {" in text


def test_values_of_arrays_alone_are_written_only_for_a_kernel_that_needs_them() -> None:
    graph = Graph()
    scaled = graph("mul.Tensor", (R, C), X, 2.0)
    product = graph("mm.default", (R, R), scaled, ("input 1", (C, R)))
    graph("relu_.default", (R, R), product)
    first, second = graph.kernels()
    assert (first.begins, first.shape, second.begins.left.name) == (None, (R, C), "step 0")
    rows = Graph()
    scale = rows("exp.default", (R, C), X)
    most = rows("amax.default", (R, (1, 1)), X, [1], True)
    ready = rows("cumsum.default", (R, C), rows("sub.Tensor", (R, C), X, most), 1)
    rows("mul.Tensor", (R, C), ready, scale)
    first, second = rows.kernels()
    assert second.begins.of.array == "step 0"
    assert "expf(a1[place])" in only_text(rows)


def test_a_transposed_left_factor_is_copied_first() -> None:
    graph = Graph()
    left = graph("t.default", (C, R), X)
    graph("mm.default", (C, C), left, ("input 1", (R, C)))
    first, second = graph.kernels()
    assert (first.begins, first.shape, second.begins.left.name) == (None, (C, R), "step 0")
    assert "a0[place / n0 + place % n0 * n1]" in only_text(graph)


def test_several_values_of_one_product_are_computed_from_its_array() -> None:
    graph = Graph()
    product = graph("mm.default", (R, R), X, ("input 1", (C, R)))
    raised = graph("exp.default", (R, R), product)
    rows = graph("_softmax.default", (R, R), product, 1, False)
    graph("mul.Tensor", (R, R), rows, raised)
    first, second = graph.kernels()
    assert (first.words, second.words) == ("a product", "an operation on rows")


def test_views_are_composed_into_one_place() -> None:
    graph, cube = Graph(), (R, C, (8, 8))
    turned = graph("permute.default", ((8, 8), R, C), ("input 0", cube), [2, 0, 1])
    back = graph("permute.default", cube, turned, [1, 2, 0])
    graph("relu.default", cube, back)
    assert "v_a0.at[v] > 0.0f" in only_text(graph)
    graph = Graph()
    part = graph("slice.Tensor", (R, (12, 8)), X, 1, 4, 16)
    graph.said[1][0]["given"][3] = 12
    graph("relu.default", (R, (12, 8)), graph("flip.default", (R, (12, 8)), part, [1]))
    text = only_text(graph)
    assert "a0[place / n0 * n1 - place % n0 + n2]" in text


def test_axes_that_are_not_adjacent_are_reduced_one_after_the_other() -> None:
    graph = Graph()
    graph("sum.dim_IntList", (C,), ("input 0", (R, C, R)), [0, 2])
    first, second = graph.kernels()
    assert (first.columns, second.columns, second.inner) == ((R,), (R,), (C, (1, 1)))


def test_numbers_that_are_powers_of_sizes_are_computed_from_them() -> None:
    graph = Graph()
    graph("mul.Scalar", (R, C), X, 48**-0.5)
    graph.said[1][0]["given"][1] = 32**-0.5
    assert "v_a0.at[v] * rsqrtf((float)n0)" in only_text(graph)
    assert "launch(a0.data_ptr<float>(), (int)a0.size(1)," in only_text(graph)


def test_windows_are_loops_of_a_thread() -> None:
    graph = Graph()
    size = ((62, 14), (46, 30))
    graph("max_pool2d_with_indices.default", size, X, [3, 3], [1, 1])
    assert graph.read().words == "a loop over windows"
    text = only_text(graph)
    assert "for (unsigned w1 = 0; w1 < 3u; w1++)" in text
    assert "fmaxf(t0, " in text
    assert "((int)a0.size(0) - 2), ((int)a0.size(1) - 2)" in text


def test_batches_of_products_and_transposed_factors() -> None:
    batch, graph = ((8, 8), (6, 6)), Graph()
    keys = ("input 1", (*batch, R, C))
    turned = graph("transpose.int", (*batch, C, R), keys, -1, -2)
    turned = graph("expand.default", (*batch, C, R), turned, [8, 6, -1, -1])
    turned = graph("view.default", ((48, 48), C, R), turned, [48, -1, -1])
    queries = graph("view.default", ((48, 48), R, C), ("input 0", (*batch, R, C)), [48, -1, -1])
    graph("bmm.default", ((48, 48), R, R), queries, turned)
    assert graph.read().begins.right.transposed
    text = only_text(graph)
    assert "int images = 48, terms = " in text
    assert "Right factor{a1.data_ptr<float>(), right_step, terms};" in text
    graph("transpose.int", ((48, 48), R, R), ("4.0", ((48, 48), R, R)), 0, 0)
    assert not graph.read().formula.text.startswith("(")


@pytest.mark.parametrize(("axis", "inner"), [(1, ()), (0, (C,))])
def test_scans_are_of_rows_or_of_columns(axis: int, inner: Sequence[Any]) -> None:
    graph = Graph()
    scan = graph("cumprod.default", (R, C), graph("mul.Tensor", (R, C), X, Y), axis - 2)
    graph("sub.Tensor", (R, C), scan, X)
    assert graph.read().begins.inner == inner
    text = only_text(graph)
    assert "return one * other;" in text
    assert "(value - a0[place])" in text
    assert ("TUNE(LANES, 1)" in text) == (not inner)


@pytest.mark.parametrize("said", [None, 3, {}, {"operations": 3}, {"operations": [[]]},
                                  {"operations": [{"does": 1}], "outputs": []}])  # fmt: skip
def test_a_list_that_cannot_be_read_is_one_sentence(said: object) -> None:
    with pytest.raises(OtherError):
        recognised(said, said)


PROBLEM = """\
# {"size": 8}
import torch
import torch.nn as nn

K = 8


class Model(nn.Module):
    def __init__(self, count, options):
        super(Model, self).__init__()
        self.scale = nn.LayerNorm(count)
        self.eval()

    def forward(self, A, B):
        return A @ B * self.scale.weight


def get_inputs():
    return [torch.rand(4, K), torch.rand(K, 6)]
"""


def evaluated_here(source: str, name: str, settings: Settings) -> NoReturn:
    """In this process, where the stand-in is."""
    builder, checker, runner = open_task(name, settings.recorded()).task.evaluator
    built = builder.build(Candidate(source))
    assert not isinstance(built, Failed), built.log
    verdict = checker.check(built)
    assert not isinstance(verdict, Failed), verdict.log
    runner.measure(built, verdict, None)
    raise AssertionError("it was timed")


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
def test_without_a_gpu_the_kernel_is_checked_and_written(
    stand_in_for_torch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluating, "evaluate_kernel", evaluated_here)
    file = tmp_path / "scaled.py"
    file.write_text(PROBLEM)
    with pytest.raises(NotTimedError) as said:
        run.optimize(str(file), Settings(), project=tmp_path)
    assert "Its Model is a product that is followed by element-wise operations." in str(said.value)
    assert "is correct on the CPU (float32)" in str(said.value)
    assert str(said.value).count("To search for a faster kernel") == 1
    answer = (tmp_path / "scaled_answer.py").read_text()
    assert "class ModelNew" in answer
    assert "extension.answer(A, B, self.scale.weight)" in answer
    assert "get_inputs" not in answer
    assert "eval" not in answer
    (tmp_path / "scaled_answer.py").write_text("mine\n")
    with pytest.raises(NotTimedError, match="is a different file"):
        run.optimize(str(file), Settings(), project=tmp_path)
    with pytest.raises(NotTimedError, match="cannot be written"):
        run.optimize(str(file), Settings(), project=file)
    with pytest.raises(NotTimedError, match="contains the kernel that tilewright derived"):
        run.optimize(str(file), Settings(), project=tmp_path / "new" / "folder")


def test_without_a_gpu_and_a_kernel_only_a_check_of_an_own_answer_is_advised(
    stand_in_for_torch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelTask, "templates", lambda self: {})
    file = tmp_path / "scaled.py"
    file.write_text(PROBLEM)
    with pytest.raises(NotTimedError) as said:
        run.optimize(str(file), Settings(), project=tmp_path)
    assert f"`tilewright evaluate FILE --workload {file}`" in str(said.value)
    assert "tilewright check" not in str(said.value)


def test_the_first_kernel_is_the_start_and_a_template(
    stand_in_for_torch: None, tmp_path: Path
) -> None:
    file = tmp_path / "scaled.py"
    file.write_text(PROBLEM)
    opened = open_task(str(file), {"input_seed": 3})
    assert opened.template is not None
    assert opened.template.instance(opened.template.first) == opened.task.start
    assert {p.name for p in opened.template.parameters} >= {"TM", "TN", "TK"}


MODELS = {
    "rms": (
        "torch.rand(64, 256)",
        "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)",
    ),
    "conv": ("torch.randn(2, 3, 12, 12)", "return torch.relu(self.conv(x)) * 2"),
    "linear": ("torch.rand(4, 9, 32)", "return torch.sigmoid(self.linear(x))"),
    "selection": (
        "torch.randn(64, 256)",
        "return torch.where(x > 0.5, x, 0.1 * x).masked_fill(x < -1, -1.0) * torch.sign(x)",
    ),
    "rms of channels": (
        "torch.rand(4, 24, 6, 10)",
        "return x / torch.sqrt((x ** 2).mean(dim=1, keepdim=True) + 1e-5)",
    ),
    "softmax of channels": ("torch.randn(3, 50, 33)", "return torch.softmax(x, dim=1)"),
    "distance from the mean": ("torch.randn(40, 36)", "return x - x.mean(dim=0)"),
    "largest of channels": ("torch.randn(3, 50, 64)", "return torch.max(x, dim=1)[0]"),
    "softmax of a product": (
        "torch.randn(40, 32)",
        "return torch.softmax(self.linear(x) * 0.5, dim=1)",
    ),
    "attention": (
        "torch.randn(2, 3, 40, 16)",
        "return torch.softmax(x @ x.transpose(-1, -2) * 0.25, dim=-1) @ x",
    ),
    "causal attention": (
        "torch.randn(2, 3, 40, 16)",
        "mask = torch.triu(torch.ones(40, 40, dtype=torch.bool), 1)\n"
        "        s = (x @ x.transpose(-1, -2) * 0.25).masked_fill(mask, float('-inf'))\n"
        "        return torch.softmax(s, dim=-1) @ x",
    ),
    "causal attention by positions": (
        "torch.randn(2, 3, 40, 16)",
        "i = torch.arange(40)\n"
        "        never = torch.tensor(float('-inf'))\n"
        "        s = torch.where(i[None] <= i[:, None], x @ x.transpose(-1, -2) * 0.25, never)\n"
        "        return torch.softmax(s, dim=-1) @ x",
    ),
    "causal attention of PyTorch": (
        "torch.randn(2, 3, 40, 16)",
        "return torch.nn.functional.scaled_dot_product_attention(x, x * 2, x, is_causal=True)",
    ),
    "triangles": ("torch.randn(40, 36)", "return x.tril(-3) + x.relu().triu(2)"),
    "batches": ("torch.randn(3, 40, 40)", "return torch.bmm(x, x.relu()) + x"),
    "sums of rows": ("torch.randn(9, 1000)", "return torch.cumsum(x * 2, dim=1) - x"),
    "sums in place": ("torch.randn(64, 64)", "y = x * 2; y.cumsum_(1); return y"),
    "products so far": ("torch.randn(64, 64)", "return torch.cumsum(x, 1) * 2 + x.cumprod(0)"),
    "sums of columns": ("torch.randn(3, 70, 45)", "return torch.cumsum(x, dim=1)"),
    "loss": (
        "torch.randn(64, 128)",
        "return torch.nn.functional.cosine_similarity(x, x.relu() + 1.0, dim=1).mean()",
    ),
    "statistics": (
        "torch.randn(64, 32)",
        "return torch.nn.functional.mish(torch.logsumexp(self.linear(x), 1, keepdim=True))",
    ),
    "place of the largest": ("torch.randn(40, 36)", "return torch.argmax(x, dim=-1)"),
    "place of the smallest": ("torch.randn(3, 50, 64)", "return x.argmin(dim=1, keepdim=True)"),
    "groups of channels": (
        "torch.randn(3, 8, 10, 12)",
        "return torch.nn.functional.group_norm(x, 4, self.conv.bias, self.conv.bias).relu()",
    ),
    "each image": ("torch.randn(3, 5, 6, 20)", "return torch.nn.functional.instance_norm(x)"),
    "classes": (
        "torch.randn(40, 36), torch.randint(0, 36, (40,))",
        "return torch.nn.functional.cross_entropy(x, y)",
    ),
    "chosen elements": (
        "torch.randn(40, 36), torch.randint(0, 36, (40, 1))",
        "return torch.gather(torch.log_softmax(x, 1), 1, y)",
    ),
    "unused statistics": (
        "torch.randn(40, 32)",
        "self.conv.bias.add_(1); return torch.max(self.linear(x), dim=1)[0]",
    ),
    "pools": (
        "torch.randn(2, 3, 13, 17)",
        "y = torch.nn.functional.max_pool2d(x.relu(), 3, 2, 1, 2)\n"
        "        z = torch.nn.functional.avg_pool2d(x, (3, 5), 2, (0, 1), False, False)\n"
        "        return torch.cat([y[:, :, :, 1:7], z[..., :6].flip(3)], 1)",
    ),
    "means of one axis": (
        "torch.randn(2, 3, 40)",
        "return torch.nn.functional.avg_pool1d(torch.nn.functional.pad(x, (2, 1)), 4, 3, 1) * 2",
    ),
    "largest of blocks": (
        "torch.randn(2, 2, 6, 7, 8)",
        "return torch.nn.functional.max_pool3d(x, (2, 3, 2))",
    ),
    "transposed convolution": (
        "torch.randn(2, 6, 9, 7)",
        "return torch.nn.functional.conv_transpose2d(x, self.up, None, (2, 3), (1, 0), (1, 2), 2)",
    ),
    "groups of filters": (
        "torch.randn(2, 6, 9, 11)",
        "y = torch.nn.functional.conv2d(x, self.many, None, (1, 2), (0, 1), (2, 1), 2)\n"
        "        return torch.nn.functional.conv2d(x, self.few, self.conv.bias[:6], 2, 1, 1, 6)"
        ".sum((0, 2, 3)) + y.mean((0, 2, 3))[:6]",
    ),
    "one image": (
        "torch.randn(3, 9, 8)",
        "return torch.nn.functional.conv2d(x, self.many.view(40, 3, 3, 3), None, 1, 1)",
    ),
    "convolution of one axis": (
        "torch.randn(2, 6, 40)",
        "return torch.nn.functional.conv1d(x, self.many[:, :, 0], None, 3, 2, 4, 2)",
    ),
    "batches of images": (
        "torch.randn(4, 8, 5, 6)",
        "return torch.nn.functional.batch_norm(x, None, None, self.conv.bias, None, True)",
    ),
    "gates": (
        "torch.randn(9, 32)",
        "a, b = self.linear(x).chunk(2, dim=1); return a.sigmoid() * b.tanh() + x[:, ::4]",
    ),
    "cell": (
        "torch.randn(9, 32)",
        "return self.cell(x, (x[:, :8].contiguous(), x[:, 8:16] * 2))[1]",
    ),
    "words": (
        "torch.randn(5, 32), torch.randint(0, 16, (5, 7))",
        "return torch.nn.functional.embedding(y, self.linear.weight).mean(1) * x",
    ),
    "heads": (
        "torch.randn(2, 24, 32)",
        "q, k = (y.view(2, 24, 2, 16).transpose(1, 2) for y in (x, x.flip(1)))\n"
        "        return (q @ k.transpose(-2, -1)).softmax(-1).transpose(1, 2).reshape(2, 24, 48)",
    ),
    "scaled": ("torch.randn(5, 16)", "return x * (1 + self.linear.bias) - self.linear.bias"),
}


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
@pytest.mark.parametrize("name", MODELS)
def test_kernels_made_of_models_in_pytorch_are_right(name: str, tmp_path: Path) -> None:
    try:
        find_torch()
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    inputs, body = MODELS[name]
    file = tmp_path / "problem.py"
    file.write_text(
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(3, 8, 3, padding=1)\n"
        "        self.linear = nn.Linear(32, 16)\n"
        "        self.cell = nn.LSTMCell(32, 8)\n"
        "        self.up = nn.Parameter(torch.randn(6, 20, 3, 4))\n"
        "        self.many = nn.Parameter(torch.randn(40, 3, 3, 3))\n"
        "        self.few = nn.Parameter(torch.randn(6, 1, 3, 3))\n\n"
        f"    def forward(self, x{', y' if 'randint' in inputs else ''}):\n        {body}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    task = open_task(str(file), {"input_seed": 3, "checks": 3}).task
    builder, checker, _ = task.evaluator
    built = builder.build(Candidate(task.start))
    verdict = checker.check(built)  # type: ignore[arg-type]
    assert isinstance(verdict, Verdict), verdict.log
    assert verdict.precision in ("float32", "exact", "")  # whole numbers have none
