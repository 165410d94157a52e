// The tables: functions, last activations, containers.
import { $, bytes, cls, date, el, keyed, ms, parts, put, short, sized, startColours, time } from "./util.js";
import { deviceName } from "./devices.js";

// A table has elements only for the rows in view and a few neighbours. Two empty rows, one
// above and one below, are as tall as the other rows.
const around = 8;

// The row that a dialog was opened from: its table and its name.
let opened;

// refocus gives the focus back to the row that a dialog was opened from, even if the row
// has moved.
export function refocus() {
  if (opened) opened.table.focus(opened.name);
  opened = undefined;
}

// columns: name, title, class, text of a row, value for sorting. open shows the details of
// a row after a click or Enter.
class Table {
  constructor(id, columns, by, open) {
    this.open = open;
    this.table = $(id);
    this.body = this.table.tBodies[0];
    this.columns = columns;
    this.by = by;
    this.down = true;
    this.rows = [];
    this.lines = [];
    this.height = 27; // of a row, until a row was measured
    this.heads = columns.map((c) => {
      const b = el("button", { type: "button" }, c.title);
      const th = el("th", { class: c.cls, scope: "col" }, b);
      b.addEventListener("click", () => {
        this.down = this.by === c.name ? !this.down : true;
        this.by = c.name;
        this.show(this.rows);
      });
      return th;
    });
    this.table.tHead.append(el("tr", {}, ...this.heads));
    this.above = el("tr", { class: "gap", "aria-hidden": "true" });
    this.below = el("tr", { class: "gap", "aria-hidden": "true" });
    this.body.append(this.above, this.below);
    this.view = this.table.parentElement;
    this.top = 0;
    this.view.addEventListener("scroll", () => { this.top = this.view.scrollTop; this.draw(); }, { passive: true });
    sized(this.view, () => { const seen = this.lines[0]; if (seen) this.height = seen.offsetHeight || this.height; this.draw(); });
  }

  // show shows rows in the order of the table. Each row has a name.
  show(rows) {
    const c = this.columns.find((c) => c.name === this.by), sign = this.down ? -1 : 1;
    const value = c.value || c.text;
    if (this.fixed) this.rows = rows;
    else {
      const with_ = rows.map((r) => [value(r), r]);
      with_.sort((a, b) => a[0] < b[0] ? -sign : a[0] > b[0] ? sign : a[1].name < b[1].name ? -1 : 1);
      this.rows = with_.map((p) => p[1]);
    }
    this.heads.forEach((th, i) => {
      const name = this.columns[i].name, sort = this.fixed || name !== this.by ? "none" : this.down ? "descending" : "ascending";
      if (th.sort_ !== sort) th.setAttribute("aria-sort", th.sort_ = sort);
    });
    if (this.count !== rows.length) this.table.setAttribute("aria-rowcount", 1 + (this.count = rows.length));
    this.draw();
  }

  draw() {
    const all = this.rows.length, tall = this.view.tall || 460;
    const from = Math.max(0, Math.min(Math.floor(this.top / this.height) - around, all - 1));
    const to = Math.min(all, Math.ceil((this.top + tall) / this.height) + around);
    while (this.lines.length > Math.max(0, to - from)) this.lines.pop().remove();
    while (this.lines.length < to - from) {
      const tr = el("tr", {}, ...this.columns.map((c) => el("td", { class: c.cls, "data-col": c.name })));
      tr.cells_ = [...tr.children];
      tr.className = "link";
      tr.tabIndex = 0;
      tr.addEventListener("click", () => this.choose(tr));
      tr.addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); this.choose(tr); } });
      this.below.before(tr);
      this.lines.push(tr);
    }
    const focused = this.lines.find((tr) => tr === document.activeElement), name = focused && focused.name_;
    for (let i = from; i < to; i++) this.line(this.lines[i - from], this.rows[i], i);
    if (focused && focused.name_ !== name) this.focus(name);
    this.gap(this.above, from);
    this.gap(this.below, all - to);
  }

  line(tr, r, i) {
    tr.row_ = r;
    this.columns.forEach((c, at) => {
      const td = tr.cells_[at];
      if (c.draw) c.draw(td, r);
      else put(td, c.text(r));
      if (c.cut && td.title !== c.text(r)) td.title = c.text(r);
    });
    if (tr.index_ !== i) tr.setAttribute("aria-rowindex", (tr.index_ = i) + 2);
    if (tr.name_ !== r.name) { tr.name_ = r.name; if (this.named) this.named(tr, r); }
  }

  choose(tr) {
    opened = { table: this, name: tr.name_ };
    this.open(tr.row_);
  }

  // focus moves the focus to a row, or, if the row is not in view, to the table.
  focus(name) {
    (this.lines.find((tr) => tr.name_ === name) || this.view).focus({ preventScroll: true });
  }

  // whole shows all columns of a row in a dialog, without cutting texts.
  whole(title, r, more = []) {
    put($("whole-title"), title);
    const all = [...this.columns.map((c) => [c.title, c.whole ? c.whole(r) : c.text(r)]), ...more];
    $("whole-values").replaceChildren(...all.filter((p) => p[1] !== "").flatMap((p) => [el("dt", {}, p[0]), el("dd", {}, String(p[1]))]));
    $("whole").showModal();
  }

  gap(tr, rows) {
    const px = Math.max(0, rows) * this.height + "px";
    if (tr.style.height !== px) tr.style.height = px;
    tr.hidden = rows <= 0;
  }
}

