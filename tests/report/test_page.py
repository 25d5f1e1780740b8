"""The report's page in a browser: what it draws is what its payload says, and nothing else gets in or out."""

import json
import math
import re
from functools import cache

import pytest
from browser import browser, watched
from odd_studies import odd
from studies import VICREG, empty, full_grid, main_job, own_tuner, paused_tuner, row, searched_terms, table

from tune_cd.report.payload import payload
from tune_cd.report.writing import render

slow = pytest.mark.slow
HOSTILE = "<script>alert(1)</script>"
CONTRASTS = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(`--${name}`).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = [1, 3, 5].map((n) => linear(parseInt(hex.slice(n, n + 2), 16) / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const pairs = ["ink", "muted", "accent", "caution", "lost"]
    .flatMap((front) => ["paper", "card"].map((back) => [front, back]));
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  return pairs.map(([front, back]) => [front, back, contrast(light(front), light(back))]);
}"""
NAMELESS = """() => [...document.querySelectorAll("input, select, button")].filter((one) => {
  const labelled = one.labels?.length && one.labels[0].textContent.trim();
  return !(labelled || one.ariaLabel || one.getAttribute("aria-labelledby") || one.textContent.trim());
}).map((one) => one.id)"""
MARKS = """(section) => [...document.querySelectorAll(`#${section} path[data-row]`)].map((mark) => ({
  row: Number(mark.dataset.row), d: mark.getAttribute("d"), dashed: mark.hasAttribute("stroke-dasharray"),
  filled: (mark.getAttribute("fill-opacity") ?? "1") === "1" && mark.getAttribute("fill") !== "none",
  at: (mark.getAttribute("transform") ?? "").match(/translate\\(([\\d.-]+) ([\\d.-]+)/)?.slice(1).map(Number),
}))"""
COVERED = """() => [...document.querySelectorAll("svg")].flatMap((root) => {
  const title = root.querySelector("text.name[transform]")?.getBoundingClientRect();
  const ticks = title ? [...root.querySelectorAll("text[text-anchor=end]")] : [];
  return ticks.filter((tick) => tick.getBoundingClientRect().left < title.right).map((tick) => tick.textContent);
})"""
BROKEN = """() => [...document.querySelectorAll("svg *")].filter((one) => [...one.attributes].some(
  ({ value }) => /NaN|Infinity|undefined/.test(value))).map((one) => one.outerHTML)"""


def hostile():
    """Text that would do harm as markup, wherever text can be."""
    trials = table(
        row(n, "failed" if n == 2 else "completed", 0.1 * n, params={HOSTILE: 0.1 * 2**n, "b": 1.0 + n // 2},
            search=HOSTILE, direction=HOSTILE, metric_name=HOSTILE, dataset=HOSTILE, trial_id=f"t{n}",
            error=f"{HOSTILE}\u2028</script><!-- ")
        for n in range(6)
    )  # fmt: skip
    return trials.assign(trial_id=[f"{HOSTILE}&amp;{n}" for n in range(6)], choices=[{"<b>": HOSTILE}] * 6)


@cache
def studies():
    """Name -> the payload of a study."""
    own, curves = own_tuner()
    tables = {
        "main": main_job(), "three": searched_terms(VICREG), "grid": full_grid(7, (16, 64)), "hostile": hostile(),
        "nothing": odd()["failed rows of nothing"], "one": odd()["one row"],
        "far": odd()["scores far apart"], "both signs": odd()["scores of both signs"],
        "values": odd()["values far apart"], "equal": odd()["equal scores"],
        "paused": paused_tuner((2.0,), (1.5, 1.0, 0.8, 0.4)),
        "odd names": odd()["names"], "parameters": odd()["parameters changed"],
    }  # fmt: skip
    tables["hurt"] = main_job().assign(software="{damaged")
    made = {"own": payload(own, "t", curves=curves)["studies"][0]}
    for name, trials in tables.items():
        made[name] = payload(trials.assign(study=name), "t")["studies"][0]
    return made


def page_of(*several, **content):
    return payload(empty(), "Trials of results") | {"studies": list(several)} | content


def test_data_come_back_from_the_page_as_they_were_whatever_they_look_like():
    name = f"{HOSTILE}</script><!-- \u2028 \u2029 {{{{css}}}} {{{{payload}}}} \\1 \\u003c"
    given = page_of({"name": name, "π": [1.5, None, True]}, title=HOSTILE)
    page = render(given)
    inside = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)[1]
    assert json.loads(inside) == given and not {"<", "\u2028", "\u2029"} & set(inside)
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in page


def test_the_page_names_no_other_file_and_is_small():
    page = render(payload(main_job(), "t"))
    assert not re.search(r"(src|href)=[\"']?(https?:|//|\.|/)|@import|url\((?!#)", page) and "{{" not in page
    assert len(page.encode()) < 200e3, "30 trials"


@slow
def test_a_page_of_thousands_of_trials_is_small():
    trials = full_grid(21, (16, 32, 64, 128, 256))
    assert len(trials) > 2000 and len(render(payload(trials, "t")).encode()) < 1e6


def test_a_payload_that_cannot_be_a_page_is_refused():
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            render(page_of({"name": "one", "top": [1.0, number]}))


# In a browser --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def album(running, tmp_path_factory):
    """(a page of all studies, what it complained about): to open a page costs more than to draw a study."""
    path = tmp_path_factory.mktemp("pages") / "album.html"
    path.write_text(render(page_of(*studies().values(), notes=[HOSTILE])), encoding="utf-8")
    with watched(running, path) as (page, complaints):
        yield page, complaints


@pytest.fixture
def show(album):
    """Function from the name of a study to the page that has just drawn it; it has complained about nothing."""
    page, complaints = album

    def choose(name, width=1280, scheme="light"):
        page.emulate_media(color_scheme=scheme)
        if page.viewport_size["width"] != width:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(300)
        page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); tell(null); }")
        page.select_option("#study", str(list(studies()).index(name)))
        return page

    yield choose
    found = complaints.copy()
    complaints.clear()
    assert not found, found


def marks(page, section="landscape"):
    return page.evaluate(MARKS, section)


def listed(page):
    """Rows of the table, as it shows them."""
    return page.evaluate("[...document.querySelectorAll('#trials tbody tr')].map((line) => Number(line.dataset.row))")


@slow
@pytest.mark.parametrize("width, scheme", [(390, "light"), (1280, "dark")])
def test_every_study_is_drawn_without_complaint_on_a_phone_and_on_a_screen(show, width, scheme):
    for name in studies().keys() - {"hurt"}:
        page = show(name, width, scheme)
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), name
        assert page.evaluate(BROKEN) == [] and page.evaluate(COVERED) == [], name
        said = page.locator("main").inner_text()
        assert not re.search(r"\bNaN\b|undefined|\[object", said), name
        assert page.locator("#best").is_visible() and page.locator("#trials tbody tr").count() > 0


@slow
def test_a_page_without_a_study_says_so(running, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(render(page_of()), encoding="utf-8")
    with watched(running, file, width=400, height=800) as (page, complaints):
        assert page.locator("#nothing").is_visible() and not page.locator("#all").is_visible()
        assert page.locator("html").get_attribute("lang") == "en-GB" and not complaints


@slow
def test_a_study_that_cannot_be_shown_has_the_reason_in_its_place(show):
    page = show("hurt")
    assert "JSONDecodeError" in page.locator("#failed").inner_text() and not page.locator("#all").is_visible()
    page = show("main")
    assert page.locator("#best").is_visible() and not page.locator("#failed").is_visible()


@slow
def test_text_is_readable_and_every_control_has_a_name(show):
    papers = set()
    for scheme in ("light", "dark"):
        page = show("own", scheme=scheme)
        papers.add(page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')"))
        for front, back, contrast in page.evaluate(CONTRASTS):
            assert contrast >= 4.5, (scheme, front, back, contrast)
        assert page.evaluate(NAMELESS) == []
    assert len(papers) == 2


@slow
def test_text_that_looks_like_markup_stays_text(show):
    page = show("hostile")
    assert page.evaluate("[document.scripts.length, document.images.length]") == [2, 0]
    assert HOSTILE in page.locator("#best").inner_text() and HOSTILE in page.locator("#notes").inner_text()
    assert page.locator("#trials tbody").inner_text().count(f"{HOSTILE}&amp;") == 6


@slow
def test_the_first_screen_has_the_setting_its_worth_and_how_to_use_it_beside_the_landscape(show):
    one, page = studies()["main"], show("main")
    for text in one["setting"]:
        assert text in page.locator("#best").inner_text()
    assert one["trials"]["trial_id"][one["best"][0]] in page.locator("#best").inner_text()
    shown = page.locator("#worth .name").all_inner_texts()
    assert shown == ["best setting", "separate average, best rate", "global average, best rate"]
    dots = page.evaluate("[...document.querySelectorAll('#worth .dot')].map((dot) => parseFloat(dot.style.left))")
    values = [line["value"] for line in one["worth"]["rows"]]
    assert sorted(range(3), key=dots.__getitem__) == sorted(range(3), key=values.__getitem__)
    assert page.locator("#use pre:visible").all_inner_texts() == [next(iter(one["use"].values()))]
    page.locator("#use summary").nth(1).click()
    assert page.locator("#use pre:visible").all_inner_texts() == [one["use"]["with a global average"]]
    boxes = [page.locator(f"#{name}").bounding_box() for name in ("best", "landscape")]
    assert abs(boxes[0]["y"] - boxes[1]["y"]) < 1 and boxes[1]["x"] > boxes[0]["x"] + boxes[0]["width"]


@slow
def test_a_single_known_score_has_no_place_on_a_scale(show):
    """That of the first setting is of an eighth of a training: words compare them."""
    worth = show("paused").locator("#worth")
    assert worth.locator(".name").all_inner_texts() == ["best setting", "first setting tried"]
    assert worth.locator(".dot").count() == 0 and "both at 12.5 % of their length" in worth.inner_text()


@slow
@pytest.mark.parametrize("x, y", [("0", "1"), ("1", "3"), ("3", "score")])
def test_every_training_lies_at_its_place_filled_where_it_ended_and_a_star_is_the_best(show, x, y):
    one, page = studies()["own"], show("own")
    page.select_option("#x", x)
    page.select_option("#y", y)
    drawn = {mark["row"]: mark for mark in marks(page)}
    across = one["params"][int(x)]["at"]
    up = one["scores"][0]["values"] if y == "score" else one["params"][int(y)]["at"]
    rows = [row for row in range(len(across)) if None not in (across[row], up[row])]
    assert set(drawn) == set(rows), "none is hidden, also not those below 0"
    for places, n, sign in ((across, 0, 1), (up, 1, -1)):
        pixels = [sign * drawn[row]["at"][n] for row in rows]
        low, high = (min(rows, key=places.__getitem__), max(rows, key=places.__getitem__))
        width = (sign * drawn[high]["at"][n] - sign * drawn[low]["at"][n]) / (places[high] - places[low])
        expected = [sign * drawn[low]["at"][n] + width * (places[row] - places[low]) for row in rows]
        assert width > 50 and pixels == pytest.approx(expected, abs=0.2)
    for at in rows:
        if one["scores"][0]["values"][at] is not None:
            assert drawn[at]["filled"] == (one["trials"]["state"][at] == "trained to the end"), at
    best = one["best"][0]
    assert page.locator("#landscape .star").get_attribute("data-row") == str(best)
    if "3" not in (x, y):
        shapes = {one["params"][3]["values"][row]: drawn[row]["d"] for row in rows if row != best}
        assert len(set(shapes.values())) == 3, "categories have shapes"


@slow
def test_the_key_tells_the_ends_of_the_shades_and_that_the_worst_scores_lie_beyond(show):
    """So a reader who takes a score from its colour is not misled by an outlier."""
    for name, worst in (("grid", "≤ "), ("paused", "")):
        score, page = studies()[name]["scores"][0], show(name)
        known = sorted((value for value in score["values"] if value is not None), reverse=score["down"])
        low, text = known[int(0.05 * len(known))], page.locator("#landscape .key li", has=page.locator(".bar"))
        ends = re.fullmatch(r"(\D*)([-\d.]+)\s+([-\d.]+) (.*)", text.inner_text())
        assert (ends[1], float(ends[2])) == (worst, pytest.approx(low, rel=1e-3)) and ends[4] == score["label"]
        assert float(ends[3]) == pytest.approx(known[-1], rel=1e-3) and (known[0] != low) == bool(worst)


@slow
def test_what_is_said_of_a_training_tells_its_state_and_length_by_mouse_and_by_keyboard(show):
    one, page = studies()["own"], show("own")
    at = one["trials"]["state"].index("stopped early")
    page.locator(f"#landscape path[data-row='{at}']").hover(force=True)
    share = one["trials"]["share"][at]
    said = page.locator("#tip").inner_text()
    assert f"{one['trials']['trial_id'][at]}, stopped early at {100 * share:g} %" in said and "optimizer = " in said
    page.mouse.move(1, 1)
    page.locator("#learning svg").focus()
    page.wait_for_timeout(200)  # focusing scrolls, and scrolling hides what is said
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").is_visible() and page.locator("#learning .at").count() == 1
    row = int(page.locator("#learning .at").get_attribute("data-row"))
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.row") == str(row), "Enter leads to its row in the table"


@slow
def test_lines_are_dashed_and_ends_hollow_where_a_training_did_not_end(show):
    """Parallel coordinates have a line for every score, learning curves one for every curve."""
    one, page = studies()["own"], show("own")
    whole = [state == "trained to the end" for state in one["trials"]["state"]]
    lines = marks(page, "parallel")
    assert {line["row"] for line in lines} == {n for n, at in enumerate(one["scores"][0]["values"]) if at is not None}
    assert all(line["dashed"] != whole[line["row"]] for line in lines)
    assert all(line["d"].count("L") == len(one["params"]) for line in lines)
    assert lines[-1]["row"] == one["best"][0], "the best is on top"
    ends = {mark["row"]: mark["filled"] for mark in marks(page, "learning") if mark["at"]}
    assert ends == {line["row"]: whole[line["row"]] for line in one["learning"]["lines"]}
    assert not show("main").locator("#parallel").is_visible()


@slow
def test_the_table_sorts_and_tells_whole_trainings_from_short_ones(show):
    one, page = studies()["own"], show("own")
    scores = one["scores"][0]["values"]
    known = [score for score in scores if score is not None]
    assert [scores[row] for row in listed(page)] == sorted(known, reverse=True) + [None] * (len(scores) - len(known))
    button = page.locator("#trials th button", has_text="momentum")
    button.press("Enter")
    values = one["params"][1]["values"]
    assert [values[row] for row in listed(page)] == sorted(values)
    assert page.locator("#trials th[aria-sort=ascending]").inner_text().startswith("momentum")
    signs = page.evaluate("""[...document.querySelectorAll("#trials tbody tr")].map(
        (line) => getComputedStyle(line.cells[0], "::before").content[1])""")
    told = {"trained to the end": "●", "paused": "○", "stopped early": "○"}
    assert signs == [told.get(one["trials"]["state"][row], "×") for row in listed(page)]
    assert not page.locator("#more").is_visible()


@slow
def test_a_long_table_shows_all_when_it_is_asked_to_or_when_a_mark_leads_to_a_row_that_is_not_shown(show):
    count, page = len(studies()["grid"]["trials"]["state"]), show("grid")
    assert len(listed(page)) == 50 < count
    page.locator("#more").click()
    assert sorted(listed(page)) == list(range(count)) and not page.locator("#more").is_visible()
    page = show("own") and show("grid")
    hidden = next(row for row in range(count) if row not in listed(page))
    page.evaluate("(row) => find(row)", hidden)
    assert page.evaluate("document.activeElement.dataset.row") == str(hidden)


@slow
def test_a_printed_table_has_all_rows_and_columns_that_are_shown(show):
    page = show("grid")
    page.emulate_media(media="print")
    cut = "(({ scrollHeight: h, clientHeight: c, scrollWidth: w, clientWidth: d }) => [h - c, w - d])"
    found = page.evaluate(f"{cut}(document.querySelector('#trials .scroll'))")
    page.emulate_media(media="screen")
    assert max(found) <= 1, "no part lies behind a scroll bar"


@slow
def test_words_are_explained_once_where_they_first_stand(show):
    page = show("main")
    terms = page.locator(".terms b").all_inner_texts()
    assert len(terms) == len(set(terms)) and {"Λp", "r_map", "separate average", "cd"} <= set(terms)
    page.locator("#worth summary").click()
    page.locator("#worth .terms", has_text="octave").wait_for()
    assert "Λp" not in show("own").locator(".terms b").all_inner_texts()
