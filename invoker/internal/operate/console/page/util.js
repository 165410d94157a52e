// Functions that all scripts of the page use.

export const $ = (id) => document.getElementById(id);

// el makes an element: el("td", {class: "n"}, "text").
export function el(tag, attrs = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) if (v !== undefined) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// put sets the text of an element only if it changes, which avoids a new layout. The
// element must contain nothing else, and only put may write to it.
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

// sized calls draw when the size of an element changes, and keeps the size in wide and
// tall. Reading the size from the browser would force a layout during an update.
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

// sharp returns the cleared context of a canvas, in CSS pixels and with the screen's full
// resolution. It returns undefined while the canvas is hidden.
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

// keyed keeps one child of a parent for each item, in the order of the items, and updates
// it. Children are reused, so that they keep focus and selection.
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

// time and date format an instant in the browser's time zone: 14:03:59, 2026-01-31. The page
// uses no other format.
const two = (n) => String(n).padStart(2, "0");
export function time(at) {
  const d = new Date(at);
  return two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
}
export function date(at) {
  const d = new Date(at);
  return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate());
}

// scale returns the upper end of an axis of leads, in seconds. The axis includes T only if
// the highest lead is above a third of T.
export function scale(highest, overrun) {
  const end = Math.max(highest * 1.15, 0.1);
  return overrun && highest > overrun / 3 ? Math.max(end, overrun * 1.15) : end;
}

// seconds formats a tick of an axis of leads.
export const seconds = (x) => x === 0 ? "0" : x < 1 ? Math.round(x * 1000) + " ms" : +x.toFixed(2) + " s";

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB"];
  let i = 0;
  while (n >= 1024 && i < 3) { n /= 1024; i++; }
  return (n < 10 && i > 0 ? n.toFixed(1) : Math.round(n)) + " " + units[i];
}

// Colours of functions, for light and dark backgrounds.
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

// style returns a colour of the style sheet. It caches the colours, because reading a style
// forces the browser to compute all styles.
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
