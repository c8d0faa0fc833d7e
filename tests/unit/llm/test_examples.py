"""The worked examples that models are shown are correct kernels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError
from tilewright.core.plugins import load_target
from tilewright.core.records import Measured
from tilewright.evaluating import evaluate_kernel
from tilewright.parts.brief_files import load_examples
from tilewright.proposers.llm.prompts.render import examples_of
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.brief import words

KERNEL = """void kernel(const int8_t A[256][256], const int8_t B[256][256], int8_t C[256][256]) {{
config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
config_ld(256, 1.0f, 16, 0);
config_ld(256, 1.0f, 16, 1);
config_ld(0, 1.0f, 16, 2);
config_st(256);
{body}
fence();
}}
"""
EXAMPLES = load_target("gemmini").brief().examples


@pytest.mark.parametrize("name", ["gemmini", "host-c", "amx-int8"])
def test_examples_belong_to_options_of_the_menu(name: str) -> None:
    brief = load_target(name).brief()
    options = {option.id for option in brief.menu}
    for example in brief.examples:
        assert set(example.options) <= options, example.name


def test_an_example_is_shown_with_its_options_only() -> None:
    examples = load_target("gemmini").brief().examples
    assert examples_of(examples, "tile-sizes")
    assert not examples_of(examples, "unroll")


@pytest.mark.toolchain
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_a_gemmini_example_is_correct_and_pays(tmp_path: Path, number: int) -> None:
    example = EXAMPLES[number]
    latencies = []
    for step, body in enumerate(re.findall(r"```c\n(.*?)```", example.text, re.DOTALL)):
        whole = "void kernel(" in body
        file = tmp_path / f"{step}.c"
        file.write_text(body if whole else KERNEL.format(body=body))
        size = 64 if whole else 256
        outcome = evaluate_kernel(file, f"gemmini:gemm-{size}x{size}x{size}", Settings()).outcome
        assert isinstance(outcome, Measured), outcome
        latencies.append(outcome.latency)
    before, after = latencies
    assert after < (0.75 if whole else 0.6) * before
    said = [float(n.replace(",", "")) for n in re.findall(r"\d+,\d+", example.text)]
    assert not said or all(any(abs(n / one - 1) < 0.01 for n in said) for one in latencies)


def test_an_example_without_a_head_is_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.md").write_text("Just text.")
    with pytest.raises(ConfigurationError, match="no usable header"):
        load_examples(tmp_path, words(create_target().instance))
