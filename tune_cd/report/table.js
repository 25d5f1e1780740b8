"use strict";
// The table of trials: sorting, filtering and paging of row indices over columns; rows are never copied.

const PAGE_ROWS = 50;
const CUT = 90; // characters of an error shown in a row
const DETAILS = ["trial_index", "direction", "line_position", "seed", "search_seed", "attempt", "images_seen", "gpus", "hostname", "device"];
const HEADS = {
  trial_id: "trial", trial_index: "asked", train_seconds: "training", started: "started (UTC)", ended: "ended (UTC)",
  line_position: "position", images_seen: "images seen", search_seed: "search seed", hostname: "machine",
};

/** Columns of a study's table, each {key, head, values, kind}; empty columns are left out. */
function columns(study) {
  const { trials } = study;
  const column = (key, values, head = HEADS[key] ?? key, kind = "text") => ({ key, head, values: values ?? [], kind });
  const all = [
    column("trial_id", trials.trial_id), column("search", trials.search), column("status", trials.status, "status", "status"),
    ...Object.entries(trials.params).map(([name, values]) => column(`params.${name}`, values, parameterLabel(study, name))),
    ...study.scores.map(({ name, label }) => column(`scores.${name}`, trials.scores[name], label)),
    column("train_seconds", trials.train_seconds, HEADS.train_seconds, "duration"),
    ...DETAILS.map((key) => column(key, trials[key])),
    column("started", trials.started, HEADS.started, "moment"), column("ended", trials.ended, HEADS.ended, "moment"),
    column("error", trials.error, "error", "error"),
  ];
  const some = all.filter(({ values }) => values.some((value) => !absent(value)));
  return some.map((one) => ({ ...one, number: isNumbers(one) }));
}

function absent(value) {
  return value === null || value === undefined || value === "";
}

function isNumbers({ values }) {
  return known(values).every((value) => typeof value === "number");
}

/** Details, parameters and further scores with one value in all of several rows; it is shown once, below the table. */
function sameInAll(study, all) {
  const count = study.trials.trial_id.length;
  const further = study.scores.slice(1).map(({ name }) => `scores.${name}`);
  const may = (key) => DETAILS.includes(key) || key.startsWith("params.") || further.includes(key);
  return count < 2 ? [] : all.filter(({ key, values }) => may(key) && new Set(values).size === 1);
}

function cellString({ kind }, value) {
  if (value === null || value === undefined) return "–";
  if (kind === "moment") return moment(value);
  return kind === "duration" ? duration(value) : show(value);
}

/** Each row's whole text in lower case, computed once per study. */
function haystack(study, all) {
  const text = (column, value) => (absent(value) ? "" : `${value} ${cellString(column, value)}`);
  study.haystack ??= study.trials.trial_id.map((_, row) => all.map((column) => text(column, column.values[row])).join(" ").toLowerCase());
  return study.haystack;
}

/** Rows that contain every word of `filter`, have this status ("": any), and are among `chosen` (null: all). */
function filteredRows(study, all, filter, status, chosen) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = words.length ? haystack(study, all) : null;
  const rows = chosen ?? study.trials.trial_id.map((_, row) => row);
  return rows.filter((row) => (!status || study.trials.status[row] === status) && words.every((word) => texts[row].includes(word)));
}

/** Rows sorted by a column: numbers numerically, absent values last in either direction; the sort is stable. */
function sortedRows(rows, { values, number }, down) {
  const sign = down ? -1 : 1;
  const compare = number ? (a, b) => a - b : new Intl.Collator("en", { numeric: true }).compare;
  const text = number ? (value) => value : String;
  return [...rows].sort((a, b) => {
    const [first, second] = [values[a], values[b]];
    if (absent(first) || absent(second)) return absent(first) - absent(second);
    return sign * compare(text(first), text(second));
  });
}

/** Draws the header and one page of rows. sort: {key, down}; the header's buttons call onSort(key). */
function drawTable(table, all, rows, sort, onSort) {
  const heads = all.map(({ key, head, number }) => {
    const button = make("button", { type: "button", id: `sort-${key}` }, head);
    button.addEventListener("click", () => onSort(key));
    const direction = sort.key === key ? (sort.down ? "descending" : "ascending") : "none";
    return make("th", { scope: "col", "aria-sort": direction, class: cellClass({ key, number }) }, button);
  });
  table.tHead.replaceChildren(make("tr", {}, ...heads));
  table.tBodies[0].replaceChildren(...rows.map((row) => make("tr", { "data-row": row }, ...all.map((column) => tableCell(column, column.values[row])))));
}

/** Classes of a cell: numbers are right-aligned, and columns without room on paper are not printed. */
function cellClass({ key, number }) {
  const detail = DETAILS.includes(key) || key === "started" || key === "ended";
  return [number ? "number" : "", detail ? "detail" : ""].filter(Boolean).join(" ");
}

function tableCell(column, value) {
  if (column.kind === "status") return make("td", {}, make("span", { class: "status" }, statusSign(value), show(value)));
  if (column.kind === "error" && value) return errorCell(value);
  return make("td", { class: cellClass(column) }, column.kind === "error" ? "" : cellString(column, value));
}

/** An error in one line; a long one is cut, and a button shows the full original text. */
function errorCell(text) {
  const line = text.replace(/\s+/g, " ").trim();
  if (line.length <= CUT && !text.trim().includes("\n")) return make("td", { class: "error" }, line);
  const words = make("span", {}, `${line.slice(0, CUT)} …`);
  const button = make("button", { type: "button", "aria-expanded": "false" }, "all of it");
  const cell = make("td", { class: "error" }, words, button);
  button.addEventListener("click", () => {
    const whole = cell.classList.toggle("whole");
    words.textContent = whole ? `${text}\n` : `${line.slice(0, CUT)} …`;
    button.textContent = whole ? "less" : "all of it";
    button.setAttribute("aria-expanded", String(whole));
  });
  return cell;
}
