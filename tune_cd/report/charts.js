"use strict";
// Figures for plotly: functions from a study to {data, layout}. They do not touch the document.

// Okabe and Ito's colours, each with a pattern, a dash or a marker of its own, so that colour never stands alone.
const STATUSES = {
  completed: { colour: "#0072B2", pattern: "" },
  diverged: { colour: "#E69F00", pattern: "/" },
  failed: { colour: "#D55E00", pattern: "x" },
  stopped: { colour: "#8A8F94", pattern: "." },
};
const SEARCH_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const SEARCH_DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const SEARCH_SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star"];
const CLOCKS = { trials: "trials (whole training runs)", seconds: "wall-clock time", gpu_seconds: "GPU time" };
const PREVIEW = 160; // characters of an error shown on hover

/** Text escaped for plotly, whose labels interpret a few HTML tags and entities. */
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** A number of the payload with all its digits: long whole numbers in groups of three, small ones with an exponent. */
function show(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) >= 10000) return value.toLocaleString("en-GB");
  if (typeof value === "number" && value !== 0 && Math.abs(value) < 1e-4) return value.toExponential();
  return String(value);
}

/** Seconds since 1970 as "2026-11-21 14:03:10", UTC. */
function moment(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");
}

/** Seconds as "42 s", "3 min 25 s" or "2 h 05 min". */
function duration(seconds) {
  if (seconds < 60) return `${Math.round(seconds * 10) / 10} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

function known(values) {
  return values.filter((value) => value !== null && value !== undefined);
}

/** [least, largest] of the numbers among values; null if there is none. */
function extent(values) {
  let range = null;
  for (const value of values) {
    if (value === null || value === undefined) continue;
    range = range ? [Math.min(range[0], value), Math.max(range[1], value)] : [value, value];
  }
  return range;
}

/** A parameter's label on the axes; its name if it is not an axis. */
function parameterLabel(study, name) {
  return study.axes.find((axis) => axis.name === name)?.label ?? name;
}

/**
 * The layout shared by all figures: fonts, margins, a transparent background. Sizes are in px. A point's customdata[0]
 * holds the lines of its hover text (one in brackets is bold). The page shows it: plotly drops high labels.
 */
function baseLayout(theme, width, height, margin) {
  return {
    width, height, margin, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest", dragmode: false,
    font: { family: theme.font, size: 13, color: theme.ink },
  };
}

function baseAxis(theme, title) {
  return {
    title: { text: plain(title), standoff: 12 }, gridcolor: theme.grid, linecolor: theme.line, zeroline: false, showline: true, ticks: "outside",
    tickcolor: theme.line, automargin: true, fixedrange: true,
  };
}

// ---------------------------------------------------------------- curves

/** The most readable unit for times up to `most` seconds: [its name, its seconds]. */
function timeUnit(most) {
  if (most < 300) return ["s", 1];
  return most < 3 * 3600 ? ["min", 60] : ["h", 3600];
}

/** A search's colour, dash and symbol, by its index in the study. In dark mode the two blues change places. */
function searchStyle(place, theme) {
  const [blue, ...others] = SEARCH_COLOURS;
  const colours = theme.dark ? [others.at(-1), ...others.slice(0, -1), blue] : SEARCH_COLOURS;
  return {
    colour: colours[place % colours.length], dash: SEARCH_DASHES[place % SEARCH_DASHES.length],
    symbol: SEARCH_SYMBOLS[place % SEARCH_SYMBOLS.length],
  };
}

function hasCurves(study) {
  return study.curves.some((curve) => known(curve.best).length || known(curve.test).length);
}

/** Best-so-far curves (`fig:hpo_curves`), one per search and seed. view: {split: "best" | "test", clock: of CLOCKS}. */
function curvesFigure(study, view, theme, width) {
  const searches = [...new Set(study.curves.map((curve) => curve.search))];
  const most = extent(study.curves.flatMap((curve) => curve[view.clock]))?.[1] ?? 0;
  const [unit, seconds] = view.clock === "trials" ? ["", 1] : timeUnit(most);
  const drawn = new Set();
  const data = study.curves.map((curve) => curveTrace(curve, view, searches.indexOf(curve.search), seconds, drawn, theme));
  const layout = baseLayout(theme, width, 400, { l: 64, r: 24, t: 16, b: 56 });
  const score = scoreLabel(study, view.split === "test" ? "test_score" : study.scores[0]?.name ?? "score");
  layout.xaxis = { ...baseAxis(theme, CLOCKS[view.clock] + (unit && `, ${unit}`)), rangemode: "tozero" };
  layout.yaxis = { ...baseAxis(theme, `best so far: ${score}`), nticks: 7 };
  if (view.clock === "trials") Object.assign(layout.xaxis, { tickformat: ",d", ...(most < 12 ? { dtick: 1 } : { nticks: width < 520 ? 6 : 12 }) });
  layout.showlegend = true;
  layout.legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 13 }, bgcolor: "rgba(0,0,0,0)" };
  layout.margin.t = 44;
  return { data, layout };
}

function curveTrace(curve, view, place, seconds, drawn, theme) {
  const { colour, dash, symbol } = searchStyle(place, theme);
  const first = !drawn.has(curve.search); // all seeds of a search share a style and a legend entry
  drawn.add(curve.search);
  const xs = curve[view.clock];
  const text = curve[view.split].map((score, n) => [[
    [`${curve.label}, search seed ${show(curve.seed)}`], `after ${show(curve.trials[n])} trials: ${show(score)}`,
    ...(view.clock === "trials" ? [] : [`${CLOCKS[view.clock]}: ${known([xs[n]]).length ? duration(xs[n]) : "–"}`]),
  ]]);
  return {
    type: "scatter", mode: curve.trials.length > 80 ? "lines" : "lines+markers", x: xs.map((x) => (x === null ? null : x / seconds)), y: curve[view.split],
    name: plain(curve.search), legendgroup: curve.search, showlegend: first, line: { shape: "hv", color: colour, dash, width: 2.2 },
    marker: { symbol, size: 7, color: colour }, customdata: text, hoverinfo: "none",
  };
}

// ---------------------------------------------------------------- learning curves

/** Validation score over images seen, one line per training, coloured by search; its end shows whether it paused. */
function learningFigure(study, theme, width) {
  const { trials } = study;
  const searches = [...new Set(study.curves.map((curve) => curve.search))];
  const best = bestRow(study);
  const drawn = new Set();
  const data = [...study.learning].sort((a, b) => (a.row === best) - (b.row === best)).map(({ row, images, scores }) => {
    const search = trials.search[row];
    const { colour } = searchStyle(Math.max(0, searches.indexOf(search)), theme);
    const first = !drawn.has(search);
    drawn.add(search);
    const end = images.map((_, n) => n === images.length - 1);
    const open = trials.status[row] === "stopped";
    return {
      type: "scatter", mode: "lines+markers", x: images, y: scores, name: plain(search), legendgroup: search, showlegend: first,
      opacity: row === best ? 1 : 0.55, line: { color: colour, width: row === best ? 3.2 : 1.3 },
      marker: { symbol: open ? "circle-open" : "circle", color: colour, size: end.map((is) => (is ? 8 : 0)), line: { width: open ? 1.8 : 0 } },
      customdata: images.map((seen, n) => [[...trialText(study, row), `${show(seen)} images: ${show(scores[n])}`], row]), hoverinfo: "none",
    };
  });
  const layout = baseLayout(theme, width, 400, { l: 64, r: 24, t: 44, b: 56 });
  layout.xaxis = { ...baseAxis(theme, "images seen"), rangemode: "tozero", tickformat: "~s", nticks: width < 520 ? 5 : 10 };
  layout.yaxis = { ...baseAxis(theme, scoreLabel(study, study.scores[0]?.name ?? "score")), nticks: 7 };
  layout.showlegend = true;
  layout.legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 13 }, bgcolor: "rgba(0,0,0,0)" };
  return { data, layout };
}

/** Row of the completed trial with the best validation score; -1 if there is none. */
function bestRow(study) {
  const scores = study.trials.scores.val_score ?? [];
  return scores.reduce((best, score, row) => (score !== null && study.trials.status[row] === "completed" && (best < 0 || score > scores[best]) ? row : best), -1);
}

// ---------------------------------------------------------------- timeline

/** Lane of each run, the fewest without overlap: a run takes the first lane that is free when it starts. */
function lanes(runs) {
  const free = [];
  return runs.map(({ from, to }) => {
    const found = free.findIndex((until) => until <= from);
    const lane = found < 0 ? free.length : found;
    free[lane] = to;
    return lane;
  });
}

/** Runs of the trials with known times, sorted by start: one per trial, several for trials that paused. */
function timedRuns(study) {
  const { trials } = study;
  const last = trials.trial_id.map((_, row) => ({ row, from: trials.started[row], to: trials.ended[row], status: trials.status[row] }))
    .filter((run) => run.from !== null && run.to !== null);
  const earlier = study.earlier.map(([row, from, to]) => ({ row, from, to, status: "stopped" }));
  return [...last, ...earlier].sort((a, b) => a.from - b.from);
}

/** [first start, last end] in seconds, of the trials that have both. */
function span(study) {
  const runs = timedRuns(study);
  return [runs[0].from, extent(runs.map((run) => run.to))[1]];
}

/** One bar per run, in as few lanes as possible. */
function timelineFigure(study, theme, width) {
  const { trials } = study;
  const runs = timedRuns(study);
  const lane = lanes(runs);
  const count = extent(lane)[1] + 1;
  const gap = (width * count) / runs.length > 12 ? 1 : 0; // px between bars, if these are wide enough
  const data = Object.entries(STATUSES).map(([status, { colour, pattern }]) => {
    const mine = runs.map((run, n) => [run, lane[n]]).filter(([run]) => run.status === status);
    return {
      type: "bar", orientation: "h", name: status, width: 0.82, y: mine.map(([, at]) => at + 1), base: mine.map(([run]) => run.from * 1000),
      x: mine.map(([run]) => (run.to - run.from) * 1000), customdata: mine.map(([run]) => [trialText(study, run.row), run.row]),
      marker: {
        color: colour, line: { width: gap, color: theme.paper },
        pattern: { shape: pattern, bgcolor: colour, fgcolor: "#fff", fgopacity: 0.85, size: 6, solidity: 0.35 },
      },
      hoverinfo: "none",
    };
  }).filter((trace) => trace.x.length);
  const layout = baseLayout(theme, width, Math.max(150, Math.min(560, 112 + count * 26)), { l: 8, r: 24, t: 40, b: 48 });
  layout.barmode = "overlay";
  const [from, to] = span(study);
  const room = Math.max((to - from) * 0.01, 0.5);
  const tickformat = to - from < 600 ? "%H:%M:%S\n%-d %b %Y" : to - from < 2 * 86400 ? "%H:%M\n%-d %b %Y" : "%-d %b\n%Y";
  layout.xaxis = { ...baseAxis(theme, ""), type: "date", tickformat, nticks: width < 520 ? 4 : 8, range: [(from - room) * 1000, (to + room) * 1000] };
  layout.yaxis = { visible: false, fixedrange: true, range: [0.4, count + 0.6] };
  layout.showlegend = true;
  layout.legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", itemclick: "toggle" };
  return { data, layout };
}

function trialText(study, row) {
  const { trials } = study;
  const lines = [[trials.trial_id[row]], `${show(trials.search[row])}, ${show(trials.status[row])}`];
  const add = (label, sign, value) => { if (known([value]).length) lines.push(`${label}${sign}${show(value)}`); };
  for (const [name, values] of Object.entries(trials.params)) add(parameterLabel(study, name), " = ", values[row]);
  for (const { name, label } of study.scores.slice(0, 2)) add(label, ": ", trials.scores[name]?.[row]);
  lines.push(`${moment(trials.started[row])}, ${duration(trials.ended[row] - trials.started[row])}`);
  const where = known([trials.hostname[row], trials.device[row]]);
  if (where.length) lines.push(where.join(", "));
  const error = (trials.error[row] ?? "").replace(/\s+/g, " ");
  if (error) lines.push(error.length > PREVIEW ? `${error.slice(0, PREVIEW)} …` : error);
  return lines;
}
