"""The arithmetic of a comparison, its page, and how its command is read. No TVM needed."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.cli import console
from tilewright.cli.tune_compare import _arms, _times, _trials, show
from tilewright.core.errors import InputError, UnknownNameError
from tilewright.tuning.comparison_plots import best_so_far, render_plots
from tilewright.tuning.comparison_table import NONE_YET, latest, speedups, table
from tilewright.tuning.comparison_text import as_text, cells, left_out


def _run(arm: str, seconds: dict[int, float], **changed: Any) -> dict[str, Any]:
    curve = [[float(n), s] for n, s in enumerate([8.0, None, 4.0, min(seconds.values())], 1)]
    return {
        "session": "s1",
        "workload": "M0",
        "seed": 0,
        "threads": 1,
        "target": "cpu",
        "flops": 8e9,
        "load_average": 0.5,
        "reference": {"name": "numpy (BLAS)", "samples": [1.0, 3.0, 2.0]},
        "arm": arm,
        "trials": 4,
        "measured": 4,
        "curve": curve,
        "ledger": {"wall_s": 8.0, "search_s": 1.0, "replay_s": 1.0},
        "confirmed": {str(c): [s, s, 9 * s] for c, s in seconds.items()},
        **changed,
    }


def test_speedup_is_over_the_last_of_default_in_the_same_session() -> None:
    runs = [_run("default", {1: 4.0, 4: 2.0}), _run("af-ds", {1: 2.0, 4: 1.0})]
    rows = {(row.arm, row.trials): row for row in table(runs)}
    assert rows["default", 1].speedup == pytest.approx(0.5)
    assert rows["default", 4].speedup == pytest.approx(1.0)
    assert rows["af-ds", 1].speedup == pytest.approx(1.0)
    assert rows["af-ds", 4].speedup == pytest.approx(2.0)
    assert rows["af-ds", 4].against_reference == pytest.approx(2.0)
    assert rows["af-ds", 4].seconds_per_trial == pytest.approx(2.0)
    assert rows["af-ds", 4].overhead == pytest.approx(0.25)


def test_kernels_are_also_compared_after_seconds_of_a_search() -> None:
    runs = [_run("default", {4: 2.0}), _run("af-ds", {1: 2.0, 4: 1.0})]
    for run, seconds in zip(runs, (4.0, 1.6), strict=True):
        run["confirmed"]["2.5 s"] = [seconds]
    runs[0]["unconfirmed"] = {"0.5 s": NONE_YET}
    rows = {(row.arm, row.after_s): row for row in table(runs) if row.after_s is not None}
    assert list(rows) == [("default", 2.5), ("af-ds", 2.5)]
    assert rows["default", 2.5].trials == 2
    assert rows["default", 2.5].speedup == pytest.approx(0.5)
    assert rows["af-ds", 2.5].speedup == pytest.approx(1.25)
    assert rows["af-ds", 2.5].trials_to_near is None  # the third trial comes later
    assert cells(rows["af-ds", 2.5])[:2] == ("af-ds", "2 in 2.5 s")
    assert [row.after_s for row in table(runs) if row.arm == "af-ds"] == [2.5, None, None]


def test_runs_without_a_kernel_in_a_row_are_named_with_the_reason() -> None:
    assert left_out([_run("default", {4: 2.0})]) == []
    failed = _run("af", {1: 2.0}, unconfirmed={"4": "crashed: SIGSEGV", "60 s": NONE_YET})
    earlier = _run("af", {4: 3.0}, session="s0", unconfirmed={"1": NONE_YET})
    name = f"{failed['workload']} seed {failed['seed']} af"
    assert left_out([earlier, failed]) == [
        f"{name} has no kernel after 4 trials: the best one failed when it was measured again "
        "(crashed: SIGSEGV).",
        f"{name} has no kernel after 60 s: no candidate was correct by then.",
    ]


def test_times_are_read_from_text() -> None:
    assert _times(None) == ()
    assert _times("120, 60,0.5,60") == (0.5, 60.0, 120.0)
    for wrong in ("", "0", "-1", "60;120", "1e3", "0.0"):
        with pytest.raises(InputError, match="--after"):
            _times(wrong)


def test_an_earlier_checkpoint_is_no_baseline_for_a_last_one_that_failed() -> None:
    failed = _run("default", {1: 4.0}, unconfirmed={"4": "crashed: the candidate ended"})
    rows = {(row.arm, row.trials): row for row in table([failed, _run("af-ds", {1: 2.0, 4: 1.0})])}
    assert rows["af-ds", 4].speedup is None
    assert rows["af-ds", 4].against_reference == pytest.approx(2.0)


def test_workloads_weigh_alike_and_seeds_by_their_median() -> None:
    runs = []
    for workload, ratios in (("M0", (1.0, 2.0, 9.0)), ("M1", (8.0,))):
        for seed, ratio in enumerate(ratios):
            where = {"workload": workload, "seed": seed, "session": f"{workload}{seed}"}
            runs.append(_run("default", {4: 1.0}, **where))
            runs.append(_run("af", {4: 1.0 / ratio}, **where))
    assert speedups(runs, "af", 4, "default") == pytest.approx({"M0": 2.0, "M1": 8.0})
    row = next(row for row in table(runs) if row.arm == "af")
    assert row.speedup == pytest.approx(4.0)
    assert (row.low, row.high) == pytest.approx((2.0, 8.0))
    assert row.variability == pytest.approx((9.0 - 1.0) / 9.0)
    assert (row.workloads, row.seeds, row.fewest_seeds) == (2, 3, 1)


def test_trials_to_near_the_best_of_any_arm() -> None:
    runs = [_run("default", {4: 2.0}), _run("af-ds", {4: 1.0})]
    slow, fast = table(runs)
    assert (slow.reached, slow.groups, slow.trials_to_near) == (0, 1, None)
    assert (fast.reached, fast.trials_to_near, fast.seconds_to_near) == (1, 4, 4.0)


def test_only_the_newest_session_of_a_group_counts() -> None:
    old, new = _run("default", {4: 5.0}), _run("default", {4: 2.0}, session="s2")
    assert latest([old, new]) == [new]


def test_without_default_the_first_arm_is_the_baseline() -> None:
    rows = table([_run("af", {4: 2.0}), _run("ds", {4: 1.0})])
    assert [row.speedup for row in rows] == pytest.approx([1.0, 2.0])


def test_best_so_far_ignores_failures() -> None:
    run = _run("default", {4: 2.0})
    assert best_so_far(run) == [1.0, 1.0, 2.0, 4.0]
    assert best_so_far({**run, "curve": [[1.0, None]]}) == [0.0]


def test_the_page_draws_every_arm_and_fetches_nothing() -> None:
    runs = [_run("default", {4: 2.0}), _run("af<ds", {4: 1.0})]
    page = render_plots(runs)
    assert page.count("<polyline") == 2
    assert page.count("<polygon") == 2
    assert "af&lt;ds" in page
    assert "http" not in page


def test_the_table_shows_what_is_missing_as_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    show(table([_run("af", {4: 2.0}, reference=None)]))
    assert "0 of 1" not in capsys.readouterr().out
    show([])


def test_the_table_tells_how_much_each_row_is_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "PLAIN_WIDTH", 120)  # each row on one line
    runs = []
    for n, workload in enumerate(("M0", "M1", "M2")):
        where = {"workload": workload, "session": workload, "load_average": 0.25 + n}
        runs.append(_run("default", {1: 4.0} if n == 1 else {1: 4.0, 4: 2.0}, **where))
        runs[-1]["unconfirmed"] = {} if n != 1 else {"4": "crashed: the candidate ended"}
        if n < 2:
            runs.append(_run("af-ds", {4: 1.0}, **where))
    # The second workload has no time of default's to compare with; the third no af-ds at all.
    assert [cells(row)[:3] for row in table(runs)] == [
        ("default", "1", "2 of 3"),
        ("default", "4", "2"),
        ("af-ds", "4", "1 of 2"),
    ]
    show(table(runs))
    head, *rows, caption = capsys.readouterr().out.strip().splitlines()
    assert head.split()[2] == "workloads"
    assert "1 of 2" in rows[2]
    assert "Load average: 0.2 to 2.2" in caption


def test_plain_text_has_the_same_columns_and_says_what_was_not_measured() -> None:
    runs = [_run("default", {4: 2.0}), _run("af-ds", {4: 1.0})]
    head, default, af_ds, caption = as_text(table(runs)).splitlines()
    at = head.index("speedup")
    assert (default[at : at + 5], af_ds[at : at + 5]) == ("1.000", "2.000")
    assert caption.startswith("Measured. Speedup over default")
    made_up = [{**run, "kind": "mock"} for run in runs]
    assert as_text(table(made_up)).splitlines()[-1].startswith("Mock. ")


def test_checkpoints_and_arms_are_read_from_text() -> None:
    assert _trials("1000,100") == (100, 1000)
    assert _trials("50") == (5, 50)
    assert _arms("af-ds, default,af-ds") == ["af-ds", "default"]
    with pytest.raises(InputError, match="contains 'x'"):
        _trials("100,x")
    with pytest.raises(UnknownNameError, match="'af-ds'"):
        _arms("afds")
