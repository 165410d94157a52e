// The tables: functions, last activations, containers.
import { $, bytes, cls, el, keyed, ms, parts, put, short, startColours } from "./util.js";

const few = 60; // rows of a table before all are asked for

// columns: name, title, class, text of a row, value that is sorted by.
class Table {
  constructor(id, columns, by, down = true) {
    this.body = $(id).tBodies[0];
    this.columns = columns;
    this.by = by;
    this.down = down;
    this.heads = columns.map((c) => {
      const b = el("button", { type: "button" }, c.title);
      const th = el("th", { class: c.cls, scope: "col" }, b);
      b.addEventListener("click", () => {
        this.down = this.by === c.name ? !this.down : true;
        this.by = c.name;
        this.again();
      });
      return th;
    });
    $(id).tHead.append(el("tr", {}, ...this.heads));
  }

  show(rows, key, more = () => {}) {
    this.again = () => this.show(rows, key, more);
    const c = this.columns.find((c) => c.name === this.by), sign = this.down ? -1 : 1;
    const value = c.value || c.text;
    if (!this.fixed) rows = [...rows].sort((a, b) => {
      const x = value(a), y = value(b);
      return x < y ? -sign : x > y ? sign : key(a) < key(b) ? -1 : 1;
    });
    this.heads.forEach((th, i) => {
      const name = this.columns[i].name;
      th.setAttribute("aria-sort", this.fixed || name !== this.by ? "none" : this.down ? "descending" : "ascending");
    });
    keyed(this.body, this.limit ? rows.slice(0, this.limit) : rows, key, (r) => {
      const tr = el("tr", {}, ...this.columns.map((c) => el("td", { class: c.cls, "data-col": c.name })));
      tr.cells_ = [...tr.children];
      return tr;
    }, (tr, r) => {
      this.columns.forEach((c, i) => c.draw ? c.draw(tr.cells_[i], r) : put(tr.cells_[i], c.text(r)));
      more(tr, r);
    });
  }
}

const quantiles = (q) => q && (q.p50 || q.p95) ? ms(q.p50) + " / " + ms(q.p95) : "";

function bar(cell, starts) {
  if (!cell.bar) cell.append(cell.bar = el("div", { class: "bar" }));
  const all = Object.values(starts || {}).reduce((a, b) => a + b, 0);
  parts(cell.bar, Object.keys(startColours).filter((k) => starts && starts[k]).map((k) => [startColours[k], starts[k] / all, starts[k] + " " + k, ""]));
}

let functions, recent, containers, all = false;

