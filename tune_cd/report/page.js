"use strict";
// The page itself: its state, its drawing and its controls. Data enter the document only through textContent.

const KEY = `tune_cd report ${location.pathname}`;
const CONFIG = { displayModeBar: false, responsive: false, displaylogo: false };
const KINDS = { caution: "Caution" };
/** Matches a printed number, with its interval if it has one, or a dash or nothing. */
const NUMERIC = /^[-+−>]?\d[\d.,]*(e[-+]?\d+)?( ?± ?[\d.,]+)?( ?%)?( \([>\d.]+( to [>\d.]+)?\))?$|^[-–]?$/;
const SVG = "http://www.w3.org/2000/svg";

const payload = JSON.parse(document.getElementById("payload").textContent);
const state = {
  study: null, plane: null, score: null, slice: null, path: false, pathSearch: null, split: "best", clock: "trials",
  sort: null, filter: "", status: "", page: 0, chosen: null, ...remembered(),
};

const $ = (id) => document.getElementById(id);

/** The state in which the page was left; {} if the browser has stored nothing, as it may for local files. */
function remembered() {
  try { return JSON.parse(sessionStorage.getItem(KEY)) ?? history.state ?? {}; } catch { return history.state ?? {}; }
}

function remember() {
  try { sessionStorage.setItem(KEY, JSON.stringify(state)); } catch { /* see `remembered` */ }
}

/** An element with attributes; children that are strings become text, never markup. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== "") element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, label]) => new Option(label, value)));
  select.value = chosen;
}

function definitions(list, pairs) {
  list.replaceChildren(...pairs.flatMap(([label, text]) => [make("dt", {}, label), make("dd", {}, String(text))]));
}

/** A small drawing for a legend: shapes is [[tag, attributes], ...] in a box of 28 by 18. */
function sign(shapes, box = "0 0 28 18") {
  const svg = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ class: "sign", viewBox: box, width: 28, height: 18, "aria-hidden": "true" })) svg.setAttribute(name, value);
  for (const [tag, attributes] of shapes) {
    const shape = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
    svg.append(shape);
  }
  return svg;
}

