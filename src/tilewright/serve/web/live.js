// What every page has: the state of the connection, and news that come while it is open.
"use strict";

const live = {
  // Listens to `address()`; EventSource connects again by itself where the server was away for a
  // moment, and here where it was given up: after sleep, or while the server was started anew.
  listen(address, handlers) {
    const shown = document.getElementById("link");
    let source = null;
    let heard = 0;
    const say = (text, isLost) => {
      if (shown.textContent !== text) shown.textContent = text;
      shown.classList.toggle("lost", isLost);
    };
    const connect = () => {
      if (source) source.close();
      heard = Date.now();
      source = new EventSource(address());
      source.onopen = () => say("live", false);
      source.onerror = () => {
        say("no connection: trying again", true);
        if (source.readyState === EventSource.CLOSED) setTimeout(check, 2000);
      };
      // The server is there, but its database is not: what is shown stays, and news come later.
      source.addEventListener("away", (event) => {
        heard = Date.now();
        say(JSON.parse(event.data).why, true);
      });
      for (const [name, handle] of Object.entries(handlers)) {
        source.addEventListener(name, (event) => {
          heard = Date.now();
          say("live", false);
          handle(JSON.parse(event.data));
        });
      }
    };
    const check = async () => {
      if (source && source.readyState !== EventSource.CLOSED) return;
      const answer = await fetch(location.href, { method: "HEAD" }).catch(() => null);
      if (answer && answer.status === 403) {
        say("the server was started anew: open the address that it printed", true);
      } else if (answer && answer.ok) {
        connect();
      } else {
        setTimeout(check, 2000);
      }
    };
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && Date.now() - heard > 60000) connect();
    });
    // A page in sight hears of no change when the machine wakes: but its clock has jumped.
    let ticked = Date.now();
    setInterval(() => {
      if (Date.now() - ticked > 60000) connect();
      ticked = Date.now();
    }, 10000);
    addEventListener("pagehide", () => source && source.close());
    connect();
  },

  element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  },

  // Puts other content into a part of the page. What the reader has opened there stays open, and
  // what has the keyboard's focus keeps it.
  refill(place, nodes) {
    const name = (element) => element.getAttribute("aria-label") || element.textContent;
    const opened = new Set([...place.querySelectorAll("details[open] > summary")].map(name));
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    place.replaceChildren(...nodes);
    for (const summary of place.querySelectorAll("details > summary")) {
      if (opened.has(name(summary))) summary.parentElement.open = true;
    }
    if (!focused || place.contains(focused)) return;
    const same = [...place.querySelectorAll(focused.tagName)].find((one) => name(one) === name(focused));
    if (same) same.focus({ preventScroll: true });
  },

  // The HTML is the server's own template, in which everything foreign is escaped; scripts in it
  // would not run, by the policy of the page.
  filledWith: new WeakMap(),
  async fetchInto(address, place) {
    const answer = await fetch(address);
    if (!answer.ok) return false;
    const text = await answer.text();
    if (live.filledWith.get(place) === text) return true;
    live.filledWith.set(place, text);
    live.refill(place, new DOMParser().parseFromString(text, "text/html").body.childNodes);
    return true;
  },
};
