// Shows the selected trial. Everything foreign goes through textContent, never through markup.
"use strict";
const trials = new Map();
const detail = document.getElementById("detail");
const tree = document.getElementById("tree");
const nodes = new Map();

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function list(rows, className) {
  const made = element("dl", className);
  for (const [name, ...values] of rows) {
    const row = element("div");
    row.append(element("dt", "", name));
    for (const value of values) row.append(element("dd", "", value));
    made.append(row);
  }
  return made;
}

function scrollable(text, className) {
  const made = element("pre", className, text);
  made.tabIndex = 0;
  return made;
}

function diff(lines) {
  const made = scrollable("", "diff");
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  for (const line of lines) made.append(element("span", kinds[line[0]] || "same", line), "\n");
  return made;
}

function section(title, content) {
  const made = element("section");
  made.append(element("h4", "", title), content);
  return made;
}

function describe(trial) {
  const parts = [element("h3", "", trial.title)];
  if (trial.plan && trial.plan.trim() !== trial.summary) {
    const whole = element("details", "plan");
    whole.append(element("summary", "", trial.summary), element("p", "words", trial.plan));
    parts.push(whole);
  } else if (trial.plan) {
    parts.push(element("p", "plan", trial.plan));
  }
  if (trial.expected) parts.push(element("p", "expected", "Expected: " + trial.expected));
  parts.push(list(trial.facts, "facts"));
  if (trial.failure) parts.push(section("Failed: " + trial.failure, scrollable(trial.log, "log")));
  for (const warning of trial.warnings) parts.push(element("p", "warning", "Warning: " + warning));
  if (trial.feedback) parts.push(section("What costs most", element("pre", "words", trial.feedback)));
  if (trial.parent !== null) {
    parts.push(section("Changes against trial " + trial.parent, diff(trial.diff)));
  }
  if (trial.breakdown.length) {
    parts.push(section("Where the time goes", list(trial.breakdown, "facts shares")));
  }
  return parts;
}

async function readTrials() {
  const packed = atob(document.getElementById("trials").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  for (const trial of await new Response(stream).json()) trials.set(trial.index, trial);
}

// Trials of a sample may have a mark in the chart, but no node in the tree.
function select(index, focus) {
  for (const old of document.querySelectorAll(".selected")) old.classList.remove("selected");
  for (const old of tree.querySelectorAll("[tabindex='0']")) old.setAttribute("tabindex", "-1");
  for (const mark of document.querySelectorAll(`[data-trial="${index}"]`)) {
    mark.classList.add("selected");
  }
  const node = nodes.get(index);
  (node || nodes.values().next().value).setAttribute("tabindex", "0");
  if (focus) node.focus();
  detail.replaceChildren(...describe(trials.get(index)));
}

// Left goes to the parent, right to the first child, up and down stay in the column.
function neighbour(index, key) {
  if (key === "ArrowLeft") return trials.get(index).parent;
  if (key === "ArrowRight") {
    for (const other of nodes.keys()) if (trials.get(other).parent === index) return other;
    return null;
  }
  const place = (at) => nodes.get(at).transform.baseVal[0].matrix;
  const here = place(index);
  const direction = key === "ArrowUp" ? -1 : key === "ArrowDown" ? 1 : 0;
  let best = null;
  for (const other of direction ? nodes.keys() : []) {
    const there = place(other);
    const distance = (there.f - here.f) * direction;
    if (there.e !== here.e || distance <= 0) continue;
    if (best === null || distance < (place(best).f - here.f) * direction) best = other;
  }
  return best;
}

// A button on each block that a reader takes elsewhere.
for (const block of document.querySelectorAll("pre.command, pre.code")) {
  const button = element("button", "copy", "Copy");
  button.type = "button";
  button.addEventListener("click", () => {
    const range = document.createRange();
    range.selectNodeContents(block.querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  const frame = element("div", "copyable");
  block.replaceWith(frame);
  frame.append(button, block);
}

function letSelect() {
  for (const node of tree.querySelectorAll(".node")) {
    const index = Number(node.dataset.trial);
    nodes.set(index, node);
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", "-1");
    node.setAttribute("aria-label", trials.get(index).name);
  }
  for (const area of document.querySelectorAll("#tree, #chart")) {
    area.addEventListener("pointerover", (event) => {
      const mark = event.target.closest("[data-trial]");
      if (!mark || mark.querySelector("title")) return;
      const title = document.createElementNS(mark.namespaceURI, "title");
      title.textContent = trials.get(Number(mark.dataset.trial)).name;
      mark.append(title);
    });
    area.addEventListener("click", (event) => {
      const mark = event.target.closest("[data-trial]");
      if (!mark) return;
      select(Number(mark.dataset.trial), area === tree);
      if (area !== tree) document.getElementById("beam-section").scrollIntoView();
    });
  }
  tree.addEventListener("keydown", (event) => {
    const node = event.target.closest(".node");
    if (!node) return;
    const next = neighbour(Number(node.dataset.trial), event.key);
    if (next === null) return;
    event.preventDefault();
    select(next, true);
  });
  const winners = tree.querySelectorAll(".node.winning");
  select(winners.length ? Number(winners[winners.length - 1].dataset.trial) : 0, false);
}

if (tree) {
  readTrials().then(letSelect).catch(() => {
    detail.textContent = "Single trials cannot be shown: the browser is older than 2023, or the file is damaged.";
  });
}
