// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// The page of `dovetail ui` and of the controller. It reads /api/overview every two seconds, on large clusters less often, and draws the
// view that the address names. kit.js has what all views are made of, cluster.js and reports.js the views.
import {drawCosts, drawDisruption, drawNodes, drawOverview, drawPending} from "./cluster.js";
import {address, chosen, choose, copyButton, element, main, page, read, utc, view} from "./kit.js";
import {drawDoctor, drawHeadroom, drawHistory, drawWhatIf} from "./reports.js";

const readEvery = 2000; // ms, at least; and ten times as long as reading and drawing take
const samplesEvery = 5; // s, as the server takes them
const extrasEvery = 10_000; // ms: workloads and reasons of pending pods

const state = {offer: null, overview: null, samples: [], failed: "", workloads: [], remedies: new Map(), extrasAt: 0};
const allViews = [
  ["overview", "Overview", () => drawOverview(state)], ["nodes", "Nodes", () => drawNodes(state)], ["disruption", "Disruption", () => drawDisruption(state)],
  ["costs", "Costs", () => drawCosts(state)], ["pending", "Pending pods", () => drawPending(state)],
  ["history", "History", () => drawHistory(state.overview, offers("history") && state.overview.decisionsFrom !== "Kubernetes events", offers("savings"))],
  ["doctor", "Doctor", drawDoctor], ["headroom", "Headroom", drawHeadroom], ["what-if", "What if", drawWhatIf],
];
page.views = allViews;
page.draw = draw;

const offers = (name) => state.offer.reports.includes(name);

function drawFrame() {
  document.getElementById("nav").replaceChildren(...page.views.map(([name, title]) =>
    element("a", {href: `#${name}`, "aria-current": name === view()[0] ? "page" : null}, title)));
  const o = state.overview;
  const who = o?.autoscalers.map((a) => a.name).join(", ") || "no autoscaler";
  document.getElementById("cluster").textContent = o ? `${o.cluster.name} · Kubernetes ${o.cluster.version} · ${who}` : "Reading the cluster…";
  document.title = `Dovetail · ${view()[1]}`;
  const said = [state.failed, ...(o?.problems ?? [])].filter(Boolean).join(" · ");
  if (document.getElementById("status").textContent !== said) document.getElementById("status").textContent = said;
}

// place returns where the focus is: what its link opens, or else the text of its link or button, and which of those it is. Drawing replaces elements,
// and the text of a node has figures that change.
const identity = (e) => e.getAttribute("href")?.replace(/^#$/, "") || (e.getAttribute("aria-label") ?? e.textContent);
const focusable = (id) => [...document.querySelectorAll("a, button")].filter((e) => identity(e) === id);
function place() {
  const e = document.activeElement, id = e?.matches("a, button") ? identity(e) : "";
  return id && {element: e, id, nth: focusable(id).indexOf(e)};
}

// restore gives the focus back to a place if drawing has replaced its element.
function restore(at) {
  const now = document.activeElement; // that of a dialog just closed keeps the focus for a moment, invisible
  if (!at || at.element.isConnected || (now !== document.body && now.checkVisibility())) return;
  const all = focusable(at.id);
  (all[at.nth] ?? all.at(-1))?.focus({preventScroll: true});
}

// draw draws the view. What has the focus keeps it.
function draw() {
  const at = place();
  drawFrame();
  if (!state.overview) return restore(at);
  view()[2]();
  restore(at);
  drawDetails();
}

let opener; // where the focus was when the details were opened

// drawDetails opens the object of the address, or closes the dialog if the address has none.
async function drawDetails() {
  const dialog = document.getElementById("details"), subject = chosen("open");
  if (dialog.dataset.subject === subject && dialog.open === (subject !== "")) return;
  dialog.dataset.subject = subject;
  if (!subject) return dialog.close();
  const command = `dovetail why ${subject}`;
  document.getElementById("details-title").textContent = subject;
  document.getElementById("details-command").replaceChildren(element("code", null, command), " ", copyButton(command), " ",
    element("a", {href: address({open: subject})}, "Link to this object"));
  const text = document.getElementById("details-text");
  text.textContent = "Reading…";
  if (!dialog.open) {
    opener = place();
    dialog.showModal();
  }
  let answer;
  try {
    answer = await read(`api/details?subject=${encodeURIComponent(subject)}`, "text");
  } catch (e) {
    answer = e.message;
  }
  if (dialog.dataset.subject === subject) text.textContent = answer;
}

// readExtras reads what only some views show.
async function readExtras() {
  const name = view()[0];
  if (Date.now() - state.extrasAt < extrasEvery) return;
  if (name === "nodes" || name === "costs") state.workloads = await read("api/workloads", "json");
  else if (name === "pending" && state.overview?.total.podsPending) {
    const pending = await read("api/pending", "json").catch(() => ({causes: []})); // without Dovetail nobody explains them
    state.remedies = new Map(pending.causes.filter((c) => c.change).flatMap((c) => c.pods.map((p) => [p, c.change])));
  } else return;
  state.extrasAt = Date.now();
}

async function poll() {
  const begun = performance.now();
  try {
    if (!state.offer) {
      state.offer = await read("api/offer", "json");
      page.views = allViews.filter(([name]) => ["doctor", "headroom"].includes(name) ? offers(name) : name !== "what-if" || state.offer.plan);
    }
    const last = state.samples.at(-1)?.at ?? 0;
    const due = Date.now() / 1000 - last >= samplesEvery;
    const [overview, samples] = await Promise.all([read("api/overview", "json"), due ? read(`api/samples?after=${last}`, "json") : []]);
    state.overview = overview;
    state.samples.push(...samples);
    await readExtras();
    state.failed = "";
  } catch (e) {
    state.failed = `${state.offer?.by ?? "the server"} does not respond (${e.message}); ${state.overview ? `the data shown is from ${utc(state.overview.at)}` : "no data is available"}.`;
  }
  draw();
  setTimeout(poll, Math.max(readEvery, 10 * (performance.now() - begun)));
}

let shown = "";
addEventListener("hashchange", async () => {
  const changed = view()[0] !== shown;
  shown = view()[0];
  if (changed) {
    state.extrasAt = 0;
    main.focus({preventScroll: true});
  }
  draw();
  if (changed) await readExtras().then(draw, () => {}); // the next reading says what failed
});
document.getElementById("details").addEventListener("close", () => {
  if (chosen("open")) choose({open: ""});
  restore(opener);
});
document.querySelector(".skip").addEventListener("click", (e) => { // #main is no view
  e.preventDefault();
  main.focus();
});
drawFrame();
shown = view()[0];
poll();
