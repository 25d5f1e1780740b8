"use strict";
// The landscape of a score over one to three parameters (`fig:hp_omniglot`): figures for plotly, without the document.

const DIAGONAL_DASHES = ["dash", "dot", "dashdot", "longdash"];
const DARK = "#16191c"; // lines over the colours: dark in a light casing, visible on every shade and in both modes
const LIGHT = "rgba(255,255,255,0.85)";

function sliderTicks(study) {
  return study.grid?.ticks[2] ?? [null];
}

/** Index of the cell with the largest score among the cells that `allowed` admits; -1 if none has a value. */
function bestCell(study, score, allowed = () => true) {
  const values = study.grid?.cells.values[score] ?? [];
  return values.reduce((best, value, c) => (value !== null && allowed(c) && (best < 0 || value > values[best]) ? c : best), -1);
}

/** The cells of a slice: {c: index among all, i, j, k, x, y, value, spread}. view: {slice: index, score: name}. */
function sliceCells(study, view) {
  const { ticks, cells } = study.grid;
  return cells.at.map((at, c) => ({
    c, i: at[0], j: at[1] ?? 0, k: at[2] ?? 0, x: ticks[0][at[0]], y: ticks[1]?.[at[1]] ?? null,
    value: cells.values[view.score]?.[c] ?? null, spread: cells.spread[view.score]?.[c] ?? null,
  })).filter((cell) => cell.k === view.slice);
}

/** [[label, value], ...] of a cell's parameters: those of the axes, then its trials' values of the others. */
function cellParameters(study, c) {
  const { ticks, cells } = study.grid;
  const pairs = study.axes.map((axis, n) => [axis.label, show(ticks[n][cells.at[c][n]])]);
  const drawn = new Set(study.axes.map((axis) => axis.name));
  for (const [name, values] of Object.entries(study.trials.params)) {
    const had = [...new Set(known(cells.trials[c].map((row) => values[row])))];
    if (!drawn.has(name) && had.length) pairs.push([name, had.slice(0, 3).map(show).join(", ") + (had.length > 3 ? ", …" : "")]);
  }
  return pairs;
}

/** ["0.9372 ± 0.0031", "mean of 3 seeds"] of a cell; the second is empty if there is no value. */
function cellScore(study, score, c) {
  const { cells } = study.grid;
  const [value, spread] = [cells.values[score]?.[c] ?? null, cells.spread[score]?.[c] ?? null];
  if (value === null) return ["no value", ""];
  const scored = cells.trials[c].filter((row) => known([study.trials.scores[score]?.[row]]).length);
  const count = new Set(scored.map((row) => study.trials.seed[row])).size;
  const seeds = count === 1 ? "1 seed" : `${count} seeds`;
  const number = spread === null ? show(value) : `${show(value)} ± ${show(spread)}`;
  return [number, scored.length < 2 ? seeds : scored.length === count ? `mean of ${seeds}` : `mean of ${scored.length} trials, ${seeds}`];
}

function scoreLabel(study, score) {
  return study.scores.find((choice) => choice.name === score)?.label ?? score;
}

/** Lines of text about a cell: its parameters, its score, lost trainings, its trials. */
function cellText(study, score, c) {
  const { cells } = study.grid;
  const [number, seeds] = cellScore(study, score, c);
  const lines = [...cellParameters(study, c).map(([label, value]) => `${label} = ${value}`), [`${scoreLabel(study, score)}: ${number}`]];
  if (seeds) lines.push(seeds);
  if (cells.lost[c]) lines.push(`${cells.lost[c]} did not complete`);
  const ids = cells.trials[c].map((row) => study.trials.trial_id[row]);
  lines.push(`${ids.length === 1 ? "trial" : "trials"} ${ids.slice(0, 4).join(", ")}${ids.length > 4 ? `, and ${ids.length - 4} more` : ""}`);
  return lines;
}

/** Borders [n + 1] of the cells around ticks [n]: halfway between neighbours, in log space for a log axis. */
function borders(ticks, log) {
  const at = log ? ticks.map(Math.log) : ticks;
  const half = (n) => (at.length === 1 ? (log ? Math.LN2 : 0.5) : (at[n + 1] - at[n]) / 2);
  const edges = at.map((value, n) => value - (n ? half(n - 1) : half(0)));
  edges.push(at.at(-1) + half(Math.max(at.length - 2, 0)));
  return log ? edges.map(Math.exp) : edges;
}

