from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.records import MenuOption
from tilewright.core.text import plain_text
from tilewright.parts.languages import NKI, C
from tilewright.proposers.llm.edits import apply_edits, read_edits
from tilewright.proposers.llm.messages import (
    Reply,
    Stop,
    Usage,
    reply_from_json,
    reply_to_json,
)
from tilewright.proposers.llm.replies import (
    NothingWorthwhile,
    PlanText,
    ReplyFailed,
    read_change,
    read_code,
    read_plan,
)

KERNEL = "void kernel(const int8_t A[4]) {\n  fence();\n}\n"
MENU = (
    MenuOption("unroll", "Unroll."),
    MenuOption("unroll-deep", "More."),
    MenuOption("hoist", "H."),
)


def fenced(code: str, label: str = "c") -> str:
    return f"```{label}\n{code}```"


def code_in(reply: Reply) -> str | ReplyFailed:
    return read_code(reply, C)


def kind(result: object) -> str:
    assert isinstance(result, ReplyFailed)
    return result.kind


@pytest.mark.parametrize("label", ["c", "C", "cpp", "", "c title=kernel.c", "text"])
def test_any_label(label: str) -> None:
    assert code_in(Reply(f"Here:\n\n{fenced(KERNEL, label)}\nDone.")) == KERNEL


def test_other_fences_and_thoughts_do_not_matter() -> None:
    thoughts = f"<think>first {fenced('void kernel(int wrong) {}' + chr(10))}</think>"
    usage = fenced("make run\n", "sh")
    assert code_in(Reply(f"{thoughts}\n{usage}\n{fenced(KERNEL)}")) == KERNEL


def test_longer_fences_may_hold_shorter_ones() -> None:
    inner = KERNEL.replace("fence", "/*\n```\n*/ fence")
    assert code_in(Reply(f"````c\n{inner}````")) == inner


def test_a_block_ends_at_a_bare_fence_only() -> None:
    inner = KERNEL.replace("fence", "/*\n```c\n*/ fence")
    assert code_in(Reply(fenced(inner))) == inner


def test_json_with_code() -> None:
    assert code_in(Reply(json.dumps({"code": KERNEL}))) == KERNEL
    assert code_in(Reply(fenced(json.dumps({"code": KERNEL}) + "\n", "json"))) == KERNEL


def test_the_same_kernel_twice_is_one() -> None:
    assert code_in(Reply(f"{fenced(KERNEL)}\nAgain:\n{fenced(KERNEL)}")) == KERNEL


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(""), "empty"),
        (Reply("  \n"), "empty"),
        (Reply("<think>hm</think>"), "empty"),
        (Reply("no", stop="refused"), "refused"),
        (Reply("```c\nvoid kernel(", stop="length"), "truncated"),
        (Reply("", stop="length"), "truncated"),
        (Reply(f"```c\n{KERNEL}"), "truncated"),
        (Reply("Use void kernel(int x) { ... } with a fence."), "no_code"),
        (Reply(KERNEL), "no_code"),
        (Reply(fenced("int main(void) {}\n")), "no_code"),
        (Reply(f"{fenced(KERNEL)}\n{fenced(KERNEL.replace('4', '8'))}"), "several_blocks"),
    ],
)
def test_failures_are_typed(reply: Reply, expected: str) -> None:
    assert kind(code_in(reply)) == expected


NKI_KERNEL = """import nki


@nki.jit(mode="trace")
def decode(q, k):
    return q
"""
HELPER = "def scaled(x):\n    return 2 * x\n"


@pytest.mark.parametrize(
    "kernel",
    [
        NKI_KERNEL,
        NKI_KERNEL.replace("nki.jit", "jit"),
        NKI_KERNEL.replace('@nki.jit(mode="trace")', "@other.nki_jit"),
        NKI_KERNEL.replace("decode", "kernel").replace("@nki", "# @nki"),
        HELPER,
    ],
)
def test_a_kernel_in_nki_has_any_name(kernel: str) -> None:
    assert read_code(Reply(fenced(kernel, "python")), NKI) == kernel


@pytest.mark.parametrize("other", [HELPER, "import nki\n", "decode(q, k)\n", "kernel(q, k)\n"])
def test_parts_of_a_kernel_in_nki_are_not_taken_for_it(other: str) -> None:
    reply = Reply(f"{fenced(other, 'python')}\n{fenced(NKI_KERNEL, 'python')}")
    assert read_code(reply, NKI) == NKI_KERNEL


