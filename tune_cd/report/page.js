"use strict";
// The page: one study at a time, from the payload. Data enter the document only through text nodes and attributes.
//   params: [{label, scale, ticks, near, at: place of each row, values}]   scores: [{label, down, values}]
//   trials: columns, a value for each row   best.rows: rows of the best setting, the named trial first
//   shades: predicted scores over pairs of params   recipes: lines over pairs of weights   learning, curves: lines

const payload = JSON.parse(document.getElementById("payload").textContent);
const $ = (id) => document.getElementById(id);
const PAGE_ROWS = 50;
const NUMERIC = /^[-+−>]?\d[\d.,]*(e[-+]?\d+)?( ?± ?[\d.,]+)?( ?%)?( \([>\d.]+( to [>\d.]+)?\))?$|^[-–]?$/;
const ENDS = { finished: "trained to the end", paused: "paused", stopped: "stopped early", diverged: "diverged", failed: "failed" };
const state = { study: 0, x: "0", y: "1", colour: "0", only: "", whole: false, filter: "", ended: "", sort: null, shown: PAGE_ROWS };
const study = () => payload.studies[state.study];

// ---------------------------------------------------------------- words about rows

const isShort = (one, row) => one.trials.state[row] === "paused" || one.trials.state[row] === "stopped";

/** How a training ended, the same words everywhere: "paused at 25 %" of its full length. */
function ending(one, row) {
  const [word, share] = [ENDS[one.trials.state[row]], one.trials.share[row]];
  return isKnown(share) && share < 1 ? `${word} at ${show(Math.round(share * 1000) / 10)} %` : word;
}

function moment(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
}

/** Lines about a training: its name, end, parameters, scores. */
function about(one, row) {
  const values = (list) => list.filter(({ values }) => isKnown(values[row])).map(({ label, values }) => `${label} = ${show(values[row])}`);
  const error = (one.trials.error[row] ?? "").replace(/\s+/g, " ");
  return [
    `${one.trials.trial_id[row]}, ${ending(one, row)}`, ...values(one.params), ...values(one.scores.slice(0, 2)),
    ...(isKnown(one.trials.seed[row]) ? [`seed ${one.trials.seed[row]}`] : []), ...(error ? [error.slice(0, 160)] : []),
  ];
}

function tell(lines, x, y) {
  const tip = $("tip");
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines.map((line, n) => make(n ? "span" : "strong", {}, line)));
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, x + 16 + width < innerWidth ? x + 16 : x - 16 - width)}px`;
  tip.style.top = `${Math.max(8, Math.min(y - height / 2, innerHeight - height - 8))}px`;
}

/** A drawing in its section: pointing, touching and the arrow keys tell of its rows; Enter and clicks find them in the table. */
function hang(section, root) {
  const chart = $(section).querySelector(".chart");
  const focused = chart.contains(document.activeElement);
  chart.replaceChildren(root);
  const rowsOf = () => [...root.querySelectorAll("[data-row]")];
  let at = -1;
  const point = (mark, x, y) => {
    root.querySelector(".at")?.classList.remove("at");
    mark.classList.add("at");
    tell(about(study(), Number(mark.dataset.row)), x, y);
  };
  root.addEventListener("pointermove", ({ target, clientX, clientY }) => tell(target.dataset?.row ? about(study(), Number(target.dataset.row)) : null, clientX, clientY));
  root.addEventListener("pointerleave", () => tell(null));
  root.addEventListener("blur", () => tell(null));
  root.addEventListener("click", ({ target }) => { if (target.dataset?.row) find(Number(target.dataset.row)); });
  root.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const marks = rowsOf();
    if (event.key === "Escape") tell(null);
    if (event.key === "Enter" && at >= 0) find(Number(marks[at].dataset.row));
    if (!step || !marks.length) return;
    event.preventDefault();
    at = (at + step + marks.length) % marks.length;
    const { x, y, width } = marks[at].getBoundingClientRect();
    point(marks[at], x + width, y);
  });
  if (focused) root.focus();
}

function find(row) {
  Object.assign(state, { filter: study().trials.trial_id[row], ended: "", shown: PAGE_ROWS });
  drawTrials();
  tell(null);
  $("trials").scrollIntoView({ block: "nearest" });
}

// ---------------------------------------------------------------- first screen

/** Text with code between backticks. */
const prose = (text) => text.split("`").map((part, n) => (n % 2 ? make("code", {}, part) : part));

