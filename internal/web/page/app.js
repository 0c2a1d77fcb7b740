// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// The page of `dovetail ui` and of the controller. It reads /api/overview every two seconds and draws the view that the address names.
// The address has everything that a reader has chosen: #VIEW?filter=…&sort=…&open=KIND/NAME.
import uPlot from "uplot";

const readEvery = 2000; // ms
const samplesEvery = 5; // s, as the server takes them
const extrasEvery = 10_000; // ms: workloads and reasons of pending pods
const reportsLast = 300_000; // ms that a report is shown before it is read again
const hoursOfMonth = 730;
const mostRows = 200; // of a table; the filter finds the others

const state = {offer: null, overview: null, samples: [], failed: "", plan: "", reports: {}, workloads: [], remedies: new Map(), extrasAt: 0, copied: ""};
const allViews = [
  ["overview", "Overview", drawOverview], ["nodes", "Nodes", drawNodes], ["costs", "Costs", drawCosts], ["pending", "Pending pods", drawPending],
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

// route is the view of the address and what the reader has chosen in it.
function route() {
  const [name, query] = location.hash.slice(1).split("?");
  return {name, chosen: new URLSearchParams(query)};
}

const chosen = (key, otherwise = "") => route().chosen.get(key) ?? otherwise;

// address returns the address of a view with other choices. An empty value takes a choice away.
function address(choices, name = view()[0]) {
  const all = name === view()[0] ? route().chosen : new URLSearchParams();
  for (const [key, value] of Object.entries(choices)) value === "" ? all.delete(key) : all.set(key, value);
  const query = all.toString();
  return `#${name}${query ? `?${query}` : ""}`;
}

// choose changes the address without an entry in the history of the browser.
function choose(choices) {
  history.replaceState(null, "", address(choices));
  draw();
}

function view() {
  return views.find(([name]) => name === route().name) ?? views[0];
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

// draw draws the view. A field that has the focus keeps it: only the part below the controls changes.
function draw() {
  drawFrame();
  if (!state.overview) return;
  const focusable = () => [...main.querySelectorAll("#body button")], focused = focusable().indexOf(document.activeElement);
  view()[2]();
  if (focused >= 0) focusable()[focused]?.focus({preventScroll: true}); // its element was replaced
  drawDetails();
}

// body returns the element that a view fills at each reading. It is made with the view's controls when another view was shown.
function body(name, controls) {
  if (main.dataset.view !== name) {
    main.dataset.view = name;
    main.replaceChildren(...(controls?.() ?? []), element("div", {id: "body"}));
  }
  return document.getElementById("body");
}

// table makes a table. A column is [title, class]; a cell is a text or an element, or [what is shown, the value to sort by]. The
// columns sort by the address: sort=TITLE, with - before it for descending order.
function table(caption, columns, rows) {
  const by = chosen("sort"), descending = by.startsWith("-"), at = columns.findIndex(([title]) => title === by.replace(/^-/, ""));
  const value = (row) => { const c = row[at]; return Array.isArray(c) ? c[1] : c instanceof Node ? c.textContent : c; };
  if (at >= 0) {
    rows = rows.toSorted((a, b) => {
      const [x, y] = descending ? [value(b), value(a)] : [value(a), value(b)];
      return typeof x === "number" ? x - y : String(x).localeCompare(String(y));
    });
  }
  const header = ([title, kind], i) => element("th", {scope: "col", class: kind, "aria-sort": i !== at ? null : descending ? "descending" : "ascending"},
    element("button", {class: "sort", type: "button", onclick: () => choose({sort: i !== at ? title : descending ? "" : `-${title}`})}, title, i !== at ? "" : descending ? " ↓" : " ↑"));
  const cell = (c) => Array.isArray(c) ? c[0] : c;
  return element("div", {class: "scroll"}, element("table", null, element("caption", null, caption),
    element("thead", null, element("tr", null, columns.map(header))),
    element("tbody", null, rows.slice(0, mostRows).map((row) => element("tr", null, row.map((c, i) => element("td", {class: columns[i][1]}, cell(c)))))),
    rows.length > mostRows ? element("tfoot", null, element("tr", null, element("td", {colspan: columns.length, class: "faint"}, `and ${rows.length - mostRows} more; use the filter`))) : null));
}

const filterField = () => element("label", null, "Filter ", element("input", {type: "search", value: chosen("filter"),
  oninput: (e) => choose({filter: e.target.value})}));
const matches = (...texts) => !chosen("filter") || texts.some((t) => t?.toLowerCase().includes(chosen("filter").toLowerCase()));

// selectField chooses one of several values, the first by default.
const selectField = (label, key, values) => element("label", null, `${label} `, element("select", {onchange: (e) => choose({[key]: e.target.value === values[0] ? "" : e.target.value})},
  values.map((v) => element("option", {selected: v === chosen(key, values[0])}, v))));

// about is a link that opens the details of an object.
function about(subject, ...label) {
  return element("button", {class: "link", type: "button", onclick: () => { location.hash = address({open: subject}); }}, label.length ? label : subject);
}

// copyButton copies a text, and says so until another text is copied.
function copyButton(text) {
  return element("button", {type: "button", class: "copy", "aria-label": `Copy ${text}`, onclick: async (e) => {
    const button = e.currentTarget;
    await copy(text, button.parentNode);
    state.copied = text; // the view is drawn again every two seconds
    button.textContent = "Copied";
  }}, state.copied === text ? "Copied" : "Copy");
}

// copy puts a text on the clipboard, by a field beside the button where the browser does not let the page write there.
async function copy(text, beside) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = element("textarea", {readonly: true}, text);
    beside.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

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
  if (!dialog.open) dialog.showModal();
  let answer;
  try {
    answer = await read(`api/details?subject=${encodeURIComponent(subject)}`, "text");
  } catch (e) {
    answer = e.message;
  }
  if (dialog.dataset.subject === subject) text.textContent = answer;
}

// nodeStates counts the nodes by state other than Ready.
function nodeStates(t) {
  const {Ready, NotReady, ...others} = t.nodesByState;
  const parts = Object.entries(others).map(([state, n]) => `${n} ${state.toLowerCase()}`);
  if (t.nodesNotReady) parts.unshift(`${t.nodesNotReady} not Ready`);
  return parts.join(", ") || "all Ready";
}

let charts = [];
function drawOverview() {
  const o = state.overview, t = o.total;
  const b = body("overview", () => {
    charts = [];
    return [element("section", {class: "cards", id: "cards", "aria-label": "The cluster now"}), element("div", {id: "next"}),
      element("section", {class: "charts", "aria-label": "Over time"}, element("div", {class: "chart", id: "chart-cost"}), element("div", {class: "chart", id: "chart-pods"}))];
  });
  const card = (title, value, more, trouble) => element("div", {class: trouble ? "card trouble" : "card"}, title, element("b", null, value), element("span", {class: "faint"}, more ?? ""));
  document.getElementById("cards").replaceChildren(
    card("Cost an hour", money(t.dollarsPerHour), t.nodesWithoutPrice ? `${count(t.nodesWithoutPrice, "node")} without a price` : ""),
    card("Cost a month", money(t.dollarsPerHour * hoursOfMonth), "at the present cost an hour"),
    card("Nodes", String(t.nodes), nodeStates(t), t.nodesNotReady > 0),
    card("CPU requested", percent(share(cores(t.requested), cores(t.allocatable))), `${cores(t.requested).toFixed(1)} of ${cores(t.allocatable).toFixed(1)} cores`),
    card("Memory requested", percent(share(gibibytes(t.requested), gibibytes(t.allocatable))), `${gibibytes(t.requested).toFixed(1)} of ${gibibytes(t.allocatable).toFixed(1)} GiB`),
    card("Pending pods", String(t.podsPending), `${count(t.pods, "pod")}, ${t.podsStarting} starting`));
  document.getElementById("next").replaceChildren(...(o.next.length ? [element("h2", null, "Now"), element("ul", null,
    o.next.toSorted((a, b) => b.includes("blocked by") - a.includes("blocked by")).map((text) => element("li", {class: text.includes("blocked by") ? "trouble" : null}, text)))] : []));
  drawCharts();
  b.replaceChildren(table("NodePools and groups", [["Pool"], ["Nodes", "number"], ["Cost an hour", "number"], ["CPU requested", "number"], ["Memory requested", "number"], ["Limits"], ["State"]],
    o.pools.map((p) => {
      const cpu = share(cores(p.requested), cores(p.allocatable)), memory = share(gibibytes(p.requested), gibibytes(p.allocatable));
      return [p.pool ? about(p.pool) : "no pool", [String(p.nodes), p.nodes], [money(p.dollarsPerHour), p.dollarsPerHour], [percent(cpu), cpu], [percent(memory), memory], p.limits ?? "", [p.state, p.takeover].filter(Boolean).join("; ")];
    })),
    element("p", {class: "faint"}, o.notes.join(" ")));
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
  const amounts = {...axis, size: 70, values: (_, splits) => splits.map(money)}, counts = {...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]};
  const clock = {...axis, space: 90, values: (_, splits) => splits.map((s) => utc(1000 * s).slice(0, 5))};
  // The range of the cost is that of the data: a change of a few dollars is seen in a cluster of hundreds.
  const near = (_, low, high) => { const room = Math.max((high - low) * 0.1, high * 0.01, 1e-4); return [Math.max(0, low - room), high + room]; };
  const fromZero = (_, low, high) => [0, Math.max(1, high * 1.1)];
  const make = (id, title, y, series, range, d) => {
    const at = document.getElementById(id);
    return new uPlot({title, width: at.clientWidth - 18, height: 220, tzDate: (s) => uPlot.tzDate(new Date(1000 * s), "Etc/UTC"),
      series: [{label: "time", value: (_, s) => s == null ? "–" : utc(1000 * s)}, ...series], axes: [clock, y], scales: {y: {range}}}, d, at);
  };
  charts = [make("chart-cost", "Dollars an hour", amounts, [{label: "dollars an hour", stroke: color("--cpu"), fill: color("--cpu") + "22", value: (_, v) => v == null ? "–" : money(v)}], near, data[0]),
    make("chart-pods", "Pending pods and nodes", counts, [{label: "pending pods", stroke: color("--trouble")}, {label: "nodes", stroke: color("--memory")}], fromZero, data[1])];
}