def test_text_without_a_function_is_no_kernel_in_nki() -> None:
    reply = Reply(fenced("# @nki.jit\n# def kernel(x):\nx = kernel(1)\n", "python"))
    assert kind(read_code(reply, NKI)) == "no_code"


@given(st.text(alphabet=st.sampled_from("`~c \nkernel({}<think>/"), max_size=80))
def test_prose_is_never_code(text: str) -> None:
    """Whatever is returned stood inside a fence, as a whole."""
    result = code_in(Reply(text))
    if isinstance(result, str):
        assert result.strip("\n") in text
        assert "```" in text or "~~~" in text


PIECES = st.sampled_from(
    ["```c\n", "```\n", "~~~\n", KERNEL, "<think>", "</think>", "<reasoning>", "OPTION: hoist\n",
     "EXPECTED:", "<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n", '{"code": "', '"}', "{",
     "\n", "\ud800", "\x1b[2J", "\x1b]0;", "\0", "\r", "\u2028", "\\", "9" * 30]
)  # fmt: skip


@given(st.lists(PIECES | st.characters(), max_size=40), st.sampled_from(["end", "length"]))
def test_whatever_is_read_is_plain_text(pieces: list[str], stop: Stop) -> None:
    reply = reply_from_json(reply_to_json(Reply("".join(pieces), stop)))
    code, plan, edits = code_in(reply), read_plan(reply, MENU), read_edits(reply.text)
    texts = [reply.text, *(text for edit in edits for text in edit)]
    texts += [code] if isinstance(code, str) else []
    texts += [] if isinstance(plan, ReplyFailed) else [plan.text, plan.expected]
    for text in texts:
        assert plain_text(text) == text
        text.encode()


def test_a_stored_reply_is_made_plain_too() -> None:
    stored = {**reply_to_json(Reply("x")), "text": "\ud800\r\n\x1b[31mred", "served_by": "\x07m"}
    assert reply_from_json(stored) == Reply("\ufffd\nred", served_by="\ufffdm")


@pytest.mark.parametrize("count", [-1, 1 << 31, 1.5, "7", True, None])
def test_what_cannot_be_a_count_of_tokens_is_none(count: Any) -> None:
    assert Usage(input=count, output=3) == Usage(output=3)


