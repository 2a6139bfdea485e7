"""The page in a real browser, opened from disk with the network off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sgrl.report.page import write_report
from sgrl.training.references import KINDS, reference_return
from tests.report.made import HOPPERS, WALKER, made_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 60_000
"""Milliseconds; a browser on a busy machine is slow."""
REPLAY = """<!doctype html><p id=said>still</p></script><script>
try { parent.document.title = "reached"; } catch (error) { said.textContent = error.name; }
</script>"""


@dataclass
class Opened:
    """A report in a tab, and what it has complained of or asked for."""

    page: Page
    complaints: list[str]
    asked: list[str]

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_text_contents()

    def press(self, text: str) -> None:
        """Click the button that says so."""
        self.page.get_by_role("button", name=text, exact=True).click()

    def drawn(self) -> list[str | None]:
        """The curves' paths."""
        return [path.get_attribute("d") for path in self.page.locator("path.curve").all()]

    def point_at(self, share: float) -> list[str]:
        """What is read in the first panel at a share of its axis: the place, then a line each."""
        box = self.page.locator(".panel svg").first.bounding_box()
        assert box is not None
        left, right = 52, 12  # of the axis, as in chart.js
        x = box["x"] + left + share * (box["width"] - left - right)
        self.page.mouse.move(x, box["y"] + 60)
        rows = self.page.locator(".reading:visible tr").all()
        return [" ".join(row.inner_text().split()) for row in rows]


