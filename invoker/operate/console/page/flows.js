// The moving chart of how far flows are ahead, and the strip of all flows.
import { $, colour, sharp, short, sized, style, put } from "./util.js";

const seconds = 180; // of history
const shown = 8;     // flows in the chart
const least = 30;    // seconds that the chart shows, however young it is

const times = [];
const leads = new Map(); // flow -> leads in seconds, aligned with times
const busy = new Map();  // flow -> how much it has had to do of late
let chart, names = [], chosenAt = 0, overrun = 0;

export function flows(list, at, policy) {
  remember(list, at / 1000);
  overrun = list.reduce((t, f) => Math.max(t, f.overrunMs || 0), 0) / 1000;
  put($("window"), policy ? policy + (overrun ? ", T = " + overrun + " s" : "") : "no GPU: nothing is scheduled here");
  choose(at);
  draw();
  strip(list);
}

function remember(list, t) {
  times.push(t);
  const here = new Set();
  for (const f of list) {
    here.add(f.flow);
    if (!leads.has(f.flow)) leads.set(f.flow, new Array(times.length - 1).fill(null));
    leads.get(f.flow).push(Math.max(0, f.leadMs) / 1000);
    busy.set(f.flow, 0.95 * (busy.get(f.flow) || 0) + f.queued + f.inFlight + (f.state === "throttled" ? 1 : 0));
  }
  for (const [flow, values] of leads) {
    if (!here.has(flow)) { values.push(null); busy.set(flow, 0.9 * (busy.get(flow) || 0)); }
    if (times.length > seconds) values.shift();
    if (!here.has(flow) && values.every((v) => v === null)) { leads.delete(flow); busy.delete(flow); }
  }
  if (times.length > seconds) times.shift();
}

// choose picks the busiest flows. It changes its mind every ten seconds at most.
function choose(at) {
  const gone = names.some((n) => !leads.has(n));
  if (chart && !gone && at - chosenAt < 10000 && (names.length === shown || names.length === leads.size)) return;
  const best = [...busy.entries()].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, shown).map((e) => e[0]).sort();
  chosenAt = at;
  if (chart && best.join() === names.join()) return;
  names = best;
  if (chart) { chart.destroy(); chart = undefined; }
}

function data() { return [times, ...names.map((n) => leads.get(n))]; }

export function redraw() {
  if (chart) { chart.destroy(); chart = undefined; }
  if (times.length) { draw(); paint(); }
}

function draw() {
  if (chart) { chart.setData(data()); return; }
  const box = $("lead"), ink = style("--dim"), grid = { stroke: style("--line"), width: 1 };
  const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif" };
  chart = new uPlot({
    width: box.clientWidth, height: tall(),
    cursor: { drag: { x: false, y: false } },
    scales: { x: { range: (u, lo, hi) => [Math.min(lo, hi - least), hi] }, y: { range: (u, lo, hi) => [Math.min(lo || 0, 0), Math.max(hi || 0, overrun * 1.15, 1)] } },
    axes: [{ ...axis, space: 70 }, { ...axis, size: 46, values: (u, v) => v.map((x) => x + " s") }],
    series: [{ value: "{HH}:{mm}:{ss}" }, ...names.map((n) => ({
      label: short(n), stroke: colour(n), width: 2, points: { show: false }, value: (u, v) => v === null ? "" : v.toFixed(1) + " s",
    }))],
    hooks: { drawClear: [band] },
  }, data(), box);
}

// tall is the height of the chart without its legend.
const tall = () => innerWidth <= 700 ? 160 : 200;

// band shades the window that flows may be in.
function band(u) {
  if (!overrun) return;
  const top = u.valToPos(overrun, "y", true), foot = u.valToPos(0, "y", true), c = u.ctx;
  c.save();
  c.fillStyle = style("--band");
  c.fillRect(u.bbox.left, top, u.bbox.width, foot - top);
  c.strokeStyle = style("--accent");
  c.setLineDash([6, 4]);
  c.beginPath();
  c.moveTo(u.bbox.left, top);
  c.lineTo(u.bbox.left + u.bbox.width, top);
  c.stroke();
  c.restore();
}

function hash(s) {
  let h = 2166136261;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
  return (h >>> 0) / 4294967296;
}

const heights = new Map(); // flow -> where it is in the strip, 0..1
function heightOf(flow) {
  let at = heights.get(flow);
  if (at === undefined) heights.set(flow, at = hash(flow));
  return at;
}

// strip draws every flow as a dot at its lead.
let dots = [];
function strip(list) {
  if (heights.size > 2 * list.length + 100) heights.clear();
  dots = list;
  paint();
}

function paint() {
  const canvas = $("strip"), c = sharp(canvas), w = canvas.wide, h = canvas.tall;
  if (!c) return;
  const t = overrun * 1000;
  let hi = Math.max(t * 1.1, 1);
  for (const f of dots) hi = Math.max(hi, f.leadMs);
  const x = (v) => 6 + (w - 12) * v / hi;
  if (t) { c.fillStyle = style("--band"); c.fillRect(x(0), 0, x(t) - x(0), h); }
  for (const [state, ink, alpha] of [["inactive", "--dim", 0.45], ["active", "--accent", 0.9], ["throttled", "--warn", 0.9]]) {
    c.fillStyle = style(ink);
    c.globalAlpha = alpha;
    const taken = new Set(); // where one is, another is not seen
    for (const f of dots) {
      if (f.state !== state) continue;
      const at = x(Math.max(0, f.leadMs)), y = 6 + heightOf(f.flow) * (h - 12), r = f.queued + f.inFlight > 0 ? 4 : 2.5;
      const place = Math.round(at) * 1000 + Math.round(y);
      if (taken.has(place)) continue;
      taken.add(place);
      c.beginPath();
      c.arc(at, y, r, 0, 7);
      c.fill();
    }
  }
  c.globalAlpha = 1;
}

sized($("strip"), paint);

addEventListener("resize", () => {
  if (chart) chart.setSize({ width: $("lead").clientWidth, height: tall() });
});
