// The list of runs is fetched anew when something changed, at most once in two seconds.
"use strict";
{
  let due = false;
  const refresh = async () => {
    due = false;
    const chosen = new Set([...document.querySelectorAll("[name=run]:checked")].map((b) => b.value));
    const answer = await fetch(location.href).catch(() => null);
    if (!answer || !answer.ok) return;
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = read.getElementById("live-runs");
    for (const box of fresh.querySelectorAll("[name=run]")) box.checked = chosen.has(box.value);
    live.refill(document.getElementById("live-runs"), fresh.childNodes);
  };
  live.listen(() => "/events", {
    changed() {
      if (due) return;
      due = true;
      setTimeout(refresh, 2000);
    },
  });
}
