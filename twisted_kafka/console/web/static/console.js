"use strict";
// Live pages: the server sends the newest form of #live, or rows that follow in #tail. Pages work without this script, only not live.
(() => {
  const MOST_ROWS = 500;
  const policy = window.trustedTypes ? trustedTypes.createPolicy("console", { createHTML: (text) => text }) : { createHTML: (text) => text };
  const live = document.querySelector("[data-at]");
  const state = document.getElementById("live-text");
  const button = document.getElementById("live-switch");
  let source = null;
  let isPaused = false;
  let waiting = null;
  let after = "";  // where a tail goes on after a pause

  const say = (text, isOn) => {
    if (!state || state.textContent === text) return;
    state.textContent = text;
    state.parentElement.classList.toggle("on", isOn);
  };

  const localTimes = (root) => {
    for (const each of root.querySelectorAll("time[datetime]")) {
      const then = new Date(each.dateTime);
      if (isNaN(then)) continue;
      each.title = each.dateTime.replace("T", " ").replace("Z", " UTC");
      const pad = (number, length = 2) => String(number).padStart(length, "0");
      const day = `${then.getFullYear()}-${pad(then.getMonth() + 1)}-${pad(then.getDate())}`;
      const fraction = then.getMilliseconds() || each.className === "short" ? `.${pad(then.getMilliseconds(), 3)}` : "";
      each.textContent = `${each.className === "short" ? "" : `${day} `}${pad(then.getHours())}:${pad(then.getMinutes())}:${pad(then.getSeconds())}${fraction}`;
    }
  };

  const isHeld = () => {
    const selection = document.getSelection();
    const active = document.activeElement;
    return (selection && !selection.isCollapsed && live.contains(selection.anchorNode)) ||
      (live.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName));
  };

  // The reader keeps the focus, open details and the place in wide tables.
  const replace = (text) => {
    const active = document.activeElement;
    const focused = live.contains(active) ? [...live.querySelectorAll("a, button, summary")].indexOf(active) : -1;
    const open = [...live.querySelectorAll("details")].map((each) => each.open);
    const places = [...live.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    live.innerHTML = policy.createHTML(text);
    localTimes(live);
    live.querySelectorAll("details").forEach((each, at) => { each.open = open[at] || each.open; });
    live.querySelectorAll(".scroll").forEach((each, at) => { each.scrollLeft = places[at] || 0; });
    if (focused >= 0) live.querySelectorAll("a, button, summary")[focused]?.focus({ preventScroll: true });
  };

  const add = (text) => {
    const rows = document.createElement("template");
    rows.innerHTML = policy.createHTML(text);
    localTimes(rows.content);
    const tail = document.getElementById("tail");
    tail.prepend(rows.content);
    while (tail.children.length > MOST_ROWS) tail.lastElementChild.remove();
  };

  const stop = () => { source?.close(); source = null; };

  const start = () => {
    if (source || isPaused || document.hidden) return;
    source = new EventSource(live.dataset.at + (after && `&after=${encodeURIComponent(after)}`));
    source.onopen = () => say("Live", true);
    source.onmessage = (event) => {
      const text = JSON.parse(event.data);
      if (isHeld()) waiting = text; else { waiting = null; replace(text); }
    };
    source.addEventListener("more", (event) => {
      after = event.lastEventId;
      add(JSON.parse(event.data));
    });
    source.addEventListener("end", () => { stop(); say("Ended: reload the page", false); });
    source.onerror = () => {
      if (source && source.readyState === EventSource.CLOSED) { stop(); say("Not connected: reload the page", false); } else say("Connecting…", false);
    };
  };

  localTimes(document);
  document.querySelector(".sections [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  for (const each of document.querySelectorAll("[data-submits]")) each.addEventListener("change", () => each.form.requestSubmit());
  if (!live) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Go on" : "Pause";
    if (isPaused) { stop(); say("Paused", false); } else start();
  });
  document.addEventListener("selectionchange", () => { if (waiting !== null && !isHeld()) { const text = waiting; waiting = null; replace(text); } });
  document.addEventListener("visibilitychange", () => { if (document.hidden) { stop(); say("Paused", false); } else start(); });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", start);
  start();
})();
