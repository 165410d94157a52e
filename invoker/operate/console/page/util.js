// Small things that every part of the page uses.

export const $ = (id) => document.getElementById(id);

// el makes an element: el("td", {class: "n"}, "text").
export function el(tag, attrs = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) if (v !== undefined) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// put sets a text only where it changes: the browser then lays out nothing anew.
// The element holds nothing else, and only put writes to it.
export function put(node, text) {
  text = String(text);
  if (node.put === text) return;
  node.put = text;
  const only = node.firstChild;
  if (only && only === node.lastChild && only.nodeType === Node.TEXT_NODE) only.data = text;
  else node.textContent = text;
}

export function cls(node, name) {
  if (node.className !== name) node.className = name;
}

// sized calls draw when an element has another width, and keeps that in wide:
// reading it from the browser would lay out the page in the middle of an update.
const widths = new ResizeObserver((list) => {
  for (const e of list) {
    e.target.wide = e.contentRect.width;
    e.target.tall = e.contentRect.height;
    e.target.sizedDraw();
  }
});
export function sized(node, draw) {
  node.sizedDraw = draw;
  widths.observe(node);
}

// sharp gives the context of a canvas with a point for each of the screen's, in
// the page's measure, cleared; undefined while it is not shown.
export function sharp(canvas) {
  const w = canvas.wide, h = canvas.tall, ratio = devicePixelRatio || 1;
  if (!w || !h) return undefined;
  const across = Math.round(w * ratio), down = Math.round(h * ratio);
  if (canvas.width !== across || canvas.height !== down) { canvas.width = across; canvas.height = down; }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, h);
  return c;
}

// keyed keeps one child of a parent per item, in their order, and brings each up
// to date; children stay themselves, and with them focus and selection.
export function keyed(parent, items, key, make, update) {
  const old = parent.kept || new Map();
  const now = new Map(), wanted = new Set(items.map(key));
  for (const [k, node] of old) if (!wanted.has(k)) node.remove();
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    let node = old.get(k);
    if (!node || now.has(k)) node = make(item);
    now.set(k, node);
    update(node, item);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  parent.kept = now;
}

export function ms(x) {
  if (x === undefined || x === null) return "";
  if (x < 1) return x === 0 ? "0" : "<1 ms";
  if (x < 1000) return Math.round(x) + " ms";
  if (x < 10000) return (x / 1000).toFixed(2) + " s";
  if (x < 600000) return (x / 1000).toFixed(1) + " s";
  return Math.round(x / 60000) + " min";
}

// time and date are the one form in which the page shows an instant: 14:03:59 of
// 2026-01-31, in the browser's time zone.
const two = (n) => String(n).padStart(2, "0");
export function time(at) {
  const d = new Date(at);
  return two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
}
export function date(at) {
  const d = new Date(at);
  return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate());
}

// scale returns the upper end of an axis of leads, in seconds. It follows the leads, and
// reaches to T only where the highest lead comes near T.
export function scale(highest, overrun) {
  const end = Math.max(highest * 1.15, 0.1);
  return overrun && highest > overrun / 3 ? Math.max(end, overrun * 1.15) : end;
}

// seconds writes a tick of such an axis.
export const seconds = (x) => x === 0 ? "0" : x < 1 ? Math.round(x * 1000) + " ms" : +x.toFixed(2) + " s";

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB"];
  let i = 0;
  while (n >= 1024 && i < 3) { n /= 1024; i++; }
  return (n < 10 && i > 0 ? n.toFixed(1) : Math.round(n)) + " " + units[i];
}

// Colours that people tell apart, the colour-blind too, on light and on dark.
const palette = ["#0b84a5", "#e07b00", "#6f4e9c", "#2e9e5b", "#d1495b", "#8d6e4a", "#4472ca", "#c2a300", "#b0569a", "#5b8c85", "#7a8b2c", "#9c5151"];
const given = new Map();
export function colour(name) {
  if (!given.has(name)) given.set(name, palette[given.size % palette.length]);
  return given.get(name);
}

// short names a function as OpenWhisk does: namespace/action. The namespace of the
// caller comes before it only where another one owns the action.
export function short(name) {
  const parts = name.split("/");
  return parts.length > 2 && parts[0] === parts[1] ? parts.slice(1).join("/") : name;
}

// style gives a colour of the style sheet. They are read once: a read makes the
// browser compute the styles of all that has changed.
const inks = new Map();
export function style(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return inks.get(name);
}

export function restyle() { inks.clear(); }

// startColours are the colours of the kinds of starts, from the fastest to the slowest.
// People with any kind of colour blindness can distinguish them.
export const startColours = {
  "gpu-warm": "#009e73", "warmed": "#0072b2", "host-warm": "#56b4e9", "prewarmed": "#cc79a7", "busy-cold": "#e69f00", "cold": "#a63d00",
};

// parts draws a bar of shares: [[colour, share 0..1, title, class], ...].
export function parts(bar, list) {
  keyed(bar, list.map((p, i) => [...p.slice(0, 4), i]), (p) => p[4], () => el("i"), (i, p) => {
    const w = (100 * p[1]).toFixed(2) + "%";
    if (i.style.width !== w) i.style.width = w;
    i.style.backgroundColor = p[0];
    if (i.title !== p[2]) i.title = p[2];
    cls(i, p[3] || "");
  });
}
