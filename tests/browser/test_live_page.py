"""The live page in a real browser: news without reloading; hostile text and sites do nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from chromium import MARKS, Seen, launched, playwright, serious_faults, watch
from hostile_texts import HOSTILE, assert_only_text
from postgres_server import missing, running

from tilewright.core.records import Candidate, Failed, History, Measured, Plan, Trial
from tilewright.core.run_notes import Label
from tilewright.report.static import render_report
from tilewright.storage.project import open_project
from tilewright.testing.runs import history, measured, run_record

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

pytestmark = MARKS
TOKEN = "token-of-the-test"
RUN = "3fa94c10"


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with launched("--host-resolver-rules=MAP evil.example 127.0.0.1") as browser:
        yield browser


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serves projects in threads; gives the address without a token."""
    from tilewright.serve.server import create_server, listen

    stops: list[Callable[[], None]] = []

    def start(folder: Path, *, read_only: bool = False) -> str:
        listening = listen("127.0.0.1", 0)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = create_server(folder, listening.getsockname()[1], TOKEN, read_only=read_only)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()

        def stop() -> None:
            server.should_exit = server.force_exit = True
            thread.join(20)
            listening.close()

        stops.append(stop)
        return address

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def page(
    browser: playwright.Browser, seen: Seen, serve: Callable[..., str]
) -> Iterator[playwright.Page]:
    """A page that must have stayed silent, and on its own server, when its test ends.

    It is closed before the server is.
    """
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(30_000)
    watch(page, seen)
    yield page
    page.close()
    assert seen.errors == []
    assert [
        u for u in seen.requests if not u.startswith(("http://127.0.0.1:", "data:", "file:"))
    ] == []


def store(folder: Path, trials: History, **changes: object) -> None:
    with closing(open_project(folder, create=True)) as storage:
        run = run_record(**changes)
        storage.create_run(run)
        for trial in trials:
            storage.append_trial(run.id, trial)


def opened(page: playwright.Page, address: str, path: str = "/") -> None:
    page.goto(f"{address}/?token={TOKEN}")
    page.goto(address + path)


def complete(page: playwright.Page) -> None:
    """Wait until a run's page has everything."""
    page.wait_for_selector("#chart canvas")
    page.wait_for_selector("#tree .node")
    page.wait_for_selector("[data-part=log] *")


def test_new_trials_appear_without_reloading(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path
) -> None:
    trials = history(30, lines=8)
    store(tmp_path, History(trials[:20]), status="running")
    opened(page, serve(tmp_path), f"/runs/{RUN}")
    complete(page)
    page.wait_for_function("() => document.getElementById('link').textContent === 'live'")
    page.evaluate("window.same = true")
    with closing(open_project(tmp_path)) as storage:
        for trial in trials[20:]:
            storage.append_trial(RUN, trial)
        storage.update_run(RUN, status="finished", stop_reason="done", wall_s=9.0)
    page.wait_for_function("() => document.querySelector('#trials a').textContent === '29'")
    page.wait_for_function(
        "() => document.querySelector('[data-live=status]').textContent === 'finished'"
    )
    assert page.locator("[data-live=evaluations]").inner_text() == "30"
    page.wait_for_function("() => document.querySelectorAll('#tree .node').length === 30")
    assert page.evaluate("window.same")