/** Range of a landscape's axis for plotly (logarithms for a log axis), with room around single points. */
function axisRange(ticks, log, full) {
  const scale = log ? Math.log10 : Number;
  if (full) return [scale(borders(ticks, log)[0]), scale(borders(ticks, log).at(-1))];
  const [low, high] = extent(ticks).map(scale);
  const room = Math.max((high - low) * 0.08, log ? 0.15 : Math.abs(low) * 0.05 || 0.5);
  return [low - room, high + room];
}

/** Ticks at decades if there are several, and between them if there are few. Plotly draws powers a quarter larger. */
function logTicks(axis, [low, high], narrow) {
  if (!axis.log) return { nticks: narrow ? 5 : 9 };
  if (high - low < 1) return { exponentformat: "power", nticks: narrow ? 4 : 7 };
  const dtick = high - low < 2 ? "D2" : Math.ceil((high - low) / (narrow ? 5 : 9));
  return { exponentformat: "power", tickfont: { size: 11 }, dtick, minor: { dtick: "D1", ticks: "outside", ticklen: 2 } };
}

/** The colour scale shared by all slices; empty if no cell has a value. */
function colours(study, score, theme, narrow) {
  const range = extent(study.grid.cells.values[score] ?? []);
  if (!range) return null;
  if (range[0] === range[1]) range[1] += Math.abs(range[1]) * 0.01 || 0.01;
  const title = { text: plain(scoreLabel(study, score)), side: narrow ? "bottom" : "right" };
  const bar = { thickness: 14, outlinewidth: 0, ticks: "outside", tickcolor: theme.line, nticks: 6, title };
  if (narrow) Object.assign(bar, { orientation: "h", y: -0.22, yanchor: "top", x: 0.5, len: 1, nticks: 5 });
  return { colorscale: "Viridis", min: range[0], max: range[1], bar };
}

/** The landscape's figure. view: {slice, score, path: name of the search whose path is drawn, or null}. */
function landscapeFigure(study, view, theme, width) {
  const narrow = width < 520;
  const cells = sliceCells(study, view);
  if (study.axes.length === 1) return aloneFigure(study, view, cells, theme, width);
  const { grid, axes } = study;
  const scale = colours(study, view.score, theme, narrow);
  const height = narrow ? width + 70 : Math.min(640, Math.round(width * 0.84));
  const layout = baseLayout(theme, width, height, { l: 64, r: narrow ? 12 : 92, t: 12, b: narrow ? 130 : 56 });
  ["xaxis", "yaxis"].forEach((name, n) => {
    const range = axisRange(grid.ticks[n], axes[n].log, grid.full);
    const own = { type: axes[n].log ? "log" : "linear", range, showgrid: !grid.full, ...logTicks(axes[n], range, narrow) };
    layout[name] = { ...baseAxis(theme, axes[n].label), ...own };
  });
  if (grid.full) layout.plot_bgcolor = theme.paper;
  layout.shapes = grid.full ? outlines(topCells(cells, outlined(study, view.score)), grid, axes) : [];
  const diagonals = diagonalTraces(study, view, layout, theme); // over the cells, under the points
  const lines = pathLines(study, view);
  const path = pathTraces(study, lines, theme);
  layout.annotations = pathNumbers(lines, layout);
  const best = bestTrace(study, view, cells, theme);
  if (grid.full) return { data: [...heatTraces(study, view, cells, scale, theme), ...diagonals, ...path, ...best], layout };
  return { data: [...diagonals, ...path, ...pointTraces(study, view, cells, scale, theme), ...best], layout };
}

function outlined(study, score) {
  return study.scores.find(({ name }) => name === score)?.marked === false ? 0 : study.top; // low terms of the loss are good, but not the aim
}

function topCells(cells, top) {
  return cells.filter((cell) => cell.value !== null).sort((a, b) => b.value - a.value).slice(0, top);
}