// colorOf returns a color for a name, the same at each visit.
function colorOf(name) {
  let hash = 0;
  for (const c of name) hash = (hash * 31 + c.codePointAt(0)) % 360;
  return `hsl(${hash} 55% var(--tile))`;
}

const colorings = {
  namespace: (u) => u.namespace, workload: (u) => `${u.namespace}/${u.owner ?? "no owner"}`, NodePool: (u, n) => n.pool ?? "no pool",
};
const sizes = {
  CPU: (amounts) => cores(amounts), memory: (amounts) => gibibytes(amounts),
};
const orders = {
  name: (a, b) => a.name.localeCompare(b.name),
  "emptiest first": (a, b) => share(cores(a.requested), cores(a.allocatable)) - share(cores(b.requested), cores(b.allocatable)),
  "most expensive first": (a, b) => (b.pricePerHour ?? 0) - (a.pricePerHour ?? 0),
  "youngest first": (a, b) => a.ageSeconds - b.ageSeconds,
};
const isTrouble = (n) => Boolean(n.blockedBy) || n.state === "NotReady";
const subjectOf = (n) => n.launching ? `nodeclaim/${n.name}` : `node/${n.name}`;

function drawNodes() {
  const b = body("nodes", () => [element("div", {class: "controls"}, filterField(), selectField("Order", "order", Object.keys(orders)),
    selectField("Color", "color", Object.keys(colorings)), selectField("Size", "size", Object.keys(sizes)))]);
  const nodes = state.overview.nodes.filter((n) => matches(n.name, n.pool, n.instanceType, n.zone, n.capacityType, n.state, n.doing)).sort(
    (a, b) => isTrouble(b) - isTrouble(a) || orders[chosen("order", "name")]?.(a, b) || 0);
  if (!nodes.length) return b.replaceChildren(element("p", null, chosen("filter") ? "No node matches the filter." : "The cluster has no nodes."));
  const byNode = Map.groupBy(state.workloads, (u) => u.node), names = new Map();
  const byPool = Map.groupBy(nodes, (n) => n.pool ?? "");
  const sections = [...byPool.keys()].sort().map((pool) => element("section", {"aria-label": pool || "Nodes of no pool"},
    element("h2", null, `${pool || "Nodes of no pool"} · ${byPool.get(pool).length}`),
    element("ul", {class: "map"}, byPool.get(pool).map((n) => drawNode(n, byNode.get(n.name) ?? [], names)))));
  const legend = [...names].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([name]) => {
    const swatch = element("i", {class: "swatch"});
    swatch.style.background = colorOf(name);
    return element("span", null, swatch, name);
  });
  b.replaceChildren(element("p", {class: "legend faint"}, legend, element("span", null, element("i", {class: "swatch trouble"}), "blocked or not Ready")), ...sections,
    table("Nodes", [["Node"], ["Type"], ["Zone"], ["Capacity"], ["Pods", "number"], ["CPU", "number"], ["Memory", "number"], ["$/h", "number"], ["Age", "number"], ["State"]],
      nodes.map((n) => {
        const cpu = share(cores(n.requested), cores(n.allocatable)), memory = share(gibibytes(n.requested), gibibytes(n.allocatable));
        return [about(subjectOf(n), n.name), n.instanceType ?? "", n.zone ?? "", n.capacityType ?? "", [String(n.pods), n.pods], [percent(cpu), cpu], [percent(memory), memory],
          [n.pricePerHour == null ? "-" : money(n.pricePerHour), n.pricePerHour ?? 0], [duration(n.ageSeconds), n.ageSeconds],
          element("span", {class: isTrouble(n) ? "trouble" : null}, n.doing || n.state)];
      })));
}

