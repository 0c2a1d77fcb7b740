// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// The page of `dovetail ui` and of the controller. It reads /api/overview every two seconds and draws the view that the address names behind the #.
import uPlot from "uplot";

const readEvery = 2000; // ms
const samplesEvery = 5; // s, as the server takes them
const hoursOfMonth = 730;

const state = {offer: null, overview: null, samples: [], failed: "", filter: "", sort: "name", plan: "", reports: {}};
const allViews = [
  ["overview", "Overview", drawOverview], ["nodes", "Nodes", drawNodes], ["pending", "Pending pods", drawPending],
  ["decisions", "Decisions", drawDecisions], ["what-if", "What if", drawWhatIf],
  ["doctor", "Doctor", () => drawReport("doctor")], ["history", "History", () => drawReport("history")],
  ["headroom", "Headroom", () => drawReport("headroom")],
];
const reports = ["doctor", "history", "headroom"];
let views = allViews;

// element makes one: its attributes and listeners, then children, which are nodes or text.
function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value != null) e.setAttribute(name, value);
  }
  e.append(...children.flat().filter((c) => c != null));
  return e;
}

const main = document.getElementById("main");
const money = (dollars) => new Intl.NumberFormat("en-US", {style: "currency", currency: "USD", maximumFractionDigits: dollars < 10 ? 4 : 2}).format(dollars);
const cores = (amount) => parseInt(amount.cpu, 10) / 1000; // always milli-cores
const gibibytes = (amount) => Number(amount.memory) / 2 ** 30; // always bytes
const share = (part, whole) => whole > 0 ? part / whole : 0;
const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const utc = (at) => `${new Date(at).toISOString().slice(11, 19)} UTC`;
const percent = (fraction) => `${Math.round(100 * fraction)} %`;

function duration(seconds) {
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["m", 60]]) if (seconds >= length) return `${Math.floor(seconds / length)}${unit}`;
  return `${Math.max(0, Math.floor(seconds))}s`;
}

function view() {
  return views.find(([name]) => name === location.hash.slice(1)) ?? views[0];
}

function drawFrame() {
  document.getElementById("nav").replaceChildren(...views.map(([name, title]) =>
    element("a", {href: `#${name}`, "aria-current": name === view()[0] ? "page" : null}, title)));
  const o = state.overview;
  const who = o?.autoscalers.map((a) => a.name).join(", ") || "no autoscaler";
  document.getElementById("cluster").textContent = o ? `${o.cluster.name} · Kubernetes ${o.cluster.version} · ${who}` : "Reading the cluster…";
  document.title = `Dovetail · ${view()[1]}`;
  const said = [state.failed, ...(o?.problems ?? [])].filter(Boolean).join(" · ");
  if (document.getElementById("status").textContent !== said) document.getElementById("status").textContent = said;
}

// draw draws the view anew. Who types in a field keeps it: only what is below the controls changes.
function draw() {
  drawFrame();
  if (!state.overview) return;
  view()[2]();
}

// body returns what a view fills at each reading, and makes it with the view's controls when another one was shown.
function body(name, controls) {
  if (main.dataset.view !== name) {
    main.dataset.view = name;
    main.replaceChildren(...(controls?.() ?? []), element("div", {id: "body"}));
  }
  return document.getElementById("body");
}

function table(caption, columns, rows) {
  return element("div", {class: "scroll"}, element("table", null, element("caption", null, caption),
    element("thead", null, element("tr", null, columns.map(([title, kind]) => element("th", {scope: "col", class: kind}, title)))),
    element("tbody", null, rows.map((row) => element("tr", null, row.map((cell, i) => element("td", {class: columns[i][1]}, cell)))))));
}

const filterField = () => element("label", null, "Filter ", element("input", {type: "search", value: state.filter,
  oninput: (e) => { state.filter = e.target.value; draw(); }}));
const matches = (...texts) => !state.filter || texts.some((t) => t?.toLowerCase().includes(state.filter.toLowerCase()));

