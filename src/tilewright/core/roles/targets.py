"""The role of a target, which is one accelerator, and the optional roles of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from tilewright.core.records import FolderTemplate, TargetBrief
from tilewright.core.roles.tasks import Task


@runtime_checkable
class NeedsResource(Protocol):
    """A target whose kernels can be evaluated only on machines that have a certain resource.

    Kernels of targets without this role can be evaluated on any machine with their toolchain.
    """

    @property
    def resource(self) -> str:
        """The resource, by the name that workers of a cluster announce, such as "gemmini-sim"."""
        ...


@runtime_checkable
class RunsOnModels(Protocol):
    """A target whose kernels other models of a device can also run, with other latencies."""

    @property
    def model_versions(self) -> frozenset[str]:
        """The names of those `versions` that say which model of the device a machine has. Machines
        on which only these differ must give the same verdicts.
        """
        ...


@runtime_checkable
class Configurable(Protocol):
    """A target of which users can describe further instances."""

    def configured(self, file: Path) -> Target:
        """The instance that `file` describes. `ConfigurationError` says what is wrong with it."""
        ...


@runtime_checkable
class ProvidesFolderTemplate(Protocol):
    """A target that provides the files of a new kernel folder."""

    def template(self) -> FolderTemplate:
        """The files. The starting kernel must agree with the reference."""
        ...


@runtime_checkable
class ProvidesHeaders(Protocol):
    """A target whose kernels are compiled with headers of its own."""

    def headers(self) -> Mapping[str, str]:
        """The texts of the headers that a compiler needs for a kernel, by their file names."""
        ...


@runtime_checkable
class OpensFiles(Protocol):
    """A target whose workloads may also be single files of users."""

    def open_file(self, file: Path, settings: Mapping[str, object]) -> Task:
        """The task that a file describes. `InputError` says what is wrong with the file."""
        ...


class Target(Protocol):
    """One accelerator, found through the entry point group `tilewright.targets`."""

    name: str
    """Name used in workload names (`gemmini` in `gemmini:gemm-512x512x512`)."""

    def brief(self) -> TargetBrief:
        """Everything that proposers may know about the target."""
        ...

    def workloads(self) -> Mapping[str, str]:
        """Workload patterns and registered names, each with one line of description."""
        ...

    def open(self, spec: str, settings: Mapping[str, object]) -> Task:
        """The task with this name, given without the target. Raises `InputError` if malformed.

        `settings` contains the settings that a run records: `input_seed`, `checks`, timeouts.
        """
        ...

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> Task:
        """The task in a folder with `workload.toml`, `reference.py` and the kernel."""
        ...

    def versions(self) -> Mapping[str, str]:
        """The compiler, simulator and configuration, which every result records."""
        ...

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """What is installed: for each part its name, whether it is usable, and its version.

        For a missing part, the text says how to get it, and None instead of False marks a part
        that is not required.
        """
        ...
