// Each device with its tokens, its utilization and a map of its memory.
import { $, bytes, cls, colour, el, keyed, parts, put, short, style } from "./util.js";

const history = new Map(); // device -> shares 0..1

export function devices(list, containers) {
  const on = new Map();
  for (const c of containers) {
    if (!c.device) continue;
    if (!on.has(c.device)) on.set(c.device, new Map());
    const flows = on.get(c.device);
    const sum = flows.get(c.flow) || { resident: 0, coming: 0, context: 0, n: 0 };
    sum.resident += c.residentBytes || 0;
    sum.coming += c.comingBytes || 0;
    sum.context += c.contextBytes || 0;
    sum.n++;
    flows.set(c.flow, sum);
  }
  keyed($("devices"), list, (d) => d.device, make, (node, d) => update(node, d, on.get(d.device) || new Map()));
  if (!list.length) put($("devices"), "This invoker has no GPU.");
  legend(on);
}

function make() {
  const part = {
    name: el("h3"), tag: el("span", { class: "tag" }, "simulated"), tokens: el("span"), dots: el("span", { class: "dots" }),
    use: el("span"), spark: el("canvas", { class: "spark", width: 120, height: 20 }), memory: el("span"), map: el("div", { class: "bar map", role: "img" }),
  };
  const node = el("article", { class: "device" },
    el("header", {}, part.name, part.tag, part.tokens, part.dots, el("span", { class: "push" }), part.use, part.spark),
    el("div", { class: "mapline" }, part.map, part.memory));
  node.bits = part;
  return node;
}

function update(node, d, flows) {
  const p = node.bits;
  cls(node, d.lost ? "device lost" : "device");
  node.dataset.device = d.device;
  put(p.name, "GPU " + d.device.replace(", simulated", "").replace("(simulated)", "").trim());
  p.tag.hidden = !d.simulated;
  put(p.tokens, d.lost ? "lost: " + d.lost : d.inFlight + " of " + d.tokens + " tokens");
  put(p.dots, "●".repeat(Math.min(d.inFlight, 32)) + "○".repeat(Math.max(0, Math.min(d.tokens, 32) - d.inFlight)));
  const share = d.utilization !== undefined ? d.utilization : d.tokens ? d.inFlight / d.tokens : 0;
  put(p.use, d.utilization !== undefined ? Math.round(100 * share) + " % busy" : Math.round(100 * share) + " % of tokens");
  const past = history.get(d.device) || [];
  past.push(share);
  if (past.length > 60) past.shift();
  history.set(d.device, past);
  spark(p.spark, past);
  put(p.memory, bytes(d.usedBytes) + " of " + bytes(d.memoryBytes));
  map(p.map, d, flows);
}

// map draws the device's memory by function, then what is not a function's.
function map(bar, d, flows) {
  const list = [], total = d.memoryBytes || 1;
  let resident = 0, context = 0;
  for (const [flow, s] of [...flows].sort((a, b) => b[1].resident - a[1].resident || (a[0] < b[0] ? -1 : 1))) {
    const name = short(flow);
    resident += s.resident;
    context += s.context;
    if (s.resident) list.push([colour(flow), s.resident / total, name + ": " + bytes(s.resident) + " resident", ""]);
    if (s.coming) list.push([colour(flow), s.coming / total, name + ": " + bytes(s.coming) + " on its way", "coming"]);
    if (s.context) list.push([colour(flow), s.context / total, name + ": " + bytes(s.context) + " contexts of " + s.n + " containers", "context"]);
  }
  if (d.foreignBytes) list.push([style("--dim"), d.foreignBytes / total, "of nobody here: " + bytes(d.foreignBytes), "foreign"]);
  parts(bar, list);
  const label = "Memory: " + bytes(resident) + " resident, " + bytes(context) + " contexts, " + bytes(d.foreignBytes || 0) + " foreign, " +
    bytes(Math.max(0, d.memoryBytes - d.usedBytes)) + " free";
  if (bar.getAttribute("aria-label") !== label) { bar.setAttribute("aria-label", label); bar.title = label; }
}

function spark(canvas, past) {
  const c = canvas.getContext("2d"), w = canvas.width, h = canvas.height;
  c.clearRect(0, 0, w, h);
  c.strokeStyle = style("--accent");
  c.fillStyle = style("--band");
  c.lineWidth = 1.5;
  c.beginPath();
  past.forEach((v, i) => c.lineTo(w - (past.length - 1 - i) * w / 59, h - 2 - v * (h - 4)));
  c.stroke();
  c.lineTo(w, h);
  c.lineTo(w - (past.length - 1) * w / 59, h);
  c.fill();
}

function legend(on) {
  const sum = new Map();
  for (const flows of on.values()) for (const [flow, s] of flows) sum.set(flow, (sum.get(flow) || 0) + s.resident + s.context);
  const top = [...sum].sort((a, b) => b[1] - a[1]).slice(0, 10).map((e) => e[0]);
  const more = sum.size - top.length;
  keyed($("legend"), more > 0 ? [...top, ""] : top, (f) => f, (f) => {
    if (!f) return el("span");
    const i = el("i");
    i.style.backgroundColor = colour(f);
    return el("span", {}, i, short(f));
  }, (node, f) => { if (!f) put(node, "and " + more + " more"); });
}