def test_a_page_can_be_used_with_the_keyboard_while_trials_arrive(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path
) -> None:
    trials = history(30, lines=8)
    store(tmp_path, History(trials[:20]), status="running")
    address = serve(tmp_path)
    opened(page, address)
    keys = page.keyboard

    def focused() -> str:
        found = "a => a.getAttribute('aria-label') || a.textContent"
        return str(page.evaluate(f"({found})(document.activeElement)"))

    def to(name: str) -> None:
        """Press Tab until the element of this name has the focus, which must be visible."""
        for _ in range(60):
            keys.press("Tab")
            if focused() == name:
                assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != (
                    "none"
                )
                return
        raise AssertionError(f"the keyboard does not reach {name!r}")

    to(RUN)
    with closing(open_project(tmp_path)) as storage:
        storage.append_trial(RUN, trials[20])
        page.wait_for_function(
            "() => document.getElementById('live-runs').innerText.includes('21')"
        )
        assert focused() == RUN
        keys.press("Enter")
        complete(page)
        to("Table of candidates")
        to("20")
        for trial in trials[21:25]:
            storage.append_trial(RUN, trial)
        page.wait_for_function("() => document.querySelector('#trials a').textContent === '24'")
        assert focused() == "20"
        changes = page.locator("[data-part=result] details > summary").first.inner_text()
        to(changes)
        keys.press("Enter")
        for trial in trials[25:]:
            storage.append_trial(RUN, trial)
        page.wait_for_function("() => document.querySelectorAll('#tree .node').length === 30")
        page.wait_for_function(
            "() => document.querySelector('[data-live=evaluations]').textContent === '30'"
        )
        assert page.locator("[data-part=result] details").first.evaluate("d => d.open")
        assert focused() == changes


def test_a_page_in_sight_reconnects_when_the_machine_wakes(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path
) -> None:
    trials = history(6, lines=8)
    store(tmp_path, History(trials[:5]), status="running")
    page.clock.install()
    page.add_init_script(
        """
        window.connections = 0;
        window.EventSource = class extends EventSource {
          constructor(address) { super(address); window.connections++; }
        };
        """
    )
    opened(page, serve(tmp_path), f"/runs/{RUN}")
    complete(page)
    page.clock.run_for(45_000)  # an ordinary minute without news
    assert page.evaluate("connections") == 1
    page.clock.fast_forward(3_600_000)  # no timer runs while a machine sleeps
    page.wait_for_function("() => connections === 2")
    with closing(open_project(tmp_path)) as storage:
        storage.append_trial(RUN, trials[5])
    page.wait_for_function("() => document.querySelector('#trials a').textContent === '5'")
    assert page.locator("#link").inner_text() == "live"


@pytest.mark.skipif(bool(missing()), reason=missing() or "a server can be started")
def test_the_page_says_that_its_database_server_is_away_and_goes_on_when_it_is_back(
    page: playwright.Page, seen: Seen, serve: Callable[..., str], tmp_path: Path
) -> None:
    trials = history(6, lines=8)
    with running() as server:
        address = server.address(server.new_database())
        (tmp_path / "tilewright.toml").write_text(f'database = "{address}"\n')
        store(tmp_path, History(trials[:5]), status="running")
        opened(page, serve(tmp_path), f"/runs/{RUN}")
        complete(page)
        page.wait_for_function("() => document.getElementById('link').textContent === 'live'")
        server.stop()
        page.wait_for_function(
            "() => document.getElementById('link').textContent.includes('cannot be reached')"
        )
        server.start()
        with closing(open_project(tmp_path)) as storage:
            storage.append_trial(RUN, trials[5])
        page.wait_for_function("() => document.querySelector('#trials a').textContent === '5'")
        page.wait_for_function("() => document.getElementById('link').textContent === 'live'")
        page.goto("about:blank")
    # A part of the page may still have been loading when the server was stopped.
    seen.errors[:] = [said for said in seen.errors if "503 (Service Unavailable)" not in said]


def test_the_filter_is_in_the_address_and_in_effect_again(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path
) -> None:
    store(tmp_path, history(60, lines=8))
    opened(page, serve(tmp_path), f"/runs/{RUN}")
    page.wait_for_selector("#trials tr")
    page.select_option("[name=state]", "failed")
    page.fill("#trial-filter [name=text]", "unroll")
    count = page.locator("#table-count").inner_text()
    assert "state=failed" in page.url
    page.goto(page.url)
    page.wait_for_function("() => document.getElementById('table-count').textContent")
    assert page.locator("#table-count").inner_text() == count != "60 of 60 candidates"


