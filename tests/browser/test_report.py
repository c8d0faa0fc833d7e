"""The report in a real browser: what a person can do with it, and what a hostile kernel cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import MARKS, Seen, launched, playwright, watch

from tilewright.core.records import Candidate, Failed, History, Plan, Trial
from tilewright.report.static import render_report
from tilewright.testing.runs import history, measured, run_record

pytestmark = MARKS
EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def page(browser: playwright.Browser, seen: Seen) -> Iterator[playwright.Page]:
    """A page that must have stayed silent and offline when its test ends."""
    page = browser.new_page(viewport={"width": 1366, "height": 800})
    page.set_default_timeout(10_000)
    watch(page, seen)
    yield page
    page.close()
    assert seen.errors == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []


def show(page: playwright.Page, folder: Path, trials: History) -> None:
    file = folder / "report.html"
    file.write_text(render_report(run_record(), trials, "tilewright demo"))
    page.goto(file.as_uri())


def node(page: playwright.Page, index: int) -> playwright.Locator:
    return page.locator(f'#tree [data-trial="{index}"]')


def test_clicking_a_node_shows_its_plan_diff_and_numbers(
    page: playwright.Page, tmp_path: Path
) -> None:
    trials = history(120)
    show(page, tmp_path, trials)
    kept = next(t for t in trials if t.index > 40 and t.latency)
    assert kept.candidate.plan is not None
    node(page, kept.index).click()
    detail = page.locator("#detail")
    assert f"Trial {kept.index}" in detail.locator("h3").inner_text()
    assert kept.candidate.plan.text in detail.inner_text()
    assert f"{kept.latency:,.0f}" in detail.inner_text()
    assert "dma wait" in detail.inner_text()
    added = detail.locator(".diff .added").all_inner_texts()
    assert added
    assert all(line[1:] in kept.candidate.source for line in added)


def test_a_failed_node_shows_kind_and_log(page: playwright.Page, tmp_path: Path) -> None:
    trials = history(120)
    show(page, tmp_path, trials)
    failed = next(t for t in trials if isinstance(t.outcome, Failed) and t.outcome.line)
    node(page, failed.index).click()
    text = page.locator("#detail").inner_text()
    assert "wrong result (check, line 12)" in text
    assert "expected 12 (input seed 7)" in text


def test_the_best_is_selected_first_and_chart_points_select_too(
    page: playwright.Page, tmp_path: Path
) -> None:
    trials = history(120)
    show(page, tmp_path, trials)
    assert trials.best is not None
    title = page.locator("#detail h3")
    assert title.inner_text().startswith(f"Trial {trials.best.index}:")
    page.locator('#chart [data-trial="0"]').click()
    assert title.inner_text() == "Trial 0"


def test_arrow_keys_walk_the_tree(page: playwright.Page, tmp_path: Path) -> None:
    trials = history(120)
    show(page, tmp_path, trials)
    child = next(t for t in trials if t.iteration == 2)
    assert child.candidate.parent_id is not None
    parent = trials.get(child.candidate.parent_id)
    assert parent is not None
    node(page, child.index).click()
    page.keyboard.press("ArrowLeft")
    title = page.locator("#detail h3")
    assert title.inner_text().startswith(f"Trial {parent.index}")
    focused = page.evaluate("document.activeElement.dataset.trial")
    assert focused == str(parent.index)
    page.keyboard.press("ArrowRight")
    assert title.inner_text() != f"Trial {parent.index}"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    stops = page.locator("#tree [tabindex='0']").count()
    assert stops == 1


def test_hostile_text_is_shown_and_not_run(page: playwright.Page, tmp_path: Path) -> None:
    start = Trial(0, 0, Candidate(f"// {EVIL}\nvoid kernel() {{}}"), measured(1000.0))
    plan = Plan(start.candidate.id, EVIL, EVIL, EVIL, expected=EVIL)
    best = Candidate(f"{EVIL}\n", start.candidate.id, plan, EVIL)
    lost = Candidate(f"lost {EVIL}", start.candidate.id, plan, EVIL)
    failure = Failed("check", "wrong_result", EVIL)
    show(
        page,
        tmp_path,
        History([start, Trial(1, 1, best, measured(9.0)), Trial(2, 1, lost, failure)]),
    )
    for index in (2, 1, 0):
        node(page, index).click()
    node(page, 2).click()
    assert EVIL in page.locator("#detail .log").inner_text()
    assert EVIL in page.locator("#detail .plan").inner_text()
    assert EVIL in page.locator("pre.code").inner_text()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


def test_even_injected_markup_could_not_run(
    page: playwright.Page, tmp_path: Path, seen: Seen
) -> None:
    html = render_report(run_record(), history(3), "tilewright demo")
    broken = html.replace("<main>", f"<main>{EVIL}", 1)
    (tmp_path / "broken.html").write_text(broken)
    page.goto((tmp_path / "broken.html").as_uri())
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in error for error in seen.errors)
    seen.errors.clear()


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_opens_with_any_number_of_trials(page: playwright.Page, tmp_path: Path, count: int) -> None:
    show(page, tmp_path, history(count) if count else History())
    assert page.locator("#tree .node").count() == count
    overflow = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    assert not overflow


def test_narrow_dark_and_printed_pages(page: playwright.Page, tmp_path: Path) -> None:
    show(page, tmp_path, history(120))
    page.set_viewport_size({"width": 390, "height": 800})
    assert not page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    page.emulate_media(color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(18, 22, 28)"
    page.emulate_media(media="print", color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    assert page.locator(".schedule").is_visible()
    assert not page.locator("#detail").is_visible()