/** A status's colour with a shape of its own, for readers who cannot distinguish the colours. */
function statusSign(status) {
  const fill = (STATUSES[status] ?? STATUSES.stopped).colour;
  const shapes = {
    completed: [["circle", { cx: 9, cy: 9, r: 6, fill }]],
    diverged: [["path", { d: "M9 2 L16 15 L2 15 Z", fill }]],
    failed: [["path", { d: "M3 3 L15 15 M15 3 L3 15", stroke: fill, "stroke-width": 3.4, fill: "none" }]],
  };
  return sign(shapes[status] ?? [["rect", { x: 3, y: 3, width: 12, height: 12, fill }]], "0 0 18 18");
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const entries = ["paper", "panel", "ink", "muted", "line", "accent", "grid", "lost"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
  return { ...Object.fromEntries(entries), font: style.fontFamily, dark };
}

/** The chosen study, with the chosen pair of weights if it has several pairs. */
function study() {
  const one = payload.studies.find((other) => other.name === state.study) ?? payload.studies[0];
  const plane = one?.planes?.find(({ name }) => name === state.plane);
  return plane ? { ...one, ...plane, name: one.name, plane: plane.name } : one;
}

/** The state, with choices that this study lacks replaced by its first one. slice: an index. */
function view(one) {
  const names = one.scores.map((score) => score.name);
  const score = names.includes(state.score) ? state.score : names[0];
  const slice = sliderTicks(one).indexOf(state.slice);
  const best = bestCell(one, score);
  const searches = [...new Set(one.lines.map((line) => line.search))];
  const search = searches.includes(state.pathSearch) ? state.pathSearch : searches[0];
  const first = best < 0 ? 0 : one.grid.cells.at[best][2] ?? 0;
  return { score, slice: slice >= 0 ? slice : first, searches, search, path: state.path && search !== undefined ? search : null };
}

/** Shows the parts of a section, or else a sentence that says why there is nothing to show. */
function either(name, sentence) {
  $(`${name}-empty`).hidden = !sentence;
  $(`${name}-empty`).textContent = sentence ?? "";
  $(`${name}-whole`).hidden = Boolean(sentence);
  return !sentence;
}

function draw(name, { data, layout }) {
  const chart = $(name);
  if (chart.layout && chart.layout.width !== layout.width) Plotly.purge(chart); // otherwise the margins of the old colour bar stay
  Plotly.react(chart, data, layout, CONFIG);
  for (const event of ["plotly_hover", "plotly_unhover", "plotly_click"]) chart.removeAllListeners(event);
  chart.on("plotly_hover", ({ points: [point], event }) => showTip(point.customdata?.[0], event));
  chart.on("plotly_unhover", hideTip);
}

/** Shows lines of text beside the pointer, inside the window. */
function showTip(lines, { clientX, clientY }) {
  if (!lines) return;
  const tip = $("tip");
  tip.replaceChildren(...lines.map((line) => (Array.isArray(line) ? make("strong", {}, line[0]) : make("span", {}, line))));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = clientX + 18;
  tip.style.left = `${Math.max(8, right + width < innerWidth - 8 ? right : Math.min(clientX - 18, innerWidth - 8) - width)}px`;
  tip.style.top = `${Math.max(8, Math.min(clientY - height / 2, innerHeight - height - 8))}px`;
}

function hideTip() {
  $("tip").hidden = true;
}

// ---------------------------------------------------------------- header and summary

function drawHeader() {
  $("title").textContent = payload.title;
  $("written").textContent = `Written ${moment(Date.parse(payload.created) / 1000)} UTC`;
  $("study-box").hidden = payload.studies.length < 2;
  options($("study"), payload.studies.map(({ name }) => [name, name]), study()?.name);
  $("notes").hidden = !payload.notes.length;
  $("notes").replaceChildren(...payload.notes.map((note) => make("li", {}, note)));
}

/** A sentence with text between backticks as code. */
function prose(text) {
  const code = (part) => make("code", { class: part.length < 30 ? "short" : "" }, part);
  return text.split("`").map((part, n) => (n % 2 ? code(part) : part));
}

function drawSummary(one) {
  const lead = one.words.findIndex(({ kind }) => kind === "result");
  $("words").replaceChildren(...one.words.map(({ head, text, kind }, n) => make("article", { class: `word ${kind}${n === lead ? " lead" : ""}` },
    ...(KINDS[kind] ? [make("span", { class: "kind" }, KINDS[kind])] : []), make("h3", {}, head), make("p", {}, ...prose(text)))));
  const counts = Object.entries(one.status).filter(([, count]) => count);
  $("statuses").replaceChildren(...counts.map(([status, count]) => make("li", {}, statusSign(status), `${count.toLocaleString("en-GB")} ${status}`)));
  $("statuses").hidden = !counts.length;
  $("statuses").parentElement.hidden = !counts.length && !one.facts.length;
  $("summary").hidden = !counts.length && !one.facts.length && !one.words.length;
  definitions($("facts"), one.facts);
  $("provenance").hidden = !one.provenance.length;
  definitions($("provenance-list"), one.provenance);
}

function drawSmallTables(one) {
  const tables = [...one.tables, ...(payload.tables ?? [])]; // the study's own tables, then those that compare studies
  $("tables-section").hidden = !tables.length;
  $("tables-section").replaceChildren(...tables.map(({ title, columns: heads, rows, note }) => {
    const numeric = heads.map((_, n) => rows.length > 0 && rows.every((row) => row[n] === null || typeof row[n] === "number" || NUMERIC.test(row[n])));
    const cell = (tag, attributes) => (value, n) => make(tag, { ...attributes, class: numeric[n] ? "number" : "" }, typeof value === "string" ? value : show(value));
    const head = make("thead", {}, make("tr", {}, ...heads.map(cell("th", { scope: "col" }))));
    const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell("td", {})))));
    const scroll = make("div", { class: "scroll", role: "region", "aria-label": title, tabindex: "0" }, make("table", {}, head, body));
    return make("div", {}, make("h2", {}, title), scroll, ...(note ? [make("p", { class: "quiet" }, note)] : []));
  }));
}

// ---------------------------------------------------------------- landscape

function noLandscape(one) {
  if (!one.trials.trial_id.length) return "No trial has ended yet, so there is no landscape to show.";
  if (!one.axes.length || !one.grid) return "No parameter was searched in a way that can be drawn, so there is no landscape.";
  return one.grid.cells.at.length && one.scores.length ? null : "No setting has a score, so there is no landscape to show.";
}