/** Below each section, the words of the glossary that it uses and none before it explains. */
function explain() {
  const left = new Map(Object.entries(payload.glossary));
  for (const section of document.querySelectorAll("section:not([hidden])")) {
    section.querySelector(".terms")?.remove();
    const text = `${section.innerText} ${section.querySelector("svg")?.textContent ?? ""}`;
    const used = [...left].filter(([word]) => new RegExp(`(^|[^\\p{L}_-])${word}${word === "b" ? "(?= =| \\d)" : `($|s|\\d|[^\\p{L}_-])`}`, "u").test(text));
    for (const [word] of used) left.delete(word);
    if (used.length) section.append(make("p", { class: "terms" }, ...used.flatMap(([word, meaning]) => [make("b", {}, word), ` ${meaning}. `])));
  }
}

function put(id, heading, ...children) {
  $(id).replaceChildren(make("h2", {}, heading), ...children);
  $(id).hidden = !children.length;
}

const words = (one, test) => one.words.filter(({ head }) => test.test(head)).map(({ head, text, kind }) => make("div", { class: `word ${kind}` }, make("b", {}, head), ...prose(text)));

function drawHeader(one) {
  $("title").textContent = one.title;
  document.title = one.title;
  const when = isKnown(one.ended) ? `, ${new Date(one.ended * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" })}` : "";
  $("sub").textContent = `study ${one.name}${when}`;
  $("chips").replaceChildren(...one.chips.map((text) => make("li", {}, text)));
}

function drawFirst(one) {
  const [told] = one.worth.rows;
  if (!one.best) put("best", "No result yet", ...words(one, /^No result/));
  else {
    const half = isKnown(told.low) ? ` ± ${show(Number(((told.high - told.low) / 2).toPrecision(2)))}` : "";
    const row = one.best.rows[0];
    const by = one.scores[0];
    const sure = half ? ` over ${told.seeds} (95 % interval)` : isKnown(one.trials.seed[row]) ? ", one training: how much of it is chance is not known" : ", seed not recorded: how much of it is chance is not known";
    put("best", `Best setting, chosen by ${by.label}`,
      make("p", { class: "setting" }, ...one.best.setting.map(([label, text]) => make("span", {}, `${label} ${text}`))),
      make("p", { class: "score" }, `${one.worth.label} `, make("strong", {}, show(told.value)), make("span", { class: "quiet" }, half + sure)),
      make("p", { class: "quiet" }, `${one.worth.label === by.label ? "" : `${by.label} ${show(by.values[row])}, `}trial ${one.trials.trial_id[row]} of ${one.trials.search[row]}, ${ending(one, row)}.`));
  }
  const compared = one.worth.rows.slice(1);
  const rest = words(one, /^(Over |Without balancing)/);
  put("worth", `What it is worth: ${one.worth.label}${one.worth.rows.some(({ low }) => isKnown(low)) ? ", with 95 % intervals over seeds" : ""}`, ...(compared.length ? [
    rows(one.worth.rows.map((row) => ({ ...row, text: show(row.value) }))),
    ...one.worth.rows.filter(({ verdict }) => verdict).map(({ gain, verdict }) => make("p", { class: "verdict" }, make("strong", {}, gain), ` ${verdict}`)),
    ...(rest.length ? [make("details", {}, make("summary", {}, "How it was compared"), ...rest)] : []),
  ] : rest));
  $("worth").querySelector("details")?.addEventListener("toggle", explain);
  put("importance", "Which parameter matters: share of the score's variation", ...(one.params.length > 2 && one.importance.length ? [
    rows(one.importance.map(([label, value, low, high]) => ({ label, value, low, high, text: value.toFixed(2) })), { bars: true }),
    make("p", { class: "quiet" }, "How much the predicted score varies when this parameter alone moves over its range, as a share of the whole variance, with 95 % intervals (total Sobol index of a Gaussian process through all scores). Parameters that act together share, so the sum may exceed 1."),
  ] : []));
  put("sure", "How sure, and what next", ...words(one, /^(Few images|Better by|How sure|Trials that|Trained short|Stopped early|What to try)/));
  drawUse(one);
}

