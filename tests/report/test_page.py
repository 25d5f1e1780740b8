"""The report's page in a browser: what it draws is what its payload says, and nothing else gets in or out."""

import itertools
import json
import math
import random
import re

import pytest
from browser import browser, opened, watched
from pages import BALANCE, EXAMPLES, HOSTILE, TRACE, payload, studies

from tune_cd.report.page import render

slow = pytest.mark.slow
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


@pytest.fixture(scope="module")
def running():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def album(running, tmp_path_factory):
    """(a page of all studies, what it complained about): to open a page costs ten times what drawing a study does."""
    path = tmp_path_factory.mktemp("pages") / "album.html"
    path.write_text(render(payload(*studies().values(), notes=(HOSTILE,))), encoding="utf-8")
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
    return page.evaluate("(value) => String(value)", value)


# ---------------------------------------------------------------- the file itself


def test_data_come_back_from_the_page_as_they_were_whatever_they_look_like():
    given = payload(
        {
            "name": f"{HOSTILE}</script><!-- \u2028 \u2029 {{{{css}}}} {{{{payload}}}} \\1 \\u003c",
            "π": [1.5, None, True],
        }
    )
    page = render(given)
    inside = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)[1]
    assert json.loads(inside) == given
    assert not {"<", "\u2028", "\u2029"} & set(inside)


def test_a_title_is_text_and_the_page_names_no_other_file():
    page = render(payload() | {"title": HOSTILE})
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in page
    ours = page.replace(re.search(r"<script>(?=/\*\*\n\* plotly).*?</script>", page, re.DOTALL)[0], "")
    assert not re.search(r"(src|href)=[\"']?(https?:|//|\.|/)|@import|url\(", ours)
    assert "{{" not in ours


@pytest.mark.parametrize(("number", "text"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_a_number_that_json_has_no_word_for_is_refused_with_its_place(number, text):
    with pytest.raises(ValueError, match=re.escape(f"payload['studies'][0]['top'][1] = {text}")):
        render(payload({"name": "one", "top": [1.0, number]}))


def test_a_payload_without_a_key_is_refused():
    without = payload()
    del without["notes"]
    with pytest.raises(ValueError, match="notes"):
        render(without)


def test_a_page_of_3750_trials_is_a_file_of_less_than_15_mb():
    assert 4e6 < len(render(payload(studies()["grid"])).encode()) < 15e6


# ---------------------------------------------------------------- every kind of study


SECTIONS = ("landscape", "curves", "learning", "timeline", "trials")


def check_whole(page, name):
    """Nothing is wider than the window; every section has something to show, or a sentence."""
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), name
    for section in SECTIONS:
        whole, sentence = (page.locator(f"#{section}-{part}").is_visible() for part in ("whole", "empty"))
        assert whole != sentence or name == "no-study", (name, section)
    assert page.locator("#nothing").is_visible() == (name == "no-study")
    assert page.locator("html").get_attribute("lang") == "en-GB"


@slow
@pytest.mark.parametrize("width", [400, 1280])
def test_every_study_is_drawn_without_complaint_on_a_phone_and_on_a_screen(show, width):
    page = show("empty")
    resize(page, width)
    for name, study in studies().items():
        page.select_option("#study", study["name"])
        check_whole(page, name)


@slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.faults] * (name != "no-study")) for name in EXAMPLES]
)
def test_a_page_of_its_own_is_opened_without_complaint_on_a_phone_and_made_wide(running, tmp_path, name):
    """In the long run every example: in the short one other tests open some, and the page of all draws each."""
    file = tmp_path / "page.html"
    file.write_text(render(EXAMPLES[name]()), encoding="utf-8")
    with opened(running, file, width=400, height=800) as page:
        for width in (400, 1280):
            resize(page, width)
            check_whole(page, name)


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
    example = studies()["hostile"]
    page = show("hostile")
    assert page.evaluate("[document.scripts.length, document.images.length]") == [4, 0]
    assert column(page, "trial_id") == [example["trials"]["trial_id"][row] for row in shown_rows(page)]
    assert page.locator(".word.lead h3").inner_text() == HOSTILE
    _, lines = point_at(page, 0.4, 0.4)
    assert {f"trial {example['trials']['trial_id'][2]}", f"{HOSTILE} = 1", f"{HOSTILE}: 0.2"} <= set(lines)
    page.locator("#trials .error button").first.click()
    assert page.locator("#trials .error.whole span").text_content().strip() == example["trials"]["error"][3].strip()


