// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// The views of what commands report: doctor, history, headroom, and what-if plans. The server keeps a report of doctor for five minutes; while
// a report is renewed, the last one stays.
import {about, body, card, cards, choose, chosen, clock, command, controls, count, duration, element, faint, filterField, matches, money, page, read, selectField,
  share, shortName, table, percent, utc, wholeMoney} from "./kit.js";

const have = new Map(); // by path: {report, at, seconds, renewed, failed, reading}
const renewEvery = {doctor: 300_000, history: 10_000, savings: 30_000, headroom: 30_000}; // ms

// report returns what is known of a report, and has it read if it is not, or is too old.
export function report(name, query = "") {
  const path = `api/report/${name}${query}`;
  let known = have.get(path);
  if (!known) have.set(path, known = {});
  if (!known.reading && (known.renewed || !(Date.now() - (known.readAt ?? 0) < renewEvery[name]))) readReport(path, known);
  return known;
}

async function readReport(path, known, after) {
  known.reading = Date.now();
  try {
    const {at, seconds, renewed, report} = await read(after ? `${path}${path.includes("?") ? "&" : "?"}after=${after}` : path, "json");
    Object.assign(known, {report, at: Date.parse(at), seconds, renewed, failed: ""});
  } catch (e) {
    Object.assign(known, {failed: e.message, renewed: false});
  }
  known.reading = 0;
  known.readAt = Date.now();
  page.draw();
}

// status says how old a report is, and offers to renew it.
function status(name, known, query = "") {
  const reading = known.reading && !known.report ? `Reading the cluster, ${duration((Date.now() - known.reading) / 1000)} so far` : known.renewed ? "being renewed" : "";
  const said = [known.at ? `Read at ${utc(known.at)}` : "", reading].filter(Boolean).join(", ");
  return element("p", {class: "faint"}, said, " ", known.report ? element("button", {type: "button", class: "copy", disabled: known.renewed, onclick: () => {
    known.renewed = true;
    readReport(`api/report/${name}${query}`, known, Date.now());
    page.draw();
  }}, "Read again") : null, known.failed ? element("span", {class: "trouble"}, ` ${known.failed}`) : null);
}

const severities = {broken: "Broken", costly: "Costs money", risky: "Risk"};

export function drawDoctor() {
  const b = body("doctor", () => [controls(filterField(), selectField("Severity", "severity", ["all", ...Object.values(severities)]))]);
  const known = report("doctor"), d = known.report;
  if (!d) return b.replaceChildren(status("doctor", known));
  const month = d.dollarsPerMonth, today = month.nowWithNodesForPendingPods;
  const less = (amount) => amount < today ? `saves ${wholeMoney(today - amount)} (${percent(share(today - amount, today))})` : "no savings";
  const moves = ({nodesRemoved, launched, podsRescheduled}) => nodesRemoved || launched
    ? `: remove ${count(nodesRemoved, "node")}, launch ${(launched ?? []).reduce((n, l) => n + l.count, 0)}, reschedule ${count(podsRescheduled, "pod")}` : "";
  const rows = d.findings.filter((f) => matches(f.message, f.subject, f.code, ...f.commands) && [severities[f.severity], "all"].includes(chosen("severity", "all")));
  b.replaceChildren(status("doctor", known),
    cards("Cost a month", card("Now, a month", wholeMoney(today), count(d.nodes, "node")), card("After consolidation", wholeMoney(month.afterConsolidation), less(month.afterConsolidation) + moves(d.movesAfterConsolidation)),
      card("If every pod could be rescheduled", wholeMoney(month.repacked), less(month.repacked) + moves(d.movesRepacked)), card("Least possible", wholeMoney(month.leastPossible), "no packing of these pods costs less")),
    rows.length ? table(`Findings · ${rows.length}`, [["$ a month", "number"], ["Severity"], ["Finding and change", "text"], ["Nodes", "number"], ["Pods", "number"]], rows.map((f) => [
      [f.savingPerMonth > 0 ? wholeMoney(f.savingPerMonth) : "-", f.savingPerMonth], element("span", {class: f.severity === "broken" ? "trouble" : null}, severities[f.severity]),
      [element("div", null, element("p", null, f.message), f.commands.slice(0, 3).map(command), f.commands.length > 3 ? faint(`and ${count(f.commands.length - 3, "more command")}; \`dovetail doctor -o json\` has all`) : null), f.message],
      [String(f.nodes?.length ?? 0), f.nodes?.length ?? 0], [String(f.pods?.length ?? 0), f.pods?.length ?? 0]])) : element("p", null, d.findings.length ? "No finding matches the filter." : "Doctor found nothing."),
    element("h2", null, "Next"), ...d.nextSteps.map((s) => element("div", null, faint(s.why), command(s.command))),
    faint(d.notes.join(" ")));
}

