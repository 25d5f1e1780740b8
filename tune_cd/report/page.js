// The page: one study at a time, from the payload. Data enter the document only through text nodes and attributes.
//   params: [{label, scale, ticks, near, at: place of each row, values}]   scores: [{label, low, high, ticks, down, values}]
//   trials: columns, a value for each row   best: rows of the best setting, the named trial first
//   shades: predicted scores over pairs of params   recipes: lines over pairs of weights   learning, curves: {x, y, lines}

const payload = JSON.parse(document.getElementById("payload").textContent);
const $ = (id) => document.getElementById(id);
const ROWS = 50;
const NUMERIC = /^[-+\d., ±%e]*$/;
const state = { study: 0 };
const study = () => payload.studies[state.study];
const moment = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");

// ---------------------------------------------------------------- words about rows

const SHORT = ["paused", "stopped early", "cut off"];
const isShort = (one, row) => SHORT.includes(one.trials.state[row]);
const isWhole = (one, row) => one.trials.state[row] === "trained to the end";

/** How a training ended, the same words everywhere: "paused at 25 %" of its full length. */
function ending(one, row) {
  const [word, share] = [one.trials.state[row], one.trials.share[row]];
  return isKnown(share) && share < 1 ? `${word} at ${show(Math.round(share * 1000) / 10)} %` : word;
}

/** Lines about a training: its name, end, parameters, scores. */
function about(one, row) {
  const { trial_id: name, seed, error } = one.trials;
  const values = (list) => list.filter(({ values }) => isKnown(values[row])).map(({ label, values }) => `${label} = ${show(values[row])}`);
  const others = [isKnown(seed[row]) ? `seed ${seed[row]}` : null, error[row]?.replace(/\s+/g, " ").slice(0, 160)];
  return [`${name[row]}, ${ending(one, row)}`, ...values(one.params), ...values(one.scores.slice(0, 2)), ...others.filter(Boolean)];
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

/** Pointing at marks tells of their rows, and so do the arrow keys in a drawing; Enter and clicks find them in the table. */
function listenToMarks() {
  const rowOf = (target) => (target.closest?.("svg") && target.dataset.row ? Number(target.dataset.row) : null);
  addEventListener("pointermove", ({ target, clientX, clientY }) => tell(isKnown(rowOf(target)) ? about(study(), rowOf(target)) : null, clientX, clientY));
  addEventListener("focusout", () => tell(null));
  addEventListener("scroll", () => tell(null), { passive: true });
  addEventListener("click", ({ target }) => { if (isKnown(rowOf(target))) find(rowOf(target)); });
  addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const marks = event.target.matches?.("svg") ? [...event.target.querySelectorAll("[data-row]")] : [];
    const at = marks.findIndex((mark) => mark.classList.contains("at"));
    if (event.key === "Escape") tell(null);
    if (event.key === "Enter" && at >= 0) find(rowOf(marks[at]));
    if (!step || !marks.length) return;
    event.preventDefault();
    const next = marks[at < 0 && step < 0 ? marks.length - 1 : (at + step + marks.length) % marks.length];
    marks[at]?.classList.remove("at");
    next.classList.add("at");
    const { x, y, width } = next.getBoundingClientRect();
    tell(about(study(), rowOf(next)), x + width, y);
  });
}

/** Put a drawing in its section, in place of the one before. */
function hang(section, root) {
  const chart = $(section).querySelector(".chart");
  const focused = chart.contains(document.activeElement);
  chart.replaceChildren(root);
  if (focused) root.focus();
}