function drawUse(one) {
  const code = make("pre", { id: "code", role: "tabpanel", tabindex: 0 });
  const tabs = one.use.map(([name], n) => make("button", { type: "button", role: "tab", id: `tab-${n}`, "aria-controls": "code" }, name));
  const choose = (n) => {
    tabs.forEach((tab, m) => { tab.setAttribute("aria-selected", String(m === n)); tab.tabIndex = m === n ? 0 : -1; });
    code.textContent = one.use[n][1];
    code.setAttribute("aria-labelledby", `tab-${n}`);
  };
  tabs.forEach((tab, n) => {
    tab.addEventListener("click", () => choose(n));
    tab.addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      if (step) { const next = (n + step + tabs.length) % tabs.length; choose(next); tabs[next].focus(); }
    });
  });
  put("use", "Use it", ...(tabs.length ? [make("div", { class: "tabs", role: "tablist", "aria-label": "Ways to use it" }, ...tabs), code] : []));
  if (tabs.length) choose(0);
}

// ---------------------------------------------------------------- landscape

/** Axis n of the landscape as `frame` draws it: a parameter, near the best or whole, or the score. */
function landscapeAxis(one, n, score) {
  if (n === "score") return { ...score.axis, from: 0, to: 1, places: score.values.map(score.axis.at) };
  const param = one.params[n];
  const some = known(param.at);
  const near = !state.whole && param.near;
  const room = param.scale === "category" ? 0.25 : 0.04;
  const label = param.scale === "category" ? param.label : `${param.label} (${param.scale} scale)`;
  return { label, ticks: near ? near.ticks : param.ticks, from: near ? near.from : Math.min(0, ...some) - room, to: near ? near.to : Math.max(1, ...some) + room, places: param.at };
}

/** Score n with its axis, and its values as shades from 0, the worst, to 1. */
function scoreOf(one, n) {
  if (n === "order") return { label: "order of asking", values: one.trials.trial_index, ...shading(one.trials.trial_index, false), axis: numberAxis("order of asking", one.trials.trial_index) };
  const score = one.scores[n];
  return { ...score, ...shading(score.values, score.down), axis: numberAxis(score.label, score.values) };
}

/** Shades of values from the worst to the best; the worst twentieth shares a shade, so that a few outliers do not take the scale. */
function shading(values, down) {
  const ranked = known(values).sort((a, b) => (down ? b - a : a - b));
  const [low, high] = [ranked[Math.floor(ranked.length * 0.05)], ranked.at(-1)];
  return { tint: (value) => shade(low === high ? 1 : (value / 2 - low / 2) / (high / 2 - low / 2)), ends: [ranked[0], high] };
}

function drawLandscape(one) {
  $("landscape").hidden = !one.params.length || !one.scores.length;
  if ($("landscape").hidden) return;
  const score = scoreOf(one, state.colour === "order" ? "order" : Number(state.colour));
  const at = (name) => (state[name] === "score" ? "score" : Number(state[name]));
  const shown = at("x") === "score" || at("y") === "score" ? scoreOf(one, state.colour === "order" ? 0 : Number(state.colour)) : score;
  const [xAxis, yAxis] = [landscapeAxis(one, at("x"), shown), landscapeAxis(one, at("y"), shown)];
  const chart = $("landscape").querySelector(".chart");
  const width = chart.clientWidth, height = Math.round(Math.min(width * (width < 500 ? 1 : 0.74), 560));
  const { root, x, y, box: [left, top, w, h] } = frame(width, height, xAxis, yAxis, `${score.label} over ${xAxis.label} and ${yAxis.label}; use the arrow keys to step through the trainings, or read the table`);
  root.append(svg("clipPath", { id: "inside" }, svg("rect", { x: left, y: top, width: w, height: h })));
  const inside = svg("g", { "clip-path": "url(#inside)" });
  root.append(inside);
  drawShade(one, score, at("x"), at("y"), inside, x, y);
  const lines = drawRecipes(one, at("x"), at("y"), inside, x, y);
  const beyond = drawMarks(one, score, xAxis, yAxis, root, x, y, [left, top, w, h]);
  root.append(...lines);
  hang("landscape", root);
  drawKey(one, score, beyond);
}