def test_chart_and_tree_are_coloured_by_what_costs_most(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path
) -> None:
    trials = history(60, lines=8)
    store(tmp_path, trials)
    opened(page, serve(tmp_path), f"/runs/{RUN}")
    complete(page)
    assert page.locator("#causes").is_hidden()
    assert page.locator("#tree [class*=cause-]").count() == 0
    page.select_option("#colours", "cause")
    correct = [trial for trial in trials if isinstance(trial.outcome, Measured)]
    assert page.locator("#tree [class*=cause-]").count() == len(correct)
    names = page.locator("#causes li").all_inner_texts()
    for trial in correct[:5]:
        assert isinstance(trial.outcome, Measured)
        costs = trial.outcome.breakdown
        most = max(costs, key=lambda cause: costs[cause]).replace("_", " ")
        place = names.index(most)
        node = page.locator(f"#tree [data-trial='{trial.index}']")
        assert f"cause-{place}" in (node.get_attribute("class") or "")
    assert set(names) < set(page.locator(".u-legend .u-label").all_inner_texts())
    assert "colours=cause" in page.url
    page.goto(page.url)
    page.wait_for_selector("#tree [class*=cause-]")
    page.select_option("#colours", "outcome")
    assert page.locator("#tree [class*=cause-]").count() == 0


def test_stopped_candidates_are_not_drawn_as_failed_ones(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path
) -> None:
    start = Trial(0, 0, Candidate("void kernel() {}"), measured(1000.0))
    trials = [start]
    for number, kind in enumerate(("wrong_result", "slower_than_limit"), 1):
        plan = Plan(start.candidate.id, "unroll", "Unroll", "unroll")
        candidate = Candidate(f"// {number}\nvoid kernel() {{}}", start.candidate.id, plan, "")
        trials.append(Trial(number, 1, candidate, Failed("check", kind, "")))
    store(tmp_path, History(trials))
    opened(page, serve(tmp_path), f"/runs/{RUN}")
    complete(page)
    box = page.locator("#chart .u-over").bounding_box()
    assert box is not None
    told = {}
    for number, place in ((1, 0.5), (2, 0.99)):
        page.mouse.move(box["x"] + place * box["width"], box["y"] + box["height"] / 2)
        page.wait_for_function(
            "number => document.querySelector('.u-legend .u-value').textContent == number",
            arg=number,
        )
        labels = page.locator(".u-legend .u-label").all_inner_texts()
        told[number] = dict(
            zip(labels, page.locator(".u-legend .u-value").all_inner_texts(), strict=True)
        )
    assert (told[1]["failed"], told[1]["stopped early"]) == ("wrong result (check)", "")
    assert (told[2]["failed"], told[2]["stopped early"]) == ("", "stopped early")


def test_hostile_text_stays_text(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path
) -> None:
    start = Trial(0, 0, Candidate(f"{HOSTILE[0]}\nvoid kernel() {{}}"), measured(1000.0))
    trials = [start]
    for number, text in enumerate(HOSTILE, 1):
        plan = Plan(start.candidate.id, text, text, text, expected=text)
        candidate = Candidate(f"{number} {text}", start.candidate.id, plan, text)
        failed = number % 2
        outcome = Failed("check", "wrong_result", text) if failed else measured(900.0 - number)
        trials.append(Trial(number, 1, candidate, outcome))
    everything = "\n".join(HOSTILE)
    store(tmp_path, History(trials), task=everything, stop_reason=everything)
    hostile = {"strategy": everything, everything: HOSTILE}
    store(tmp_path, History(trials[:1]), id="0b", task=everything, settings=hostile)
    with closing(open_project(tmp_path)) as storage:
        storage.keep(RUN, Label(tuple(HOSTILE), everything))
        for text in HOSTILE:
            storage.append_event(RUN, "Stopped", {text: text})
    address = serve(tmp_path)
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
    opened(page, address, f"/runs/{RUN}")
    complete(page)
    paths = [
        "/",
        "/experiments",
        f"/compare?run={RUN}",
        *(f"/runs/{RUN}/trials/{t.index}" for t in trials),
    ]
    for path in (f"/runs/{RUN}", *paths):
        if page.url != address + path:
            page.goto(address + path, wait_until="load")
        assert_only_text(page, path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_pages_fit_their_width_and_have_no_serious_fault_of_access(
    page: playwright.Page,
    serve: Callable[..., str],
    seen: Seen,
    tmp_path: Path,
    width: int,
    scheme: str,
) -> None:
    store(tmp_path, history(60, lines=8))
    store(tmp_path, history(9, lines=8), id="0b", settings={"seed": 1, "strategy": "best-of-n"})
    with closing(open_project(tmp_path)) as storage:
        storage.keep(RUN, Label(("nightly",), "a note"))
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    address = serve(tmp_path)
    opened(page, address)
    report = tmp_path / "report.html"
    report.write_text(render_report(run_record(), history(60, lines=8), "tilewright demo"))
    paths = (
        "/",
        f"/runs/{RUN}",
        f"/runs/{RUN}/trials/7",
        f"/compare?run={RUN}&run=0b",
        "/experiments",
        "/runs/none",
    )
    for url in (*(address + path for path in paths), report.as_uri()):
        page.goto(url)
        if url.endswith(RUN) and "compare" not in url:
            complete(page)
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), url
        assert serious_faults(page) == [], url
    seen.errors[:] = [error for error in seen.errors if "404" not in error]  # of /runs/none