// about is a button that opens what is known of an object.
function about(subject, ...label) {
  return element("button", {class: "link", type: "button", onclick: () => explain(subject)}, label.length ? label : subject);
}

async function explain(subject) {
  const dialog = document.getElementById("details");
  document.getElementById("details-title").textContent = subject;
  const text = document.getElementById("details-text");
  text.textContent = "Asking…";
  if (!dialog.open) dialog.showModal();
  try {
    text.textContent = await read(`api/details?subject=${encodeURIComponent(subject)}`, "text");
  } catch (e) {
    text.textContent = e.message;
  }
}

// nodeStates says how many nodes are in which state other than Ready.
function nodeStates(t) {
  const {Ready, NotReady, ...others} = t.nodesByState;
  const parts = Object.entries(others).map(([state, n]) => `${n} ${state.toLowerCase()}`);
  if (t.nodesNotReady) parts.unshift(`${t.nodesNotReady} not Ready`);
  return parts.join(", ") || "all Ready";
}

let charts = [];
function drawOverview() {
  const t = state.overview.total;
  const b = body("overview", () => {
    charts = [];
    return [element("section", {class: "cards", id: "cards", "aria-label": "The cluster now"}), element("p", {id: "next"}),
      element("section", {class: "charts", "aria-label": "Over time"}, element("div", {class: "chart", id: "chart-cost"}), element("div", {class: "chart", id: "chart-pods"}))];
  });
  const card = (title, value, more) => element("div", {class: "card"}, title, element("b", null, value), element("span", {class: "faint"}, more ?? ""));
  document.getElementById("cards").replaceChildren(
    card("Cost an hour", money(t.dollarsPerHour), t.nodesWithoutPrice ? `${count(t.nodesWithoutPrice, "node")} without a price` : ""),
    card("Cost a month", money(t.dollarsPerHour * hoursOfMonth), "at the present cost an hour"),
    card("Nodes", String(t.nodes), nodeStates(t)),
    card("CPU requested", percent(share(cores(t.requested), cores(t.allocatable))), `${cores(t.requested).toFixed(1)} of ${cores(t.allocatable).toFixed(1)} cores`),
    card("Memory requested", percent(share(gibibytes(t.requested), gibibytes(t.allocatable))), `${gibibytes(t.requested).toFixed(1)} of ${gibibytes(t.allocatable).toFixed(1)} GiB`),
    card("Pending pods", String(t.podsPending), `${count(t.pods, "pod")}, ${t.podsStarting} starting`));
  const next = state.overview.next;
  document.getElementById("next").textContent = next.length ? `Next: ${next.join("; ")}.` : "";
  drawCharts();
  b.replaceChildren(table("NodePools and groups", [["Pool"], ["Nodes", "number"], ["Cost an hour", "number"], ["CPU requested", "number"], ["Memory requested", "number"], ["Limits"], ["State"]],
    state.overview.pools.map((p) => [p.pool ? about(p.pool) : "no pool", String(p.nodes), money(p.dollarsPerHour), percent(share(cores(p.requested), cores(p.allocatable))),
      percent(share(gibibytes(p.requested), gibibytes(p.allocatable))), p.limits ?? "", [p.state, p.takeover].filter(Boolean).join("; ")])),
    element("p", {class: "faint"}, state.overview.notes.join(" ")));
}

function drawCharts() {
  const at = state.samples.map((s) => s.at);
  const data = [[at, state.samples.map((s) => s.dollarsPerHour)], [at, state.samples.map((s) => s.podsPending), state.samples.map((s) => s.nodes)]];
  if (charts.length) {
    charts.forEach((c, i) => c.setData(data[i]));
    return;
  }
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const axis = {stroke: color("--faint"), grid: {stroke: color("--line")}, ticks: {stroke: color("--line")}};
  // A step below 1 would show nodes and pods that nobody can count.
  const amounts = {...axis, size: 60, values: (_, splits) => splits.map(money)}, counts = {...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]};
  const clock = {...axis, values: (_, splits) => splits.map((s) => utc(1000 * s).slice(0, 8))};
  const make = (id, title, y, series, d) => {
    const at = document.getElementById(id);
    return new uPlot({title, width: at.clientWidth - 18, height: 220, tzDate: (s) => uPlot.tzDate(new Date(1000 * s), "Etc/UTC"),
      series: [{label: "time", value: (_, s) => s == null ? "–" : utc(1000 * s)}, ...series], axes: [clock, y], scales: {y: {range: (_, low, high) => [0, Math.max(1e-4, high * 1.1)]}}}, d, at);
  };
  charts = [make("chart-cost", "Dollars an hour", amounts, [{label: "dollars an hour", stroke: color("--cpu"), fill: color("--cpu") + "22"}], data[0]),
    make("chart-pods", "Pending pods and nodes", counts, [{label: "pending pods", stroke: color("--warn")}, {label: "nodes", stroke: color("--memory")}], data[1])];
}

