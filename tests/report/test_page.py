"""The report's page in a browser: what it draws is what its payload says, and nothing else gets in or out."""

import itertools
import json
import math
import random
import re
from datetime import timedelta
from functools import cache

import pandas as pd
import pytest
from browser import browser, opened, watched
from odd_studies import odd
from studies import BEGIN, empty, full_grid, line, row, search_study, searched, table

from tune_cd.report.page import render
from tune_cd.report.payload import payload

slow = pytest.mark.slow
HOSTILE = "<script>alert(1)</script>"
TRACE = (
    'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    train(a < b && c > d)\n'
    + "torch.OutOfMemoryError: out of memory " * 8
)
WHERE = """([x, y]) => {  // place in the window of a point of the landscape
  const chart = document.getElementById("landscape"), box = chart.getBoundingClientRect();
  const { xaxis, yaxis } = chart._fullLayout;
  const at = (axis, value) => axis._offset + axis.l2p(axis.type === "log" ? Math.log10(value) : value);
  return [box.left + at(xaxis, x), box.top + at(yaxis, y)];
}"""
CONTRASTS = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(`--${name}`).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = [1, 3, 5].map((n) => linear(parseInt(hex.slice(n, n + 2), 16) / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const fronts = ["ink", "muted", "accent", "caution", "next"];
  const pairs = fronts.flatMap((front) => ["paper", "panel"].map((back) => [front, back]));
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  return pairs.map(([front, back]) => [front, back, contrast(light(front), light(back))]);
}"""
NAMELESS = """() => [...document.querySelectorAll("input, select, button")].filter((one) => {
  const labelled = one.labels?.length && one.labels[0].textContent.trim();
  const says = one.tagName === "BUTTON" && (one.hidden || one.textContent.trim());
  return !(labelled || says || one.ariaLabel || one.getAttribute("aria-labelledby"));
}).map((one) => one.id)"""


# The studies ---------------------------------------------------------------------------------------------------


def shown(trials, name, **known):
    """The payload of one study, under a name of its own."""
    [study] = payload(trials.assign(study=name), "t", **known)["studies"]
    return study


def search_rows():
    """30 trials of three searches: 28 completed, one diverged, one failed."""
    rows = [*searched(20, batch=True), *line("separate", first=1), *line("global")]
    ends = {"cd-00009": ("diverged", "the loss is not finite at step 311"), "cd-00014": ("failed", TRACE)}
    gaps = dict.fromkeys(("val_score", "test_score", "positive_term", "entropy_term")) | {"scores": {}}
    for one in rows:
        if one["trial_id"] in ends:
            one |= gaps | dict(zip(("status", "error"), ends[one["trial_id"]]))
    return rows


def grid():
    """3,750 settings on 16 machines, but for a few that were never run."""
    trials = full_grid()
    began = pd.Series([BEGIN + timedelta(seconds=n // 16 * 40 + n % 7 / 7) for n in range(len(trials))])
    return trials.assign(started_at=began, ended_at=began + timedelta(seconds=38), device="NVIDIA H200")


def paused():
    """One of the search's trainings has paused; each has a learning curve of three looks, or two."""
    rows, looks = search_rows(), []
    rows[3]["status"] = "stopped"
    for one in rows:
        if one["val_score"] is not None:
            scores = [one["val_score"] * share for share in (0.8, 0.9, 1.0)][: 2 if one is rows[3] else 3]
            looks.append(pd.DataFrame({"val_score": scores, "images_seen": [1000, 2000, 4000][: len(scores)]}).assign(
                study="paused", trial_id=one["trial_id"]
            ))  # fmt: skip
    return shown(table(rows), "paused", curves=pd.concat(looks))


def hostile():
    """Text that would do harm as markup, wherever text can be."""
    trials = table(
        row(n, "failed" if n == 2 else "completed", 0.1 * n,
            params={HOSTILE: 0.1 * 2**n, "b": 1.0 + n // 2},
            search=HOSTILE, direction=HOSTILE, hostname=f"{HOSTILE}{n}", metric_name=HOSTILE, dataset=HOSTILE,
            trial_id=f"t{n}", error=f"{HOSTILE}\u2028</script><!-- {TRACE}")
        for n in range(4)
    )  # fmt: skip
    return shown(trials.assign(trial_id=[f"{HOSTILE}%{{x}}&amp;{n}" for n in range(4)]), HOSTILE)


def of_small_tables():
    """With a table of numbers in every form that there is, and a command among the words."""
    rows = [
        ["cd", "0.742 ±0.038", "7 (6 to 9)", "+0.0670", "0.2 to 0.4"],
        ["a", "-", ">20 (9 to >20)", "-", "5 or so"],
        ["b", "0.8", ">5", None, "17"],
    ]
    small = {"title": "Searches", "columns": ["method", "AUC@5", "n-95", "gain", "range"], "rows": rows, "note": ""}
    text = f"Do {'a thing or two ' * 3} with `--replicates 3` at last."
    one = shown(table([row(test_score=0.48)]), "tables")
    return one | {"tables": [small], "words": [{"head": "Next", "text": text, "kind": "next"}]}


def of_a_user():
    """Somebody's own lr and weight decay: no diagonals, names as they are, no test score."""
    return table(
        row(n, val=round(0.5 + 0.02 * n, 3), metric_name="accuracy",
            params={"lr": 10.0 ** -(n % 5 + 1), "weight_decay": 10.0 ** -(n // 5 + 2), "epochs": 10.0})
        for n in range(15)
    )  # fmt: skip


def of_one_parameter():
    places = [(n, seed) for n in range(7) for seed in (0, 1)]
    return table(
        row(n, val=round(0.8 - 0.03 * (n - 3) ** 2 + 0.01 * seed, 3), seed=seed, metric_name="accuracy",
            params={"temperature": 0.05 * 2**n})
        for n, seed in places
    )  # fmt: skip


@cache
def studies():
    """Name -> the payload of a study."""
    of_seeds = pd.concat([search_study([0.1 * seed, 0.5, 0.6], seed=seed) for seed in range(3)], ignore_index=True)
    slices = pd.concat([full_grid(9), full_grid(9, (64,), seeds=(1,))], ignore_index=True)
    untested = table(row(n, test_score=None if n % 2 else 0.1, params={"Lambda_p": 2.0**n}) for n in range(8))
    failed = table(row(n, "failed", error=f"{HOSTILE} %{{x}}, {n}", params={"Lambda_p": 2.0**n}) for n in range(6))
    tables = {
        "search": table(search_rows()), "grid": grid(), "slices": slices, "one-batch-size": full_grid(7, (64,)),
        "seeds": of_seeds, "other-parameters": of_a_user(), "one-parameter": of_one_parameter(),
        "all-failed": failed, "half tested": untested, "nothing": odd()["failed rows of nothing"],
    }  # fmt: skip
    made = {name: shown(trials, name) for name, trials in tables.items()}
    return made | {"paused": paused(), "hostile": hostile(), "tables": of_small_tables()}


def page_of(*several, **content):
    """A page's content."""
    return payload(empty(), "Trials of results") | {"studies": list(several)} | content


# The page ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def album(running, tmp_path_factory):
    """(a page of all studies, what it complained about): to open a page costs ten times what drawing a study does."""
    path = tmp_path_factory.mktemp("pages") / "album.html"
    path.write_text(render(page_of(*studies().values(), notes=[HOSTILE])), encoding="utf-8")
    with watched(running, path) as (page, complaints):
        page.evaluate("() => { window.fresh = structuredClone(state) }")
        yield page, complaints


@pytest.fixture
def show(album):
    """Function from the name of a study to the page that has just drawn it, whatever other tests did; it has complained
    about nothing afterwards."""
    page, complaints = album

    def choose(name):
        as_opened(page)
        page.select_option("#study", studies()[name]["name"])
        return page

    yield choose
    found = complaints.copy()
    complaints.clear()
    assert not found, found


def as_opened(page):
    page.mouse.move(1, 1)
    page.emulate_media(color_scheme="light")
    resize(page, 1280, 900)
    page.evaluate("""() => {
      Object.assign(state, structuredClone(window.fresh));
      document.activeElement.blur();
      hideTip();
      scrollTo(0, 0);
    }""")


def resize(page, width, height=800):
    """The window, until its charts have been drawn anew."""
    if page.viewport_size != {"width": width, "height": height}:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(400)


def traces(page, chart="landscape"):
    return page.evaluate("(id) => document.getElementById(id).data", chart)


def trace(page, name, chart="landscape"):
    return next(one for one in traces(page, chart) if one["name"] == name)


def matrix(study, score, k):
    """z [y][x] of a slice, by hand from the payload's cells."""
    xs, ys, _ = study["grid"]["ticks"]
    cells, made = study["grid"]["cells"], [[None] * len(xs) for _ in ys]
    for at, value in zip(cells["at"], cells["values"][score], strict=True):
        if at[2] == k:
            made[at[1]][at[0]] = value
    return made


def column(page, key):
    """Texts of a column of the table, as they are shown."""
    return page.evaluate("""(key) => {
      const n = [...document.querySelectorAll("#trials th button")].findIndex((button) => button.id === `sort-${key}`);
      return [...document.querySelectorAll("#trials tbody tr")].map((row) => row.cells[n].textContent);
    }""", key)  # fmt: skip


def shown_rows(page):
    return page.evaluate(
        "() => [...document.querySelectorAll('#trials tbody tr')].map((row) => Number(row.dataset.row))"
    )


def scroll_to(page, chart):
    page.locator(f"#{chart}").scroll_into_view_if_needed()
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )  # scrolling hides what is said of a point


def point_at(page, x, y):
    """Moves the mouse to a point of the landscape, as a hand does; the mouse's place, and the lines of the hover."""
    scroll_to(page, "landscape")
    px, py = page.evaluate(WHERE, [x, y])
    page.mouse.move(1, 1)
    page.wait_for_selector("#tip", state="hidden")  # it said something of another point
    page.mouse.move(px - 4, py - 3)
    page.mouse.move(px, py)
    return (px, py), said(page)


def said(page):
    """What is said of the point under the mouse, line by line."""
    page.wait_for_selector("#tip:visible")
    return page.locator("#tip > *").all_text_contents()


def as_shown(page, value):
    return page.evaluate("(value) => (value < 1e-4 ? value.toExponential() : String(value))", value)


# ---------------------------------------------------------------- the file itself


def test_data_come_back_from_the_page_as_they_were_whatever_they_look_like():
    name = f"{HOSTILE}</script><!-- \u2028 \u2029 {{{{css}}}} {{{{payload}}}} \\1 \\u003c"
    given = page_of({"name": name, "π": [1.5, None, True]}, title=HOSTILE)
    page = render(given)
    inside = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)[1]
    assert json.loads(inside) == given and not {"<", "\u2028", "\u2029"} & set(inside)
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in page


def test_the_page_names_no_other_file_and_is_less_than_15_mb_for_3750_trials():
    page = render(page_of(studies()["grid"]))
    ours = page.replace(re.search(r"<script>(?=/\*\*\n\* plotly).*?</script>", page, re.DOTALL)[0], "")
    assert not re.search(r"(src|href)=[\"']?(https?:|//|\.|/)|@import|url\(", ours)
    assert "{{" not in ours and 4e6 < len(page.encode()) < 15e6


def test_a_payload_that_cannot_be_a_page_is_refused():
    for number, text in [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")]:
        with pytest.raises(ValueError, match=re.escape(f"payload['studies'][0]['top'][1] = {text}")):
            render(page_of({"name": "one", "top": [1.0, number]}))
    without = page_of()
    del without["notes"]
    with pytest.raises(ValueError, match="notes"):
        render(without)


# ---------------------------------------------------------------- every kind of study


SECTIONS = ("landscape", "curves", "learning", "timeline", "trials")


def check_whole(page, name):
    """Nothing is wider than the window; every section has something to show, or a sentence."""
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), name
    for section in SECTIONS:
        whole, sentence = (page.locator(f"#{section}-{part}").is_visible() for part in ("whole", "empty"))
        assert whole != sentence or name == "no study", (name, section)
    assert page.locator("#nothing").is_visible() == (name == "no study")


@slow
@pytest.mark.parametrize("width", [400, 1280])
def test_every_study_is_drawn_without_complaint_on_a_phone_and_on_a_screen(show, width):
    page = show("tables")
    resize(page, width)
    for name, study in studies().items():
        page.select_option("#study", study["name"])
        check_whole(page, name)


@slow
def test_a_window_made_narrow_shows_what_a_narrow_one_shows(running, tmp_path):
    inside = "document.getElementById('landscape')._fullLayout._size"
    file = tmp_path / "page.html"
    file.write_text(render(page_of(studies()["slices"])), encoding="utf-8")
    with opened(running, file, width=400, height=800) as page:
        check_whole(page, "slices")
        expected = page.evaluate(f"[{inside}.w, {inside}.h]")
        page.set_viewport_size({"width": 1280, "height": 800})
        page.wait_for_function(f"(narrow) => {inside}.w > 1.5 * narrow", arg=expected[0], timeout=30_000)
        page.set_viewport_size({"width": 400, "height": 800})
        page.wait_for_function(f"([w, h]) => {inside}.w === w && {inside}.h === h", arg=expected, timeout=30_000)


@slow
def test_a_page_without_a_study_says_so(running, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(render(page_of()), encoding="utf-8")
    with opened(running, file, width=400, height=800) as page:
        check_whole(page, "no study")
        assert page.locator("html").get_attribute("lang") == "en-GB"


@slow
def test_numbers_of_small_tables_stand_below_each_other(show):
    """Also with an interval, beyond what was tried, or absent; an option's name is not broken in two."""
    page = show("tables")
    heads = page.eval_on_selector_all("#tables-section th", "all => all.map((one) => one.className)")
    assert heads == ["", "number", "number", "number", ""]
    assert page.eval_on_selector_all("#words code", "all => all.map((one) => one.getClientRects().length)") == [1]


@slow
def test_text_is_readable_and_every_control_has_a_name(show):
    page = show("search")
    papers = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        papers.add(page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')"))
        for front, back, contrast in page.evaluate(CONTRASTS):
            assert contrast >= 4.5, (scheme, front, back, contrast)
        assert page.evaluate(NAMELESS) == []
    assert len(papers) == 2


@slow
def test_text_that_looks_like_markup_stays_text(show):
    trials = studies()["hostile"]["trials"]
    page = show("hostile")
    assert page.evaluate("[document.scripts.length, document.images.length]") == [4, 0]
    assert column(page, "trial_id") == [trials["trial_id"][row] for row in shown_rows(page)]
    assert HOSTILE in page.locator("#words").inner_text() and HOSTILE in page.locator("#facts").inner_text()
    _, lines = point_at(page, 0.8, 2)
    assert {f"trial {trials['trial_id'][3]}", f"{HOSTILE} = 0.8", f"validation {HOSTILE}: 0.3"} <= set(lines)
    page.locator("#trials .error button").first.click()
    assert page.locator("#trials .error.whole span").text_content().strip() == trials["error"][3].strip()


# ---------------------------------------------------------------- landscape


@slow
def test_the_slider_shows_each_slice_as_the_payload_has_it(show):
    study = studies()["slices"]
    score, (xs, ys, ticks) = "val_score", study["grid"]["ticks"]
    values = [value for value in study["grid"]["cells"]["values"][score] if value is not None]
    page = show("slices")
    page.locator("#slice").focus()
    page.keyboard.press("Home")
    for k, b in enumerate(ticks):
        scores, lost = trace(page, "scores"), trace(page, "lost")
        assert page.locator("#slice-text").inner_text() == f"b = {b}"
        assert scores["z"] == matrix(study, score, k)
        assert [scores["zmin"], scores["zmax"]] == [min(values), max(values)]
        run = {tuple(at[:2]) for at in study["grid"]["cells"]["at"] if at[2] == k}
        without = [(i, j) for i, j in run if scores["z"][j][i] is None]
        assert {(i, j) for j, line in enumerate(lost["z"]) for i, z in enumerate(line) if z == 1} == set(without)
        diagonals = [one["y"][0] / one["x"][0] for one in traces(page) if one["name"] == "global average"]
        assert diagonals and diagonals == pytest.approx([study["averages"][1]["ratio"][k]] * len(diagonals))
        if b == 64:  # the best cells are outlined
            boxes = page.evaluate("document.getElementById('landscape').layout.shapes")
            cells = [(z, i, j) for j, line in enumerate(scores["z"]) for i, z in enumerate(line) if z is not None]
            best = {(i, j) for _, i, j in sorted(cells, reverse=True)[: study["top"]]}
            for i, j in itertools.product(range(len(xs)), range(len(ys))):
                inside = any(box["x0"] < xs[i] < box["x1"] and box["y0"] < ys[j] < box["y1"] for box in boxes)
                assert inside == ((i, j) in best)
        page.keyboard.press("ArrowRight")
    page.locator("#slice-down").click()
    assert page.locator("#slice-text").inner_text() == f"b = {ticks[-2]}"
    page.select_option("#score", "test_precision_at_1")
    assert trace(page, "scores")["z"] == matrix(study, "test_precision_at_1", len(ticks) - 2)


@slow
def test_pointing_at_a_cell_gives_the_numbers_of_the_payload(show):
    study = studies()["slices"]
    cells, ticks = study["grid"]["cells"], study["grid"]["ticks"]
    mine = [c for c, at in enumerate(cells["at"]) if at[2] == 3]
    scored = [c for c in mine if not cells["lost"][c]]
    asked = random.Random(1).sample(scored, 6) + [c for c in mine if cells["lost"][c]][:2]
    page = show("slices")
    page.locator("#slice").fill("3")
    for c in asked:
        x, y = ticks[0][cells["at"][c][0]], ticks[1][cells["at"][c][1]]
        _, lines = point_at(page, x, y)
        value = cells["values"]["val_score"][c]
        score = ["validation r_map: no value", "1 did not complete"]
        if value is not None:
            score = [f"validation r_map: {as_shown(page, value)}", "1 seed"]
        trial = f"trial {study['trials']['trial_id'][cells['trials'][c][0]]}"
        assert lines == [f"Λp = {as_shown(page, x)}", f"Λe = {as_shown(page, y)}", "b = 128", *score, trial]


@slow
def test_several_trainings_of_a_setting_are_a_mean_with_its_spread(show):
    study = studies()["one-parameter"]
    cells = study["grid"]["cells"]
    page = show("one-parameter")
    x = study["grid"]["ticks"][0][cells["at"][2][0]]
    mean, spread = cells["values"]["val_score"][2], cells["spread"]["val_score"][2]
    _, lines = point_at(page, x, mean)
    score = f"validation accuracy: {as_shown(page, mean)} ± {as_shown(page, spread)}"
    trials = ", ".join(study["trials"]["trial_id"][row] for row in cells["trials"][2])
    assert lines == [f"temperature = {as_shown(page, x)}", score, "mean of 2 seeds", f"trials {trials}"]


@slow
def test_a_click_on_a_setting_leaves_its_trials_in_the_table_until_it_is_undone(show):
    study = studies()["slices"]
    cells, ticks = study["grid"]["cells"], study["grid"]["ticks"]
    c = max(range(len(cells["at"])), key=lambda c: len(cells["trials"][c]))
    i, j, k = cells["at"][c]
    page = show("slices")
    page.locator("#slice").fill(str(k))
    place, _ = point_at(page, ticks[0][i], ticks[1][j])
    page.mouse.click(*place)
    page.wait_for_selector("#unchoose:visible")
    assert sorted(shown_rows(page)) == sorted(cells["trials"][c]) and len(cells["trials"][c]) == 2
    assert "Its 2 trials" in page.locator("#chosen").inner_text()
    page.locator("#unchoose").click()
    assert len(shown_rows(page)) == 50


@slow
def test_the_path_is_drawn_line_by_line_when_it_is_asked_for(show):
    page = show("search")
    assert all(one["name"] != "path" for one in traces(page))
    page.check("#path")
    lines = [line for line in studies()["search"]["lines"] if line["search"] == "cd"]
    for number, axis in enumerate("xy"):
        points = [[*(point[number] for point in line["points"]), None] for line in lines]
        assert trace(page, "path")[axis] == list(itertools.chain(*points))
    numbers = page.evaluate(
        "document.getElementById('landscape').layout.annotations.flatMap((one) => one.text.split(','))"
    )
    assert sorted(map(int, numbers)) == list(range(1, len(lines) + 1))
    said = [item.split(",")[0] for item in page.locator("#path-lines li").all_inner_texts()]
    assert said == [line["direction"] for line in lines] and len(said) > 3
    page.uncheck("#path")
    assert all(one["name"] != "path" for one in traces(page))


# ---------------------------------------------------------------- curves and timeline


@slow
def test_curves_are_the_payloads_against_trials_and_time(show):
    study = studies()["search"]
    page = show("search")
    for split in ("best", "test"):
        page.select_option("#split", split)
        assert [one["y"] for one in traces(page, "curves")] == [curve[split] for curve in study["curves"]]
    assert [one["x"] for one in traces(page, "curves")] == [curve["trials"] for curve in study["curves"]]
    assert page.locator("#clock option[value=gpu_seconds]").is_disabled()  # no trial had a GPU
    page.select_option("#clock", "seconds")
    unit = 60 if max(max(curve["seconds"]) for curve in study["curves"]) >= 300 else 1
    for one, curve in zip(traces(page, "curves"), study["curves"], strict=True):
        assert one["x"] == pytest.approx([seconds / unit for seconds in curve["seconds"]])
    styles = [(one["line"]["color"], one["line"]["dash"], one["marker"]["symbol"]) for one in traces(page, "curves")]
    assert all(len(set(kind)) == 3 for kind in zip(*styles, strict=True))  # told apart without colours too


@slow
def test_seeds_of_one_search_look_alike_and_are_told_once(show):
    lines = traces(show("seeds"), "curves")
    styles = {(one["line"]["color"], one["line"]["dash"], one["marker"]["symbol"]) for one in lines}
    assert len(lines) == 3 and len(styles) == 1
    assert [one["showlegend"] for one in lines] == [True, False, False]


@slow
def test_learning_curves_are_the_payloads_the_best_last_and_paused_ones_open(show):
    study = studies()["paused"]
    page = show("paused")
    lines = traces(page, "learning")
    by_row = {one["customdata"][0][1]: one for one in lines}
    assert {row: (one["x"], one["y"]) for row, one in by_row.items()} == {
        curve["row"]: (curve["images"], curve["scores"]) for curve in study["learning"]
    }
    scores, status = study["trials"]["scores"]["val_score"], study["trials"]["status"]
    [paused] = [row for row in by_row if status[row] == "stopped"]
    assert by_row[paused]["marker"]["symbol"] == "circle-open"
    assert "Open circles: 1 that have paused" in page.locator("#learning-text").inner_text()
    best = max((row for row in by_row if status[row] == "completed"), key=lambda row: scores[row])
    assert lines[-1]["customdata"][0][1] == best and lines[-1]["line"]["width"] > 2 * lines[0]["line"]["width"]
    assert sum(one["showlegend"] for one in lines) == len({study["trials"]["search"][row] for row in by_row})


@slow
@pytest.mark.parametrize("name", ["search", "grid"])
def test_the_timeline_has_every_trial_once_in_the_fewest_lanes(show, name):
    trials = studies()[name]["trials"]
    drawn = traces(show(name), "timeline")
    bars = sorted(
        (lane, start, start + length, text[1], one["name"])
        for one in drawn
        for lane, start, length, text in zip(one["y"], one["base"], one["x"], one["customdata"], strict=True)
    )
    assert sorted(row for *_, row, _ in bars) == list(range(len(trials["trial_id"])))
    for _, start, _, at, status in bars:
        assert status == trials["status"][at] and start == trials["started"][at] * 1000
    events = sorted([(start, 1) for start in trials["started"]] + [(end, -1) for end in trials["ended"]])
    most = max(itertools.accumulate(step for _, step in events))
    assert {lane for lane, *_ in bars} == set(range(1, most + 1))
    assert all(first[0] != second[0] or first[2] <= second[1] + 1e-3 for first, second in itertools.pairwise(bars))


@slow
def test_pointing_at_a_failed_trial_in_the_timeline_gives_its_error(show):
    page = show("search")
    scroll_to(page, "timeline")
    failed = [one["name"] for one in traces(page, "timeline")].index("failed")
    box = page.locator("#timeline .trace.bars").nth(failed).locator(".point path").bounding_box()
    page.mouse.move(box["x"] + 1, box["y"] + 1)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    lines = said(page)
    assert lines[:2] == ["cd-00014", "cd, failed"] and "train(a < b && c > d)" in lines[-1] and len(lines[-1]) < 200


# ---------------------------------------------------------------- the table


def in_order(study, key, down):
    """Rows of the study by a number, absent ones last, equal ones as they were: the oracle of a sort."""
    group, _, name = key.rpartition(".")
    values = study["trials"][group][name] if group else study["trials"][name]
    known = [row for row, value in enumerate(values) if value is not None]
    ordered = sorted(known, key=lambda row: -values[row] if down else values[row])
    return ordered + [row for row, value in enumerate(values) if value is None]


@slow
def test_the_table_sorts_numbers_as_numbers_and_absent_ones_last(show):
    study = studies()["search"]
    page = show("search")
    assert shown_rows(page) == in_order(study, "scores.val_score", down=True)  # at first
    for key in ("params.Lambda_e", "scores.test_score", "started"):
        for down in (False, True):
            page.locator(f"[id='sort-{key}']").press("Enter")
            assert shown_rows(page) == in_order(study, key, down)
            head = page.locator(f"th:has([id='sort-{key}'])")
            assert head.get_attribute("aria-sort") == ("descending" if down else "ascending")
    assert page.locator("th[aria-sort=ascending], th[aria-sort=descending]").count() == 1
    page.locator("#sort-trial_id").click()
    assert column(page, "trial_id") == sorted(study["trials"]["trial_id"])


@slow
def test_the_table_filters_by_words_and_by_status(show):
    trials = studies()["search"]["trials"]
    page = show("search")
    page.locator("#filter").fill("OUTOFMEMORY cd-0")
    assert shown_rows(page) == [trials["status"].index("failed")]
    page.locator("#filter").fill("separate-")
    assert {trials["search"][row] for row in shown_rows(page)} == {"separate"} and len(shown_rows(page)) == 5
    page.locator("#filter").fill("")
    page.select_option("#status", "diverged")
    assert shown_rows(page) == [trials["status"].index("diverged")]
    page.locator("#filter").fill("nothing is called this")
    assert shown_rows(page) == [] and page.locator("#page-text").inner_text() == "no trial like this"


@slow
def test_a_long_error_is_cut_and_shown_whole_as_it_was_written(show):
    page = show("search")
    page.select_option("#status", "failed")
    cell = page.locator("#trials .error").nth(0)
    assert cell.inner_text().startswith("Traceback") and "…" in cell.inner_text() and len(cell.inner_text()) < 120
    cell.locator("button").click()
    assert cell.locator("span").text_content().strip() == TRACE.strip()
    assert cell.locator("button").get_attribute("aria-expanded") == "true"


@slow
def test_3750_rows_are_turned_over_by_pages_and_found_at_once(show):
    study = studies()["grid"]
    count = len(study["trials"]["trial_id"])
    ordered = in_order(study, "scores.val_score", down=True)
    page = show("grid")
    assert len(shown_rows(page)) == 50 and page.locator("#page-text").inner_text() == f"1–50 of {count:,}"
    page.locator("#page-up").click()
    assert shown_rows(page) == ordered[50:100]
    page.locator("#page-last").click()
    assert shown_rows(page) == ordered[count - (count % 50 or 50) :]
    assert page.locator("#page-up").is_disabled()
    page.locator("#filter").fill("grid-0-123-")
    assert len(shown_rows(page)) == 1 and page.locator("#page-text").inner_text().startswith("1–")


# ---------------------------------------------------------------- several studies


@slow
def test_the_study_chooser_changes_everything(show):
    first, second = (studies()[name] for name in ("search", "one-batch-size"))
    page = show("search")
    assert page.locator("#slice-box").is_visible()
    page.select_option("#study", second["name"])
    assert trace(page, "scores")["z"] == matrix(second, "val_score", 0)
    assert not page.locator("#slice-box").is_visible()
    assert set(column(page, "trial_id")) <= set(second["trials"]["trial_id"])
    page.select_option("#study", "nothing")
    assert [page.locator(f"#{name}-empty").is_visible() for name in SECTIONS] == [True] * 4 + [False]
    page.select_option("#study", "all-failed")
    assert "no landscape" in page.locator("#landscape-empty").inner_text()
    assert "no curve" in page.locator("#curves-empty").inner_text()
    page.select_option("#study", first["name"])
    assert len(shown_rows(page)) == len(first["trials"]["trial_id"]) == 30


@slow
def test_somebody_elses_parameters_keep_their_names(show):
    page = show("other-parameters")
    axes = "['xaxis', 'yaxis'].map((axis) => document.getElementById('landscape').layout[axis].title.text)"
    assert page.evaluate(axes) == ["lr", "weight_decay"]
    assert "epochs 10" in page.locator("#same").inner_text() and page.locator("#split option[value=test]").is_disabled()
    assert page.locator("#key").inner_text().count("average") == 0