const lengths = {"1 hour": "1h", "6 hours": "6h", "1 day": "24h", "1 week": "168h"};
const changed = (micro) => micro ? `${micro > 0 ? "+" : "−"}${money(Math.abs(micro) / 1e6)}` : "-";

const savedBy = {consolidation: "by consolidation", spot: "by spot", reservations: "by capacity reservations", overlays: "by NodeOverlay prices", headroom: "for Headrooms"};

// savingsCards show what the nodes have cost and what was saved by which cause; null if that is not known.
function savingsCards(saved) {
  if (!saved?.periods.length) return null;
  const dollars = (micro) => `${micro < 0 ? "−" : ""}${money(Math.abs(micro) / 1e6)}`, all = saved.referenceMicroUSD - saved.costMicroUSD;
  return cards("Cost and savings in this time", card("Cost of nodes", dollars(saved.costMicroUSD)),
    card("Saved", dollars(all), `${percent(share(all, saved.referenceMicroUSD))} of ${dollars(saved.referenceMicroUSD)}`),
    ...saved.causes.filter((c) => c.savedMicroUSD).map((c) => card(`Saved ${savedBy[c.cause] ?? c.cause}`, dollars(c.savedMicroUSD))));
}

// drawHistory shows what Dovetail keeps of the past, otherwise what its events tell.
export function drawHistory(overview, offered, offersSavings) {
  const b = body("history", () => [controls(filterField(), ...(offered ? [selectField("Time", "since", Object.keys(lengths))] : []))]);
  const query = `?since=${lengths[chosen("since")] ?? "1h"}`, known = offered ? report("history", query) : {failed: "none"};
  if (!known.report && !known.failed) return b.replaceChildren(status("history", known, query));
  const past = known.report ?? eventRows(overview), cause = chosen("cause");
  const key = (r) => `${r.what}: ${r.cause}`;
  const rows = past.rows.filter((r) => (!cause || key(r) === cause) && matches(r.what, r.object, r.why, r.by)).reverse();
  if (!past.rows.length) return b.replaceChildren(element("p", null, "Nothing was decided in this time."));
  const causes = past.causes.filter((c) => !chosen("filter") || rows.some((r) => key(r) === key(c)));
  const date = (at) => query === "?since=1h" ? clock(at) : `${new Date(at).toISOString().slice(5, 10)} ${clock(at)}`;
  const at = (t) => [date(t), Date.parse(t)];
  const savings = offered && offersSavings ? report("savings", query) : {}, saved = savingsCards(savings.report);
  b.replaceChildren(known.report ? status("history", known, query) : faint(`From ${overview.decisionsFrom}.`), saved ?? "",
    savings.failed ? element("p", {class: "trouble"}, `Savings cannot be read: ${savings.failed}`) : "",
    table("By cause", [["Times", "number"], ["What"], ["Change in $/h", "number"], ["Cause", "text"], ["Last (UTC)"]], causes.map((c) => [[String(c.count), c.count], c.what,
      [changed(c.changedMicroUSDPerHour), c.changedMicroUSDPerHour ?? 0], [element("a", {href: "#", "aria-pressed": String(key(c) === cause), onclick: (e) => {
        e.preventDefault();
        choose({cause: key(c) === cause ? "" : key(c)});
      }}, c.cause || c.what), c.cause], at(c.last)])),
    cause ? element("p", null, `Only “${cause}”. `, element("button", {type: "button", class: "copy", onclick: () => choose({cause: ""})}, "Show all")) : "",
    table(`One by one, newest first · ${rows.length}`, [["When (UTC)"], ["What"], ["Object"], ["$/h", "number"], ["Why", "text"]], rows.map((r) => {
      const change = (r.clusterAfterMicroUSDPerHour ?? 0) - (r.clusterBeforeMicroUSDPerHour ?? 0);
      return [at(r.at), r.count > 1 ? `${r.what} (${r.count} times)` : r.what, about(r.object, shortName(r.object)), [changed(change), change], r.why];
    })),
    known.report ? command(`dovetail history --since ${query.slice(7)}`) : "", saved ? command(`dovetail savings --since ${query.slice(7)}`) : "");
}