# ---------------------------------------------------------------- landscape


@slow
def test_the_slider_shows_each_slice_as_the_payload_has_it(show):
    study = studies()["slices"]
    score, ticks = "val_score", study["grid"]["ticks"][2]
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
        for j, i in ((j, i) for j in range(9) for i in range(9)):
            assert lost["z"][j][i] == (1 if (i, j) in run and scores["z"][j][i] is None else None)
        diagonals = [one["y"][0] / one["x"][0] for one in traces(page) if one["name"] == "global average"]
        assert diagonals and diagonals == pytest.approx([study["averages"][1]["ratio"][k]] * len(diagonals))
        page.keyboard.press("ArrowRight")
    page.locator("#slice-down").click()
    assert page.locator("#slice-text").inner_text() == f"b = {ticks[-2]}"
    page.select_option("#score", "scores.test_map_at_r")
    assert trace(page, "scores")["z"] == matrix(study, "scores.test_map_at_r", len(ticks) - 2)


@slow
def test_the_best_cells_of_a_slice_are_outlined(show):
    study = studies()["slices"]
    xs, ys, _ = study["grid"]["ticks"]
    page = show("slices")
    page.locator("#slice").fill("2")
    boxes = page.evaluate("document.getElementById('landscape').layout.shapes")
    z = matrix(study, "val_score", 2)
    best = sorted(((z[j][i], i, j) for j in range(9) for i in range(9) if z[j][i] is not None), reverse=True)[
        : study["top"]
    ]
    inside = {
        (i, j)
        for box in boxes
        for i in range(9)
        for j in range(9)
        if box["x0"] < xs[i] < box["x1"] and box["y0"] < ys[j] < box["y1"]
    }
    assert inside == {(i, j) for _, i, j in best}


@slow
def test_pointing_at_a_cell_gives_the_numbers_of_the_payload(show):
    study = studies()["slices"]
    cells, ticks = study["grid"]["cells"], study["grid"]["ticks"]
    mine = [c for c, at in enumerate(cells["at"]) if at[2] == 3]
    asked = (
        random.Random(1).sample([c for c in mine if not cells["lost"][c]], 6)
        + [c for c in mine if cells["lost"][c]][:2]
    )
    page = show("slices")
    page.locator("#slice").fill("3")
    for c in asked:
        x, y = ticks[0][cells["at"][c][0]], ticks[1][cells["at"][c][1]]
        _, lines = point_at(page, x, y)
        value = cells["values"]["val_score"][c]
        score = (
            ["validation r_map: no value", "1 did not complete"]
            if value is None
            else [f"validation r_map: {as_shown(page, value)}", "1 seed"]
        )
        trial = f"trial {study['trials']['trial_id'][cells['trials'][c][0]]}"
        assert lines == [f"Λp = {as_shown(page, x)}", f"Λe = {as_shown(page, y)}", "b = 128", *score, trial]


@slow
def test_several_trainings_of_a_setting_are_a_mean_with_its_spread(show):
    study = studies()["one-parameter"]
    cells = study["grid"]["cells"]
    page = show("one-parameter")
    x, mean, spread = (
        study["grid"]["ticks"][0][cells["at"][2][0]],
        cells["values"]["val_score"][2],
        cells["spread"]["val_score"][2],
    )
    _, lines = point_at(page, x, mean)
    score = f"validation accuracy: {as_shown(page, mean)} ± {as_shown(page, spread)}"
    assert lines == [f"temperature τ = {as_shown(page, x)}", score, "mean of 2 seeds", "trials cd-00004, cd-00005"]


