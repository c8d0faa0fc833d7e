"""What `--executor` may be, and which schedulers are reached without TLS."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from tilewright.cluster.address import (
    Address,
    Place,
    parse_address,
    parse_executor,
    refuse_two_places,
)
from tilewright.core.errors import ClusterError, ConfigurationError, ToolchainMissingError


def test_names_of_executors() -> None:
    assert parse_executor("local") is None
    assert parse_executor("dask") == Place(None)
    assert parse_executor("dask://db.example.org:8786") == Place(Address("db.example.org", 8786))
    assert parse_address("tls://[::1]:8786/") == Address("[::1]", 8786)


@pytest.mark.parametrize(
    "text", ["", "ray", "dask:", "dask://", "dask://host", "dask://host:0", "dask://host:99999",
             "dask://ho st:1", "dask://host:x", "tcp://host:1"],
)  # fmt: skip
def test_what_names_nothing(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Write|Use"):
        parse_executor(text)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.cluster.settings import require_distributed

    real = builtins.__import__

    def importing(name: str, *rest: Any) -> Any:
        if name.split(".")[0] in ("dask", "distributed"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(ToolchainMissingError, match=r"pip install 'tilewright\[cluster\]'"):
        require_distributed()


def test_other_machines_need_tls() -> None:
    pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")
    from tilewright.cluster.settings import require_listener, url

    assert url(Address("127.0.0.1", 8786)) == "tcp://127.0.0.1:8786"
    with pytest.raises(ConfigurationError, match=r"10\.0\.0\.7:8786 is on another machine"):
        url(Address("10.0.0.7", 8786))
    with pytest.raises(ClusterError, match=r"scheduler at here cannot be reached"):
        require_listener("tcp://127.0.0.1:1", "here")


@pytest.mark.parametrize("executor", ["dask", "dask://127.0.0.1:8786"])
def test_two_places_for_one_search_are_refused(executor: str) -> None:
    place = parse_executor(executor)
    with pytest.raises(ConfigurationError, match="both name where candidates are evaluated"):
        refuse_two_places(place, "gpu.example")
    refuse_two_places(place, "")
    refuse_two_places(parse_executor("local"), "gpu.example")