// eventRows are the decisions of the overview as rows of a history.
function eventRows(overview) {
  const rows = overview.decisions.map((d) => ({at: d.at, what: d.kind, object: d.subject, why: d.text, cause: d.text.replace(/ \[[^\]]*\]/g, ""), count: d.count ?? 1, by: d.by})).reverse();
  const causes = [...Map.groupBy(rows, (r) => `${r.what}: ${r.cause}`).values()].map((all) => ({what: all[0].what, cause: all[0].cause, count: all.length, last: all.at(-1).at}));
  return {rows, causes: causes.sort((a, b) => b.count - a.count)};
}

export function drawHeadroom() {
  const b = body("headroom", () => [controls(filterField())]);
  const known = report("headroom");
  if (!known.report) return b.replaceChildren(status("headroom", known));
  const rows = known.report.filter((h) => matches(h.namespace, h.name, h.mode, h.target, h.problem));
  const number = (n) => [String(n), n];
  b.replaceChildren(status("headroom", known), rows.length ? table("Headrooms", [["Name"], ["Mode"], ["For"], ["Ready"], ["Held", "number"], ["$/h", "number"], ["Next window"], ["Met", "number"], ["Missed", "number"], ["Last week $", "number"]],
    rows.map((h) => [`${h.namespace}/${h.name}`, h.mode, h.target, element("span", {class: h.problem ? "trouble" : null}, h.problem || h.ready || "Unknown"), number(h.held), [h.heldDollarsPerHour ?? "-", Number(h.heldDollarsPerHour ?? 0)],
      h.nextWindow ? `${h.nextWindow.window} at ${utc(h.nextWindow.opens)}` : "-", number(h.lastWeek.hits), number(h.lastWeek.misses), [h.lastWeek.dollars || "-", Number(h.lastWeek.dollars || 0)]]))
    : element("p", null, known.report.length ? "No Headroom matches the filter." : "There is no Headroom. A Headroom keeps capacity free for pods that are expected."),
  command("dovetail headroom"));
}

let manifests = "";
export function drawWhatIf() {
  body("what-if", () => [element("h2", null, "What would be launched for these objects?"),
    faint("Workloads, NodePools and node classes as YAML, in addition to what the cluster has. Nothing is created."),
    element("label", {for: "manifests"}, "Manifests"),
    element("textarea", {id: "manifests", spellcheck: "false", oninput: (e) => { manifests = e.target.value; }}, manifests),
    controls(element("button", {type: "button", onclick: runPlan}, "Plan")), element("pre", {id: "plan", "aria-live": "polite"}, "")]);
}

async function runPlan() {
  const out = document.getElementById("plan");
  out.textContent = "Planning…";
  try {
    out.textContent = await read("api/plan", "text", {method: "POST", body: manifests, headers: {"Content-Type": "application/yaml"}});
  } catch (e) {
    out.textContent = e.message;
  }
}
