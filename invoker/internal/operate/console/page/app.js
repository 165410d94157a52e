// The main script: it receives a snapshot each second and shows it.
import { $, cls, date, el, keyed, ms, put, restyle, short, time } from "./util.js";
import { flows, redraw } from "./flows.js";
import { devices } from "./devices.js";
import { begin, refocus, showContainers, showFunctions, showRecent } from "./tables.js";

let paused = false, before, source, unseen;

function tiles(id, list) {
  keyed($(id), list, (t) => t[0], (t) => {
    const b = el("b", { id: "n-" + t[0].replace(/\W+/g, "-") }), node = el("div", {}, b, el("span", {}, t[0]));
    node.b = b;
    return node;
  }, (node, [, value, mood]) => { put(node.b, value); cls(node, "tile" + (mood ? " " + mood : "")); });
}

function show(v) {
  const s = v.status, w = s.work || { flows: [], devices: [], containers: [] };
  const list = w.flows || [], gpus = w.devices || [], containers = w.containers || [], counters = v.counters || {};
  put($("instance"), s.instance || "");
  put($("health"), s.healthy ? "healthy" : "not healthy");
  cls($("health"), "badge " + (s.healthy ? "good" : "bad"));
  const pulls = s.scheduling; // in OpenWhisk's scheduler mode
  put($("facts"), "up " + s.uptime + ", " + (pulls ? "scheduler" : "classic") + " mode" + (gpus.some((d) => d.simulated) ? ", devices are simulated" : ""));
  keyed($("reasons"), s.reasons || [], (r) => r, (r) => el("li", {}, r), () => {});
  put($("version"), "gpuwhisk " + v.version);
  const queued = list.reduce((n, f) => n + f.queued, 0) + ((w.pool || {}).queued || 0);
  const done = Object.entries(counters).reduce((n, [k, x]) => n + (k.startsWith("activations_completed") ? x : 0), 0);
  const failed = Object.entries(counters).reduce((n, [k, x]) => n + (k.startsWith("activations_completed") && !k.endsWith("success") ? x : 0), 0);
  const rate = before && v.at > before.at ? (done - before.done) / (v.at - before.at) * 1000 : 0;
  before = { at: v.at, done };
  const total = v.functions || [];
  const worst = total.reduce((m, f) => Math.max(m, f.latencyMs.p95), 0);
  tiles("numbers", [
    ["in flight", w.inFlight || 0],
    ["queued for a GPU", queued],
    ["flows", list.length],
    ["throttled flows", list.filter((f) => f.state === "throttled").length],
    ["done per second", rate.toFixed(rate < 10 ? 1 : 0)],
    ["done", done],
    ["failed", failed, failed ? "warn" : ""],
    ["slowest function, p95", worst ? ms(worst) : "none"],
    ["behind in Kafka", (s.kafka || {}).lag || 0, (s.kafka || {}).lag > 100 ? "warn" : ""],
    ...(pulls ? pulling(pulls) : []),
  ]);
  stepwise([
    () => flows(list, v.at, w.policy),
    () => devices(gpus, containers),
    () => showFunctions(list, total),
    () => showRecent([...(v.recent || [])].sort((a, b) => b.at - a.at)),
    () => showContainers(containers, counters),
    () => { safe(s, counters); put($("clock"), date(v.at) + " " + time(v.at)); },
  ]);
}

// pulling returns the tiles of scheduler mode: pulled activations and ordered creations.
function pulling(p) {
  const refused = Object.entries(p.creations).reduce((n, [outcome, x]) => n + (outcome === "opened" ? 0 : x), 0);
  return [
    ["pulled, in flight", p.slots.pulled],
    ["pulled", p.pulled],
    ["creations waiting", p.slots.waitingCreations],
    ["creations refused", refused, refused ? "warn" : ""],
  ];
}

// stepwise runs the parts of an update one after the other. Between two parts, the browser
// handles keys, clicks and scrolling. The parts of a newer update replace the waiting ones.
let todo = [], going = false;
function stepwise(parts) {
  todo = parts;
  if (!going) { going = true; next(); }
}
function next() {
  const part = todo.shift();
  going = part !== undefined;
  if (!going) return;
  setTimeout(next);
  part();
}

