// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// The views of the cluster as it is: overview, nodes, disruption, costs and pending pods.
import uPlot from "uplot";
import {about, address, body, card, cards, chosen, clock, command, controls, copyButton, cores, count, duration, element, faint, filterField, gibibytes, hoursOfMonth, main, matches, money, opening, page, percent,
  selectField, share, shortName, table, utc, wholeMoney} from "./kit.js";
import {report} from "./reports.js";

export const isTrouble = (n) => Boolean(n.blockedBy) || n.state === "NotReady";
const subjectOf = (n) => n.launching ? `nodeclaim/${n.name}` : `node/${n.name}`;
const price = (n) => [n.pricePerHour == null ? "-" : money(n.pricePerHour), n.pricePerHour ?? 0];
const number = (x, digits = 0) => [x.toFixed(digits), x];
const requested = (x) => {
  const cpu = share(cores(x.requested), cores(x.allocatable)), memory = share(gibibytes(x.requested), gibibytes(x.allocatable));
  return [[percent(cpu), cpu], [percent(memory), memory]];
};

// nodeStates counts the nodes by state other than Ready.
function nodeStates(t) {
  const {Ready, NotReady, ...others} = t.nodesByState;
  const parts = Object.entries(others).map(([state, n]) => `${n} ${state.toLowerCase()}`);
  if (t.nodesNotReady) parts.unshift(`${t.nodesNotReady} not Ready`);
  return parts.join(", ") || "all Ready";
}

let charts = [];
export function drawOverview({overview: o, samples, offer}) {
  const t = o.total;
  const b = body("overview", () => {
    charts = [];
    return [element("div", {id: "figures"}), element("div", {id: "next"}), controls(selectField("Time", "time", Object.keys(spans))),
      element("section", {class: "charts", "aria-label": "Over time"}, element("div", {class: "chart", id: "chart-cost"}), element("div", {class: "chart", id: "chart-pods"}))];
  });
  const blocked = (text) => text.includes("blocked by"), refused = (text) => text.startsWith("no node fits");
  const isTroubled = (text) => blocked(text) || refused(text);
  const reasons = (text) => blocked(text) ? address({state: "Blocked"}, "disruption") : address({}, "pending");
  document.getElementById("figures").replaceChildren(cards("The cluster now",
    card("Cost an hour", money(t.dollarsPerHour), t.nodesWithoutPrice ? `${count(t.nodesWithoutPrice, "node")} without a price` : ""),
    card("Cost a month", wholeMoney(t.dollarsPerHour * hoursOfMonth), savings(offer)),
    card("Nodes", String(t.nodes), nodeStates(t), t.nodesNotReady > 0),
    card("CPU requested", percent(share(cores(t.requested), cores(t.allocatable))), `${cores(t.requested).toFixed(1)} of ${cores(t.allocatable).toFixed(1)} cores`),
    card("Memory requested", percent(share(gibibytes(t.requested), gibibytes(t.allocatable))), `${gibibytes(t.requested).toFixed(1)} of ${gibibytes(t.allocatable).toFixed(1)} GiB`),
    card("Pending pods", String(t.podsPending), `${count(t.pods, "pod")}, ${t.podsStarting} starting`, o.next.some(refused))));
  document.getElementById("next").replaceChildren(...(o.next.length ? [element("h2", null, "Now"), element("ul", null,
    o.next.toSorted((a, b) => isTroubled(b) - isTroubled(a)).map((text) => isTroubled(text) ? element("li", {class: "trouble"}, element("a", {href: reasons(text)}, text)) : element("li", null, text)))] : []));
  const shown = samples.slice(-spans[chosen("time", "8 hours")] || -spans["8 hours"]);
  const changes = changesOf(o.decisions, shown);
  drawCharts(shown, changes);
  b.replaceChildren(changes.length ? element("p", {class: "legend faint"}, "Last changes:", changes.slice(-4).reverse().map((c) => element("span", null, `${utc(1000 * c.at).slice(0, 5)} ${c.text}`))) : "",
    table("NodePools and groups", [["Pool"], ["Nodes", "number"], ["Cost an hour", "number"], ["CPU requested", "number"], ["Memory requested", "number"], ["Limits"], ["State", "text"]],
      o.pools.map((p) => [p.pool ? about(p.pool) : "no pool", number(p.nodes), [money(p.dollarsPerHour), p.dollarsPerHour], ...requested(p), p.limits ?? "", [p.state, p.takeover].filter(Boolean).join("; ")])),
    faint(o.notes.join(" ")));
}