function drawLandscape(one) {
  if (!either("landscape", noLandscape(one))) return;
  const now = view(one);
  const planes = (one.planes ?? []).map(({ name }) => [name, name]);
  $("plane-box").hidden = planes.length < 2;
  options($("plane"), planes, one.plane ?? planes[0]?.[0]);
  const scores = one.scores.map(({ name, label }) => [name, label]);
  options($("score"), scores, now.score);
  drawSlider(one, now);
  $("path-box").hidden = !now.searches.length || one.axes.length < 2;
  $("path").checked = state.path;
  $("path-search-box").hidden = now.searches.length < 2 || !state.path;
  options($("path-search"), now.searches.map((name) => [name, name]), now.search);
  $("path-lines").hidden = now.path === null;
  const lines = one.lines.filter((line) => line.search === now.path);
  $("path-lines").replaceChildren(...lines.map(({ direction, trials }) => make("li", {}, `${direction}, ${trials.length} ${trials.length === 1 ? "trial" : "trials"}`)));
  drawKey(one, now);
  drawChosen(one, now);
  const label = Object.fromEntries(scores)[now.score];
  $("landscape").setAttribute("aria-label", `${label} over ${one.axes.map((axis) => axis.label).join(", ")}; the same numbers are in the table of trials`);
  const chart = $("landscape");
  draw("landscape", landscapeFigure(one, now, theme(), chart.clientWidth));
  chart.on("plotly_click", ({ points: [point] }) => { if (point.customdata) choose(one, point.customdata[1]); });
}

function drawSlider(one, now) {
  const ticks = sliderTicks(one);
  $("slice-box").hidden = one.axes.length < 3;
  if (one.axes.length < 3) return;
  const text = `${one.axes[2].label} = ${show(ticks[now.slice])}`;
  $("slice").max = ticks.length - 1;
  $("slice").value = now.slice;
  $("slice").setAttribute("aria-valuetext", text);
  $("slice-text").textContent = text;
  $("slice-down").disabled = now.slice === 0;
  $("slice-up").disabled = now.slice === ticks.length - 1;
  for (const id of ["slice", "slice-down", "slice-up"]) $(id).hidden = ticks.length < 2;
}

const STAR = "M14 1 L16.2 6.6 22.2 7 17.6 10.8 19.1 16.6 14 13.4 8.9 16.6 10.4 10.8 5.8 7 11.8 6.6 Z";
const DASHES = ["5 3", "2 2.5", "6 2 1.5 2", "9 3"]; // as DIAGONAL_DASHES

function drawKey(one, now) {
  const full = one.grid.full && one.axes.length > 1;
  const cells = sliceCells(one, now);
  const ink = { fill: "none", stroke: "currentColor", "stroke-width": 2 };
  const cross = (stroke) => ["path", { ...ink, d: "M10 5 L18 13 M18 5 L10 13", stroke }];
  const square = (fill, stroke) => ["rect", { x: 7, y: 2, width: 14, height: 14, fill, stroke }];
  const items = [];
  if (cells.some((cell) => cell.value !== null)) {
    const outline = full ? ["rect", { ...ink, x: 7, y: 2, width: 14, height: 14 }] : ["circle", { ...ink, cx: 14, cy: 9, r: 6.5 }];
    if (outlined(one, now.score)) items.push([[outline], `the best ${one.top}${one.axes.length > 2 ? " of this slice" : ""}`]);
    const star = ["path", { d: STAR, fill: full ? "var(--paper)" : "currentColor", stroke: "currentColor", "stroke-width": 1.3 }];
    if (cells.some((cell) => cell.c === bestCell(one, one.scores[0].name))) items.push([[star], "the best by validation"]);
  }
  if (cells.some((cell) => cell.value === null)) {
    items.push([full ? [square("var(--lost)", "none"), cross(DARK)] : [cross(STATUSES.failed.colour)], "run, but without a value"]);
  }
  if (full && cells.length < one.grid.ticks[0].length * one.grid.ticks[1].length) items.push([[square("var(--paper)", "var(--line)")], "never run"]);
  one.averages.forEach(({ label, ratio }, n) => {
    const line = ["path", { ...ink, d: "M2 9 H26", "stroke-dasharray": DASHES[n % DASHES.length] }];
    if (one.axes.length > 1 && known([ratio[now.slice]]).length) items.push([[line], label]);
  });
  $("key").replaceChildren(...items.map(([shapes, text]) => make("li", {}, sign(shapes), text)));
}