const orders = {
  name: (a, b) => a.name.localeCompare(b.name),
  "emptiest first": (a, b) => share(cores(a.requested), cores(a.allocatable)) - share(cores(b.requested), cores(b.allocatable)),
  "dearest first": (a, b) => (b.pricePerHour ?? 0) - (a.pricePerHour ?? 0),
  "youngest first": (a, b) => a.ageSeconds - b.ageSeconds,
};

function drawNodes() {
  const b = body("nodes", () => [element("div", {class: "controls"}, filterField(), element("label", null, "Order ",
    element("select", {onchange: (e) => { state.sort = e.target.value; draw(); }}, Object.keys(orders).map((o) => element("option", {selected: o === state.sort}, o)))),
    element("span", {class: "faint"}, "Upper bar: CPU requested. Lower bar: memory requested."))]);
  const byPool = Map.groupBy(state.overview.nodes.filter((n) => matches(n.name, n.pool, n.instanceType, n.zone, n.capacityType, n.state, n.doing)), (n) => n.pool ?? "");
  const sections = [...byPool.keys()].sort().map((pool) => {
    const nodes = byPool.get(pool).sort(orders[state.sort]);
    return element("section", {"aria-label": pool || "Nodes of no pool"}, element("h2", null, `${pool || "Nodes of no pool"} · ${nodes.length}`),
      element("ul", {class: "nodes"}, nodes.map(drawNode)));
  });
  b.replaceChildren(...(sections.length ? sections : [element("p", null, state.filter ? "No node matches the filter." : "The cluster has no nodes.")]));
}

function drawNode(n) {
  const cpu = share(cores(n.requested), cores(n.allocatable)), memory = share(gibibytes(n.requested), gibibytes(n.allocatable));
  const what = [n.instanceType, n.zone, n.capacityType].filter(Boolean).join(" · ");
  const price = n.pricePerHour == null ? "no price" : `${money(n.pricePerHour)}/h`;
  const meter = (kind, value, label) => element("meter", {class: kind, min: 0, max: 1, value, "aria-label": `${label}: ${percent(value)}`});
  return element("li", null, element("button", {class: "node", type: "button", onclick: () => explain(n.launching ? `nodeclaim/${n.name}` : `node/${n.name}`)},
    element("strong", null, n.name.split(".")[0]), element("small", null, what),
    element("small", null, `${price} · ${count(n.pods, "pod")} · ${duration(n.ageSeconds)}`),
    meter("cpu", cpu, "CPU requested"), meter("memory", memory, "memory requested"),
    element("small", {class: n.doing || n.state !== "Ready" ? "doing" : ""}, n.doing || n.state)));
}

function drawPending() {
  const b = body("pending", () => [element("div", {class: "controls"}, filterField())]);
  const causes = state.overview.pending.filter((c) => matches(c.cause, c.autoscalerSaid, ...c.pods));
  const most = 20; // pods of a cause that are named
  b.replaceChildren(causes.length ? table("Pending pods by what they wait for", [["Pods", "number"], ["Cause"], ["What the autoscaler said"], ["Oldest", "number"], ["Which"]],
    causes.map((c) => [String(c.pods.length), c.cause, c.autoscalerSaid ? `${c.saidBy}: ${c.autoscalerSaid}` : "", duration(c.oldestSeconds),
      element("span", null, c.pods.slice(0, most).flatMap((p) => [about(`pod/${p}`, p), " "]), c.pods.length > most ? `and ${c.pods.length - most} more` : "")]))
    : element("p", null, state.filter ? "No pending pod matches the filter." : "No pod is pending."));
}

