"""Certificates that a process of a cluster cannot use are reported before it connects."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

import dask

from tilewright.cluster.address import Address
from tilewright.cluster.local_workers import LocalCluster
from tilewright.cluster.schedulers import serve_scheduler
from tilewright.cluster.settings import has_certificates, url
from tilewright.core.errors import ClusterError, ConfigurationError

CERTIFICATES = Path(__file__).parents[3] / "examples" / "cluster" / "certificates.sh"
TLS = "distributed.comm.tls"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    subprocess.run(["sh", str(CERTIFICATES), str(made)], check=True, stdout=subprocess.DEVNULL)
    return made


def settings(folder: Path, *roles: str) -> dict[str, str]:
    found = {f"{TLS}.ca-file": str(folder / "ca.pem")}
    for role in roles:
        found[f"{TLS}.{role}.cert"] = str(folder / "cert.pem")
        found[f"{TLS}.{role}.key"] = str(folder / "key.pem")
    return found


def test_each_role_has_its_own(folder: Path) -> None:
    assert not has_certificates()
    with dask.config.set(settings(folder, "client", "scheduler")):
        assert url(Address("elsewhere", 1)) == "tls://elsewhere:1"
        assert has_certificates("scheduler")
        with pytest.raises(ConfigurationError, match=r"names none for a worker \(ca-file, worker"):
            url(Address("elsewhere", 1), "worker")


@pytest.mark.parametrize(
    ("part", "file", "reason"),
    [
        ("ca-file", "nothing.pem", r"No such file or directory \(.*nothing.pem, .*cert.pem, .*key"),
        ("client.cert", "nothing.pem", "No such file or directory"),
        ("client.key", "ca-key.pem", "key values mismatch"),
        ("client.cert", "environment", "cannot be used: "),
    ],
)
def test_files_that_cannot_be_used(folder: Path, part: str, file: str, reason: str) -> None:
    """The search said that the scheduler is none, and workers printed tracebacks without end."""
    wrong = {**settings(folder, "client"), f"{TLS}.{part}": str(folder / file)}
    with dask.config.set(wrong), pytest.raises(ConfigurationError, match=reason):
        has_certificates()


def test_encryption_without_certificates() -> None:
    with (
        dask.config.set({"distributed.comm.require-encryption": True}),
        pytest.raises(ConfigurationError, match="names none for a client"),
    ):
        has_certificates()


def test_a_scheduler_for_other_machines_needs_certificates() -> None:
    with pytest.raises(ConfigurationError, match=r"at 0.0.0.0 can be reached from other machines"):
        serve_scheduler("0.0.0.0", 0, print, print)


def test_a_port_that_is_in_use() -> None:
    with LocalCluster(0, {}) as cluster:
        port = int(cluster.address.rpartition(":")[2])
        with pytest.raises(ClusterError, match=f"at port {port} of 127.0.0.1: Address already in"):
            serve_scheduler(None, port, print, print)


def test_an_ipv6_address_needs_no_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--host ::1` ended with an internal error."""
    hosts: list[str] = []

    async def schedule(host: str, *_: object) -> None:
        hosts.append(host)

    monkeypatch.setattr("tilewright.cluster.schedulers.schedule", schedule)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    for host in ("::1", "[::1]", "localhost"):
        serve_scheduler(host, 0, print, print)
    assert hosts == ["[::1]", "[::1]", "localhost"]


def test_a_host_that_is_no_address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    wrong = "no scheduler can be started at port 0 of "
    with dask.config.set(settings(folder, "scheduler")), pytest.raises(ClusterError, match=wrong):
        serve_scheduler("[::1", 0, print, print)


def test_a_local_cluster_uses_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in (folder / "environment").read_text().splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        monkeypatch.setenv(name, value)
    with LocalCluster(0, {}) as cluster:
        assert cluster.address.startswith("tls://127.0.0.1:")


def test_a_local_cluster_without_certificates_that_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION", "True")
    with pytest.raises(ClusterError, match="names none for a scheduler"):
        LocalCluster(0, {})