function drawShade(one, score, i, j, inside, x, y) {
  const pair = state.colour === "0" && one.shades.find((shade) => (shade.x === i && shade.y === j) || (shade.x === j && shade.y === i));
  if (!pair || state.only) return;
  const edges = (places) => { // [n + 1] around equally spaced places
    const step = places.length > 1 ? (places.at(-1) - places[0]) / (places.length - 1) : 0.5;
    return [...places.map((_, n) => places[0] + (n - 0.5) * step), places[0] + (places.length - 0.5) * step];
  };
  const turned = pair.x !== i;
  const across = edges(turned ? pair.ys : pair.xs).map((u) => Math.round(x(u))), up = edges(turned ? pair.xs : pair.ys).map((v) => Math.round(y(v)));
  pair.z.forEach((value, k) => {
    if (!isKnown(value)) return;
    const [m, n] = [k % pair.xs.length, Math.floor(k / pair.xs.length)];
    const [c, r] = turned ? [n, m] : [m, n];
    inside.append(svg("rect", { x: across[c], y: up[r + 1], width: across[c + 1] - across[c], height: up[r] - up[r + 1], fill: score.tint(value), opacity: 0.28, "shape-rendering": "crispEdges" }));
  });
}

function drawRecipes(one, i, j, inside, x, y) {
  return one.recipes.filter((line) => (line.x === i && line.y === j) || (line.x === j && line.y === i)).map((line, n) => {
    const points = line.points.map(([u, v]) => (line.x === i ? [x(u), y(v)] : [x(v), y(u)]));
    inside.append(path(points, { stroke: "var(--ink)", "stroke-width": 1.6, "stroke-dasharray": DASHES[n % 2 ? 2 : 1] }));
    const [[x0, y0], [x1, y1]] = points;
    const { width, height } = inside.ownerSVGElement.viewBox.baseVal;
    const along = Array.from({ length: 60 }, (_, k) => [x0 + (k / 60) * (x1 - x0), y0 + (k / 60) * (y1 - y0)]);
    const seen = along.filter(([px, py]) => px > 60 && px < width - 20 && py > 20 && py < height - 60); // within the drawing
    if (!seen.length) return null;
    const [px, py] = seen[Math.floor(seen.length * (n % 2 ? 0.3 : 0.15))];
    const angle = (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI;
    return svg("text", { class: "casing", transform: `translate(${px} ${py}) rotate(${angle}) translate(0 -5)` }, line.label);
  }).filter(Boolean);
}

/** The category that shapes tell apart: the first one on neither axis. */
function shaped(one) {
  const param = one.params.find(({ order }, n) => order && order.length <= 6 && state.x !== String(n) && state.y !== String(n));
  const shapes = Object.keys(SHAPES);
  return { param, of: (row) => (param ? shapes[param.order.indexOf(param.values[row])] : null) ?? "circle" };
}

/** The rows that the filter admits, of "param:value". */
function admitted(one) {
  const [n, ...rest] = state.only.split(":");
  const value = rest.join(":");
  return (row) => !state.only || String(one.params[n].values[row]) === value;
}

function drawMarks(one, score, xAxis, yAxis, root, x, y, [left, top, w, h]) {
  const star = one.best?.rows[0];
  const [shape, may] = [shaped(one), admitted(one)];
  const placed = one.trials.trial_id.map((_, row) => row).filter((row) => may(row) && isKnown(xAxis.places[row]) && isKnown(yAxis.places[row]));
  const better = (row) => (isKnown(score.values[row]) ? score.values[row] * (score.down ? -1 : 1) : -Infinity);
  const size = placed.length > 400 ? 0.7 : 1;
  let beyond = 0;
  for (const row of placed.sort((a, b) => isShort(one, b) - isShort(one, a) || better(a) - better(b))) {
    const [px, py] = [x(xAxis.places[row]), y(yAxis.places[row])];
    if (row === star) continue;
    if (px < left - 1 || px > left + w + 1 || py < top - 1 || py > top + h + 1) { beyond++; continue; }
    const bare = !isKnown(score.values[row]);
    root.append(mark(px, py, { shape: bare ? "cross" : shape.of(row), colour: bare ? "" : score.tint(score.values[row]), hollow: isShort(one, row), row, size }));
  }
  if (isKnown(star) && isKnown(xAxis.places[star]) && isKnown(yAxis.places[star])) {
    const last = mark(x(xAxis.places[star]), y(yAxis.places[star]), { shape: "star", colour: isKnown(score.values[star]) ? score.tint(score.values[star]) : "none", row: star });
    root.append(filled(last, { "stroke-width": 1.8, class: "star" }, []));
  }
  return beyond;
}

function drawKey(one, score, beyond) {
  const has = (test) => one.trials.state.some((word, row) => test(word, row));
  const items = [[{ shape: "star" }, "best setting"]];
  if (has((word) => word === "finished")) items.push([{}, "trained to the end"]);
  if (has((_, row) => isShort(one, row))) items.push([{ hollow: true }, "trained short, to a share of the full length"]);
  if (has((_, row) => !isKnown(score.values[row]))) items.push([{ shape: "cross" }, "without a score"]);
  const { param, of } = shaped(one);
  for (const value of param?.order ?? []) items.push([{ shape: of(param.values.indexOf(value)) }, `${param.label} ${value}`]);
  const bar = make("span", {});
  bar.style.cssText = `width:90px;height:10px;border-radius:5px;background:linear-gradient(90deg,${[0, 0.2, 0.4, 0.6, 0.8, 1].map(shade).join()})`;
  const ends = score.ends.map(show);
  $("landscape").querySelector(".key").replaceChildren(...items.map(([look, text]) => make("li", {}, sign(look), text)), make("li", {}, ends[0], bar, `${ends[1]} ${score.label}`),
    ...(beyond ? [make("li", {}, `${beyond} more in the whole range`)] : []));
}

function drawChoices(one) {
  const options = (id, pairs) => {
    $(id).replaceChildren(...pairs.map(([value, label]) => new Option(label, value)));
    if (!pairs.some(([value]) => value === state[id])) state[id] = pairs[0]?.[0] ?? "";
    $(id).value = state[id];
  };
  const params = one.params.map(({ label }, n) => [String(n), label]);
  options("x", params);
  options("y", [...params, ["score", "the score"]]);
  if (state.x === state.y) $("y").value = state.y = "score";
  options("colour", [...one.scores.map(({ label }, n) => [String(n), label]), ["order", "order of asking"]]);
  const few = one.params.flatMap(({ label, values }, n) => {
    const tried = [...new Set(known(values))].sort((a, b) => (a > b) - (a < b));
    return tried.length <= 12 ? tried.map((value) => [`${n}:${value}`, `${label} = ${show(value)}`]) : [];
  });
  options("only", [["", "all"], ...few]);
  $("only-box").hidden = !few.length;
  $("whole").checked = state.whole;
  $("whole-box").hidden = !one.params.some(({ near }) => near);
}

// ---------------------------------------------------------------- parallel coordinates and curves

function drawParallel(one) {
  const score = one.scores.length ? scoreOf(one, 0) : null;
  $("parallel").hidden = one.params.length < 3 || !score;
  if ($("parallel").hidden) return;
  const axes = [...one.params.map(({ label, ticks, at, scale }) => ({ label: scale === "log" ? `${label} (log)` : label, ticks, at })), { label: score.label, ticks: score.axis.ticks, at: score.values.map(score.axis.at) }];
  const chart = $("parallel").querySelector(".chart");
  const width = chart.clientWidth, height = 330, [top, bottom, side] = [26, 30, 44];
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", tabindex: 0, "aria-label": "Every training as a line across all parameters; use the arrow keys to step through, or read the table" });
  const x = (n) => side + (n * (width - 2 * side)) / (axes.length - 1), y = (u) => height - bottom - u * (height - top - bottom);
  const better = (row) => (isKnown(score.values[row]) ? score.values[row] * (score.down ? -1 : 1) : -Infinity);
  const order = one.trials.trial_id.map((_, row) => row).filter((row) => isKnown(score.values[row])).sort((a, b) => better(a) - better(b));
  const best = one.best?.rows[0];
  for (const row of [...order.filter((row) => row !== best), ...order.filter((row) => row === best)]) {
    const look = { stroke: score.tint(score.values[row]), "stroke-width": row === best ? 3.5 : 1.5, opacity: row === best ? 1 : 0.75, "stroke-dasharray": isShort(one, row) ? "4 3" : "", "data-row": row };
    root.append(path(axes.map(({ at }, n) => [x(n), isKnown(at[row]) ? y(at[row]) : null]), look));
  }
  axes.forEach(({ label, ticks }, n) => {
    const anchor = n === 0 ? "start" : n === axes.length - 1 ? "end" : "middle";
    const edge = n === 0 ? x(0) - side + 4 : n === axes.length - 1 ? width - 4 : x(n);
    root.append(svg("path", { class: "axis line", d: `M${x(n)} ${top}V${height - bottom}` }), svg("text", { class: "name", x: edge, y: n % 2 && width < 600 ? height - 2 : height - 14, "text-anchor": anchor }, label));
    for (const [u, text] of ticks) root.append(svg("text", { class: "casing", x: x(n) - 4, y: y(u) + 4, "text-anchor": "end" }, text));
  });
  hang("parallel", root);
}

function drawLearning(one) {
  const lines = one.learning.filter(({ y }) => known(y).length);
  $("learning").hidden = !lines.length;
  if (!lines.length) return;
  const score = scoreOf(one, 0);
  const whole = numberAxis(one.lengths, lines.flatMap(({ x }) => x), true);
  const values = numberAxis(score.label, lines.flatMap(({ y }) => y));
  const { root, x, y } = frame($("learning").querySelector(".chart").clientWidth, 320, whole, values, `${score.label} while training; use the arrow keys to step through, or read the table`);
  const best = one.best?.rows[0];
  for (const { row, x: xs, y: ys } of [...lines.filter((line) => line.row !== best), ...lines.filter((line) => line.row === best)]) {
    const colour = isKnown(score.values[row]) ? score.tint(score.values[row]) : "var(--lost)";
    const points = xs.map((seen, n) => [x(whole.at(seen)), isKnown(ys[n]) ? y(values.at(ys[n])) : null]);
    root.append(path(points, { stroke: colour, "stroke-width": row === best ? 3.5 : 1.6, opacity: row === best ? 1 : 0.8, "data-row": row }));
    const [px, py] = points.at(-1);
    if (isKnown(py)) root.append(mark(px, py, { colour, hollow: isShort(one, row), row, size: row === best ? 1 : 0.65 }));
  }
  $("learning").querySelector("p").textContent = `${lines.length} trainings, the best one thick. A filled end was trained to the end, a hollow one short.`;
  hang("learning", root);
}

function drawCurves(one) {
  const lines = one.curves.filter(({ y }) => known(y).length);
  $("curves").hidden = !lines.length;
  if (!lines.length) return;
  const xAxis = numberAxis("whole trainings' worth", lines.flatMap(({ x }) => x), true);
  const yAxis = numberAxis(one.scores[0].label, lines.flatMap(({ y }) => y));
  const { root, x, y } = frame($("curves").querySelector(".chart").clientWidth, 320, xAxis, yAxis, `Best ${one.scores[0].label} so far of each search, over whole trainings' worth of length`);
  const names = [...new Set(lines.map(({ search }) => search))];
  const look = (search) => ({ stroke: COLOURS[names.indexOf(search) % COLOURS.length], "stroke-width": 2.4, "stroke-dasharray": DASHES[names.indexOf(search) % DASHES.length] });
  for (const { search, x: xs, y: ys } of lines) {
    const points = xs.flatMap((at, n) => [...(n && isKnown(ys[n - 1]) ? [[x(xAxis.at(at)), y(yAxis.at(ys[n - 1]))]] : []), [x(xAxis.at(at)), isKnown(ys[n]) ? y(yAxis.at(ys[n])) : null]]);
    root.append(path(points, look(search)));
    const [px, py] = points.at(-1);
    if (points.length < 2 && isKnown(py)) root.append(mark(px, py, { colour: look(search).stroke }));
  }
  hang("curves", root);
  $("curves").querySelector(".key").replaceChildren(...names.map((name) => make("li", {}, svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, path([[1, 6], [33, 6]], look(name))), name)));
}