// drawNode draws one node of the map: a band for each group of its pods, as wide as its share of the node.
function drawNode(n, usages, names) {
  const coloring = colorings[chosen("color", "namespace")] ?? colorings.namespace, size = sizes[chosen("size", "CPU")] ?? sizes.CPU;
  const groups = new Map();
  for (const u of usages) {
    const name = coloring(u, n);
    groups.set(name, (groups.get(name) ?? 0) + size(u.requests));
    names.set(name, (names.get(name) ?? 0) + size(u.requests));
  }
  let at = 0;
  const bands = [...groups].sort((a, b) => b[1] - a[1]).map(([name, amount]) => {
    const from = at;
    at += 100 * share(amount, size(n.allocatable));
    return `${colorOf(name)} ${from}% ${at}%`;
  });
  const price = n.pricePerHour == null ? "no price" : `${money(n.pricePerHour)}/h`;
  const label = [n.name.split(".")[0], n.instanceType, n.zone, n.capacityType, price, count(n.pods, "pod"), `CPU ${percent(share(cores(n.requested), cores(n.allocatable)))}`,
    `memory ${percent(share(gibibytes(n.requested), gibibytes(n.allocatable)))}`, n.doing || n.state].filter(Boolean).join(" · ");
  const tile = element("button", {class: isTrouble(n) ? "tile trouble" : n.state === "Ready" ? "tile" : "tile changing", type: "button", title: label, "aria-label": label,
    onclick: () => { location.hash = address({open: subjectOf(n)}); }});
  tile.style.background = bands.length ? `linear-gradient(to right, ${bands.join(", ")}, var(--panel) ${at}% 100%)` : "";
  return element("li", null, tile);
}

