"""How many requests a message to a worker contains."""

from __future__ import annotations

import pytest

from tilewright.cluster.message_sizes import AHEAD, LEAST_S, MESSAGE_S, MOST_IN_MESSAGE, Pace


def pace_of(evaluation_s: float) -> Pace:
    pace = Pace()
    pace.note_evaluation(evaluation_s)
    return pace


def all_sizes(pace: Pace, requests: int, threads: int) -> list[int]:
    """The messages of a batch whose workers answer one message after another."""
    found = pace.sizes(requests, 0, threads, more_follow=False)
    while sum(found) < requests:
        found += pace.sizes(requests - sum(found), AHEAD * threads - 1, threads, more_follow=False)
    return found


def test_short_evaluations_share_messages_which_become_smaller() -> None:
    sizes = all_sizes(pace_of(0.05), 90, threads=2)
    assert sum(sizes) == 90
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == MESSAGE_S / 0.05
    assert sizes[-1] <= LEAST_S / 0.05
    assert len(sizes) <= 9  # each costs CPU time in all parts of the cluster


def test_an_iteration_of_a_search_needs_few_messages() -> None:
    assert all_sizes(pace_of(0.036), 90, threads=2) == [27, 27, 12, 12, 6, 6]


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_all_workers_get_messages_of_the_same_size(threads: int) -> None:
    sizes = all_sizes(pace_of(0.01), 50 * threads, threads)
    rounds = [sizes[first : first + threads] for first in range(0, len(sizes), threads)]
    assert all(len(set(one)) == 1 for one in rounds[:-1])


def test_a_batch_begins_with_a_round_of_its_own() -> None:
    pace = pace_of(0.05)
    assert pace.sizes(5, 0, 2, more_follow=False) == [4, 1]
    assert pace.sizes(1, 0, 2, more_follow=False) == [1]
    assert pace.sizes(90, 0, 2, more_follow=False)[:2] == [20, 20]


@pytest.mark.parametrize(("evaluation_s", "most"), [(0.6, 1), (5.0, 1), (1e-6, MOST_IN_MESSAGE)])
def test_a_message_has_bounds(evaluation_s: float, most: int) -> None:
    assert max(all_sizes(pace_of(evaluation_s), 1000, threads=3)) == most


def test_every_worker_has_a_message_in_progress_and_one_that_waits() -> None:
    assert len(pace_of(0.05).sizes(1000, 0, 3, more_follow=False)) == AHEAD * 3
    assert pace_of(0.05).sizes(1000, AHEAD * 3, 3, more_follow=False) == []
    assert pace_of(0.05).sizes(1000, 0, 0, more_follow=False) == []


def test_a_few_requests_wait_for_others_only_while_every_worker_has_a_message() -> None:
    pace = pace_of(0.05)
    assert pace.sizes(3, 2, 2, more_follow=True) == []
    assert pace.sizes(3, 2, 2, more_follow=False) == [3]
    assert pace.sizes(3, 1, 2, more_follow=True) == [3]
    assert pace.sizes(4, 2, 2, more_follow=True) == [4]
    assert pace_of(2.0).sizes(1, 2, 2, more_follow=True) == [1]  # long ones never wait


def test_the_first_evaluations_are_sent_alone() -> None:
    assert Pace().sizes(10, 0, 2, more_follow=False) == [1, 1, 1, 1]