/** Lead to a training's row in the table. */
function find(row) {
  const search = () => $("trials").querySelector(`tr[data-row="${row}"]`);
  if (!search()) drawTrials(Infinity);
  const line = search();
  tell(null);
  line.scrollIntoView({ block: "center" });
  line.focus({ preventScroll: true });
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

const quiet = (...text) => make("p", { class: "quiet" }, ...text);

function drawHeader(one) {
  $("title").textContent = document.title = one.title;
  const when = isKnown(one.ended) ? `, ${new Date(one.ended * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" })}` : "";
  $("sub").textContent = `study ${one.name}${when}`;
  $("chips").replaceChildren(...one.chips.map((text) => make("li", {}, text)));
}

function drawFirst(one) {
  drawBest(one);
  drawWorth(one);
  put("importance", "Which parameter matters: share of the score's variation", ...(one.importance.length > 2 ? [
    rows(one.importance.map(([label, value, low, high]) => ({ label, value, low, high, text: value.toFixed(2) }))),
    quiet("How much the predicted score varies when this parameter alone moves over its range, as a share of the whole variance, with 95 % intervals (total Sobol index of a Gaussian process through all scores). Parameters that act together share, so the sum may exceed 1."),
  ] : []));
  put("sure", "How sure, and what next", ...one.words.map(([head, text, kind]) => make("div", { class: `word ${kind}` }, make("b", {}, head), ...prose(text))));
  put("use", "Use it", ...Object.entries(one.use).map(([name, code], n) => {
    const way = make("details", { name: "use" }, make("summary", {}, name), make("pre", {}, code));
    way.open = !n;
    return way;
  }));
}

function drawBest(one) {
  if (!one.best.length) return put("best", "No result yet", make("p", {}, "No trial has completed, so there is no best setting."));
  const [{ value, low, high, seeds }] = one.worth.rows, [row] = one.best, [by] = one.scores;
  const half = isKnown(low) ? ` ± ${((high - low) / 2).toPrecision(2)} over ${seeds} (95 % interval)` : null;
  const once = `, ${isKnown(one.trials.seed[row]) ? "one training" : "seed not recorded"}: how much of it is chance is not known`;
  const chosen = one.worth.label === by.label ? "" : `${by.label} ${one.worth.chosen}, `;
  return put("best", `Best setting, chosen by ${by.label}`,
    make("p", { class: "setting" }, ...one.setting.map((text) => make("span", {}, text))),
    make("p", { class: "score" }, `${one.worth.label} `, make("strong", {}, show(value)), make("span", { class: "quiet" }, half ?? once)),
    quiet(`${chosen}trial ${one.trials.trial_id[row]} of ${one.trials.search[row]}, ${ending(one, row)}.`));
}

function drawWorth(one) {
  const { label, axis, rows: told } = one.worth;
  const intervals = told.some(({ low }) => isKnown(low)) ? ", with 95 % intervals over seeds" : "";
  put("worth", `What it is worth: ${label}${intervals}`, ...(told.length > 1 ? [
    rows(told.map((row) => ({ ...row, text: show(row.value) })), axis),
    ...told.filter(({ verdict }) => verdict).map(({ gain, verdict }) => make("p", { class: "verdict" }, make("strong", {}, gain), ` ${verdict}`)),
    make("details", {}, make("summary", {}, "How it was compared"),
      ...told.slice(1).map((row) => make("div", { class: "word" }, make("b", {}, row.label), row.how))),
  ] : []));
  $("worth").querySelector("details")?.addEventListener("toggle", explain);
}

// ---------------------------------------------------------------- landscape

/** Axis n of a drawing: a parameter, whole or near the best, or a score. */
function axisOf(one, n, score) {
  if (n === "score") return { ...score, at: score.values.map((value) => placeOn(score, value)) };
  const { label, scale, at, ...param } = one.params[n];
  const ends = { from: Math.min(0, ...known(at)), to: Math.max(1, ...known(at)) };
  const room = scale === "category" ? 0.25 : 0.04;
  const view = (!state.whole && param.near) || { ticks: param.ticks, from: ends.from - room, to: ends.to + room };
  return { ...view, label: scale === "category" ? label : `${label} (${scale} scale)`, at };
}

/** Score n with its shades from the worst to the best; the worst twentieth shares a shade, so that a few outliers do not take the scale. ends: of the scale, in writing. */
function scoreOf(one, n) {
  const score = one.scores[n], { values, down } = score;
  const ranked = known(values).sort((a, b) => (down ? b - a : a - b));
  const [low, high] = [ranked[Math.floor(ranked.length * 0.05)], ranked.at(-1)];
  const beyond = low === ranked[0] ? "" : down ? "≥ " : "≤ ";
  return { ...score, tint: (value) => shade(low === high ? 1 : between(low, high, value)), ends: [beyond + show(low), show(high)] };
}

/** Rows from the worst to the best, those without a score first. */
function ranked(one, rows, { values, down }) {
  const better = (row) => (isKnown(values[row]) ? values[row] * (down ? -1 : 1) : -Infinity);
  return rows.sort((a, b) => better(a) - better(b));
}

function drawLandscape(one) {
  $("landscape").hidden = !one.params.length || !one.scores.length;
  if ($("landscape").hidden) return;
  const score = scoreOf(one, state.colour);
  const [xAxis, yAxis] = [axisOf(one, state.x, score), axisOf(one, state.y, score)];
  const width = $("landscape").querySelector(".chart").clientWidth, height = Math.round(Math.min(width * (width < 500 ? 1 : 0.74), 560));
  const { root, x, y, box } = frame(width, height, xAxis, yAxis, `${score.label} over ${xAxis.label} and ${yAxis.label}; use the arrow keys to step through the trainings, or read the table`);
  const [left, top, w, h] = box;
  const inside = svg("g", { "clip-path": "url(#inside)" });
  root.append(svg("clipPath", { id: "inside" }, svg("rect", { x: left, y: top, width: w, height: h })), inside);
  drawShade(one, score, inside, x, y);
  const labels = drawRecipes(one, inside, x, y, box);
  const beyond = drawMarks(one, score, root, xAxis.at.map((u) => (isKnown(u) ? x(u) : null)), yAxis.at.map((u) => (isKnown(u) ? y(u) : null)), box);
  root.append(...labels);
  hang("landscape", root);
  drawKey(one, score, beyond, inside.querySelector("rect"));
}

/** Of things over a pair of parameters those that the drawing shows, with whether it has the pair's axes turned. */
const ofPair = (things) => things.map((thing) => ({ ...thing, turned: String(thing.x) !== state.x }))
  .filter(({ x, y, turned }) => (turned ? String(x) === state.y && String(y) === state.x : String(y) === state.y));

function drawShade(one, score, inside, x, y) {
  const [pair] = ofPair(one.shades);
  if (!pair || state.colour !== "0") return;
  const across = (pair.turned ? pair.ys : pair.xs).map((u) => Math.round(x(u))), up = (pair.turned ? pair.xs : pair.ys).map((u) => Math.round(y(u)));
  pair.z.forEach((value, n) => {
    if (!isKnown(value)) return;
    const place = [n % (pair.xs.length - 1), Math.floor(n / (pair.xs.length - 1))];
    const [c, r] = pair.turned ? place.reverse() : place;
    inside.append(svg("rect", { x: across[c], y: up[r + 1], width: across[c + 1] - across[c], height: up[r] - up[r + 1], fill: score.tint(value), opacity: 0.28, "shape-rendering": "crispEdges" }));
  });
}

function drawRecipes(one, inside, x, y, [left, top, w, h]) {
  return ofPair(one.recipes).map((line, n) => {
    const points = line.points.map(([u, v]) => (line.turned ? [x(v), y(u)] : [x(u), y(v)]));
    inside.append(path(points, { stroke: "var(--ink)", "stroke-width": 1.6, "stroke-dasharray": DASHES[n % 2 ? 2 : 1] }));
    const [[x0, y0], [x1, y1]] = points;
    const along = Array.from({ length: 60 }, (_, k) => [x0 + (k / 60) * (x1 - x0), y0 + (k / 60) * (y1 - y0)]);
    const seen = along.filter(([px, py]) => px > left + 10 && px < left + w - 10 && py > top + 10 && py < top + h - 10);
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

/** Marks at places across and up [n_rows] in px; returns how many lie beyond the drawing. */
function drawMarks(one, score, root, across, up, [left, top, w, h]) {
  const [star] = one.best, { of } = shaped(one);
  const isInside = (row) => across[row] > left - 1 && across[row] < left + w + 1 && up[row] > top - 1 && up[row] < top + h + 1;
  const rows = one.trials.state.map((_, row) => row).filter((row) => row !== star && isKnown(across[row]) && isKnown(up[row]));
  const seen = ranked(one, rows.filter(isInside), score).sort((a, b) => isShort(one, b) - isShort(one, a));
  for (const row of seen) {
    const told = isKnown(score.values[row]);
    root.append(mark(across[row], up[row], { shape: told ? of(row) : "cross", colour: told ? score.tint(score.values[row]) : "", hollow: isShort(one, row), row, size: sizeOf(rows) }));
  }
  if (isKnown(across[star]) && isKnown(up[star])) {
    const best = mark(across[star], up[star], { shape: "star", colour: isKnown(score.values[star]) ? score.tint(score.values[star]) : "none", row: star });
    root.append(filled(best, { "stroke-width": 1.8, class: "star" }, []));
  }
  return rows.length - seen.length;
}

/** Many marks are smaller, many lines fainter, so that the best stay visible. */
const sizeOf = (rows) => (rows.length > 1000 ? 0.5 : rows.length > 300 ? 0.7 : 1);
const faint = (rows) => (rows.length > 300 ? 0.25 : 0.75);

function drawKey(one, score, beyond, shaded) {
  const { state: states } = one.trials, { param, of } = shaped(one);
  const items = one.best.length ? [[{ shape: "star" }, "best setting"]] : [];
  if (states.some((_, row) => isWhole(one, row))) items.push([{}, "trained to the end"]);
  const short = SHORT.filter((word) => states.includes(word));
  if (short.length) items.push([{ hollow: true }, `${short.join(" or ")}, at a share of the full length`]);
  if (states.some((_, row) => !isKnown(score.values[row]))) items.push([{ shape: "cross" }, "without a score"]);
  for (const value of param?.order ?? []) items.push([{ shape: of(param.values.indexOf(value)) }, `${param.label} ${value}`]);
  const bar = make("span", { class: "bar" });
  bar.style.background = `linear-gradient(90deg,${[0, 0.2, 0.4, 0.6, 0.8, 1].map(shade).join()})`;
  $("landscape").querySelector(".key").replaceChildren(...items.map(([look, text]) => make("li", {}, sign(look), text)),
    ...[[score.ends[0], bar, `${score.ends[1]} ${score.label}`], shaded && ["background: predicted for a whole training"], beyond && [`${beyond} more in the whole range`]].filter(Boolean).map((parts) => make("li", {}, ...parts)));
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
  options("colour", one.scores.map(({ label }, n) => [String(n), label]));
  $("whole").checked = state.whole;
  $("whole-box").hidden = !one.params.some(({ near }) => near);
}

// ---------------------------------------------------------------- lines

function drawParallel(one) {
  $("parallel").hidden = one.params.length < 3 || !one.scores.length;
  if ($("parallel").hidden) return;
  const score = scoreOf(one, 0), [best] = one.best, last = one.params.length;
  const axes = [...one.params, { ...axisOf(one, "score", score), scale: "" }];
  const width = $("parallel").querySelector(".chart").clientWidth, height = 330, names = width < 600 ? 3 : 1;
  const [top, bottom, side] = [26, 20 + 14 * names, 44];
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", tabindex: 0, "aria-label": "Every training as a line across all parameters; use the arrow keys to step through, or read the table" });
  const x = (n) => side + (n * (width - 2 * side)) / last, y = (u) => (isKnown(u) ? height - bottom - u * (height - top - bottom) : null);
  const rows = ranked(one, score.values.flatMap((value, row) => (isKnown(value) && row !== best ? [row] : [])), score);
  for (const row of [...rows, ...(isKnown(score.values[best]) ? [best] : [])]) {
    const look = row === best ? { "stroke-width": 3.5 } : { "stroke-width": 1.5, opacity: faint(rows) };
    root.append(path(axes.map(({ at }, n) => [x(n), y(at[row])]), { stroke: score.tint(score.values[row]), "stroke-dasharray": isShort(one, row) ? "4 3" : "", "data-row": row, ...look }));
  }
  axes.forEach(({ label, ticks, scale }, n) => {
    const [anchor, edge] = n === 0 ? ["start", 4] : n === last ? ["end", width - 4] : ["middle", x(n)];
    const name = svg("text", { class: "name", x: edge, y: height - 4 - 14 * (names - 1 - (n % names)), "text-anchor": anchor }, scale === "log" ? `${label} (log)` : label);
    root.append(svg("path", { class: "upright line", d: `M${x(n)} ${top}V${height - bottom}` }), name);
    for (const [u, text] of ticks) root.append(svg("text", { class: "casing", x: x(n) - 4, y: y(u) + 4, "text-anchor": "end" }, text));
  });
  hang("parallel", root);
}

/** A section of lines {x, y}; draw: function from the drawing, a line and its points in px. */
function drawLines(section, { lines, x: xAxis, y: yAxis }, words, draw) {
  $(section).hidden = !lines.length;
  if (!lines.length) return;
  const { root, x, y } = frame($(section).querySelector(".chart").clientWidth, 320, xAxis, yAxis, words);
  const at = (value, n, line) => [x(placeOn(xAxis, line.x[n])), isKnown(value) ? y(placeOn(yAxis, value)) : null];
  for (const line of lines) draw(root, line, line.y.map((value, n) => at(value, n, line)));
  hang(section, root);
}

function drawLearning(one) {
  const { lines, ...axes } = one.learning, [best] = one.best, score = one.scores.length ? scoreOf(one, 0) : null;
  const ordered = [...lines].sort((a, b) => (a.row === best) - (b.row === best));
  drawLines("learning", { lines: ordered, ...axes }, `${axes.y.label} while training; use the arrow keys to step through, or read the table`, (root, { row }, points) => {
    const stroke = isKnown(score?.values[row]) ? score.tint(score.values[row]) : "var(--lost)", [x, y] = points.at(-1);
    root.append(path(points, { stroke, "data-row": row, ...(row === best ? { "stroke-width": 3.5 } : { "stroke-width": 1.6, opacity: faint(lines) }) }));
    if (isKnown(y)) root.append(mark(x, y, { colour: stroke, hollow: isShort(one, row), row, size: row === best ? 1 : 0.65 }));
  });
  const some = lines.length < one.trials.state.length ? ` of ${one.trials.state.length}, those with two looks or more` : "";
  $("learning").querySelector("p").textContent = `${lines.length} trainings${some}, the best one thick. A filled end was trained to the end, a hollow one short.`;
}

function drawCurves(one) {
  const names = [...new Set(one.curves.lines.map(({ search }) => search))];
  const look = (search) => ({ stroke: COLOURS[names.indexOf(search) % COLOURS.length], "stroke-width": 2.4, "stroke-dasharray": DASHES[names.indexOf(search) % DASHES.length] });
  drawLines("curves", one.curves, `Best ${one.curves.y.label} so far of each search, over whole trainings' worth of length`, (root, { search }, points) => {
    const steps = points.flatMap(([x, y], n) => [[x, points[n - 1]?.[1] ?? null], [x, y]]);
    root.append(path(steps, { ...look(search), opacity: one.curves.lines.length > 20 ? 0.3 : 1 }));
    if (points.length === 1 && isKnown(points[0][1])) root.append(mark(...points[0], { colour: look(search).stroke }));
  });
  $("curves").querySelector(".key").replaceChildren(...names.map((name) => make("li", {}, svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, path([[1, 6], [33, 6]], look(name))), name)));
}

// ---------------------------------------------------------------- tables

function drawTables() {
  $("tables").replaceChildren(...payload.tables.map(({ title, columns, rows, note }) => {
    const numeric = columns.map((_, n) => rows.every((row) => NUMERIC.test(row[n])));
    const line = (tag, attributes) => (texts) => make("tr", {}, ...texts.map((text, n) => make(tag, { ...attributes, class: numeric[n] ? "number" : "" }, text)));
    const table = make("table", {}, make("thead", {}, line("th", { scope: "col" })(columns)), make("tbody", {}, ...rows.map(line("td", {}))));
    return make("section", {}, make("h2", {}, title), make("div", { class: "scroll", role: "region", "aria-label": title, tabindex: 0 }, table), quiet(note));
  }));
}

/** Columns of the table of trials {head, values, text}; those with one value in all rows are told once below it. */
function columns(one) {
  const { trials } = one;
  const column = (head, values, text = show) => ({ head, values, text });
  const [score, ...scores] = one.scores.slice(0, 8).map(({ label, values }) => column(label, values));
  return [
    column("trial", trials.trial_id), score, column("ended", trials.state.map((_, row) => ending(one, row))),
    ...one.params.map(({ label, values }) => column(label, values)), ...scores,
    column("search", trials.search), column("asked", trials.trial_index), column("seed", trials.seed), column("images seen", trials.images_seen),
    column("training, s", trials.train_seconds), column("direction", trials.direction),
    column("started (UTC)", trials.started, (value) => (isKnown(value) ? moment(value) : "–")), column("error", trials.error),
  ].filter((one) => one && known(one.values).length);
}

/** The table, sorted; at first the rows that a look takes in, since a thousand take a second. */
function drawTrials(shown = ROWS) {
  const one = study(), all = columns(one), { state: states } = one.trials;
  const same = states.length > 1 ? all.slice(3).filter(({ values }) => new Set(values).size === 1) : [];
  const kept = all.filter((column) => !same.includes(column));
  const sort = state.sort ?? { head: one.scores[0]?.label, down: !one.scores[0]?.down };
  const rows = states.map((_, row) => row);
  const by = kept.find(({ head }) => head === sort.head);
  if (by) rows.sort((a, b) => compare(by.values[a], by.values[b], sort.down));
  const table = $("trials").querySelector("table"), focused = document.activeElement?.dataset?.head;
  const kind = ({ head, values }) => (known(values).every((value) => typeof value === "number") ? "number" : head === "error" ? "wide" : "");
  table.tHead.replaceChildren(make("tr", {}, ...kept.map((column) => {
    const button = make("button", { type: "button", "data-head": column.head }, column.head), chosen = sort.head === column.head;
    button.addEventListener("click", () => { state.sort = { head: column.head, down: chosen && !sort.down }; drawTrials(); });
    return make("th", { scope: "col", "aria-sort": chosen ? (sort.down ? "descending" : "ascending") : "none", class: kind(column) }, button);
  })));
  table.tBodies[0].replaceChildren(...rows.slice(0, shown).map((row) => make("tr", { "data-row": row, tabindex: -1, class: `${one.best.includes(row) ? "best " : ""}${isShort(one, row) ? "short" : isWhole(one, row) ? "whole" : "lost"}` },
    ...kept.map((column) => make("td", { class: kind(column) }, column.text(column.values[row]))))));
  if (focused) [...table.tHead.querySelectorAll("button")].find((button) => button.dataset.head === focused)?.focus();
  $("more").hidden = rows.length <= shown;
  $("more").textContent = `Show all ${rows.length.toLocaleString("en-GB")}`;
  const told = [...one.fixed, ...same.map(({ head, values, text: write }) => `${head} ${write(values[0])}`)];
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
  if (study().failed) return;
  for (const draw of [drawLandscape, drawParallel, drawLearning, drawCurves]) draw(study());
}

function drawStudy() {
  const one = study();
  drawHeader(one);
  put("failed", "This study could not be shown", ...(one.failed ? [make("p", {}, one.failed)] : []));
  $("all").hidden = Boolean(one.failed);
  if (one.failed) return;
  const [x, y] = one.axes.map(String);
  Object.assign(state, { x, y, colour: "0", whole: false, sort: null });
  drawFirst(one);
  drawChoices(one);
  drawCharts();
  drawTrials();
  explain();
  $("facts").querySelector("dl").replaceChildren(...one.facts.flatMap(([label, text]) => [make("dt", {}, label), make("dd", {}, text)]));
}

function listen() {
  const on = (id, event, act) => $(id).addEventListener(event, ({ target }) => act(target));
  on("study", "change", ({ value }) => { state.study = Number(value); drawStudy(); });
  for (const id of ["x", "y", "colour"]) on(id, "change", ({ value }) => { state[id] = value; drawChoices(study()); drawLandscape(study()); });
  on("more", "click", () => drawTrials(Infinity));
  on("whole", "change", ({ checked }) => { state.whole = checked; drawLandscape(study()); });
  let width = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // only the height changed, as when a phone hides its address bar
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawCharts, 100);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
  listenToMarks();
}

$("notes").hidden = !payload.notes.length;
$("notes").replaceChildren(...payload.notes.map((note) => make("li", {}, note)));
$("study-box").hidden = payload.studies.length < 2;
$("study").replaceChildren(...payload.studies.map(({ name, ended, failed }, n) => new Option(failed ? `${name}, not shown` : isKnown(ended) ? `${name}, ${moment(ended).slice(0, 10)}` : name, n)));
$("nothing").hidden = payload.studies.length > 0;
drawTables();
if (payload.studies.length) { drawStudy(); listen(); } else $("title").textContent = payload.title;
document.documentElement.dataset.ready = "yes";