function drawDecisions() {
  const b = body("decisions", () => [element("div", {class: "controls"}, filterField())]);
  const decisions = state.overview.decisions.filter((d) => matches(d.by, d.kind, d.subject, d.text));
  b.replaceChildren(decisions.length ? table(`Decisions, newest first, from ${state.overview.decisionsFrom}`, [["When"], ["By"], ["What"], ["Object"], ["Why"]],
    decisions.map((d) => [utc(d.last ?? d.at), d.by, d.count > 1 ? `${d.kind} (${d.count} times)` : d.kind, about(d.subject), d.text]))
    : element("p", null, state.filter ? "No decision matches the filter." : "Nothing has been decided."));
}

function drawWhatIf() {
  body("what-if", () => [element("h2", null, "What would be launched for these objects?"),
    element("p", {class: "faint"}, "Workloads, NodePools and node classes as YAML, beside what the cluster has. Nothing is created."),
    element("label", {for: "manifests"}, "Manifests"),
    element("textarea", {id: "manifests", spellcheck: "false", oninput: (e) => { state.plan = e.target.value; }}, state.plan),
    element("div", {class: "controls"}, element("button", {type: "button", onclick: runPlan}, "Plan")), element("pre", {id: "plan", "aria-live": "polite"}, "")]);
}

async function runPlan() {
  const out = document.getElementById("plan");
  out.textContent = "Planning…";
  try {
    out.textContent = await read("api/plan", "text", {method: "POST", body: state.plan, headers: {"Content-Type": "application/yaml"}});
  } catch (e) {
    out.textContent = e.message;
  }
}

// drawReport shows what a command says. It is asked when the view opens and when the reader wants it anew.
function drawReport(name) {
  const title = views.find(([n]) => n === name)[1];
  body(name, () => {
    queueMicrotask(() => readReport(name));
    return [element("div", {class: "controls"}, element("button", {type: "button", onclick: () => readReport(name)}, "Read again"),
      element("span", {class: "faint"}, `As \`dovetail ${name}\` prints it.`)), element("pre", {id: "report", "aria-label": title, "aria-live": "polite"}, state.reports[name] ?? "")];
  });
}

async function readReport(name) {
  const show = (text) => {
    state.reports[name] = text;
    if (main.dataset.view === name) document.getElementById("report").textContent = text;
  };
  show("Reading…");
  try {
    show(await read(`api/report/${name}`, "text"));
  } catch (e) {
    show(e.message);
  }
}

async function read(path, as, options) {
  const answer = await fetch(path, {cache: "no-store", ...options});
  if (answer.status === 401) throw new Error("the token has expired: load the page again to sign in");
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${answer.status} ${answer.statusText}`);
  return answer[as]();
}

async function poll() {
  try {
    if (!state.offer) {
      state.offer = await read("api/offer", "json");
      views = allViews.filter(([name]) => reports.includes(name) ? state.offer.reports.includes(name) : name !== "what-if" || state.offer.plan);
    }
    const last = state.samples.at(-1)?.at ?? 0;
    const due = Date.now() / 1000 - last >= samplesEvery;
    const [overview, samples] = await Promise.all([read("api/overview", "json"), due ? read(`api/samples?after=${last}`, "json") : []]);
    state.overview = overview;
    state.samples.push(...samples);
    state.failed = "";
  } catch (e) {
    state.failed = `${state.offer?.by ?? "the server"} does not answer (${e.message}); what is shown is of ${state.overview ? utc(state.overview.at) : "no time"}.`;
  }
  setTimeout(poll, readEvery);
  draw();
}

addEventListener("hashchange", () => {
  document.getElementById("details").close();
  state.filter = "";
  draw();
  main.focus();
});
drawFrame();
poll();