function outlines(cells, grid, axes) {
  const [xs, ys] = [0, 1].map((n) => borders(grid.ticks[n], axes[n].log));
  const box = ({ i, j }, line) => ({ type: "rect", x0: xs[i], x1: xs[i + 1], y0: ys[j], y1: ys[j + 1], line, layer: "above" });
  return [...cells.map((cell) => box(cell, { color: LIGHT, width: 4.5 })), ...cells.map((cell) => box(cell, { color: DARK, width: 2 }))];
}

/** Two heat maps: the scores, then the cells that were run without a score. Cells that were not run stay blank. */
function heatTraces(study, view, cells, scale, theme) {
  const { ticks } = study.grid;
  const empty = () => ticks[1].map(() => ticks[0].map(() => null));
  const [z, text, lost, lostText] = [empty(), empty(), empty(), empty()];
  for (const { c, i, j, value } of cells) {
    (value === null ? lost : z)[j][i] = value === null ? 1 : value;
    (value === null ? lostText : text)[j][i] = [cellText(study, view.score, c), c];
  }
  const shared = { type: "heatmap", x: ticks[0], y: ticks[1], xgap: 1, ygap: 1, hoverongaps: false, hoverinfo: "none" };
  const range = scale ? { zmin: scale.min, zmax: scale.max, colorscale: scale.colorscale, colorbar: scale.bar } : { showscale: false };
  const bare = cells.filter((cell) => cell.value === null);
  return [
    { ...shared, ...range, name: "scores", z, customdata: text },
    { ...shared, name: "lost", z: lost, customdata: lostText, showscale: false, zmin: 0, zmax: 1, colorscale: [[0, theme.lost], [1, theme.lost]] },
    {
      type: "scatter", mode: "markers", name: "lost marks", x: bare.map((cell) => cell.x), y: bare.map((cell) => cell.y), hoverinfo: "skip",
      marker: { symbol: "x-thin", size: 8, line: { width: 1.6, color: DARK } },
    },
  ];
}

function pointTraces(study, view, cells, scale, theme) {
  const top = new Set(topCells(cells, outlined(study, view.score)));
  const trace = (name, some, marker) => ({
    type: "scatter", mode: "markers", name, cliponaxis: false, x: some.map((cell) => cell.x), y: some.map((cell) => cell.y), marker,
    customdata: some.map(({ c }) => [cellText(study, view.score, c), c]), hoverinfo: "none",
  });
  const scored = cells.filter((cell) => cell.value !== null).sort((a, b) => a.value - b.value); // the best is drawn last, on top
  const edge = theme.dark ? theme.muted : theme.paper;
  const line = { color: scored.map((cell) => (top.has(cell) ? theme.ink : edge)), width: scored.map((cell) => (top.has(cell) ? 2.5 : 1)) };
  const marker = { size: 15, color: scored.map((cell) => cell.value), line };
  if (scale) Object.assign(marker, { cmin: scale.min, cmax: scale.max, colorscale: scale.colorscale, colorbar: scale.bar, showscale: true });
  return [
    trace("scores", scored, marker),
    trace("lost", cells.filter((cell) => cell.value === null), { symbol: "x-thin", size: 11, line: { width: 2.5, color: STATUSES.failed.colour } }),
  ];
}

/** Diagonals Λe = ratio·Λp of this slice: settings reached by a recipe's learning rate alone (`ssec:ctrm_norm`). */
function diagonalTraces(study, view, layout, theme) {
  const scale = layout.xaxis.type === "log" ? (value) => 10 ** value : Number;
  const ends = layout.xaxis.range.map(scale);
  return study.averages.flatMap(({ label, ratio }, n) => {
    const now = ratio[view.slice] ?? null;
    if (now === null) return [];
    const line = { type: "scatter", mode: "lines", name: plain(label), x: ends, y: ends.map((x) => x * now), hoverinfo: "skip" };
    const dash = DIAGONAL_DASHES[n % DIAGONAL_DASHES.length];
    if (!study.grid.full) return [{ ...line, line: { color: theme.ink, width: 1.8, dash } }];
    return [{ ...line, line: { color: LIGHT, width: 4.5 } }, { ...line, line: { color: DARK, width: 2, dash } }];
  });
}

