// The devices, each with its tokens, its utilization and a map of its memory.
import { $, bytes, cls, colour, el, keyed, put, sharp, short, sized, style } from "./util.js";

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
  $("no-devices").hidden = list.length > 0;
  legend(on);
}

// deviceName turns "0 (NVIDIA A100)" into "GPU 0, NVIDIA A100". A device whose model is
// not known is called gpu.
export function deviceName(device) {
  const [, index, model] = /^(\S+)(?: \((.*)\))?$/.exec(device.replace(", simulated", "").replace(" (simulated)", "")) || ["", device, ""];
  return "GPU " + index + (model && model !== "gpu" ? ", " + model : "");
}

function make() {
  const part = {
    name: el("h3"), tag: el("span", { class: "tag", title: "Functions run on the processor; the memory of the device is only counted." }, "simulated"),
    tokens: el("span", { title: "A run needs a token of the device: so many functions may run on the device at once." }),
    dots: el("span", { class: "dots", "aria-hidden": "true" }),
    use: el("span"), spark: el("canvas", { class: "spark", role: "img" }), memory: el("span"), map: el("canvas", { class: "map", role: "img" }),
  };
  const node = el("article", { class: "device" },
    el("header", {}, part.name, part.tag, part.tokens, part.dots, el("span", { class: "push" }), el("span", { class: "use" }, part.use, part.spark)),
    el("div", { class: "mapline" }, part.map, part.memory));
  node.bits = part;
  sized(part.spark, () => spark(part.spark));
  sized(part.map, () => paint(part.map));
  part.map.addEventListener("mousemove", (e) => { part.map.title = at(part.map, e.offsetX); });
  part.map.addEventListener("mouseleave", () => { part.map.title = part.map.label; });
  return node;
}

function update(node, d, flows) {
  const p = node.bits;
  cls(node, d.lost ? "device lost" : "device");
  node.dataset.device = d.device;
  put(p.name, deviceName(d.device));
  p.tag.hidden = !d.simulated;
  put(p.tokens, d.lost ? "lost: " + d.lost : d.inFlight + " of " + d.tokens + " tokens in use");
  put(p.dots, "●".repeat(Math.min(d.inFlight, 32)) + "○".repeat(Math.max(0, Math.min(d.tokens, 32) - d.inFlight)));
  const share = d.utilization !== undefined ? d.utilization : d.tokens ? d.inFlight / d.tokens : 0;
  put(p.use, d.utilization !== undefined ? Math.round(100 * share) + " % busy, last minute" : "last minute");
  const past_ = "The last minute: " + (d.utilization !== undefined ? "how busy the device was" : "the share of tokens in use") + ", now " + Math.round(100 * share) + " %";
  if (p.spark.title !== past_) { p.spark.title = past_; p.spark.setAttribute("aria-label", past_); }
  const past = history.get(d.device) || [];
  past.push(share);
  if (past.length > 60) past.shift();
  history.set(d.device, past);
  p.spark.past = past;
  spark(p.spark);
  put(p.memory, bytes(d.usedBytes) + " of " + bytes(d.memoryBytes));
  map(p.map, d, flows);
}

// map draws the device's memory: first the functions, then other processes.
function map(canvas, d, flows) {
  const list = [], total = d.memoryBytes || 1;
  let resident = 0, context = 0;
  for (const [flow, s] of [...flows].sort((a, b) => b[1].resident - a[1].resident || (a[0] < b[0] ? -1 : 1))) {
    resident += s.resident;
    context += s.context;
    if (s.resident) list.push({ flow, share: s.resident / total, bytes: s.resident, is: "resident" });
    if (s.coming) list.push({ flow, share: s.coming / total, bytes: s.coming, is: "on its way" });
    if (s.context) list.push({ flow, share: s.context / total, bytes: s.context, is: "context", n: s.n });
  }
  if (d.foreignBytes) list.push({ share: d.foreignBytes / total, bytes: d.foreignBytes, is: "foreign" });
  canvas.parts = list;
  paint(canvas);
  const label = "Memory: " + bytes(resident) + " resident, " + bytes(context) + " contexts, " + bytes(d.foreignBytes || 0) + " foreign, " +
    bytes(Math.max(0, d.memoryBytes - d.usedBytes)) + " free";
  if (canvas.label !== label) { canvas.setAttribute("aria-label", canvas.label = label); if (!canvas.matches(":hover")) canvas.title = label; }
}

// least is the smallest width of a part, in points. Narrower parts are added to their
// neighbour.
const least = 0.5;

function paint(canvas) {
  const c = sharp(canvas), h = canvas.tall;
  if (!c || !canvas.parts) return;
  let x = 0, carry = 0;
  for (const p of canvas.parts) {
    const w = p.share * canvas.wide + carry;
    carry = w < least ? w : 0;
    if (carry) continue;
    const gap = w > 3 ? 1 : 0; // between neighbours
    c.globalAlpha = p.is === "context" ? 0.45 : 1;
    c.fillStyle = p.flow ? colour(p.flow) : style("--dim");
    c.fillRect(x, 0, w - gap, h);
    if (p.is === "on its way" || p.is === "foreign") stripes(c, x, w - gap, h, p.is === "foreign");
    x += w;
  }
  c.globalAlpha = 1;
}

function stripes(c, x, w, h, upright) {
  c.save();
  c.beginPath();
  c.rect(x, 0, w, h);
  c.clip();
  c.strokeStyle = upright ? style("--card") : "rgba(255, 255, 255, .55)";
  c.lineWidth = 3;
  c.beginPath();
  for (let at = x - h; at < x + w; at += 8) { c.moveTo(at, h); c.lineTo(upright ? at : at + h, 0); }
  c.stroke();
  c.restore();
}

// at describes the part at a position of a map.
function at(canvas, x) {
  let end = 0;
  for (const p of canvas.parts || []) {
    end += p.share * canvas.wide;
    if (x > end) continue;
    if (p.is === "foreign") return "of other processes: " + bytes(p.bytes);
    return short(p.flow) + ": " + bytes(p.bytes) + (p.is === "context" ? " contexts of " + p.n + " containers" : " " + p.is);
  }
  return canvas.label;
}

function spark(canvas) {
  const c = sharp(canvas), w = canvas.wide, h = canvas.tall, past = canvas.past;
  if (!c || !past) return;
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