// ---------------------------------------------------------------- tables

function drawTables(one) {
  $("tables").replaceChildren(...[...one.tables, ...payload.tables].map(({ title, columns, rows: lines, note }) => {
    const numeric = columns.map((_, n) => lines.every((row) => NUMERIC.test(show(row[n]))));
    const cell = (tag, attributes) => (value, n) => make(tag, { ...attributes, class: numeric[n] ? "number" : "" }, typeof value === "number" ? show(value) : value ?? "–");
    const head = make("thead", {}, make("tr", {}, ...columns.map(cell("th", { scope: "col" }))));
    const body = make("tbody", {}, ...lines.map((row) => make("tr", {}, ...row.map(cell("td", {})))));
    const scroll = make("div", { class: "scroll", role: "region", "aria-label": title, tabindex: 0 }, make("table", {}, head, body));
    return make("section", {}, make("h2", {}, title), scroll, make("p", { class: "quiet" }, note));
  }));
}

/** Columns of the table of trials: {key, head, values, text}; those with one value in all rows are told once below. */
function columns(one) {
  const { trials } = one;
  const column = (head, values, text = show) => ({ head, values, text });
  const scores = one.scores.slice(0, 8).map(({ label, values }) => column(label, values));
  const date = (value) => (isKnown(value) ? moment(value) : "–");
  return [
    column("trial", trials.trial_id), ...scores.slice(0, 1), column("ended", trials.trial_id.map((_, row) => ending(one, row))),
    ...one.params.map(({ label, values }) => column(label, values)), ...scores.slice(1),
    column("search", trials.search), column("asked", trials.trial_index), column("seed", trials.seed), column("images seen", trials.images_seen),
    column("training, s", trials.train_seconds), column("direction", trials.direction), column("started (UTC)", trials.started, date), column("error", trials.error),
  ].filter(({ values }) => known(values).length);
}