/** A star at the setting with the best validation score, whichever score is shown, because it is the one to choose. */
function bestTrace(study, view, cells, theme) {
  const best = cells.find((cell) => cell.c === bestCell(study, study.scores[0].name));
  if (!best) return [];
  const y = study.axes.length < 2 ? best.value : best.y;
  const marker = { symbol: "star", size: 17, color: "#ffffff", line: { color: DARK, width: 1.5 } };
  return y === null ? [] : [{ type: "scatter", name: "best", mode: "markers", x: [best.x], y: [y], hoverinfo: "skip", cliponaxis: false, marker }];
}

/** The line searches of the search view.path in order, each [[x, y], ...]: origin, then trials, of all slices. */
function pathLines(study, view) {
  return study.lines.filter((line) => line.search === view.path).map((line) => line.points);
}

function pathTraces(study, lines, theme) {
  if (!lines.length) return [];
  const color = study.grid.full ? DARK : theme.muted;
  const points = lines.flatMap((line) => [...line, [null, null]]); // a gap after each line
  const shared = { type: "scatter", x: points.map(([x]) => x), y: points.map(([, y]) => y), hoverinfo: "skip", connectgaps: false };
  return [
    ...(study.grid.full ? [{ ...shared, mode: "lines", name: "path casing", line: { color: LIGHT, width: 5.5 } }] : []),
    { ...shared, mode: "lines+markers", name: "path", line: { color, width: 2.2 }, marker: { size: 6, color } },
  ];
}

/** A line's number at its upper end; lines with the same end share a label. Annotations are placed by logarithms. */
function pathNumbers(lines, { xaxis, yaxis }) {
  const signs = new Map();
  lines.forEach((line, n) => {
    if (!line.length) return;
    const end = JSON.stringify([...line].sort((a, b) => b[1] - a[1] || b[0] - a[0])[0]);
    signs.set(end, [...(signs.get(end) ?? []), n + 1]);
  });
  const on = (axis, value) => (axis.type === "log" ? Math.log10(value) : value);
  return [...signs].map(([end, numbers]) => {
    const [x, y] = JSON.parse(end);
    const look = { showarrow: false, xshift: 13, yshift: 13, bgcolor: DARK, bordercolor: "#fff", borderpad: 2, font: { color: "#fff", size: 11 } };
    return { ...look, x: on(xaxis, x), y: on(yaxis, y), text: numbers.join(",") };
  });
}

/** The score over a single parameter, with the spread over seeds. */
function aloneFigure(study, view, cells, theme, width) {
  const [axis] = study.axes;
  const sorted = cells.filter((cell) => cell.value !== null).sort((a, b) => a.x - b.x);
  const top = new Set(topCells(cells, outlined(study, view.score)));
  const layout = baseLayout(theme, width, 400, { l: 64, r: 24, t: 16, b: 56 });
  layout.xaxis = { ...baseAxis(theme, axis.label), type: axis.log ? "log" : "linear", range: axisRange(study.grid.ticks[0], axis.log, false) };
  Object.assign(layout.xaxis, logTicks(axis, layout.xaxis.range, width < 520));
  layout.yaxis = { ...baseAxis(theme, scoreLabel(study, view.score)), nticks: 7 };
  const text = (some) => some.map(({ c }) => [cellText(study, view.score, c), c]);
  const lost = cells.filter((cell) => cell.value === null);
  const floor = extent(sorted.map((cell) => cell.value))?.[0] ?? 0;
  const shared = { type: "scatter", hoverinfo: "none", cliponaxis: false };
  return { layout, data: [
    {
      ...shared, name: "scores", mode: "lines+markers", x: sorted.map((cell) => cell.x), y: sorted.map((cell) => cell.value), customdata: text(sorted),
      line: { color: theme.muted, width: 1, dash: "dot" },
      error_y: { type: "data", array: sorted.map((cell) => cell.spread ?? 0), color: theme.muted, thickness: 1.2 },
      marker: { size: 12, color: theme.accent, line: { color: theme.ink, width: sorted.map((cell) => (top.has(cell) ? 2.5 : 0)) } },
    },
    {
      ...shared, name: "lost", mode: "markers", x: lost.map((cell) => cell.x), y: lost.map(() => floor), customdata: text(lost),
      marker: { symbol: "x-thin", size: 11, line: { width: 2.5, color: STATUSES.failed.colour } },
    },
    ...bestTrace(study, view, sorted.map((cell) => ({ ...cell, y: cell.value })), theme),
  ] };
}
