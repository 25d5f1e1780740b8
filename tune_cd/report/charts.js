"use strict";
// Drawing in SVG: functions from numbers to elements, which do not know the page. Places on axes run from 0 to 1.

const STOPS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"]; // viridis
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]; // Okabe and Ito's
const DASHES = ["", "7 3", "2 3", "8 3 2 3", "12 4"];
const SHAPES = {
  circle: "M-6 0A6 6 0 1 1 6 0A6 6 0 1 1 -6 0Z", square: "M-5.5 -5.5H5.5V5.5H-5.5Z", triangle: "M0 -7L6.5 5H-6.5Z", diamond: "M0 -7.5L6.5 0L0 7.5L-6.5 0Z",
  down: "M0 7L6.5 -5H-6.5Z", hexagon: "M-3.5 -6H3.5L7 0L3.5 6H-3.5L-7 0Z", cross: "M-5 -5L5 5M5 -5L-5 5",
  star: "M0 -11L2.9 -3.6L10.8 -3.4L4.5 1.4L6.7 9L0 4.5L-6.7 9L-4.5 1.4L-10.8 -3.4L-2.9 -3.6Z",
};
const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
const isKnown = (value) => value !== null && value !== undefined;
const known = (values) => values.filter(isKnown);

/** An element of HTML, or of SVG with `svg`; children that are strings become text, never markup. */
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}
function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (isKnown(value) && value !== "") element.setAttribute(name, value);
  element.append(...known(children));
  return element;
}

/** A colour for t in [0, 1]: viridis without the end that the background swallows. */
function shade(t) {
  const [from, to] = isDark() ? [0.25, 1] : [0, 0.9];
  const at = (from + (Number.isFinite(t) ? Math.min(1, Math.max(0, t)) : 0.5) * (to - from)) * (STOPS.length - 1);
  const [low, high] = [STOPS[Math.floor(at)], STOPS[Math.ceil(at)]].map((hex) => [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16)));
  return `rgb(${low.map((value, n) => Math.round(value + (high[n] - value) * (at % 1))).join(" ")})`;
}

/** A number in writing, with four digits. */
function show(value) {
  if (!isKnown(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en-GB");
  const text = String(Number(value.toPrecision(4)));
  return Math.abs(value) < 1e-4 || Math.abs(value) >= 1e7 ? Number(value.toPrecision(3)).toExponential().replace("e+", "e") : text;
}

/** The place of a value between two others; halves, as a range may be as wide as numbers allow. */
const between = (low, high, value) => (value / 2 - low / 2) / (high / 2 - low / 2);

/** The place of a value on an axis {low, high}; null for none. */
const placeOn = (axis, value) => (isKnown(value) ? between(axis.low, axis.high, value) : null);

/** A drawing with two axes: {root, x, y}, functions from places to px. An axis is {label, ticks: [[place, text]], from, to}. */
function frame(width, height, xAxis, yAxis, label) {
  const most = Math.min(Math.max(...yAxis.ticks.map(([, text]) => text.length), 2), Math.floor((0.4 * width - 32) / 7.5));
  const [left, right, top, bottom] = [32 + 7.5 * most, 14, 12, 46], fitted = (text) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const x = (u) => left + between(xAxis.from ?? 0, xAxis.to ?? 1, u) * (width - left - right);
  const y = (u) => height - bottom - between(yAxis.from ?? 0, yAxis.to ?? 1, u) * (height - top - bottom);
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label, tabindex: 0 });
  const room = (width - left - right) / Math.max(1, xAxis.ticks.length);
  const every = Math.ceil(Math.max(...xAxis.ticks.map(([, text]) => 7 * text.length + 6), 1) / room);
  xAxis.ticks.forEach(([u, text], n) => {
    root.append(svg("path", { class: "grid", d: `M${x(u)} ${top}V${height - bottom}` }));
    if (n % every === 0) root.append(svg("text", { x: x(u), y: height - bottom + 17, "text-anchor": "middle" }, text));
  });
  for (const [u, text] of yAxis.ticks) {
    root.append(svg("path", { class: "grid", d: `M${left} ${y(u)}H${width - right}` }));
    root.append(svg("text", { x: left - 7, y: y(u) + 4, "text-anchor": "end" }, fitted(text)));
  }
  root.append(
    svg("path", { class: "axis line", d: `M${left} ${top}V${height - bottom}H${width - right}` }),
    svg("text", { class: "name", x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, xAxis.label),
    svg("text", { class: "name", transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yAxis.label),
  );
  return { root, x, y, box: [left, top, width - left - right, height - top - bottom] };
}

/** A mark of a training: filled if it was trained to the end, hollow if short, a cross without a score. */
function mark(x, y, { shape = "circle", colour, hollow, row, size = 1 }) {
  const paint = shape === "cross" ? { stroke: "var(--lost)", "stroke-width": 2.2, fill: "none" }
    : hollow ? { fill: "var(--card)", "fill-opacity": 0.35, stroke: colour, "stroke-width": 2.4 } : { fill: colour, stroke: "var(--ink)", "stroke-width": 1 };
  return svg("path", { d: SHAPES[shape], transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})`, "data-row": row, ...paint });
}

/** A small mark for a key. */
function sign(options) {
  return svg("svg", { width: 18, height: 18, viewBox: "-11 -11 22 22", "aria-hidden": "true" }, mark(0, 0, { colour: "var(--muted)", ...options }));
}

/** A line through points [[x, y] in px]; gaps at null. */
function path(points, attributes) {
  const isGap = (point) => !point?.every((value) => isKnown(value) && Number.isFinite(value));
  const steps = points.map((point, n) => (isGap(point) ? "" : `${isGap(points[n - 1]) ? "M" : "L"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`));
  return svg("path", { class: "line", d: steps.join(""), ...attributes });
}

/** Rows of a label, a dot with its interval and a text on an axis; without an axis bars from 0 to 1. items: {label, value, low, high, text}. */
function rows(items, axis) {
  const percent = (value) => `${(100 * (axis ? placeOn(axis, value) : value)).toFixed(2)}%`;
  const put = (kind, left, width) => {
    const part = make("i", { class: kind });
    Object.assign(part.style, { left, width });
    return part;
  };
  const grid = make("div", { class: "rows" }), single = items.filter(({ value }) => isKnown(value)).length < 2;
  items.forEach(({ label, value, low, high, text }, n) => {
    const first = n || !axis ? "" : " first";
    const track = make("span", { class: `track${first}` });
    if (isKnown(value) && !(axis && single)) track.append(axis ? put("dot", percent(value), "") : put("bar", "0", percent(value)));
    if (isKnown(low)) track.append(put("span", percent(low), `calc(${percent(high)} - ${percent(low)})`));
    grid.append(make("span", { class: `name${first}` }, label), make("span", { class: "value" }, text), track);
  });
  const ticks = (axis?.ticks ?? []).map(([at, text]) => {
    const tick = make("span", {}, text);
    tick.style.left = `${(100 * at).toFixed(2)}%`;
    return tick;
  });
  if (axis && !single) grid.append(make("span", { class: "ends" }, ...ticks.filter((_, n) => n % Math.ceil(ticks.length / 4) === 0)));
  return grid;
}