@slow
def test_a_click_on_a_setting_leaves_its_trials_in_the_table_until_it_is_undone(show):
    study = studies()["search"]
    cells, ticks = study["grid"]["cells"], study["grid"]["ticks"]
    c = max(range(len(cells["at"])), key=lambda c: len(cells["trials"][c]))
    i, j, k = cells["at"][c]
    page = show("search")
    page.locator("#slice").fill(str(k))
    place, _ = point_at(page, ticks[0][i], ticks[1][j])
    page.mouse.click(*place)
    page.wait_for_selector("#unchoose:visible")
    assert sorted(shown_rows(page)) == sorted(cells["trials"][c]) and len(cells["trials"][c]) > 1
    assert f"Its {len(cells['trials'][c])} trials" in page.locator("#chosen").inner_text()
    page.locator("#unchoose").click()
    assert len(shown_rows(page)) == 30


@slow
def test_a_window_made_narrow_shows_what_a_narrow_one_shows(running, tmp_path):
    inside = "document.getElementById('landscape')._fullLayout._size"
    file = tmp_path / "page.html"
    file.write_text(render(payload(studies()["slices"])), encoding="utf-8")
    with opened(running, file, width=400, height=800) as page:
        expected = page.evaluate(f"[{inside}.w, {inside}.h]")
        page.set_viewport_size({"width": 1280, "height": 800})
        page.wait_for_function(f"(narrow) => {inside}.w > 1.5 * narrow", arg=expected[0], timeout=30_000)
        page.set_viewport_size({"width": 400, "height": 800})
        page.wait_for_function(f"([w, h]) => {inside}.w === w && {inside}.h === h", arg=expected, timeout=30_000)


@slow
def test_the_path_is_drawn_line_by_line_when_it_is_asked_for(show):
    study = studies()["search"]
    page = show("search")
    assert all(one["name"] != "path" for one in traces(page))
    page.check("#path")
    lines = [line for line in study["lines"] if line["search"] == "cd"]
    for number, axis in enumerate("xy"):
        assert trace(page, "path")[axis] == [
            value for line in lines for value in [point[number] for point in line["points"]] + [None]
        ]
    numbers = page.evaluate(
        "document.getElementById('landscape').layout.annotations.flatMap((one) => one.text.split(','))"
    )
    assert sorted(map(int, numbers)) == list(range(1, len(lines) + 1))
    assert [item.split(",")[0] for item in page.locator("#path-lines li").all_inner_texts()] == [
        line["direction"] for line in lines
    ]
    page.uncheck("#path")
    assert all(one["name"] != "path" for one in traces(page))


@slow
def test_trials_that_all_failed_are_marked_and_have_neither_colours_nor_curves(show):
    page = show("all-failed")
    assert trace(page, "scores")["x"] == [] and len(trace(page, "lost")["x"]) == 6
    assert page.locator("#landscape .colorbar").count() == 0
    assert "no curve" in page.locator("#curves-empty").inner_text()


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
    assert [one["x"] for one in traces(page, "curves")] == [curve["seconds"] for curve in study["curves"]]
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
    first = study["learning"][0]
    page = show("paused")
    lines = traces(page, "learning")
    text = page.locator("#learning-text").inner_text()
    by_row = {one["customdata"][0][1]: one for one in lines}
    assert {row: (one["x"], one["y"]) for row, one in by_row.items()} == {
        curve["row"]: (curve["images"], curve["scores"]) for curve in study["learning"]
    }
    assert by_row[first["row"]]["marker"]["symbol"] == "circle-open" and "Open circles: 1 that have paused" in text
    scores, status = study["trials"]["scores"]["val_score"], study["trials"]["status"]
    best = max((row for row in by_row if status[row] == "completed"), key=lambda row: scores[row])
    assert lines[-1]["customdata"][0][1] == best and lines[-1]["line"]["width"] > 2 * lines[0]["line"]["width"]
    assert sum(one["showlegend"] for one in lines) == len({study["trials"]["search"][row] for row in by_row})