// drawCosts divides the price of each node among its pods, by the mean of their shares of its CPU and memory.
function drawCosts() {
  const b = body("costs", () => [element("div", {class: "controls"}, filterField(), selectField("By", "by", ["namespace", "workload"]))]);
  const nodes = new Map(state.overview.nodes.map((n) => [n.name, n])), sums = new Map();
  let free = state.overview.total.dollarsPerHour;
  for (const u of state.workloads) {
    const n = nodes.get(u.node);
    if (!n) continue;
    const name = chosen("by", "namespace") === "workload" ? colorings.workload(u) : u.namespace;
    const sum = sums.get(name) ?? {dollars: 0, pods: 0, cores: 0, memory: 0};
    const dollars = (n.pricePerHour ?? 0) * (share(cores(u.requests), cores(n.allocatable)) + share(gibibytes(u.requests), gibibytes(n.allocatable))) / 2;
    sums.set(name, {dollars: sum.dollars + dollars, pods: sum.pods + u.pods, cores: sum.cores + cores(u.requests), memory: sum.memory + gibibytes(u.requests)});
    free -= dollars;
  }
  const number = (x, digits) => [x.toFixed(digits), x];
  const row = (name, s) => [name, [money(s.dollars), s.dollars], [money(s.dollars * hoursOfMonth), s.dollars * hoursOfMonth], number(s.pods, 0), number(s.cores, 1), number(s.memory, 1)];
  const rows = [...sums].filter(([name]) => matches(name)).sort((a, b) => b[1].dollars - a[1].dollars).map(([name, s]) => row(name, s));
  b.replaceChildren(table("Cost by requests", [["Name"], ["$/h", "number"], ["$/month", "number"], ["Pods", "number"], ["Cores", "number"], ["GiB", "number"]], rows),
    element("p", {class: "faint"}, `${money(Math.max(0, free))}/h (${percent(share(Math.max(0, free), state.overview.total.dollarsPerHour))}) is not requested by any pod. The price of a node is divided among its pods by the mean of their shares of its CPU and memory.`));
}