// savings returns the lower bound that doctor found, or why there is none; the text without either.
function savings(offer) {
  if (!offer.reports.includes("doctor")) return "at the current hourly cost";
  const known = report("doctor"), month = known.report?.dollarsPerMonth;
  if (!month && known.failed) return element("a", {href: "#doctor", class: "trouble"}, "doctor failed");
  if (!month) return "at the current hourly cost";
  return element("a", {href: "#doctor"}, `at least ${wholeMoney(month.leastPossible)} for these pods`);
}

const spans = {"8 hours": 5760, "2 hours": 1440, "30 minutes": 360, "5 minutes": 60}; // samples of five seconds

// changesOf groups the launches and removals in the time of the samples: {at, text}, with the change of the cost over the group.
function changesOf(decisions, samples) {
  if (samples.length < 2) return [];
  const from = samples[0].at, to = samples.at(-1).at, width = Math.max(20, (to - from) / 24);
  const groups = Map.groupBy(decisions.filter((d) => (d.kind === "launched" || d.kind === "removed") && Date.parse(d.at) >= 1000 * from), (d) => Math.floor((Date.parse(d.at) / 1000 - from) / width));
  const costAt = (at) => (samples.find((s) => s.at >= at) ?? samples.at(-1)).dollarsPerHour;
  return [...groups].sort(([a], [b]) => a - b).map(([i, all]) => {
    const said = ["launched", "removed"].map((kind) => [all.filter((d) => d.kind === kind).length, kind]).filter(([n]) => n).map(([n, kind]) => `${count(n, "node")} ${kind}`);
    const change = costAt(from + (i + 1) * width) - costAt(from + i * width);
    return {at: Math.min(to, from + (i + 0.5) * width), text: said.join(", ") + (Math.abs(change) > 1e-6 ? `, ${change < 0 ? "−" : "+"}\u2060${money(Math.abs(change))}/h` : "")};
  });
}

addEventListener("resize", () => {
  for (const c of charts) if (c.root.isConnected) c.setSize({width: chartWidth(c.root.parentNode), height: c.height});
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { // the canvas has the colors of the other scheme
  if (main.dataset.view !== "overview") return;
  main.dataset.view = "";
  page.draw();
});
const chartWidth = (at) => at.clientWidth - 18;

let marks = [];
function drawCharts(samples, changes) {
  marks = changes;
  const at = samples.map((s) => s.at);
  const data = [[at, samples.map((s) => s.dollarsPerHour)], [at, samples.map((s) => s.podsPending), samples.map((s) => s.nodes)]];
  if (charts.length) {
    charts.forEach((c, i) => c.setData(data[i]));
    return;
  }
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const axis = {stroke: color("--faint"), grid: {stroke: color("--line"), width: 1}, ticks: {stroke: color("--line")}};
  // A step below 1 would show nodes and pods that nobody can count.
  const amounts = {...axis, size: 70, values: (_, splits) => splits.map(money)}, counts = {...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]};
  const time = {...axis, space: 90, values: (_, splits) => splits.map((s) => clock(1000 * s).slice(0, splits[1] - splits[0] < 60 ? 8 : 5))};
  // The range of the cost is that of the data: a change of a few dollars is seen in a cluster of hundreds.
  const near = (_, low, high) => { const room = Math.max((high - low) * 0.1, high * 0.01, 1e-4); return [Math.max(0, low - room), high + room]; };
  // A page opened just now has few samples: the rest of five minutes before them stays empty. uPlot shows one sample as the start of a day.
  const lately = ({data: [at]}, low, high) => {
    const to = at.length > 1 ? high : at[0] ?? Date.now() / 1000;
    return [Math.min(low ?? to, to - 300), to];
  };
  const fromZero = (_, low, high) => [0, Math.max(1, high * 1.1)];
  // Each group of launches and removals has a line in the cost curve.
  const drawMarks = (u) => {
    u.ctx.save();
    u.ctx.strokeStyle = color("--faint");
    u.ctx.setLineDash([3, 3]);
    for (const m of marks) {
      const x = Math.round(u.valToPos(m.at, "x", true));
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.bbox.top);
      u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
    }
    u.ctx.restore();
  };
  const make = (id, title, y, series, range, d, hooks) => {
    const at = document.getElementById(id);
    const chart = new uPlot({title, width: chartWidth(at), height: 220, tzDate: (s) => uPlot.tzDate(new Date(1000 * s), "Etc/UTC"), hooks,
      series: [{label: "time", value: (_, s) => s == null ? "–" : utc(1000 * s)}, ...series], axes: [time, y], scales: {x: {range: lately}, y: {range}}}, d, at);
    chart.root.querySelector(".u-legend").setAttribute("aria-label", title);
    return chart;
  };
  charts = [make("chart-cost", "Dollars an hour", amounts, [{label: "dollars an hour", stroke: color("--cpu"), fill: color("--cpu") + "22", value: (_, v) => v == null ? "–" : money(v)}], near, data[0], {draw: [drawMarks]}),
    make("chart-pods", "Pending pods and nodes", counts, [{label: "pending pods", stroke: color("--trouble")}, {label: "nodes", stroke: color("--memory")}], fromZero, data[1])];
}

