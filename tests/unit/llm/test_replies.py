from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.records import MenuOption
from tilewright.proposers.llm.edits import apply_edits, read_edits
from tilewright.proposers.llm.messages import Reply
from tilewright.proposers.llm.replies import ReplyFailed, read_code, read_plan

KERNEL = "void kernel(const int8_t A[4]) {\n  fence();\n}\n"
MENU = (
    MenuOption("unroll", "Unroll."),
    MenuOption("unroll-deep", "More."),
    MenuOption("hoist", "H."),
)


def fenced(code: str, label: str = "c") -> str:
    return f"```{label}\n{code}```"


def kind(result: object) -> str:
    assert isinstance(result, ReplyFailed)
    return result.kind


@pytest.mark.parametrize("label", ["c", "C", "cpp", "", "c title=kernel.c", "text"])
def test_any_label(label: str) -> None:
    assert read_code(Reply(f"Here:\n\n{fenced(KERNEL, label)}\nDone.")) == KERNEL


def test_other_fences_and_thoughts_do_not_matter() -> None:
    thoughts = f"<think>first {fenced('void kernel(int wrong) {}' + chr(10))}</think>"
    usage = fenced("make run\n", "sh")
    assert read_code(Reply(f"{thoughts}\n{usage}\n{fenced(KERNEL)}")) == KERNEL


def test_longer_fences_may_hold_shorter_ones() -> None:
    inner = KERNEL.replace("fence", "/*\n```\n*/ fence")
    assert read_code(Reply(f"````c\n{inner}````")) == inner


def test_json_with_code() -> None:
    assert read_code(Reply(json.dumps({"code": KERNEL}))) == KERNEL
    assert read_code(Reply(fenced(json.dumps({"code": KERNEL}) + "\n", "json"))) == KERNEL


def test_the_same_kernel_twice_is_one() -> None:
    assert read_code(Reply(f"{fenced(KERNEL)}\nAgain:\n{fenced(KERNEL)}")) == KERNEL


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
    assert kind(read_code(reply)) == expected


@given(st.text(alphabet=st.sampled_from("`~c \nkernel({}<think>/"), max_size=80))
def test_prose_is_never_code(text: str) -> None:
    """Whatever is returned stood inside a fence, as a whole."""
    result = read_code(Reply(text))
    if isinstance(result, str):
        assert result.strip("\n") in text
        assert "```" in text or "~~~" in text


class TestPlan:
    def test_headed_lines(self) -> None:
        plan = read_plan(Reply("OPTION: unroll\nEXPECTED: 10 % fewer cycles\n\nUnroll jj."), MENU)
        assert plan == read_plan(
            Reply('{"option": "unroll", "expected": "10 % fewer cycles", "plan": "Unroll jj."}'),
            MENU,
        )
        assert not isinstance(plan, ReplyFailed)
        assert (plan.option, plan.text, plan.expected) == (
            "unroll", "Unroll jj.", "10 % fewer cycles",
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("text", "option"),
        [
            ("**OPTION:** `unroll-deep`\nDo it.", "unroll-deep"),
            ("Option: 3. hoist\nDo it.", "hoist"),
            ("OPTION: 2\nDo it.", "unroll-deep"),
            ("I would hoist the configuration.", "hoist"),
            ("I would unroll-deep everything.", "unroll-deep"),
            ("I would unroll or hoist.", "other"),
            ("OPTION: rewrite it all\nIn assembler.", "other"),
        ],
    )
    def test_options_are_found_tolerantly(self, text: str, option: str) -> None:
        plan = read_plan(Reply(text), MENU)
        assert not isinstance(plan, ReplyFailed)
        assert plan.option == option

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

    @pytest.mark.parametrize("old", ["q\n", "a\n", "", "b\nq\n"])
    def test_mismatch(self, old: str) -> None:
        assert kind(apply_edits("a\nb\na\n", read_edits(self.edit(old, "z\n")))) == "edit_mismatch"

    def test_prose_holds_no_edits(self) -> None:
        assert read_edits("<<<<<<< SEARCH\na\n") == []