def test_the_list_of_runs_is_not_cut_on_a_phone(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path
) -> None:
    store(tmp_path, history(9, lines=8), task="gemmini:conv-56x56x128x128-k3-s1-and-a-long-name")
    page.set_viewport_size({"width": 400, "height": 900})
    opened(page, serve(tmp_path))
    box = page.get_by_role("region", name="Table of runs")
    assert box.evaluate("box => box.scrollWidth - box.clientWidth") == 0
    assert page.get_by_role("columnheader").all_inner_texts() == [
        "compare",
        "run",
        "workload",
        "status",
        "speedup",
    ]


def test_a_name_of_another_site_that_leads_here_is_refused(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path, seen: Seen
) -> None:
    store(tmp_path, history(3, lines=8))
    rebound = serve(tmp_path).replace("127.0.0.1", "evil.example")
    answer = page.goto(f"{rebound}/?token={TOKEN}")
    assert answer is not None
    assert answer.status == 403
    assert "not known by that name" in page.content()
    page.goto("about:blank")  # after which no more refusals of the page's parts are reported
    seen.errors.clear()
    seen.requests.clear()


def test_another_site_can_neither_read_nor_change_anything(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path, seen: Seen
) -> None:
    store(tmp_path, history(3, lines=8))
    address = serve(tmp_path)
    opened(page, address)
    other = serve(tmp_path).replace("127.0.0.1", "localhost")  # another site to a browser
    form = (
        f"<form method=post action='{address}/runs/{RUN}/label'>"
        "<input name=tags value=stolen></form><script>document.forms[0].submit()</script>"
    )
    page.route("**/attack", lambda route: route.fulfill(body=form, content_type="text/html"))
    with page.expect_navigation(url=f"{address}/runs/{RUN}/label"):
        page.goto(f"{other}/attack")
    assert "comes from another site" in page.content()
    page.route("**/attack", lambda route: route.fulfill(body="x", content_type="text/html"))
    page.goto(f"{other}/attack")
    read = page.evaluate(
        "address => fetch(address + '/', {credentials: 'include'})"
        ".then(a => a.text(), e => 'refused')",
        address,
    )
    assert read == "refused"
    with closing(open_project(tmp_path)) as storage:
        assert storage.kept(RUN, Label) == []
    seen.errors.clear()
    seen.requests.clear()


def test_tags_and_notes_are_kept_and_a_read_only_page_has_no_buttons(
    page: playwright.Page, serve: Callable[..., str], tmp_path: Path
) -> None:
    store(tmp_path, history(3, lines=8))
    opened(page, serve(tmp_path), f"/runs/{RUN}")
    page.locator("summary", has_text="Tags and note").click()
    page.fill("[name=tags]", "nightly best")
    page.fill("textarea", "compare with Monday's")
    page.click("text=Save")
    page.wait_for_selector(".tag")
    assert page.locator(".tag").all_inner_texts() == ["nightly", "best"]
    with closing(open_project(tmp_path)) as storage:
        assert storage.kept(RUN, Label)[-1] == Label(("nightly", "best"), "compare with Monday's")
    opened(page, serve(tmp_path, read_only=True), f"/runs/{RUN}")
    assert page.locator("form[method=post]").count() == 0