function drawTrials() {
  const one = study();
  const all = columns(one), count = one.trials.trial_id.length;
  const same = count > 1 ? all.slice(3).filter(({ values }) => new Set(values).size === 1) : [];
  const kept = all.filter((column) => !same.includes(column));
  const best = one.scores[0] && kept.find(({ head }) => head === one.scores[0].label);
  const sort = state.sort ?? { head: best?.head, down: !one.scores[0]?.down };
  const seek = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (row) => all.map(({ values, text: write }) => write(values[row])).join(" ").toLowerCase();
  const found = one.trials.trial_id.map((_, row) => row).filter((row) => (!state.ended || one.trials.state[row] === state.ended) && (!seek.length || seek.every((word) => text(row).includes(word))));
  const by = kept.find(({ head }) => head === sort.head);
  if (by) found.sort((a, b) => compare(by.values[a], by.values[b], sort.down));
  const words = [...new Set(one.trials.state)];
  $("state").replaceChildren(new Option("any way", ""), ...words.map((word) => new Option(ENDS[word], word)));
  $("state").value = state.ended;
  if ($("filter").value !== state.filter) $("filter").value = state.filter;
  $("count").textContent = found.length === count ? `${count.toLocaleString("en-GB")} trials` : `${found.length.toLocaleString("en-GB")} of ${count.toLocaleString("en-GB")} trials`;
  const table = $("trials").querySelector("table");
  const numeric = (column) => known(column.values).every((value) => typeof value === "number");
  const focused = document.activeElement?.dataset?.head;
  table.tHead.replaceChildren(make("tr", {}, ...kept.map((column) => {
    const button = make("button", { type: "button", "data-head": column.head }, column.head);
    button.addEventListener("click", () => { state.sort = { head: column.head, down: sort.head === column.head ? !sort.down : false }; drawTrials(); });
    return make("th", { scope: "col", "aria-sort": sort.head === column.head ? (sort.down ? "descending" : "ascending") : "none", class: numeric(column) ? "number" : "" }, button);
  })));
  table.tBodies[0].replaceChildren(...found.slice(0, state.shown).map((row) => make("tr", { "data-row": row, class: one.best?.rows.includes(row) ? "best" : "" },
    ...kept.map((column) => make("td", { class: numeric(column) ? "number" : column.head === "error" && column.values[row] ? "wide" : "" }, column.text(column.values[row]))))));
  if (focused) [...table.tHead.querySelectorAll("button")].find((button) => button.dataset.head === focused)?.focus();
  $("more").hidden = found.length <= state.shown;
  const told = [...one.fixed.map(([label, value]) => `${label} ${value}`), ...same.map(({ head, values, text: write }) => `${head} ${write(values[0])}`)];
  $("same").textContent = told.length ? `The same in all: ${told.join(", ")}.` : "";
}