// hues are at least 40 degrees apart, and neighbors in the circle differ in lightness. Orange and red are not among them: they mean trouble.
// palette has each hue once, then once more with the other lightness.
const hues = [[215, -12], [48, 10], [275, 10], [172, 10], [325, -12], [112, -12]];
const palette = [1, -1].flatMap((sign) => hues.map(([hue, light]) => `hsl(${hue} 55% calc(var(--tile) + ${sign * light}%))`));
const colored = {}; // by what the color shows

// colorsOf returns the color of each name: the hue of its hash, at each visit the same, unless another name has it already. No hue is used twice
// while another is free.
function colorsOf(what, names) {
  const colors = colored[what] ??= new Map();
  for (const name of [...new Set(names)].filter((n) => !colors.has(n)).sort()) {
    let hash = 0;
    for (const c of name) hash = (hash * 31 + c.codePointAt(0)) % 9973;
    const taken = new Set(colors.values()), n = hues.length, from = (i) => palette[(hash + i) % n + (i < n ? 0 : n)];
    colors.set(name, palette.map((_, i) => from(i)).find((c) => !taken.has(c)) ?? palette[hash % palette.length]);
  }
  return colors;
}

const colorings = {
  namespace: (u) => u.namespace, workload: (u) => `${u.namespace}/${u.owner ?? "no owner"}`, NodePool: (u, n) => n.pool ?? "no pool",
};
const sizes = {
  CPU: (amounts) => cores(amounts), memory: (amounts) => gibibytes(amounts),
};
const orders = {
  name: (a, b) => a.name < b.name ? -1 : 1,
  "emptiest first": (a, b) => share(cores(a.requested), cores(a.allocatable)) - share(cores(b.requested), cores(b.allocatable)),
  "most expensive first": (a, b) => (b.pricePerHour ?? 0) - (a.pricePerHour ?? 0),
  "youngest first": (a, b) => a.ageSeconds - b.ageSeconds,
};

export function drawNodes({overview: o, workloads}) {
  const b = body("nodes", () => [controls(filterField(), selectField("Order", "order", Object.keys(orders)),
    selectField("Color", "color", Object.keys(colorings)), selectField("Size", "size", Object.keys(sizes)))]);
  const nodes = o.nodes.filter((n) => matches(n.name, n.pool, n.instanceType, n.zone, n.capacityType, n.state, n.doing, n.keptBecause)).sort(
    (a, b) => isTrouble(b) - isTrouble(a) || orders[chosen("order", "name")]?.(a, b) || 0);
  if (!nodes.length) return b.replaceChildren(element("p", null, chosen("filter") ? "No node matches the filter." : "The cluster has no nodes."));
  const coloring = colorings[chosen("color", "namespace")] ?? colorings.namespace, size = sizes[chosen("size", "CPU")] ?? sizes.CPU;
  const byNode = Map.groupBy(workloads, (u) => u.node), names = new Map();
  const colors = colorsOf(chosen("color", "namespace"), nodes.flatMap((n) => (byNode.get(n.name) ?? []).map((u) => coloring(u, n))));
  const byPool = Map.groupBy(nodes, (n) => n.pool ?? "");
  const sections = [...byPool.keys()].sort().map((pool) => element("section", {"aria-label": pool || "Nodes of no pool"},
    element("h2", null, `${pool || "Nodes of no pool"} · ${byPool.get(pool).length}`),
    element("ul", {class: "map"}, byPool.get(pool).map((n) => drawNode(n, byNode.get(n.name) ?? [], names, coloring, colors, size)))));
  const legend = [...names].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([name]) => {
    const swatch = element("i", {class: "swatch"});
    swatch.style.background = colors.get(name);
    return element("span", null, swatch, name);
  });
  b.replaceChildren(element("p", {class: "legend faint"}, legend, element("span", null, element("i", {class: "swatch trouble"}), "blocked or not Ready")), troubled(nodes), ...sections,
    table("Nodes", [["Node"], ["Type"], ["Zone"], ["Capacity"], ["Pods", "number"], ["CPU", "number"], ["Memory", "number"], ["$/h", "number"], ["Age", "number"], ["State", "text"]],
      nodes.map((n) => [about(subjectOf(n), shortName(n.name)), n.instanceType ?? "", n.zone ?? "", n.capacityType ?? "", number(n.pods), ...requested(n), price(n),
        [duration(n.ageSeconds), n.ageSeconds], element("span", {class: isTrouble(n) ? "trouble" : null}, n.doing || n.state)])));
}