const quantiles = (q) => q && (q.p50 || q.p95) ? ms(q.p50) + " / " + ms(q.p95) : "";

function bar(cell, starts) {
  if (!cell.bar) cell.append(cell.bar = el("div", { class: "bar" }));
  const all = Object.values(starts || {}).reduce((a, b) => a + b, 0);
  parts(cell.bar, Object.keys(startColours).filter((k) => starts && starts[k]).map((k) => [startColours[k], starts[k] / all, starts[k] + " " + k, ""]));
}

// startsText lists the starts of a function by kind.
const startsText = (starts) => Object.keys(startColours).filter((k) => starts && starts[k]).map((k) => starts[k] + " " + k).join(", ");

// containerFor names a container by its function. A container without a function is
// prewarmed for its kind, or was adopted from an earlier process.
export function containerFor(c) {
  if (c.flow || c.function) return short(c.flow || c.function);
  const [, namespace, action] = /_\d+_([^_]+)_(.+)$/.exec(c.name) || [];
  return !namespace || namespace === "prewarm" ? "any " + c.kind : namespace + "/" + action;
}

const results = ["success", "application error", "developer error", "system error"];

let functions, recent, containers;

export function begin(explain) {
  functions = new Table("functions", [
    { name: "function", title: "Function", cls: "name", cut: true, text: (f) => short(f.name) },
    { name: "state", title: "State", cls: "mid", text: (f) => f.flow.state, draw: (td, f) => { put(td, f.flow.state); cls(td, "mid state " + f.flow.state); } },
    { name: "queued", title: "Queued", cls: "n", text: (f) => f.flow.queued },
    { name: "running", title: "Running", cls: "n wide", text: (f) => f.flow.inFlight },
    { name: "weight", title: "Weight", cls: "n wide", text: (f) => f.flow.weight },
    { name: "lead", title: "Lead", cls: "n wide", text: (f) => f.flow.leadMs === undefined ? "" : ms(Math.max(0, f.flow.leadMs)), value: (f) => f.flow.leadMs || 0 },
    { name: "virtual", title: "Virtual time", cls: "n wide", text: (f) => f.flow.virtualMs === undefined ? "" : ms(f.flow.virtualMs), value: (f) => f.flow.virtualMs || 0 },
    { name: "calls", title: "Calls", cls: "n wide", text: (f) => f.calls.count },
    { name: "failed", title: "Failed", cls: "n wide", text: (f) => f.calls.failed, draw: (td, f) => { put(td, f.calls.failed); cls(td, "n wide" + (f.calls.failed ? " fail" : "")); } },
    { name: "wait", title: "Waited", cls: "n wide", text: (f) => quantiles(f.calls.waitMs), value: (f) => f.calls.waitMs ? f.calls.waitMs.p95 : 0 },
    { name: "latency", title: "Answered in", cls: "n", text: (f) => quantiles(f.calls.latencyMs), value: (f) => f.calls.latencyMs ? f.calls.latencyMs.p95 : 0 },
    { name: "starts", title: "Starts", cls: "wide", text: (f) => startsText(f.calls.starts), draw: (td, f) => bar(td, f.calls.starts), value: (f) => (f.calls.starts && f.calls.starts.cold) || 0 },
    { name: "why", title: "Why", cls: "why wide", cut: true, text: (f) => f.flow.why },
  ], "queued", (f) => functions.whole(short(f.name), f));
  recent = new Table("recent", [
    { name: "at", title: "At", text: (r) => time(r.at), draw: (td, r) => { put(td, time(r.at)); const day = date(r.at); if (td.title !== day) td.title = day; }, value: (r) => r.at },
    { name: "function", title: "Function", cls: "name", cut: true, text: (r) => short(r.function) },
    { name: "start", title: "Start", cls: "mid", text: (r) => r.start },
    { name: "wait", title: "Waited", cls: "n wide", text: (r) => ms(r.waitMs) },
    { name: "run", title: "Ran", cls: "n wide", text: (r) => ms(r.runMs) },
    { name: "latency", title: "All", cls: "n", text: (r) => ms(r.latencyMs) },
    { name: "status", title: "Result", text: (r) => results[r.status & 3],
      draw: (td, r) => { put(td, ["success", "app error", "dev error", "system error"][r.status & 3]); cls(td, r.status ? "fail" : ""); } },
  ], "at", (r) => explain(r.id));
  recent.fixed = true;
  containers = new Table("containers", [
    { name: "flow", title: "Function", cls: "name", cut: true, text: containerFor },
    { name: "device", title: "Device", text: (c) => c.device ? "GPU " + c.device.split(" ")[0] : "CPU", whole: (c) => c.device ? deviceName(c.device) : "none: it computes on the CPU" },
    { name: "state", title: "State", cls: "mid", text: (c) => c.state },
    { name: "active", title: "Runs", cls: "n mid", text: (c) => c.active },
    { name: "memory", title: "Memory", cls: "n wide", text: (c) => c.memoryMB + " MB", value: (c) => c.memoryMB },
    { name: "resident", title: "On device", cls: "n", text: (c) => c.device ? bytes(c.residentBytes || 0) : "", value: (c) => c.residentBytes || 0 },
    { name: "kind", title: "Kind", cls: "wide", text: (c) => c.kind },
  ], "resident", (c) => containers.whole(containerFor(c), c, [["Container", c.name]]));
  functions.named = (tr, f) => { tr.dataset.flow = f.name; };
  recent.named = (tr, r) => { tr.dataset.id = r.id; };
  $("filter").addEventListener("input", drawFunctions);
}