/** Index of the clicked cell, -1 for none; it is stored by its values. */
function chosenCell(one) {
  return state.chosen && one.grid ? one.grid.cells.at.findIndex((at) => one.axes.every((_, n) => one.grid.ticks[n][at[n]] === state.chosen[n])) : -1;
}

function settingText(one, c) {
  return one.axes.map((axis, n) => `${axis.label} = ${show(one.grid.ticks[n][one.grid.cells.at[c][n]])}`).join(", ");
}

function drawChosen(one, now) {
  const c = chosenCell(one);
  if (c < 0) return void $("chosen").replaceChildren(make("p", { class: "quiet" }, "Click a setting to see its trials alone in the table."));
  const count = one.grid.cells.trials[c].length;
  const [number, seeds] = cellScore(one, now.score, c);
  $("chosen").replaceChildren(make("p", {}, make("strong", {}, settingText(one, c))), make("p", {}, `${scoreLabel(one, now.score)}: ${number}${seeds && `, ${seeds}`}`),
    make("a", { href: "#trials-section" }, count === 1 ? "Its trial is in the table" : `Its ${count} trials are in the table`));
}

function choose(one, c) {
  const at = one.grid.cells.at[c];
  change({ chosen: one.axes.map((_, n) => one.grid.ticks[n][at[n]]), page: 0, filter: "", status: "" }, drawLandscape, drawTrials);
}

// ---------------------------------------------------------------- curves, timeline, trials

function drawCurves(one) {
  if (!either("curves", hasCurves(one) ? null : "No trial has a score yet, so there is no curve.")) return;
  const has = (name) => one.curves.some((curve) => known(curve[name]).length);
  for (const [select, value] of [["split", state.split], ["clock", state.clock]]) {
    for (const option of $(select).options) option.disabled = !has(option.value);
    $(select).value = has(value) ? value : [...$(select).options].find((option) => !option.disabled)?.value;
  }
  draw("curves", curvesFigure(one, { split: $("split").value, clock: $("clock").value }, theme(), $("curves").clientWidth));
}

function drawLearning(one) {
  if (!either("learning", one.learning.length ? null : "No training of these trials has stored its learning curve.")) return;
  const paused = one.learning.filter(({ row }) => one.trials.status[row] === "stopped").length;
  const why = " Going on with them was expected to gain less, by the image, than what was trained instead; none is given up for good.";
  $("learning-text").textContent = `${one.learning.length} trainings; the best is drawn bold.${paused ? ` Open circles: ${paused} that have paused.${why}` : ""}`;
  draw("learning", learningFigure(one, theme(), $("learning").clientWidth));
}

function drawTimeline(one) {
  const timed = timedRuns(one);
  if (!either("timeline", timed.length ? null : "No trial says when it began and ended.")) return;
  const absent = one.trials.trial_id.length - new Set(timed.map((run) => run.row)).size;
  const seconds = timed.reduce((sum, run) => sum + run.to - run.from, 0);
  const [from, to] = span(one);
  const side = extent(lanes(timed))[1] + 1;
  $("timeline-text").textContent = `${duration(seconds)} of trials within ${duration(to - from)}, at most ${side} at a time; times are UTC.${absent ? ` ${absent} without times are left out.` : ""}`;
  draw("timeline", timelineFigure(one, theme(), $("timeline").clientWidth));
}

function drawTrials(one) {
  if (!either("trials", one.trials.trial_id.length ? null : "No trial is in the table yet.")) return;
  const all = columns(one);
  const same = sameInAll(one, all);
  const shown = all.filter((column) => !same.includes(column));
  const chosen = chosenCell(one);
  const statuses = Object.keys(STATUSES).filter((status) => one.trials.status.includes(status));
  options($("status"), [["", "any"], ...statuses.map((status) => [status, status])], statuses.includes(state.status) ? state.status : "");
  if ($("filter").value !== state.filter) $("filter").value = state.filter;
  $("unchoose").hidden = chosen < 0;
  $("unchoose").textContent = chosen < 0 ? "" : `Only ${settingText(one, chosen)}  ✕`;
  const rows = filteredRows(one, all, state.filter, $("status").value, chosen < 0 ? null : one.grid.cells.trials[chosen]);
  const sort = sorting(one, shown);
  drawPage(rows, shown, sort);
  $("same").textContent = same.length ? `The same in all trials: ${same.map((column) => `${column.head} ${cellString(column, column.values[0])}`).join(", ")}.` : "";
}