// troubled lists the nodes that are blocked or not Ready, with the reason: on a phone the last columns of the table are out of sight.
function troubled(nodes) {
  const all = nodes.filter(isTrouble), most = 5;
  return all.length ? element("ul", {class: "troubled", "aria-label": "Blocked or not Ready"}, all.slice(0, most).map((n) => element("li", null, about(subjectOf(n), shortName(n.name)), " ",
    element("span", {class: "trouble"}, n.doing || n.state))), all.length > most ? element("li", {class: "faint"}, `and ${all.length - most} more`) : null) : "";
}

// drawNode draws one node of the map: a band for each group of its pods, as wide as its share of the node.
function drawNode(n, usages, names, coloring, colors, size) {
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
    return `${colors.get(name)} ${from}% ${at}%`;
  });
  const label = [n.name.split(".")[0], n.instanceType, n.zone, n.capacityType, n.pricePerHour == null ? "no price" : `${money(n.pricePerHour)}/h`, count(n.pods, "pod"),
    ...requested(n).map(([text], i) => `${["CPU", "memory"][i]} ${text}`), n.doing || n.state].filter(Boolean).join(" · ");
  const tile = element("a", {class: isTrouble(n) ? "tile trouble" : n.state === "Ready" ? "tile" : "tile changing", title: label, "aria-label": label, href: opening(subjectOf(n))});
  tile.style.background = bands.length ? `linear-gradient(to right, ${bands.join(", ")}, var(--panel) ${at}% 100%)` : "";
  return element("li", null, tile);
}

// disruptionOf returns the state of a node in disruption; empty: it is no Ready node, and not being removed.
function disruptionOf(n) {
  if (n.blockedBy) return "Blocked";
  if (n.state === "Draining" || n.state === "Ending") return "In progress";
  if (n.toBeDrained) return "Next";
  if (n.state !== "Ready") return "";
  return n.keptBecause ? "Kept" : "Undecided";
}

// undecided returns why no decision about a node is known.
function undecided(n, o) {
  if (n.doing) return n.doing === "Consolidatable" ? "Consolidatable; no decision yet." : n.doing;
  if (!o.autoscalers.length) return "No autoscaler is running.";
  if (!n.nodeClaim) return o.autoscalers.every((a) => a.name === "Cluster Autoscaler") ? "Cluster Autoscaler has not marked it for removal." : "The node has no NodeClaim.";
  return "No decision yet: consolidateAfter has not passed since its pods last changed, or the autoscaler has not evaluated it.";
}

// drawDisruption shows what is being removed, what comes next, and why the other nodes stay.
export function drawDisruption({overview: o}) {
  const states = ["Blocked", "In progress", "Next", "Kept", "Undecided"];
  const b = body("disruption", () => [controls(filterField(), selectField("State", "state", ["all", ...states]))]);
  const all = o.nodes.map((n) => ({...n, step: disruptionOf(n)})).filter((n) => n.step);
  const nodes = all.filter((n) => matches(n.name, n.pool, n.instanceType, n.doing, n.keptBecause, n.blockedBy) && ["all", n.step].includes(chosen("state", "all")))
    .sort((a, b) => states.indexOf(a.step) - states.indexOf(b.step) || (b.pricePerHour ?? 0) - (a.pricePerHour ?? 0));
  const of = (...steps) => all.filter((n) => steps.includes(n.step));
  const cost = (list) => `${money(list.reduce((sum, n) => sum + (n.pricePerHour ?? 0), 0))}/h`;
  const kept = [...Map.groupBy(nodes.filter((n) => n.step === "Kept"), (n) => n.keptBecause.replace(/\$[\d.]+(\/h)?|\b\d+(\.\d+)?\b/g, "…"))].sort((a, b) => b[1].length - a[1].length);
  const step = (n) => element("span", {class: n.step === "Blocked" ? "trouble" : null}, n.step);
  b.replaceChildren(cards("Disruption", ...states.map((title) => [title, of(title)])
    .map(([title, list]) => card(title, String(list.length), list.length ? cost(list) : "", title === "Blocked" && list.length > 0))),
  kept.length > 1 || kept[0]?.[1].length > 1 ? table("Kept, by reason", [["Nodes", "number"], ["$/h", "number"], ["Reason of one of them", "text"]],
    kept.map(([, list]) => [number(list.length), [cost(list).replace("/h", ""), list.reduce((sum, n) => sum + (n.pricePerHour ?? 0), 0)], list[0].keptBecause])) : "",
  nodes.length ? table(`Nodes · ${nodes.length}`, [["State"], ["Node"], ["Pool"], ["Type"], ["$/h", "number"], ["Command saves $/h", "number"], ["Why", "text"]], nodes.map((n) => [[step(n), states.indexOf(n.step)],
    about(subjectOf(n), shortName(n.name)), (n.pool ?? "").replace("nodepool/", ""), n.instanceType ?? "", price(n), [n.commandSavesPerHour ? money(n.commandSavesPerHour) : "-", n.commandSavesPerHour ?? 0], n.step === "Undecided" ? undecided(n, o) : n.keptBecause ?? n.doing ?? ""]))
    : element("p", null, chosen("filter") ? "No node matches the filter." : "The cluster has no nodes that could be disrupted."),
  faint("A command may remove and launch several nodes; each of its nodes shows what the whole command saves."));
}