export function begin(open) {
  functions = new Table("functions", [
    { name: "function", title: "Function", cls: "name", text: (f) => short(f.name) },
    { name: "state", title: "State", text: (f) => f.state, draw: (td, f) => { put(td, f.state); cls(td, "state " + f.state); } },
    { name: "queued", title: "Queued", cls: "n", text: (f) => f.queued },
    { name: "running", title: "Running", cls: "n wide", text: (f) => f.inFlight },
    { name: "weight", title: "Weight", cls: "n wide", text: (f) => f.weight },
    { name: "lead", title: "Lead", cls: "n wide", text: (f) => f.leadMs === undefined ? "" : ms(Math.max(0, f.leadMs)), value: (f) => f.leadMs || 0 },
    { name: "virtual", title: "Virtual time", cls: "n wide", text: (f) => f.virtualMs === undefined ? "" : ms(f.virtualMs), value: (f) => f.virtualMs || 0 },
    { name: "calls", title: "Calls", cls: "n wide", text: (f) => f.count },
    { name: "failed", title: "Failed", cls: "n wide", text: (f) => f.failed, draw: (td, f) => { put(td, f.failed); cls(td, "n wide" + (f.failed ? " fail" : "")); } },
    { name: "wait", title: "Waited", cls: "n wide", text: (f) => quantiles(f.waitMs), value: (f) => f.waitMs ? f.waitMs.p95 : 0 },
    { name: "latency", title: "Answered in", cls: "n", text: (f) => quantiles(f.latencyMs), value: (f) => f.latencyMs ? f.latencyMs.p95 : 0 },
    { name: "starts", title: "Starts", cls: "wide", text: () => "", draw: (td, f) => bar(td, f.starts), value: (f) => (f.starts && f.starts.cold) || 0 },
    { name: "why", title: "Why", cls: "why wide", text: (f) => f.why, draw: (td, f) => { put(td, f.why); if (td.title !== f.why) td.title = f.why; } },
  ], "queued");
  recent = new Table("recent", [
    { name: "at", title: "At", text: (r) => new Date(r.at).toTimeString().slice(0, 8), value: (r) => r.at },
    { name: "function", title: "Function", cls: "name", text: (r) => short(r.function) },
    { name: "start", title: "Start", text: (r) => r.start },
    { name: "wait", title: "Waited", cls: "n wide", text: (r) => ms(r.waitMs) },
    { name: "run", title: "Ran", cls: "n wide", text: (r) => ms(r.runMs) },
    { name: "latency", title: "All", cls: "n", text: (r) => ms(r.latencyMs) },
    { name: "status", title: "Result", text: (r) => ["success", "application error", "developer error", "system error"][r.status & 3],
      draw: (td, r) => { put(td, ["success", "app error", "dev error", "system error"][r.status & 3]); cls(td, r.status ? "fail" : ""); } },
  ], "at");
  recent.fixed = true;
  containers = new Table("containers", [
    { name: "flow", title: "Function", cls: "name", text: (c) => c.flow ? short(c.flow) : c.name },
    { name: "device", title: "Device", text: (c) => c.device ? "GPU " + c.device.split(" ")[0] : "CPU" },
    { name: "state", title: "State", text: (c) => c.state },
    { name: "active", title: "Runs", cls: "n", text: (c) => c.active },
    { name: "memory", title: "Memory", cls: "n wide", text: (c) => c.memoryMB + " MB", value: (c) => c.memoryMB },
    { name: "resident", title: "On device", cls: "n", text: (c) => c.device ? bytes(c.residentBytes || 0) : "", value: (c) => c.residentBytes || 0 },
    { name: "kind", title: "Kind", cls: "wide", text: (c) => c.kind },
  ], "resident");
  containers.limit = few;
  $("filter").addEventListener("input", () => functions.again && drawFunctions());
  $("all").addEventListener("click", () => { all = !all; drawFunctions(); });
  recent.open = open;
}

let last = { flows: [], functions: [] };

export function showFunctions(flows, sums) {
  last = { flows, functions: sums };
  drawFunctions();
}

function drawFunctions() {
  const by = new Map();
  for (const f of last.functions) by.set(f.function, { name: f.function, state: "", queued: 0, inFlight: 0, weight: "", why: "", ...f });
  for (const f of last.flows) {
    const sum = by.get(f.flow) || { count: 0, failed: 0 };
    by.set(f.flow, { ...sum, ...f, name: f.flow, why: f.why.replace(f.flow + " " + f.state + ": ", "") });
  }
  const word = $("filter").value.trim().toLowerCase();
  const rows = [...by.values()].filter((f) => !word || f.name.toLowerCase().includes(word) || f.state === word);
  functions.limit = all ? 0 : few;
  functions.show(rows, (f) => f.name, (tr, f) => { tr.dataset.flow = f.name; });
  put($("functions-count"), rows.length === by.size ? by.size : rows.length + " of " + by.size);
  $("all").hidden = rows.length <= few;
  put($("all"), all ? "show the first " + few : "show all " + rows.length);
}

export function showRecent(list) {
  recent.show(list, (r) => r.id, (tr, r) => {
    if (tr.dataset.id) return;
    tr.dataset.id = r.id;
    tr.className = "link";
    tr.tabIndex = 0;
    tr.title = "What became of it";
    tr.addEventListener("click", () => recent.open(r.id));
    tr.addEventListener("keydown", (e) => { if (e.key === "Enter") recent.open(r.id); });
  });
}

export function showContainers(list, counters) {
  containers.show(list, (c) => c.name);
  const states = {};
  for (const c of list) states[c.state] = (states[c.state] || 0) + 1;
  put($("containers-count"), list.length + (list.length ? ": " + Object.entries(states).map(([s, n]) => n + " " + s).join(", ") : "") +
    (list.length > few ? ", the first " + few + " are shown" : ""));
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