// safe shows the counts of lost, waiting and repeated work.
function safe(s, counters) {
  const k = s.kafka || {}, feed = k.feed || {}, sends = k.sends || {}, db = s.couchdb || {};
  const list = [
    ["messages that Kafka dropped unread", feed.lost || 0, feed.lost ? "bad" : ""],
    ["messages that could not be read", feed.undecodable || 0, feed.undecodable ? "bad" : ""],
    ["acks given up", sends.dropped || 0, sends.dropped ? "bad" : ""],
    ["acks waiting", sends.waiting || 0],
    ["records waiting", db.bufferedDocs || 0],
    ["records spooled to disk", db.spooling ? "yes" : "none", db.spooling ? "warn" : ""],
  ];
  const words = /lost|spool|again|repeat|resched|drop|duplicate|incomplete|refus|replay|recover/;
  for (const [name, n] of Object.entries(counters).sort()) {
    if (words.test(name)) list.push([name.replaceAll("_", " "), n, n && /lost|drop/.test(name) ? "bad" : ""]);
  }
  tiles("safe", list);
}

async function explain(id) {
  id = id.trim();
  const list = $("story-text");
  put($("story-id"), id);
  put($("story-title"), "Activation");
  put($("story-date"), "");
  list.replaceChildren(el("li", {}, "Reading its trace."));
  if (!$("story").open) $("story").showModal();
  history.replaceState(null, "", "#activation=" + encodeURIComponent(id));
  try {
    const r = await fetch("explain/" + encodeURIComponent(id)), answer = await r.json();
    if (!r.ok) { list.replaceChildren(el("li", {}, answer.error)); return; }
    const a = answer.trace;
    put($("story-title"), short(a.namespace + "/" + a.action));
    const first = answer.sentences.find((s) => s.at);
    if (first) put($("story-date"), date(first.at));
    list.replaceChildren(...answer.sentences.map((s) => el("li", {}, ...(s.at ? [el("time", { datetime: s.at }, clock(s.at))] : []), s.text)));
  } catch (e) {
    list.replaceChildren(el("li", {}, "The invoker does not answer: " + e.message));
  }
}

// clock formats a time with milliseconds.
const clock = (at) => time(at) + "." + String(new Date(at).getMilliseconds()).padStart(3, "0");

function listen() {
  source = new EventSource("events");
  source.addEventListener("snapshot", (e) => {
    document.body.classList.remove("stale");
    if (!paused) show(JSON.parse(e.data));
  });
  source.addEventListener("trouble", (e) => trouble(JSON.parse(e.data).error));
  source.onerror = () => trouble("The invoker does not answer. The page tries again.");
}

// A page that is hidden for a minute closes its stream.
document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen);
  if (document.hidden) unseen = setTimeout(() => source.close(), 60000);
  else if (source.readyState === EventSource.CLOSED) listen();
});

function trouble(why) {
  document.body.classList.add("stale");
  put($("health"), "no answer");
  cls($("health"), "badge");
  keyed($("reasons"), [why], (r) => r, (r) => el("li", {}, r), () => {});
}

function pause() {
  paused = !paused;
  put($("pause"), paused ? "Go on" : "Pause");
  $("pause").setAttribute("aria-pressed", paused);
}

function repaint() {
  restyle();
  redraw();
}

const themes = ["", "light", "dark"];
function theme(next) {
  let now = localStorage.getItem("theme") || "";
  if (next) localStorage.setItem("theme", now = themes[(themes.indexOf(now) + 1) % 3]);
  if (now) document.documentElement.dataset.theme = now;
  else delete document.documentElement.dataset.theme;
  put($("theme"), now ? (now === "dark" ? "Dark" : "Light") : "Theme: system");
  repaint();
}

const sections = ["numbers", "h-flows", "h-devices", "h-functions", "h-recent", "h-safe"];
document.addEventListener("keydown", (e) => {
  if (e.target.closest("input, dialog[open]") || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "/") { e.preventDefault(); $("filter").focus(); }
  else if (e.key === "p") pause();
  else if (e.key === "t") theme(true);
  else if (e.key === "?") $("keys").showModal();
  else if (sections[e.key - 1]) $(sections[e.key - 1]).scrollIntoView({ block: "center" });
});
$("pause").addEventListener("click", pause);
$("theme").addEventListener("click", () => theme(true));
$("help").addEventListener("click", () => $("keys").showModal());
// Without preventDefault, Enter would press the button that has the focus in the dialog.
$("lookup").addEventListener("keydown", (e) => { if (e.key === "Enter" && e.target.value.trim()) { e.preventDefault(); explain(e.target.value); } });
$("filter").addEventListener("keydown", (e) => { if (e.key === "Escape") { e.target.value = ""; e.target.dispatchEvent(new Event("input")); e.target.blur(); } });
$("story").addEventListener("close", () => { history.replaceState(null, "", location.pathname); refocus(); });
$("whole").addEventListener("close", refocus);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

begin(explain);
theme(false);
const linked = /^#activation=(.+)$/.exec(location.hash);
if (linked) explain(decodeURIComponent(linked[1]));
listen();