function drawPending() {
  const b = body("pending", () => [element("div", {class: "controls"}, filterField())]);
  const causes = state.overview.pending.filter((c) => matches(c.cause, c.autoscalerSaid, ...c.pods));
  const most = 12; // pods of a reason that are named
  b.replaceChildren(...(causes.length ? causes.map((c) => {
    const remedy = state.remedies.get(c.pods.find((p) => state.remedies.has(p)));
    const command = `dovetail why pod/${c.pods[0]}`;
    return element("article", {class: "reason"}, element("h2", null, c.autoscalerSaid ?? c.cause),
      element("p", {class: "faint"}, `${count(c.pods.length, "pod")} · oldest ${duration(c.oldestSeconds)} · requests ${cores(c.requests).toFixed(1)} cores, ${gibibytes(c.requests).toFixed(1)} GiB`),
      remedy ? element("p", null, "Change: ", element("code", null, remedy), " ", copyButton(remedy)) : null,
      c.autoscalerSaid ? element("p", {class: "faint"}, `kube-scheduler: ${c.cause}`) : null,
      element("p", {class: "pods"}, c.pods.slice(0, most).flatMap((p) => [about(`pod/${p}`, p), " "]), c.pods.length > most ? `and ${c.pods.length - most} more` : ""),
      element("p", null, element("code", null, command), " ", copyButton(command)));
  }) : [element("p", null, chosen("filter") ? "No pending pod matches the filter." : "No pod is pending.")]));
}

function drawDecisions() {
  const b = body("decisions", () => [element("div", {class: "controls"}, filterField())]);
  const decisions = state.overview.decisions.filter((d) => matches(d.by, d.kind, d.subject, d.text));
  if (!decisions.length) return b.replaceChildren(element("p", null, chosen("filter") ? "No decision matches the filter." : "There are no decisions."));
  // The figures in brackets differ from node to node, and the text of a binding names its pods.
  const causes = Map.groupBy(decisions, (d) => d.kind === "bound" ? "bound" : `${d.kind}: ${d.text.replace(/ \[[^\]]*\]/g, "")}`);
  b.replaceChildren(
    table("By cause", [["Times", "number"], ["Cause"], ["Last"]], [...causes].map(([cause, all]) => [[String(all.length), all.length], cause, utc(all[0].last ?? all[0].at)]).sort((a, b) => b[0][1] - a[0][1])),
    table(`Decisions, newest first, from ${state.overview.decisionsFrom}`, [["When"], ["By"], ["What"], ["Object"], ["Why"]],
      decisions.map((d) => [utc(d.last ?? d.at), d.by, d.count > 1 ? `${d.kind} (${d.count} times)` : d.kind, about(d.subject), d.text])));
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

// drawReport shows the output of a command. It is read when the view is opened, unless it was read in the last minutes.
function drawReport(name) {
  const title = views.find(([n]) => n === name)[1];
  body(name, () => {
    const have = state.reports[name];
    if (!have || Date.now() - have.at > reportsLast) queueMicrotask(() => readReport(name));
    return [element("div", {class: "controls"}, element("button", {type: "button", onclick: () => readReport(name)}, "Read again"),
      element("span", {class: "faint"}, `Output of \`dovetail ${name}\``), element("span", {class: "faint", id: "report-at"})),
    element("pre", {id: "report", "aria-label": title, "aria-live": "polite"})];
  });
  showReport(name);
}

function showReport(name) {
  const have = state.reports[name];
  if (!have || main.dataset.view !== name) return;
  const report = document.getElementById("report");
  if (report.textContent !== have.text) report.textContent = have.text;
  document.getElementById("report-at").textContent = have.reading ? `reading for ${duration((Date.now() - have.reading) / 1000)}` : `read at ${utc(have.at)}`;
}

async function readReport(name) {
  const before = state.reports[name];
  if (before?.reading) return;
  state.reports[name] = {text: before?.text ?? "Reading…", at: Date.now(), reading: Date.now()};
  showReport(name);
  let text;
  try {
    text = await read(`api/report/${name}`, "text");
  } catch (e) {
    text = e.message;
  }
  state.reports[name] = {text, at: Date.now()};
  showReport(name);
}

async function read(path, as, options) {
  const answer = await fetch(path, {cache: "no-store", ...options});
  if (answer.status === 401) throw new Error("the token has expired: load the page again to sign in");
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${answer.status} ${answer.statusText}`);
  return answer[as]();
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
    await readExtras();
    state.failed = "";
  } catch (e) {
    state.failed = `${state.offer?.by ?? "the server"} does not answer (${e.message}); what is shown is of ${state.overview ? utc(state.overview.at) : "no time"}.`;
  }
  setTimeout(poll, readEvery);
  draw();
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
document.getElementById("details").addEventListener("close", () => { if (chosen("open")) choose({open: ""}); });
drawFrame();
shown = view()[0];
poll();
