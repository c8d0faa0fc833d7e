"""Contract suites of the `Target` and `Task` roles.

Subclass `TargetContract` in a test module and define the fixtures `target` and `spec` (the part
after the colon in the name of a small workload). Pytest collects the inherited tests. Nothing is
built.
"""

from __future__ import annotations

import pytest

from tilewright.core.codec import from_json, to_json
from tilewright.core.errors import InputError
from tilewright.core.records import TargetBrief
from tilewright.core.roles import Target, Task


class TargetContract:
    """Tests that every target and its tasks must pass."""

    @pytest.fixture
    def target(self) -> Target:
        """The target under test; defined by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def spec(self) -> str:
        """The name of a workload without the target's name; defined by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def task(self, target: Target, spec: str) -> Task:
        """The workload, opened with one setting."""
        return target.open(spec, {"input_seed": 1})

    @pytest.fixture
    def brief(self, target: Target) -> TargetBrief:
        """The brief, which is the information that proposers get about the target."""
        return target.brief()

    def test_the_brief_is_of_the_target_and_always_the_same(
        self, target: Target, brief: TargetBrief
    ) -> None:
        """The brief belongs to the target and is always equal, so that proposers may cache data
        about it."""
        assert brief.name == target.name
        assert target.brief() == brief

    def test_options_and_commands_are_named_once(self, brief: TargetBrief) -> None:
        """Each option has its own id and a text, and each command a unit."""
        options = [option.id for option in brief.menu]
        assert len(set(options)) == len(options)
        assert all(option.id and option.text.strip() for option in brief.menu)
        commands = [command.name for command in brief.commands]
        assert len(set(commands)) == len(commands)

    def test_every_workload_has_an_option(self, brief: TargetBrief, task: Task) -> None:
        """If the target has a menu, each of its workloads has an option that applies to it."""
        assert bool(brief.menu_for(task.workload)) == bool(brief.menu)

    def test_workloads_are_described(self, target: Target) -> None:
        """Each workload has a description of one line."""
        assert target.workloads()
        for name, text in target.workloads().items():
            assert name.strip()
            assert text.strip()
            assert "\n" not in text

    @pytest.mark.parametrize("spec", ["", "no-such-workload", "gemm", "gemm-0x0x0", "../gemm"])
    def test_what_is_no_workload_is_told_in_one_line(self, target: Target, spec: str) -> None:
        """An unknown workload is an input error with a message of one line, whatever its name."""
        with pytest.raises(InputError) as told:
            target.open(spec, {})
        assert str(told.value).strip()
        assert "\n" not in str(told.value)

    def test_versions_are_texts(self, target: Target) -> None:
        """Versions are texts, which are stored in results and in cache keys."""
        for name, version in target.versions().items():
            assert name
            assert isinstance(version, str)
            assert version

    def test_the_doctor_says_what_is_there(self, target: Target) -> None:
        """`doctor` returns a name, whether the part can be used (None: missing, but not needed),
        and a text."""
        for name, usable, text in target.doctor():
            assert name
            assert usable in (True, False, None)
            assert text

    def test_a_workload_says_what_to_compute(self, target: Target, spec: str, task: Task) -> None:
        """A task has arrays with a size, of which at least one is written, and a number of
        operations."""
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
        """A task has a starting kernel and baselines, which are kernels too."""
        assert task.start.strip()
        for name, source in task.baselines.items():
            assert name
            assert source.strip()

    def test_opening_again_opens_the_same_task(self, target: Target, spec: str, task: Task) -> None:
        """Opening a task again, in another process too, gives an equal fingerprint, which is part
        of cache keys."""
        again = target.open(spec, {"input_seed": 1})
        assert again.workload == task.workload
        assert again.start == task.start
        assert again.fingerprint == task.fingerprint

    def test_what_decides_an_outcome_is_in_the_fingerprint(
        self, target: Target, spec: str, task: Task
    ) -> None:
        """Everything that decides an outcome, such as the inputs, is part of the fingerprint."""
        assert target.open(spec, {"input_seed": 2}).fingerprint != task.fingerprint
