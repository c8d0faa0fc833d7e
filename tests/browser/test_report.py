"""The report in a real browser: what a person can do with it, and what a hostile kernel cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from chromium import MARKS, Seen, launched, playwright, watch
from hostile_texts import HOSTILE, assert_only_text

from tilewright.core.records import (
    Baseline,
    Candidate,
    Failed,
    History,
    LeftAlone,
    Plan,
    Trial,
)
from tilewright.report.static import render_report
from tilewright.storage.sampling import Sample
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
    if len(trials):
        page.wait_for_selector("#detail h3")


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
    start = page.locator('#chart [data-trial="0"]')
    start.click()
    assert title.inner_text() == "Trial 0"
    assert start.locator("title").text_content() == (
        "Trial 0: the starting kernel, 1.00x as fast as the starting kernel"
    )
    assert node(page, 0).get_attribute("role") == "button"
    assert (node(page, 7).get_attribute("aria-label") or "").startswith("Trial 7, ")


def test_a_trial_of_a_sample_is_found_by_its_number_also_without_a_node_in_the_tree(
    page: playwright.Page, tmp_path: Path
) -> None:
    trials = [t for t in history(1500, lines=8) if t.index % 2 == 0 or t.index < 900]
    alive = {t.candidate.id for t in trials}
    trials = [t for t in trials if t.candidate.parent_id is None or t.candidate.parent_id in alive]
    sample = Sample(tuple(t.index for t in trials), 1500, 700)
    file = tmp_path / "report.html"
    file.write_text(render_report(run_record(), History(trials), "x", sample=sample))
    page.goto(file.as_uri())
    page.wait_for_selector("#detail h3")
    drawn = set(page.eval_on_selector_all("#tree .node", "all => all.map(n => n.dataset.trial)"))
    marks = page.eval_on_selector_all("#chart .point", "all => all.map(n => n.dataset.trial)")
    only_marked = max(int(trial) for trial in marks if trial not in drawn)
    for index in (only_marked, max(map(int, drawn))):
        page.locator(f'#chart [data-trial="{index}"]').dispatch_event("click")
        title = page.locator("#detail h3").inner_text()
        assert title.startswith(f"Trial {index}:")
        assert page.locator("#tree [tabindex='0']").count() == 1


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
    start = Trial(0, 0, Candidate(f"{HOSTILE[0]}\nvoid kernel() {{}}"), measured(1000.0))
    trials = [start]
    for number, text in enumerate(HOSTILE, 1):
        plan = Plan(trials[-1].candidate.id, text, text, text, expected=text)
        candidate = Candidate(f"{number} {text}", trials[-1].candidate.id, plan, text)
        told = replace(
            measured(900.0 - number), breakdown={text: 5.0}, warnings=(text,), feedback=text
        )
        trials.append(Trial(number, number, candidate, told))
        lost = Candidate(f"lost {number} {text}", candidate.id, plan, text)
        trials.append(Trial(number, number, lost, Failed("check", "wrong_result", text)))
    trials = [replace(trial, index=index) for index, trial in enumerate(trials)]
    everything = "\n".join(HOSTILE)
    compared = [Baseline(text, "1", measured(950.0)) for text in HOSTILE]
    left = [LeftAlone(1, text, text) for text in HOSTILE]
    run = run_record(
        task=everything,
        target=everything,
        stop_reason=everything,
        settings={everything: HOSTILE},
        versions={"compiler": everything},
    )
    file = tmp_path / "report.html"
    file.write_text(render_report(run, History(trials), everything, compared, left))
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
    page.goto(file.as_uri())
    page.wait_for_selector("#detail h3")
    assert_only_text(page, "before any trial is selected")
    detail = page.locator("#detail")
    for trial in trials[1:]:
        node(page, trial.index).evaluate(
            "node => node.dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        assert trial.candidate.plan is not None
        assert shown(trial.candidate.plan.text) in shown(detail.evaluate("d => d.textContent"))
        assert_only_text(page, f"trial {trial.index}")


def shown(text: str) -> str:
    """A text as it is compared: browsers show line ends and control characters in their way."""
    return re.sub(r"[\s\x00-\x1f]+", " ", text)


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