// drawCosts divides the price of each node among its pods, by the mean of their shares of its CPU and memory.
export function drawCosts({overview: o, workloads}) {
  const b = body("costs", () => [controls(filterField(), selectField("By", "by", ["namespace", "workload"]))]);
  const nodes = new Map(o.nodes.map((n) => [n.name, n])), sums = new Map();
  let free = o.total.dollarsPerHour;
  for (const u of workloads) {
    const n = nodes.get(u.node);
    if (!n) continue;
    const name = chosen("by", "namespace") === "workload" ? colorings.workload(u) : u.namespace;
    const sum = sums.get(name) ?? {dollars: 0, pods: 0, cores: 0, memory: 0};
    const dollars = (n.pricePerHour ?? 0) * (share(cores(u.requests), cores(n.allocatable)) + share(gibibytes(u.requests), gibibytes(n.allocatable))) / 2;
    sums.set(name, {dollars: sum.dollars + dollars, pods: sum.pods + u.pods, cores: sum.cores + cores(u.requests), memory: sum.memory + gibibytes(u.requests)});
    free -= dollars;
  }
  const row = (name, s) => [name, [money(s.dollars), s.dollars], [wholeMoney(s.dollars * hoursOfMonth), s.dollars * hoursOfMonth], number(s.pods), number(s.cores, 1), number(s.memory, 1)];
  const rows = [...sums].filter(([name]) => matches(name)).sort((a, b) => b[1].dollars - a[1].dollars).map(([name, s]) => row(name, s));
  b.replaceChildren(table("Cost by requests", [["Name"], ["$/h", "number"], ["$/month", "number"], ["Pods", "number"], ["Cores", "number"], ["GiB", "number"]], rows),
    faint(`${money(Math.max(0, free))}/h (${percent(share(Math.max(0, free), o.total.dollarsPerHour))}) is not requested by any pod. The price of a node is divided among its pods by the mean of their shares of its CPU and memory.`));
}

export function drawPending({overview: o, remedies}) {
  const b = body("pending", () => [controls(filterField())]);
  const causes = o.pending.filter((c) => matches(c.cause, c.autoscalerSaid, ...c.pods));
  const most = 12; // pods of a reason that are named
  b.replaceChildren(...(causes.length ? causes.map((c) => {
    const remedy = remedies.get(c.pods.find((p) => remedies.has(p)));
    return element("article", {class: "reason"}, element("h2", null, c.autoscalerSaid ?? c.cause),
      faint(`${count(c.pods.length, "pod")} · oldest ${duration(c.oldestSeconds)} · requests ${cores(c.requests).toFixed(1)} cores, ${gibibytes(c.requests).toFixed(1)} GiB`),
      remedy ? element("p", null, "Change: ", element("code", null, remedy), " ", copyButton(remedy)) : null,
      c.autoscalerSaid ? faint(`kube-scheduler: ${c.cause}`) : null,
      element("p", {class: "pods"}, c.pods.slice(0, most).flatMap((p) => [about(`pod/${p}`, p), " "]), c.pods.length > most ? `and ${c.pods.length - most} more` : ""),
      command(`dovetail why pod/${c.pods[0]}`));
  }) : [element("p", null, chosen("filter") ? "No pending pod matches the filter." : "No pod is pending.")]));
}