/** Numbers numerically, texts in natural order, absent values last in either direction. */
function compare(a, b, down) {
  if (!isKnown(a) || !isKnown(b)) return isKnown(b) - isKnown(a);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

// ---------------------------------------------------------------- the whole

function drawCharts() {
  const one = study();
  for (const draw of [drawLandscape, drawParallel, drawLearning, drawCurves]) draw(one);
}

function drawStudy() {
  const one = study();
  const [param, row] = one.only.split(":@"); // the slice of the row
  Object.assign(state, { x: String(one.axes[0]), y: String(one.axes[1]), colour: "0", only: row ? `${param}:${one.params[param].values[row]}` : "", whole: false, filter: "", ended: "", sort: null, shown: PAGE_ROWS });
  drawHeader(one);
  drawFirst(one);
  drawChoices(one);
  drawCharts();
  drawTables(one);
  drawTrials();
  explain();
  $("facts").querySelector("dl").replaceChildren(...one.facts.flatMap(([label, text]) => [make("dt", {}, label), make("dd", {}, text)]));
}

function listen() {
  const on = (id, event, act) => $(id).addEventListener(event, ({ target }) => act(target));
  on("study", "change", ({ value }) => { state.study = Number(value); drawStudy(); });
  for (const id of ["x", "y", "colour", "only"]) on(id, "change", ({ value }) => { state[id] = value; drawChoices(study()); drawLandscape(study()); });
  on("whole", "change", ({ checked }) => { state.whole = checked; drawLandscape(study()); });
  on("filter", "input", ({ value }) => { Object.assign(state, { filter: value, shown: PAGE_ROWS }); drawTrials(); });
  on("state", "change", ({ value }) => { Object.assign(state, { ended: value, shown: PAGE_ROWS }); drawTrials(); });
  on("more", "click", () => { state.shown += 200; drawTrials(); });
  addEventListener("scroll", () => tell(null), { passive: true });
  let width = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // only the height changed, as when a phone hides its address bar
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawCharts, 100);
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", drawCharts);
}

function start() {
  $("notes").hidden = !payload.notes.length;
  $("notes").replaceChildren(...payload.notes.map((note) => make("li", {}, note)));
  $("study-box").hidden = payload.studies.length < 2;
  $("study").replaceChildren(...payload.studies.map(({ name, ended }, n) => new Option(isKnown(ended) ? `${name}, ${moment(ended).slice(0, 10)}` : name, n)));
  $("nothing").hidden = payload.studies.length > 0;
  document.querySelector("main").hidden = !payload.studies.length;
  if (payload.studies.length) { drawStudy(); listen(); } else $("title").textContent = payload.title;
  document.documentElement.dataset.ready = "yes";
}

start();
