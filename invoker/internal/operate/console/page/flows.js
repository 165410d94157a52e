// The chart of the busiest flows' leads over time, and the strip of all flows' leads.
import { $, colour, put, scale, seconds, sharp, short, sized, style, time } from "./util.js";

const kept = 180;    // seconds of history
const shown = 8;     // flows in the chart
const least = 30;    // seconds on the axis of a new chart

const times = [];
const leads = new Map(); // flow -> leads in seconds, aligned with times
const busy = new Map();  // flow -> moving average of its work
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
    if (times.length > kept) values.shift();
    if (!here.has(flow) && values.every((v) => v === null)) { leads.delete(flow); busy.delete(flow); }
  }
  if (times.length > kept) times.shift();
}

// choose picks the busiest flows. It changes the choice at most every ten seconds.
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
  if (chart) { chart.setData(data()); showNow(chart); return; }
  if (times.length < 2) return; // the axis of a single instant would span years
  const box = $("lead"), ink = style("--dim"), grid = { stroke: style("--line"), width: 1 };
  const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif" };
  chart = new uPlot({
    width: box.clientWidth, height: tall(),
    cursor: { drag: { x: false, y: false } },
    scales: { x: { range: (u, lo, hi) => [Math.min(lo, hi - least), hi] }, y: { range: (u, lo, hi) => [0, scale(hi || 0, overrun)] } },
    axes: [{ ...axis, space: 90, values: (u, v) => v.map((x) => time(x * 1000)) }, { ...axis, size: 58, values: (u, v) => v.map(seconds) }],
    series: [{ label: "At", value: (u, v) => v ? time(v * 1000) : "" }, ...names.map((n) => ({
      label: short(n), stroke: colour(n), width: 2, points: { show: false }, value: (u, v) => v === null || v === undefined ? "" : v.toFixed(1) + " s",
    }))],
    hooks: { drawClear: [band], setCursor: [showNow] },
  }, data(), box);
  showNow(chart);
}

// showNow shows the newest values in the legend while no pointer is on the chart.
function showNow(u) {
  if (u.cursor.left < 0 || u.cursor.left === undefined) u.setLegend({ idx: times.length - 1 });
}

// tall is the height of the chart without its legend.
const tall = () => innerWidth <= 700 ? 160 : 200;

// band shades the leads from 0 to T.
function band(u) {
  if (!overrun) return;
  const top = Math.max(u.bbox.top, u.valToPos(overrun, "y", true)), foot = u.valToPos(0, "y", true), c = u.ctx;
  c.save();
  c.fillStyle = style("--band");
  c.fillRect(u.bbox.left, top, u.bbox.width, foot - top);
  c.strokeStyle = style("--accent");
  c.setLineDash([6, 4]);
  c.beginPath();
  if (overrun <= u.scales.y.max) {
    c.moveTo(u.bbox.left, top);
    c.lineTo(u.bbox.left + u.bbox.width, top);
  }
  c.stroke();
  c.restore();
}

function hash(s) {
  let h = 2166136261;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
  return (h >>> 0) / 4294967296;
}

const heights = new Map(); // flow -> height of its dot in the strip, 0..1
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
  const canvas = $("strip"), c = sharp(canvas), w = canvas.wide, h = canvas.tall - 18; // above the scale
  if (!c || !dots.length) return;
  const t = overrun * 1000;
  let highest = 0;
  for (const f of dots) highest = Math.max(highest, f.leadMs);
  const hi = 1000 * scale(highest / 1000, overrun);
  const x = (v) => 6 + (w - 12) * v / hi;
  if (t) { c.fillStyle = style("--band"); c.fillRect(x(0), 0, x(Math.min(t, hi)) - x(0), h); }
  ticks(c, x, hi, h, w);
  for (const [state, ink, alpha] of [["inactive", "--dim", 0.45], ["active", "--accent", 0.9], ["throttled", "--warn", 0.9]]) {
    c.fillStyle = style(ink);
    c.globalAlpha = alpha;
    const taken = new Set(); // a second dot at the same place is not drawn
    for (const f of dots) {
      if (f.state !== state) continue;
      const at = x(Math.max(0, f.leadMs)), y = 6 + heightOf(f.flow) * (h - 12), r = f.queued + f.inFlight > 0 ? 4 : 2.5;
      const place = Math.round(at) * 1000 + Math.round(y);
      if (taken.has(place)) continue;
      taken.add(place);
      c.beginPath();
      if (state === "throttled") c.rect(at - r, y - r, 2 * r, 2 * r);
      else c.arc(at, y, r, 0, 7);
      c.fill();
    }
  }
  c.globalAlpha = 1;
}

// ticks draws the scale of the strip: about four round numbers.
function ticks(c, x, hi, h, w) {
  const rough = hi / 4, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
  c.fillStyle = style("--dim");
  c.strokeStyle = style("--line");
  c.font = "12px system-ui, sans-serif";
  c.beginPath();
  for (let i = 0; i * step <= hi; i++) {
    const at = x(i * step), text = seconds(i * step / 1000), wide = c.measureText(text).width;
    c.moveTo(at, h);
    c.lineTo(at, h + 4);
    c.fillText(text, Math.max(0, Math.min(at - wide / 2, w - wide)), h + 15);
  }
  c.stroke();
}

sized($("strip"), paint);

addEventListener("resize", () => {
  if (chart) chart.setSize({ width: $("lead").clientWidth, height: tall() });
});
