// One run: rows of trials as chart and table, sections that are fetched anew as the run goes on.
"use strict";
{
  const id = document.getElementById("run").dataset.run;
  const base = `/runs/${encodeURIComponent(id)}`;
  const INDEX = 0, ITERATION = 1, PARENT = 2, STATE = 3, SPEEDUP = 4, LATENCY = 5, GAIN = 6;
  const OPTION = 7, PROPOSER = 8, CAUSE = 9, FAILURE = 10;
  const WORDS = {
    start: "starting kernel", kept: "faster than its parent", rejected: "not faster",
    stopped: "stopped early", unconfirmed: "not confirmed",
  };
  const SHOWN = 100;
  let rows = [];
  let placeOf = new Map();  // of each candidate: where its row is; a very long run has not all
  let total = 0;
  let winning = new Set();
  let generation = null;
  let ends = [];  // of each iteration: its number, seconds, US dollars
  const axis = document.getElementById("axis");
  const colours = document.getElementById("colours");
  const AXES = { evaluations: "evaluations", seconds: "seconds of work when the iteration ended", usd: "US dollars spent when the iteration ended" };

  // Where each row is on the chosen axis. Of time and cost only the ends of iterations are known.
  function places() {
    if (axis.value === "evaluations") return rows.map((row) => row[INDEX]);
    const column = axis.value === "seconds" ? 1 : 2;
    const found = new Map(ends.map((end) => [end[0], end[column]]));
    const last = ends.length ? ends[ends.length - 1][column] : 0;
    return rows.map((row) => (row[INDEX] === 0 ? 0 : found.get(row[ITERATION]) ?? last));
  }

  // The chart: one series for each kind of mark, and the best so far as steps.
  let chart = null;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const isByCause = () => colours.value === "cause";
  const measured = () => rows.filter((row) => row[SPEEDUP] !== null).map((row) => row[CAUSE]);

  // Like series(), with a series for each colour of a cause instead of those for outcomes.
  function seriesByCause() {
    const [places, best, , , , failed, stopped] = series();
    const of = causes.entries(measured()).map(([number]) =>
      rows.map((row) => (row[SPEEDUP] !== null && causes.place(row[CAUSE]) === number ? row[SPEEDUP] : null)));
    return [places, best, ...of, failed, stopped];
  }

  // Candidates without a latency have a row of their own below 0x.
  const belowZero = (top) => -0.05 * Math.max(1, top);

  function series() {
    const best = [], kept = [], rejected = [], failed = [], stopped = [], won = [];
    let top = null;
    const below = belowZero(rows.reduce((most, row) => Math.max(most, row[SPEEDUP] || 0), 0));
    for (const row of rows) {
      const speedup = row[SPEEDUP];
      if (speedup !== null && (top === null || speedup > top)) top = speedup;
      const isWinning = winning.has(row[INDEX]);
      best.push(top);
      won.push(isWinning ? speedup : null);
      kept.push(!isWinning && row[STATE] === "kept" ? speedup : null);
      rejected.push(!isWinning && row[STATE] === "rejected" ? speedup : null);
      const isStopped = row[STATE] === "stopped";
      failed.push(speedup === null && !isStopped ? below : null);
      stopped.push(speedup === null && isStopped ? below : null);
    }
    return [places(), best, won, kept, rejected, failed, stopped];
  }

  // Of marks that would lie on each other one is drawn: thousands take a browser long to draw.
  const CELL_PX = 3;
  function apart(shown, number) {
    const [first, last] = shown.series[0].idxs;
    const [xs, ys] = [shown.data[0], shown.data[number]];
    const taken = new Set();
    const found = [];
    for (let at = first; at <= last; at++) {
      if (ys[at] === null) continue;
      const column = Math.round(shown.valToPos(xs[at], "x") / CELL_PX);
      const cell = 10000 * column + Math.round(shown.valToPos(ys[at], "y") / CELL_PX);
      if (!taken.has(cell)) found.push(at);
      taken.add(cell);
    }
    return found;
  }

  function marks(label, stroke, fill, size) {
    return {
      label, stroke, fill, paths: () => null,
      points: { show: false, filter: apart, size, stroke, fill, width: 1.5 },
      value: (_, v) => (v === null || v === undefined ? "" : `${v.toFixed(2)}x`),
    };
  }

  // Why the candidate under the pointer has no latency.
  function reason(_, v, __, at) {
    return v === null || v === undefined ? "" : WORDS[rows[at][STATE]] || rows[at][FAILURE];
  }

  function draw() {
    const frame = document.getElementById("chart");
    if (chart) chart.destroy();
    causes.choose(measured());
    tellCauses();
    const lines = {
      stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
    };
    const win = colour("--win"), blue = colour("--kept"), grey = colour("--rejected");
    const page = colour("--page"), red = colour("--failed");
    chart = new uPlot({
      width: frame.clientWidth, height: 320, ms: 1,
      scales: { x: { time: false }, y: { range: (_, low, high) => [2 * belowZero(high || 1), Math.max(1, high || 1) * 1.08] } },
      axes: [
        { ...lines, label: AXES[axis.value], labelSize: 24, size: 36 },
        { ...lines, size: 56, values: (_, ticks) => ticks.map((t) => (t < 0 ? "" : `${t}x`)) },
      ],
      series: [
        { label: axis.value },
        {
          label: "best so far", stroke: win, width: 2, points: { show: false },
          paths: uPlot.paths.stepped({ align: 1 }),
          value: (_, v) => (v === null || v === undefined ? "" : `${v.toFixed(2)}x`),
        },
        ...(isByCause()
          ? causes.entries(measured()).map(([number, name]) => {
              const own = colour(`--cause-${number}`);
              return marks(name, own, own, 6);
            })
          : [
              marks("winning schedule", win, win, 9),
              marks("faster than its parent", blue, blue, 6),
              marks("not faster", grey, page, 6),
            ]),
        { ...marks("failed", red, page, 5), value: reason },
        { ...marks("stopped early", colour("--stopped"), page, 5), value: reason },
      ],
      cursor: { points: { show: false } },
    }, isByCause() ? seriesByCause() : series(), frame);
    chart.over.addEventListener("click", () => {
      const at = chart.cursor.idx;
      if (at !== null && at !== undefined && rows[at]) location.href = `${base}/trials/${rows[at][INDEX]}`;
    });
    frame.setAttribute("role", "img");
    frame.setAttribute("aria-label", "Speedup over the starting kernel against evaluations; the table of candidates has the numbers");
  }

  // The tree in the chosen colours, with their names.
  function paintTree() {
    const tree = document.getElementById("tree");
    if (!tree) return;
    const causeOf = (index) => {
      const row = rows[placeOf.get(index)];
      return row && row[SPEEDUP] !== null ? row[CAUSE] : null;
    };
    causes.paint(tree, isByCause() ? causeOf : null);
  }

  function tellCauses() {
    const list = document.getElementById("causes");
    list.hidden = !isByCause();
    list.replaceChildren(...causes.entries(measured()).map(([number, name]) => {
      const item = live.element("li", `cause-${number}`);
      const swatch = document.getElementById("swatch").content.cloneNode(true);
      item.append(swatch, name);
      return item;
    }));
    paintTree();
  }

  // The table: what the filter leaves, in the wanted order.
  const filter = document.getElementById("trial-filter");
  let shown = SHOWN;

  function chosen() {
    const words = filter.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = filter.state.value;
    const found = rows.filter((row) => {
      if (state && row[STATE] !== state) return false;
      if (!words.length) return true;
      const text = `${row[OPTION]} ${row[PROPOSER]} ${row[FAILURE]} ${row[CAUSE]}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const last = (value) => (value === null ? Infinity : value);
    const order = filter.order.value;
    if (order === "newest") found.reverse();
    if (order === "fastest") found.sort((a, b) => last(a[LATENCY]) - last(b[LATENCY]));
    if (order === "gain") found.sort((a, b) => (b[GAIN] || 0) - (a[GAIN] || 0));
    return found;
  }

  const times = (value) => (value === null ? "-" : `${value.toFixed(2)}x`);
  const words = (name) => name.replace(/[_-]/g, " ");

  function line(row) {
    const made = live.element("tr", winning.has(row[INDEX]) ? "winning" : "");
    const link = live.element("a", "", String(row[INDEX]));
    link.href = `${base}/trials/${row[INDEX]}`;
    const head = live.element("th", "num");
    head.scope = "row";
    head.append(link);
    made.append(
      head,
      live.element("td", "", row[OPTION] ? words(row[OPTION]) : row[PARENT] === null ? "starting kernel" : ""),
      live.element("td", "", WORDS[row[STATE]] || row[FAILURE]),
      live.element("td", "num", times(row[SPEEDUP])),
      live.element("td", "num", times(row[GAIN])),
      live.element("td", "num", row[LATENCY] === null ? "-" : Math.round(row[LATENCY]).toLocaleString("en")),
      live.element("td", "", words(row[CAUSE])),
      live.element("td", "", row[PROPOSER]),
    );
    return made;
  }

  // Lines that stay are not touched: they keep the keyboard's focus, and need no new layout.
  const lines = new WeakMap();  // of each row: its line, and whether that is marked as winning

  function lineOf(row) {
    const isWinning = winning.has(row[INDEX]);
    const known = lines.get(row);
    if (known && known.isWinning === isWinning) return known.line;
    const made = line(row);
    lines.set(row, { line: made, isWinning });
    return made;
  }

  // Drawing the table costs more than all else, so out of sight it is drawn once a second at most.
  const UNSEEN_MS = 1000;
  let isInSight = false;
  let due = 0;

  function listSoon() {
    if (isInSight) list();
    else due ||= setTimeout(list, UNSEEN_MS);
  }

  new IntersectionObserver((entries) => {
    isInSight = entries[entries.length - 1].isIntersecting;
    if (isInSight && due) list();
  }).observe(document.getElementById("table-part"));

  function list() {
    clearTimeout(due);
    due = 0;
    const found = chosen();
    const wanted = found.slice(0, shown).map(lineOf), stays = new Set(wanted);
    const table = document.getElementById("trials");
    for (const old of [...table.children]) if (!stays.has(old)) old.remove();
    let at = table.firstChild;
    for (const one of wanted) {
      if (one === at) at = at.nextSibling;
      else table.insertBefore(one, at);
    }
    document.getElementById("table-count").textContent =
      `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} candidates` +
      (total > rows.length ? `, which stand for ${total.toLocaleString("en")}` : "");
    document.getElementById("more").hidden = found.length <= shown;
  }

  // The address keeps the filter, so that it can be passed on.
  function keepFilter() {
    const address = new URL(location.href);
    const kept = { text: filter.text, state: filter.state, order: filter.order, axis, colours };
    for (const [name, { value }] of Object.entries(kept)) {
      if (value && !["newest", "evaluations", "outcome"].includes(value)) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    history.replaceState(null, "", address);
  }

  function readFilter() {
    const asked = new URL(location.href).searchParams;
    for (const name of ["text", "state", "order"]) {
      if (asked.has(name)) filter[name].value = asked.get(name);
      if (filter[name].selectedIndex === -1) filter[name].selectedIndex = 0;
    }
    if (AXES[asked.get("axis")]) axis.value = asked.get("axis");
    if (asked.get("colours") === "cause") colours.value = "cause";
  }

  for (const choice of [axis, colours]) {
    choice.addEventListener("change", () => { keepFilter(); draw(); });
  }

  filter.addEventListener("input", () => { shown = SHOWN; keepFilter(); list(); });
  filter.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("more").addEventListener("click", () => { shown += 5 * SHOWN; list(); });

  // Sections that the server draws: fetched anew at most every few seconds.
  // Chart and table come first: both the server and this page are busy for a moment with a section.
  const EVERY_MS = 4000, SETTLE_MS = 300;
  const fetched = new Map();
  function freshen(isFirst) {
    for (const place of document.querySelectorAll("[data-part]")) {
      const name = place.dataset.part;
      const wait = isFirst ? 0 : Math.max(SETTLE_MS, (fetched.get(name) || 0) + EVERY_MS - Date.now());
      if (place.dataset.due) continue;
      place.dataset.due = "yes";
      setTimeout(async () => {
        delete place.dataset.due;
        fetched.set(name, Date.now());
        const frame = place.querySelector(".tree-frame");
        const at = frame ? [frame.scrollLeft, frame.scrollTop] : null;
        await live.fetchInto(`${base}/parts/${name}`, place).catch(() => false);
        const now = place.querySelector(".tree-frame");
        if (at && now) [now.scrollLeft, now.scrollTop] = at;
        if (name === "tree") paintTree();
      }, wait);
    }
  }

  function show() {
    if (isByCause() && causes.choose(measured())) {
      draw();
    } else if (chart) {
      chart.setData(isByCause() ? seriesByCause() : series());
    }
    listSoon();
  }

  async function load() {
    const answer = await fetch(`${base}/rows`);
    if (!answer.ok) return;
    const found = await answer.json();
    rows = found.rows;
    total = found.trials;
    placeOf = new Map(rows.map((row, place) => [row[INDEX], place]));
    winning = new Set(found.winning);
    generation = found.generation;
    learnAxes(found.axes);
    draw();
    list();
  }

  // An axis without a number is not offered.
  function learnAxes(news) {
    ends = ends.slice(0, news.first).concat(news.rows);
    const offered = { evaluations: true, seconds: ends.length, usd: ends.length && news.has_costs };
    for (const option of axis.options) {
      const isOffered = Boolean(offered[option.value]);
      if (option.disabled === isOffered) option.hidden = option.disabled = !isOffered;
    }
    if (axis.selectedOptions[0].disabled) axis.value = "evaluations";
  }

  function told(news) {
    learnAxes(news.axes);
    for (const [name, text] of Object.entries(news.text)) {
      for (const place of document.querySelectorAll(`[data-live="${name}"]`)) {
        if (place.textContent !== text) place.textContent = text;
        if (name === "status") place.className = `status ${text}`;
      }
    }
    for (const form of document.querySelectorAll("[data-for]")) {
      form.hidden = !form.dataset.for.split(" ").includes(news.text.status);
    }
    if (news.generation !== generation) {
      load();
    } else if (news.rows.length) {
      for (const row of news.rows) {
        if (!placeOf.has(row[INDEX])) placeOf.set(row[INDEX], rows.length);
        rows[placeOf.get(row[INDEX])] = row;
      }
      total = news.trials;
      winning = new Set(news.winning);
      show();
    }
    freshen(false);
    performance.mark("told");
  }

  readFilter();
  load().then(() => {
    live.listen(() => `${base}/events?after=${total - 1}`, {
      news: told,
      lost: (why) => { document.getElementById("link").textContent = why.why; },
    });
  });
  freshen(true);

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => {
      if (chart) chart.setSize({ width: document.getElementById("chart").clientWidth, height: 320 });
    }, 100);
  });
}