let last = { flows: [], functions: [] };

export function showFunctions(flows, sums) {
  last = { flows, functions: sums };
  drawFunctions();
}

// A row is a function: its flow, the statistics of its calls, or both.
const known = new Map();
const noFlow = { state: "", queued: 0, inFlight: 0, weight: "", why: "" }, noCalls = { count: 0, failed: 0 };

function rowOf(name, turn) {
  let r = known.get(name);
  if (!r) known.set(name, r = { name, lower: name.toLowerCase(), flow: noFlow, calls: noCalls });
  if (r.turn !== turn) { r.turn = turn; r.flow = noFlow; r.calls = noCalls; }
  return r;
}

let turns = 0;
function drawFunctions() {
  turns++;
  for (const f of last.functions) rowOf(f.function, turns).calls = f;
  for (const f of last.flows) rowOf(f.flow, turns).flow = f;
  const word = $("filter").value.trim().toLowerCase(), rows = [];
  for (const [name, r] of known) {
    if (r.turn !== turns) known.delete(name);
    else if (!word || r.lower.includes(word) || r.flow.state === word) rows.push(r);
  }
  functions.show(rows);
  put($("functions-count"), rows.length === known.size ? known.size : rows.length + " of " + known.size);
}

export function showRecent(list) {
  for (const r of list) r.name = r.id;
  recent.show(list);
}

export function showContainers(list, counters) {
  containers.show(list);
  const states = {};
  for (const c of list) states[c.state] = (states[c.state] || 0) + 1;
  put($("containers-count"), list.length + (list.length ? ": " + Object.entries(states).map(([s, n]) => n + " " + s).join(", ") : ""));
  const starts = {};
  for (const [k, v] of Object.entries(counters)) {
    const m = /^(?:gpu_starts|container_starts) (.*)$/.exec(k);
    if (m && v) starts[m[1]] = (starts[m[1]] || 0) + v;
  }
  const box = $("starts");
  bar(box, starts);
  if (!box.text) box.append(box.text = el("p", { class: "note legend" }));
  const seen = Object.keys(startColours).filter((k) => starts[k]);
  keyed(box.text, seen, (k) => k, (k) => {
    const i = el("i"), n = el("span");
    i.style.backgroundColor = startColours[k];
    const node = el("span", {}, i, n);
    node.n = n;
    return node;
  }, (node, k) => put(node.n, starts[k] + " " + k));
}
