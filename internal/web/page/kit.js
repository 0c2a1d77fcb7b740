// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// What all views are made of: elements, tables, controls, formats, and the address, which has everything that a reader has chosen:
// #VIEW?filter=…&sort=…&open=KIND/NAME.

export const hoursOfMonth = 730;
const mostRows = 200; // of a table; the filter finds the others

// page is what the views share with app.js, which sets draw and views.
export const page = {draw: () => {}, views: [], copied: ""};

// element makes one: its attributes and listeners, then children, which are nodes or text.
export function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value != null) e.setAttribute(name, value);
  }
  e.append(...children.flat().filter((c) => c != null));
  return e;
}

export const main = document.getElementById("main");
const dollars = [2, 3, 4].map((digits) => new Intl.NumberFormat("en-US", {style: "currency", currency: "USD", minimumFractionDigits: digits, maximumFractionDigits: digits}));
// money has as many digits as amounts of its size need: $19.35, $2.539, $0.1250. Amounts of one size align in a column.
export const money = (amount) => dollars[Math.abs(amount) < 1 ? 2 : Math.abs(amount) < 10 ? 1 : 0].format(amount);
export const wholeMoney = (amount) => new Intl.NumberFormat("en-US", {style: "currency", currency: "USD", maximumFractionDigits: 0}).format(amount);
export const cores = (amount) => parseInt(amount.cpu, 10) / 1000; // always milli-cores
export const gibibytes = (amount) => Number(amount.memory) / 2 ** 30; // always bytes
export const share = (part, whole) => whole > 0 ? part / whole : 0;
export const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
export const clock = (at) => new Date(at).toISOString().slice(11, 19);
export const utc = (at) => `${new Date(at).toISOString().slice(11, 19)} UTC`;
export const percent = (fraction) => `${Math.round(100 * fraction)} %`;
export const faint = (...children) => element("p", {class: "faint"}, ...children);

export function duration(seconds) {
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["m", 60]]) if (seconds >= length) return `${Math.floor(seconds / length)}${unit}`;
  return `${Math.max(0, Math.floor(seconds))}s`;
}

// route is the view of the address and what the reader has chosen in it. It is parsed once for each address: a view asks for every node.
let parsed = {};
function route() {
  if (parsed.hash !== location.hash) {
    const [name, query] = location.hash.slice(1).split("?"), chosen = new URLSearchParams(query), others = new URLSearchParams(query);
    others.delete("open");
    parsed = {hash: location.hash, name, chosen, filter: (chosen.get("filter") ?? "").toLowerCase(), others: others.toString()};
  }
  return parsed;
}

export const view = () => page.views.find(([name]) => name === route().name) ?? page.views[0];
export const chosen = (key, otherwise = "") => route().chosen.get(key) ?? otherwise;

// address returns the address of a view with other choices. An empty value takes a choice away.
export function address(choices, name = view()[0]) {
  const all = new URLSearchParams(name === view()[0] ? route().chosen : "");
  for (const [key, value] of Object.entries(choices)) value === "" ? all.delete(key) : all.set(key, value);
  const query = all.toString();
  return `#${name}${query ? `?${query}` : ""}`;
}

// choose changes the address without an entry in the history of the browser.
export function choose(choices) {
  history.replaceState(null, "", address(choices));
  page.draw();
}

// body returns the element that a view fills at each reading. It is made with the view's controls when another view was shown.
export function body(name, controls) {
  if (main.dataset.view !== name) {
    main.dataset.view = name;
    main.replaceChildren(...(controls?.() ?? []), element("div", {id: "body"}));
  }
  return document.getElementById("body");
}

export const controls = (...fields) => element("div", {class: "controls"}, ...fields);

// card is a figure with its title and a remark.
export const card = (title, value, more, trouble) =>
  element("div", {class: trouble ? "card trouble" : "card"}, title, element("b", null, value), element("span", {class: "faint"}, more ?? ""));

// cards are a row of figures.
export const cards = (label, ...all) => element("section", {class: "cards", "aria-label": label}, ...all);

// table makes a table. A column is [title, class]; a cell is a text or an element, or [what is shown, the value to sort by]. The
// columns sort by the address: sort=TITLE, with - before it for descending order.
export function table(caption, columns, rows, most = mostRows) {
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
    element("tbody", null, rows.slice(0, most).map((row) => element("tr", null, row.map((c, i) => element("td", {class: columns[i][1]}, cell(c)))))),
    rows.length > most ? element("tfoot", null, element("tr", null, element("td", {colspan: columns.length, class: "faint"}, `and ${rows.length - most} more; use the filter`))) : null));
}

export const filterField = () => element("label", null, "Filter ", element("input", {type: "search", value: chosen("filter"),
  oninput: (e) => choose({filter: e.target.value})}));
export function matches(...texts) {
  const {filter} = route();
  return !filter || texts.some((t) => t?.toLowerCase().includes(filter));
}

// selectField chooses one of several values, the first by default.
export const selectField = (label, key, values) => element("label", null, `${label} `, element("select", {onchange: (e) => choose({[key]: e.target.value === values[0] ? "" : e.target.value})},
  values.map((v) => element("option", {selected: v === chosen(key, values[0])}, v))));

// shortName is the name of a node, or node/NAME, without its domain.
export const shortName = (name) => name.replace(/^((?:node\/)?[^./]{3,})\..*$/, "$1");

// opening is the address that opens the details of an object in this view.
export function opening(subject) {
  const {others} = route();
  return `#${view()[0]}?${others ? `${others}&` : ""}open=${encodeURIComponent(subject)}`;
}

// about is a link that opens the details of an object.
export const about = (subject, label) => element("a", {href: opening(subject)}, label ?? subject);

// copyButton copies a text, and says so until another text is copied.
export function copyButton(text) {
  return element("button", {type: "button", class: "copy", "aria-label": `Copy ${text}`, onclick: async (e) => {
    const button = e.currentTarget;
    await copy(text, button.parentNode);
    page.copied = text; // the view is drawn again every two seconds
    button.textContent = "Copied";
  }}, page.copied === text ? "Copied" : "Copy");
}

// command is a command with its Copy button.
export const command = (text) => element("p", {class: "command"}, element("code", null, text), " ", copyButton(text));

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

// read asks the server for a path.
export async function read(path, as, options) {
  const answer = await fetch(path, {cache: "no-store", ...options});
  if (answer.status === 401) throw new Error("the token has expired: load the page again to sign in");
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${answer.status} ${answer.statusText}`);
  return answer[as]();
}
