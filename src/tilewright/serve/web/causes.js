// What costs most time, as colours of chart and tree: the causes that cost most candidates most
// have one each, and all others share the last one.
"use strict";

const causes = {
  MOST: 5,
  shown: [],  // the causes with a colour of their own, the most frequent first

  // Chooses anew from the cause of each measured candidate; whether that changed anything.
  choose(found) {
    const counts = new Map();
    for (const cause of found) if (cause) counts.set(cause, (counts.get(cause) || 0) + 1);
    const order = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const chosen = order.slice(0, causes.MOST).map(([cause]) => cause);
    const isNew = chosen.join("\n") !== causes.shown.join("\n");
    causes.shown = chosen;
    return isNew;
  },

  // The number of a cause's colour.
  place(cause) {
    const at = causes.shown.indexOf(cause);
    return at === -1 ? causes.MOST : at;
  },

  // Each colour's number and name, of those that are in use.
  entries(found) {
    const isOther = (cause) => causes.place(cause) === causes.MOST;
    const entries = causes.shown.map((cause, at) => [at, cause.replace(/[_-]/g, " ")]);
    return found.some(isOther) ? [...entries, [causes.MOST, "anything else"]] : entries;
  },

  // Marks the nodes of the tree, by a function from a trial's number to its cause (null: none).
  paint(tree, causeOf) {
    for (const node of tree.querySelectorAll("[data-trial]")) {
      const cause = causeOf ? causeOf(Number(node.dataset.trial)) : null;
      for (let at = 0; at <= causes.MOST; at++) {
        node.classList.toggle(`cause-${at}`, cause !== null && causes.place(cause) === at);
      }
    }
  },
};