@slow
@pytest.mark.parametrize("name", ["search", "grid"])
def test_the_timeline_has_every_trial_once_in_the_fewest_lanes(show, name):
    trials = studies()[name]["trials"]
    drawn = traces(show(name), "timeline")
    bars = [
        (lane, start, start + length, text[1], one["name"])
        for one in drawn
        for lane, start, length, text in zip(one["y"], one["base"], one["x"], one["customdata"], strict=True)
    ]
    assert sorted(row for *_, row, _ in bars) == list(range(len(trials["trial_id"])))
    assert all(
        status == trials["status"][row] and start == trials["started"][row] * 1000 for _, start, _, row, status in bars
    )
    events = sorted([(start, 1) for start in trials["started"]] + [(end, -1) for end in trials["ended"]])
    running_now, most = 0, 0
    for _, step in events:
        running_now += step
        most = max(most, running_now)
    assert {lane for lane, *_ in bars} == set(range(1, most + 1))
    bars.sort()
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
    group, name = key.split(".", 1) if "." in key else (None, key)
    values = study["trials"][group][name] if group else study["trials"][name]
    present = [row for row, value in enumerate(values) if value is not None]
    return sorted(present, key=lambda row: -values[row] if down else values[row]) + [
        row for row, value in enumerate(values) if value is None
    ]


@slow
def test_the_table_sorts_numbers_as_numbers_and_absent_ones_last(show):
    study = studies()["search"]
    page = show("search")
    assert shown_rows(page) == in_order(study, "scores.val_score", down=True)  # at first
    for key in ("params.Lambda_e", "scores.test_score", "train_seconds"):
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
    study = studies()["search"]
    page = show("search")
    page.locator("#filter").fill("OUTOFMEMORY cd-0")
    assert shown_rows(page) == [study["trials"]["status"].index("failed")]
    page.locator("#filter").fill("separate-")
    assert {study["trials"]["search"][row] for row in shown_rows(page)} == {"separate"} and len(shown_rows(page)) == 5
    page.locator("#filter").fill("")
    page.select_option("#status", "diverged")
    assert shown_rows(page) == [study["trials"]["status"].index("diverged")]
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
    page = show("grid")
    assert len(shown_rows(page)) == 50 and page.locator("#page-text").inner_text() == f"1–50 of {count:,}"
    page.locator("#page-up").click()
    assert shown_rows(page) == in_order(study, "scores.val_score", down=True)[50:100]
    page.locator("#page-last").click()
    assert shown_rows(page) == in_order(study, "scores.val_score", down=True)[count - (count % 50 or 50) :]
    assert page.locator("#page-up").is_disabled()
    page.locator("#filter").fill("grid-0123")
    assert len(shown_rows(page)) == sum("grid-0123" in name for name in study["trials"]["trial_id"])
    assert page.locator("#page-text").inner_text().startswith("1–")


# ---------------------------------------------------------------- several studies, and a page that is alive


@slow
def test_the_study_chooser_changes_everything(show):
    first, second, third = (studies()[name] for name in ("search", "one-batch-size", "empty"))
    page = show("search")
    assert page.locator("#slice-box").is_visible()
    page.select_option("#study", second["name"])
    assert trace(page, "scores")["z"] == matrix(second, "val_score", 0)
    assert not page.locator("#slice-box").is_visible()
    assert set(column(page, "trial_id")) <= set(second["trials"]["trial_id"])
    page.select_option("#study", third["name"])
    assert [page.locator(f"#{name}-empty").is_visible() for name in SECTIONS] == [True] * 5
    page.select_option("#study", first["name"])
    assert len(shown_rows(page)) == len(first["trials"]["trial_id"])


@slow
def test_somebody_elses_parameters_keep_their_names(show):
    assert next(name for name, _ in BALANCE) == "Lambda_p"
    page = show("other-parameters")
    titles = "[chart.layout.xaxis.title.text, chart.layout.yaxis.title.text]"
    layout = page.evaluate(f"(() => {{ const chart = document.getElementById('landscape'); return {titles} }})()")
    assert layout == ["lr", "weight_decay"]
    assert "epochs 10" in page.locator("#same").inner_text() and page.locator("#split option[value=test]").is_disabled()
    assert page.locator("#key").inner_text().count("average") == 0
