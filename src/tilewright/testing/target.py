"""Contract suites of the `Target` and `Task` roles.

Subclass `TargetContract` in a test module and give the fixtures `target` and `spec` (the part
after the colon of the name of a small workload); pytest collects the inherited tests. Nothing is
built.
"""

from __future__ import annotations

import pytest

from tilewright.core.codec import from_json, to_json
from tilewright.core.errors import InputError
from tilewright.core.records import TargetBrief
from tilewright.core.roles import Target, Task


class TargetContract:
    """What every target must do, and the tasks it opens."""

    @pytest.fixture
    def target(self) -> Target:
        """Given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def spec(self) -> str:
        """Given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def task(self, target: Target, spec: str) -> Task:
        """The workload, opened with one setting."""
        return target.open(spec, {"input_seed": 1})

    @pytest.fixture
    def brief(self, target: Target) -> TargetBrief:
        """What proposers may know."""
        return target.brief()

    def test_the_brief_is_of_the_target_and_always_the_same(
        self, target: Target, brief: TargetBrief
    ) -> None:
        """A proposer may remember what it made of one."""
        assert brief.name == target.name
        assert target.brief() == brief

    def test_options_and_commands_are_named_once(self, brief: TargetBrief) -> None:
        """Each option has an id and a text, each command a unit."""
        options = [option.id for option in brief.menu]
        assert len(set(options)) == len(options)
        assert all(option.id and option.text.strip() for option in brief.menu)
        commands = [command.name for command in brief.commands]
        assert len(set(commands)) == len(commands)

    def test_every_workload_has_an_option(self, brief: TargetBrief, task: Task) -> None:
        """Where the target has any: a kind that no option is for could not be improved."""
        assert bool(brief.menu_for(task.workload)) == bool(brief.menu)

    def test_workloads_are_described(self, target: Target) -> None:
        """One line each."""
        assert target.workloads()
        for name, text in target.workloads().items():
            assert name.strip()
            assert text.strip()
            assert "\n" not in text

    @pytest.mark.parametrize("spec", ["", "no-such-workload", "gemm", "gemm-0x0x0", "../gemm"])
    def test_what_is_no_workload_is_told_in_one_line(self, target: Target, spec: str) -> None:
        """An input error, whatever the name."""
        with pytest.raises(InputError) as told:
            target.open(spec, {})
        assert str(told.value).strip()
        assert "\n" not in str(told.value)

    def test_versions_are_texts(self, target: Target) -> None:
        """They go into results and cache keys."""
        for name, version in target.versions().items():
            assert name
            assert isinstance(version, str)
            assert version

    def test_the_doctor_says_what_is_there(self, target: Target) -> None:
        """A name, whether it can be used (None: missing, but not needed), and a text."""
        for name, usable, text in target.doctor():
            assert name
            assert usable in (True, False, None)
            assert text

    def test_a_workload_says_what_to_compute(self, target: Target, spec: str, task: Task) -> None:
        """Arrays of a size, at least one of them written, and useful operations."""
        workload = task.workload
        assert workload.target == target.name
        assert workload.source == spec
        assert workload.operations > 0
        names = [argument.name for argument in workload.arguments]
        assert len(set(names)) == len(names)
        assert any(argument.is_written for argument in workload.arguments)
        assert all(size > 0 for argument in workload.arguments for size in argument.shape)
        assert from_json(to_json(workload)) == workload

    def test_there_is_a_kernel_to_begin_with(self, task: Task) -> None:
        """Baselines are kernels, too."""
        assert task.start.strip()
        for name, source in task.baselines.items():
            assert name
            assert source.strip()

    def test_opening_again_opens_the_same_task(self, target: Target, spec: str, task: Task) -> None:
        """Also in another process: the fingerprint is part of cache keys."""
        again = target.open(spec, {"input_seed": 1})
        assert again.workload == task.workload
        assert again.start == task.start
        assert again.fingerprint == task.fingerprint

    def test_what_decides_an_outcome_is_in_the_fingerprint(
        self, target: Target, spec: str, task: Task
    ) -> None:
        """Other inputs are another task."""
        assert target.open(spec, {"input_seed": 2}).fingerprint != task.fingerprint