@pytest.fixture(scope="module")
def report(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """SET with three seeds on two hoppers, the last with half the steps; SWAT with one; SET on a
    walker. Returns grow in proportion to steps."""
    folder = tmp_path_factory.mktemp("report")
    both = [
        made_run(folder, {HOPPERS[0]: slope, HOPPERS[1]: 2 * slope}, seed=seed, rows=rows)
        for seed, (slope, rows) in enumerate(((0.1, 50), (0.2, 50), (0.3, 25)))
    ]
    both.append(made_run(folder, dict.fromkeys(HOPPERS, 1.0), method="swat"))
    both.append(made_run(folder, {WALKER: 1.0}))
    (both[0].path / "replay.html").write_text(REPLAY, encoding="utf-8")
    out = folder / "report.html"
    write_report([run.path for run in both], out, "</script>Curves & <b>tables</b>")
    complaints: list[str] = []
    asked: list[str] = []
    size = {"width": 500, "height": 700}
    with browser.new_context(viewport=size, offline=True, color_scheme="light") as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(out.as_uri())
        yield Opened(page, complaints, asked)
    assert complaints == []
    outside = [url for url in asked if not url.startswith(("file:", "data:", "about:", "blob:"))]
    assert outside == []


@pytest.fixture
def fresh(report: Opened) -> Opened:
    """The page as it is when it is opened."""
    report.page.reload()
    report.page.mouse.move(0, 0)
    return report


def test_curves_are_drawn(fresh: Opened) -> None:
    assert fresh.page.title() == "</script>Curves & <b>tables</b>"
    assert fresh.texts(".panel h3") == [", ".join(HOPPERS), WALKER]
    # One for each method and panel, and what only two of SET's three seeds got to.
    assert (fresh.count("path.curve:not(.partial)"), fresh.count("path.partial")) == (3, 1)
    assert fresh.count("path.band") == 1, "where there are several seeds"
    lengths = fresh.page.locator("path.curve").evaluate_all(
        "paths => paths.map((path) => path.getTotalLength())"
    )
    assert all(length > 80 for length in lengths)
    assert "NaN" not in fresh.page.locator("#charts").inner_html()


def test_lines_to_compare_with(fresh: Opened) -> None:
    """Random actions on all bodies, the specialist where one is known of every body."""
    known = [
        (kind, value)
        for bodies in (HOPPERS, [WALKER])
        for kind in KINDS
        if (value := reference_return(kind, bodies, "v1")) is not None
    ]
    texts = fresh.texts(".reference-name")
    assert len(texts) == fresh.count("line.reference") == len(known)
    assert [text.split()[0] for text in texts] == [kind for kind, _ in known]
    for text, (_, value) in zip(texts, known, strict=True):
        assert float(text.split()[1].replace(",", "")) == pytest.approx(value, abs=0.5)
    fresh.page.locator("#metric").select_option("length")
    assert fresh.count("line.reference") == 0


def test_wide_tables_scroll_and_keep_their_first_column(fresh: Opened) -> None:
    fresh.page.set_viewport_size({"width": 500, "height": 700})
    table = fresh.page.locator("section:has(h2:text-is('Runs')) .scroll")
    moved = table.evaluate(
        "box => { const first = box.querySelector('td').getBoundingClientRect().left;"
        " box.scrollLeft = 1e6; const now = box.querySelector('td').getBoundingClientRect().left;"
        " return [box.scrollLeft, now - first]; }"
    )
    assert moved[0] > 50
    assert abs(moved[1]) < 1
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert fresh.page.evaluate(wide), "the page itself does not"


def test_the_numbers_under_the_pointer(fresh: Opened) -> None:
    fresh.page.locator("#smooth").fill("0")
    place, first, second = fresh.point_at(0.4)
    assert place == "2000 steps"
    # SWAT 1.0 a step; SET the mean of 0.15, 0.3 and 0.45, each the mean of two bodies.
    assert first.startswith("swat ")
    assert 1950 < float(first.split()[1]) < 2050
    name, mean, _, error, seeds = second.split(maxsplit=4)
    assert (name, seeds) == ("set", "3 seeds")
    assert 580 < float(mean) < 620
    assert float(error) == pytest.approx(float(mean) * 0.5 / 3**0.5, rel=0.03)
    *_, later = fresh.point_at(0.8)
    assert later.endswith("2 of 3 seeds")
    fresh.page.mouse.move(0, 0)
    assert fresh.count(".reading:visible") == 0


def test_the_keyboard_reads_too(fresh: Opened) -> None:
    fresh.page.locator(".panel svg").last.focus()
    for _ in range(5):
        fresh.page.keyboard.press("ArrowRight")
    assert fresh.texts(".reading:visible tr")[0] == "500 steps"


def test_a_click_on_a_name_hides_its_curves(fresh: Opened) -> None:
    fresh.press("swat")
    assert fresh.count("path.curve:not(.partial)") == 2
    assert len(fresh.point_at(0.4)) == 2
    fresh.press("set")
    assert fresh.count("path.curve") == 0
    assert fresh.count(".empty") == 2
    fresh.press("set")
    fresh.press("swat")
    assert fresh.count("path.curve:not(.partial)") == 3


def test_panels_by_body_and_family(fresh: Opened) -> None:
    fresh.press("body")
    assert fresh.texts(".panel h3") == [*HOPPERS, WALKER]
    fresh.page.locator("#smooth").fill("0")
    assert 380 < float(fresh.point_at(0.4)[-1].split()[1]) < 420, "of the first hopper alone"
    fresh.press("family")
    assert fresh.texts(".panel h3") == ["hopper", "walker"]


def test_against_time(fresh: Opened) -> None:
    assert "2000" in fresh.texts(".panel text")
    fresh.press("wall time")
    assert "50 s" in fresh.texts(".panel text")
    assert fresh.point_at(0.4)[0] == "40 s"


def test_metric_shading_and_smoothing(fresh: Opened) -> None:
    before = fresh.drawn()
    fresh.page.select_option("#metric", "length")
    assert fresh.drawn() != before
    fresh.page.select_option("#metric", "learning_rate")
    assert fresh.count("path.curve") > 0, "of what never changes, too"
    assert fresh.page.locator("#panels").is_hidden(), "a run has only one"
    fresh.page.select_option("#metric", "return")
    assert fresh.drawn() == before
    band = fresh.page.locator("path.band").get_attribute("d")
    fresh.page.select_option("#spread", "range")
    assert fresh.page.locator("path.band").get_attribute("d") != band
    fresh.page.select_option("#spread", "seeds")
    assert (fresh.count("path.band"), fresh.count("path.seed")) == (0, 5)
    fresh.page.select_option("#metric", "approx_kl")
    rough = fresh.drawn()
    fresh.page.locator("#smooth").fill("1")
    assert fresh.drawn() != rough


def test_light_and_dark(fresh: Opened) -> None:
    def background() -> str:
        colour: str = fresh.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return colour

    light = background()
    fresh.page.locator("#theme").click()
    assert background() != light
    fresh.page.locator("#theme").click()
    assert background() == light
    fresh.page.emulate_media(color_scheme="dark")
    fresh.page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    fresh.page.emulate_media(color_scheme="light")


def test_a_replay_plays_in_a_frame_that_can_not_reach_the_page(fresh: Opened) -> None:
    assert fresh.count("iframe") == 0
    fresh.page.locator("#replays summary").click(position={"x": 10, "y": 10})
    said = fresh.page.frame_locator("#replays iframe").locator("#said")
    said.get_by_text("SecurityError").wait_for()
    assert fresh.page.title() != "reached"
    assert fresh.page.locator("#replays a").get_attribute("href", timeout=PATIENCE)


def test_a_narrow_window(fresh: Opened) -> None:
    fresh.page.set_viewport_size({"width": 360, "height": 640})
    fresh.page.wait_for_function("document.querySelector('.panel svg').viewBox.baseVal.width < 340")
    wide = fresh.page.evaluate("document.documentElement.scrollWidth")
    fresh.page.set_viewport_size({"width": 500, "height": 700})
    assert wide <= 360