class TestPlan:
    def test_headed_lines(self) -> None:
        plan = read_plan(Reply("OPTION: unroll\nEXPECTED: 10 % fewer cycles\n\nUnroll jj."), MENU)
        assert plan == read_plan(
            Reply('{"option": "unroll", "expected": "10 % fewer cycles", "plan": "Unroll jj."}'),
            MENU,
        )
        assert not isinstance(plan, ReplyFailed | NothingWorthwhile)
        assert (plan.option, plan.text, plan.expected) == (
            "unroll", "Unroll jj.", "10 % fewer cycles",
        )  # fmt: skip

    def test_the_sentence_on_what_changes_comes_first(self) -> None:
        text = "OPTION: unroll\nCHANGE: jj is unrolled.\nEXPECTED: less\n\nUnroll jj by 4."
        plan = read_plan(Reply(text), MENU)
        assert not isinstance(plan, ReplyFailed | NothingWorthwhile)
        assert (plan.text, plan.expected) == ("jj is unrolled.\n\nUnroll jj by 4.", "less")
        as_json = {"option": "unroll", "plan": "Unroll jj by 4.", "expected": "less"}
        as_json["change"] = "jj is unrolled."
        assert read_plan(Reply(json.dumps(as_json)), MENU) == plan

    @pytest.mark.parametrize(
        ("change", "read"),
        [
            ("`product` becomes tiled.", "`product` becomes tiled."),
            ("The loop of `product`.", "The loop of `product`."),
            ("`Unroll jj.`", "Unroll jj."),
            ("**Unroll `jj`.**", "Unroll `jj`."),
            ("`Unroll jj.", "Unroll jj."),
        ],
    )
    def test_marks_around_names_in_a_heading_are_kept(self, change: str, read: str) -> None:
        plan = read_plan(Reply(f"OPTION: unroll\nCHANGE: {change}\n\nUnroll jj by 4."), MENU)
        assert not isinstance(plan, ReplyFailed | NothingWorthwhile)
        assert plan.text.partition("\n")[0].rstrip(".") == read.rstrip(".")

    def test_below_what_is_expected_a_heading_is_a_word_of_the_plan(self) -> None:
        text = "OPTION: unroll\nEXPECTED: less\n\nWhy: it is slow.\n\nChange: unroll jj by 4."
        plan = read_plan(Reply(text), MENU)
        assert not isinstance(plan, ReplyFailed | NothingWorthwhile)
        assert plan.text == "Why: it is slow.\n\nChange: unroll jj by 4."

    @pytest.mark.parametrize(
        "text",
        [
            "OPTION: none\nThe array is busy in all but 40 cycles.",
            "**OPTION:** `none`\nCHANGE: nothing\n\nThe array is busy in all but 40 cycles.",
            '{"option": "None", "plan": "The array is busy in all but 40 cycles."}',
        ],
    )
    def test_a_model_may_see_nothing_worthwhile(self, text: str) -> None:
        read = read_plan(Reply(text), MENU)
        assert read == NothingWorthwhile("The array is busy in all but 40 cycles.")

    @pytest.mark.parametrize(
        ("text", "option"),
        [
            ("**OPTION:** `unroll-deep`\nDo it.", "unroll-deep"),
            ("Option: 3. hoist\nDo it.", "hoist"),
            ("OPTION: 2\nDo it.", "unroll-deep"),
            ("OPTION: unroll-deep, then again\nDo it.", "unroll-deep"),
            ("Hoist: the configuration moves out of the loop.", "hoist"),
            ("1. **unroll-deep** everything.", "unroll-deep"),
            ("I would `hoist` the configuration.", "hoist"),
            ("I would `unroll` or `hoist`.", "other"),
            ("I would hoist the configuration.", "other"),
            ("Pack the words, with one copy of the loop (unroll 1).", "other"),
            ("OPTION: 9\nDo it.", "other"),
            ("OPTION: rewrite it all\nIn assembler.", "other"),
        ],
    )
    def test_options_are_found_tolerantly(self, text: str, option: str) -> None:
        plan = read_plan(Reply(text), MENU)
        assert not isinstance(plan, ReplyFailed)
        assert plan.option == option

    def test_only_a_heading_names_an_option_that_was_not_offered(self) -> None:
        offered, hidden = MENU[:1], MENU[1:]
        texts = ["OPTION: hoist\nDo it.", "`hoist` it.", "OPTION: 3\nDo it.", "`unroll` it."]
        plans = [read_plan(Reply(text), offered, hidden) for text in texts]
        options = [plan.option for plan in plans if isinstance(plan, PlanText)]
        assert options == ["hoist", "other", "other", "unroll"]

    def test_failures(self) -> None:
        assert kind(read_plan(Reply(""), MENU)) == "empty"
        assert kind(read_plan(Reply("OPTION: unroll"), MENU)) == "empty"
        assert kind(read_plan(Reply("x", stop="refused"), MENU)) == "refused"
        assert kind(read_plan(Reply("OPTION: unr", stop="length"), MENU)) == "truncated"


class TestEdits:
    def edit(self, old: str, new: str) -> str:
        return f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"

    def test_applied_in_order(self) -> None:
        text = "First\n" + self.edit("b\n", "x\ny\n") + "then\n" + self.edit("y\n", "z\n")
        assert apply_edits("a\nb\nc\n", read_edits(text)) == "a\nx\nz\nc\n"

    def test_lines_may_be_removed(self) -> None:
        assert apply_edits("a\nb\nc\n", read_edits(self.edit("b\n", ""))) == "a\nc\n"

    def test_indentation_may_differ_where_it_is_clear(self) -> None:
        assert (
            apply_edits("  a\n    b\n", read_edits(self.edit("b\n", "    c\n"))) == "  a\n    c\n"
        )

    def test_lines_with_the_same_indentation_are_meant_first(self) -> None:
        assert apply_edits("  a\na\n", read_edits(self.edit("a\n", "z\n"))) == "  a\nz\n"

    @pytest.mark.parametrize("old", ["q\n", "a\n", "", "b\nq\n"])
    def test_mismatch(self, old: str) -> None:
        assert kind(apply_edits("a\nb\na\n", read_edits(self.edit(old, "z\n")))) == "edit_mismatch"

    def test_prose_holds_no_edits(self) -> None:
        assert read_edits("<<<<<<< SEARCH\na\n") == []


def test_a_corrected_kernel_may_say_what_it_now_changes() -> None:
    code = "```c\nvoid kernel(void) {} // CHANGE: not this\n```"
    assert read_change(Reply(f"CHANGE: Scores go through DRAM.\n\n{code}")) == (
        "Scores go through DRAM"
    )
    assert read_change(Reply(f"I corrected the bound.\n\n{code}")) == ""