/** The chosen column to sort by, or else the first score, best first. */
function sorting(one, shown) {
  if (state.sort && shown.some(({ key }) => key === state.sort.key)) return state.sort;
  return { key: `scores.${one.scores[0]?.name}`, down: true };
}

function drawPage(rows, shown, sort) {
  const by = shown.find(({ key }) => key === sort.key);
  const sorted = by ? sortedRows(rows, by, sort.down) : rows;
  const last = Math.max(0, Math.ceil(rows.length / PAGE_ROWS) - 1);
  state.page = Math.min(Math.max(state.page, 0), last);
  const from = state.page * PAGE_ROWS;
  const focused = document.activeElement?.id;
  const onSort = (key) => change({ sort: { key, down: sort.key === key ? !sort.down : false }, page: 0 }, drawTrials);
  drawTable($("trials"), shown, sorted.slice(from, from + PAGE_ROWS), sort, onSort);
  if (focused?.startsWith("sort-")) $(focused)?.focus();
  const group = (count) => count.toLocaleString("en-GB");
  $("page-text").textContent = rows.length ? `${group(from + 1)}–${group(Math.min(from + PAGE_ROWS, rows.length))} of ${group(rows.length)}` : "no trial like this";
  for (const id of ["page-first", "page-down"]) $(id).disabled = state.page === 0;
  for (const id of ["page-up", "page-last"]) $(id).disabled = state.page === last;
}

// ---------------------------------------------------------------- controls

function change(changes, ...drawings) {
  Object.assign(state, changes);
  for (const drawing of drawings) drawing(study());
  remember();
}

const CHARTS = [drawLandscape, drawCurves, drawLearning, drawTimeline];

function drawWords() {
  drawHeader();
  const one = study();
  $("nothing").hidden = Boolean(one);
  document.querySelector("main").hidden = !one;
  if (one) for (const drawing of [drawSummary, drawSmallTables, drawTrials]) drawing(one);
}

function drawCharts() {
  if (study()) for (const drawing of CHARTS) drawing(study());
}

function slide(index) {
  change({ slice: sliderTicks(study())[index] }, drawLandscape);
}

function listen() {
  const on = (id, event, act) => $(id).addEventListener(event, (happened) => act(happened.target));
  on("study", "change", ({ value }) => change({ study: value, plane: null, slice: null, chosen: null, page: 0, filter: "", status: "" }, drawWords, drawCharts));
  on("plane", "change", ({ value }) => change({ plane: value, slice: null, chosen: null, page: 0 }, drawLandscape, drawTrials));
  on("score", "change", ({ value }) => change({ score: value }, drawLandscape));
  on("slice", "input", ({ value }) => slide(Number(value)));
  on("slice-down", "click", () => slide(Number($("slice").value) - 1));
  on("slice-up", "click", () => slide(Number($("slice").value) + 1));
  on("path", "change", ({ checked }) => change({ path: checked }, drawLandscape));
  on("path-search", "change", ({ value }) => change({ pathSearch: value }, drawLandscape));
  on("split", "change", ({ value }) => change({ split: value }, drawCurves));
  on("clock", "change", ({ value }) => change({ clock: value }, drawCurves));
  on("filter", "input", ({ value }) => change({ filter: value, page: 0 }, drawTrials));
  on("status", "change", ({ value }) => change({ status: value, page: 0 }, drawTrials));
  on("unchoose", "click", () => { change({ chosen: null, page: 0 }, drawLandscape, drawTrials); $("filter").focus(); });
  on("page-first", "click", () => change({ page: 0 }, drawTrials));
  on("page-down", "click", () => change({ page: state.page - 1 }, drawTrials));
  on("page-up", "click", () => change({ page: state.page + 1 }, drawTrials));
  on("page-last", "click", () => change({ page: Infinity }, drawTrials));
}

/** Redraws the charts when their width or colours change. Printed pages are white and narrower, whatever the screen. */
function listenToTheWindow() {
  addEventListener("scroll", hideTip, { passive: true });
  let waiting;
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // only the height changed, as when a phone hides its address bar
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawCharts, 120);
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", drawCharts);
}

/** Draws everything that needs plotly. Its 5 MB are read after the text is on the screen. */
function start() {
  drawCharts();
  listen();
  listenToTheWindow();
  document.documentElement.dataset.ready = "yes";
}

drawWords();
