"""The belief page in headless Chromium: words, places, links, pages, and its size."""

import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from browser import after, needs_chromium
from ivqa.data import VQASplit
from ivqa.data.given_pictures import NumberedPictures
from ivqa.data.images import ImageFiles
from ivqa.diagnosis import Belief, Reasons
from ivqa.report.belief_data import MOST_BELIEFS
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.pages.belief_page import write_belief_page
from ivqa.tasks.pictures.diagnosis import PictureDiagnosis

BASE = Belief(1, "yes", "Is it red?", 0.9, -3.0, 0.9, "rl", "adversarial", "oracle")
WORDS = ["star", "heart", "cross", "circle", "square", "hexagon", "diamond", "dog", "cat", "bus"]


def _split(num_images: int, folder: Path | None = None) -> VQASplit:
    ids = np.arange(1, num_images + 1)
    ones = [["yes"]] * num_images
    split = VQASplit("val", ids, ids, ["Is it?"] * num_images, ones, ["yes"] * num_images,
                     ["yes/no"] * num_images, ["is it"] * num_images)  # fmt: skip
    if folder is None:
        return split
    files = {int(file.stem): file for file in folder.iterdir()}
    return replace(split, images=ImageFiles(ids, [files[number] for number in ids.tolist()]))


def _page(path: Path, models: list[BeliefPageModel], split: VQASplit) -> Path:
    write_belief_page(path, "Beliefs", models, split, {}, {})
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(1, 4):
        Image.new("RGB", (60, 40), "teal").save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize("judged", [29, 30])
def test_no_headline_of_a_page_rests_on_fewer_than_30_judged_beliefs(
    judged: int, tmp_path: Path, pictures: Path
) -> None:
    """The page of a data set, and that of a folder of pictures."""
    beliefs = [replace(BASE, source="by_chance")] * judged + [replace(BASE, type=None)] * 40
    metrics, data_page = {"beliefs/errors_at_least": 0.1}, tmp_path / "data.html"
    _page(data_page, [BeliefPageModel("one", beliefs, metrics)], _split(3, pictures))
    files = NumberedPictures({1: pictures / "1.png"})
    PictureDiagnosis("one", beliefs, metrics, files).write(tmp_path)
    for page in (data_page, tmp_path / "report.html"):
        (lines,) = re.findall('<div class="headline">(.*?)</div>', page.read_text(), re.DOTALL)
        assert ("100% of" in lines) == (judged == 30)
        assert (f"Only 29 of its {29 + 40} beliefs are judged" in lines) == (judged == 29)
        assert "At least 7 of its" in lines  # 0.1 of 69 or 70: what contradicts needs no judge


@needs_chromium
def test_words_are_shaded_and_places_are_darkened(tmp_path: Path, pictures: Path) -> None:
    """A fall of 0.5 at "red?", a rise at "it"; of four places it looks at the second most."""
    reasons = {1: Reasons((0.0, -0.2, 0.5), (0.1, 0.6, 0.3, 0.0))}
    page = _page(tmp_path / "r.html", [BeliefPageModel("one", [BASE], {}, reasons)],
                 _split(3, pictures))  # fmt: skip
    seen = after(
        page,
        """
        const word = m => [m.textContent, +m.style.getPropertyValue("--w"), m.title];
        const of = box => ({ words: [...box.querySelectorAll("mark")].map(word) });
        const canvas = document.querySelector(".kind canvas"), context = canvas.getContext("2d");
        const shade = [...context.getImageData(0, 0, 2, 2).data].filter((_, i) => i % 4 === 3);
        return { front: of(document.querySelector("figcaption")),
                 row: of(document.querySelector("#cards li")), shade,
                 canvases: document.querySelectorAll("#cards canvas").length };
        """,
    )
    words = [
        ["Is", 0, "without this word: 0.90 instead of 0.90"],
        ["it", 0, "without this word: 1.10 instead of 0.90"],
        ["red?", 0.5, "without this word: 0.40 instead of 0.90"],
    ]
    assert seen["front"] == seen["row"] == {"words": words}
    first, most, second, none = seen["shade"]  # type: ignore[misc]
    assert (most, none) == (0, 200)
    # A weight of w has the darkness 200 (1 - w / 0.6), in 64 steps.
    assert first == pytest.approx(200 * 5 / 6, abs=4)
    assert second == pytest.approx(200 / 2, abs=4)
    assert seen["canvases"] == 1


@pytest.mark.parametrize(("places", "buttons"), [((0.1, 0.6, 0.3, 0.0), 1), ((), 0)])
def test_a_model_without_attention_has_no_button_for_it(
    places: tuple[float, ...], buttons: int, tmp_path: Path, pictures: Path
) -> None:
    model = BeliefPageModel("one", [BASE], {}, {1: Reasons((0.0, -0.2, 0.5), places)})
    page = _page(tmp_path / "r.html", [model], _split(3, pictures))
    assert page.read_text().count('<button id="maps"') == buttons


def _many(number: int, images: int, questions: int) -> list[Belief]:
    """Beliefs with questions of about 40 characters, 10 answers to an image."""
    drawn = random.Random(0)
    kinds = ("rephrase", "complementary", "adversarial", "irrelevant")
    texts = [
        f"Is there a {a} {b} near the {c} {n}?" for n in range(questions)
        for a, b, c in [drawn.choices(WORDS, k=3)]
    ]  # fmt: skip
    return [
        replace(BASE, image_id=1 + n % images, answer=f"answer {n // images % 10}",
                question=texts[n % questions], phi=drawn.random(), type=kinds[n % 4])
        for n in range(number)
    ]  # fmt: skip


@needs_chromium
def test_a_link_leads_to_any_belief_and_picture(tmp_path: Path) -> None:
    """Line 4321 is far beyond the first page, and below the first rows of its pair."""
    beliefs = _many(6000, 60, 6000)
    page = _page(tmp_path / "r.html", [BeliefPageModel("one", beliefs, {}),
                                       BeliefPageModel("two", beliefs[:5000], {})],
                 _split(60))  # fmt: skip
    seen = after(
        page,
        """
        const at = () => document.getElementById("at").textContent;
        const target = () => {
          const e = document.querySelector(".target"), row = e.tagName === "LI" ? e : null;
          return [e.id, row?.querySelector("span").textContent, document.activeElement === e];
        };
        const go = hash => {
          history.replaceState(null, "", hash); follow(); return [...target(), at()];
        };
        document.querySelector("[data-type=rephrase]").click();
        const first = at(), belief = go("#belief-4321"), second = go("#belief-2-17");
        const image = go("#image-60"), link = document.querySelector("#cards li .link");
        const key = name => {
          dispatchEvent(new KeyboardEvent("keydown", { key: name })); return at();
        };
        return { first, belief, second, image, forward: key("ArrowRight"), back: key("ArrowLeft"),
                 link: link.getAttribute("href").startsWith("#belief-") };
        """,
    )
    # Every fourth belief is a rephrase: those of 15 of 60 images, 150 pairs, twelve on a page.
    assert seen["first"] == "page 1 of 13"
    assert seen["belief"][:3] == ["belief-4321", beliefs[4320].question, True]  # type: ignore[index]
    assert seen["second"][:3] == ["belief-2-17", beliefs[16].question, True]  # type: ignore[index]
    # Ten pairs an image, in the order of the images: the last image is on the last page.
    # Image 60 is the last one: its ten pairs are the last ten of 600, all on page 50.
    assert seen["image"] == ["image-60", None, True, "page 50 of 50"]
    assert (seen["forward"], seen["back"]) == ("page 50 of 50", "page 49 of 50")
    assert seen["link"] is True


@pytest.mark.slow
@needs_chromium
def test_fifty_thousand_beliefs_open_at_once(tmp_path: Path) -> None:
    """Under 5 MB with 100 pictures; the page builds only the rows of twelve pairs."""
    folder = tmp_path / "images"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(1, 101):
        # Twice as many bytes as a photograph of VQA has at the size of the page.
        small = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
        Image.fromarray(small).resize((640, 480), Image.Resampling.BICUBIC).save(
            folder / f"{number}.jpg", quality=90
        )
    beliefs = _many(60_000, 100, 25_000)
    reasons = {
        line: Reasons((0.1,) * 9, tuple(rng.dirichlet(np.ones(196)).tolist()))
        for line in range(1, 2001)
    }
    page = _page(tmp_path / "r.html", [BeliefPageModel("one", beliefs, {}, reasons)],
                 _split(100, folder))  # fmt: skip
    assert page.stat().st_size < 5e6
    seen = after(
        page,
        """
        const took = f => {
          const from = performance.now(); f(); return performance.now() - from;
        };
        const nodes = () => document.querySelectorAll("*").length, first = nodes();
        const box = document.getElementById("search");
        const type = text => { box.value = text; box.dispatchEvent(new Event("input")); };
        const search = took(() => type("star"));
        type("");
        const turned = took(() => document.getElementById("next").click());
        const shown = document.getElementById("shown").textContent;
        return { first, then: nodes(), shown, search, turned,
                 cut: document.querySelector(".sets h3").textContent };
        """,
    )
    assert seen["shown"] == f"{MOST_BELIEFS:,} beliefs about 1000 pairs"
    assert seen["cut"] == "one: 50 beliefs, the most confident of 60"
    assert max(seen["first"], seen["then"]) < 4000  # type: ignore[call-overload]
    assert max(seen["search"], seen["turned"]) < 2000  # milliseconds  # type: ignore[call-overload]


@pytest.mark.parametrize("blind", [0.0, 1.0])
def test_the_summary_has_the_fall_in_points_beside_r_score(blind: float, tmp_path: Path) -> None:
    metrics = {"robustness/partition_0/accuracy": 0.3, "robustness/partition_1/accuracy": 0.05}
    metrics |= {"robustness/r_score": 0.0, "robustness/blind_accuracy": 0.35}
    model = BeliefPageModel("MLB", [BASE], metrics | {"robustness/below_blind": blind})
    text = " ".join(_page(tmp_path / "r.html", [model], _split(1)).read_text().split())
    assert (
        "Noise of level 1: the accuracy falls by 25.0 points (R_score 0.00, because it falls by "
        "20 points or more)." in text
    )
    warning = (
        "R_score says nothing about MLB: without noise its accuracy is 30.0%, not above the 35.0%"
    )
    assert (warning in text) == bool(blind)


@needs_chromium
def test_four_models_stand_side_by_side_about_the_same_images(tmp_path: Path) -> None:
    """The fourth model lacks image 3, so the page shows images 1 and 2 only."""
    beliefs = [replace(BASE, image_id=image) for image in (1, 2, 3)]
    right = [replace(belief, type="rephrase") for belief in beliefs]
    metrics = {"beliefs/correct": 0.25, "beliefs/correct_low": 0.125, "beliefs/correct_high": 0.5}
    models = [BeliefPageModel("A", beliefs, metrics),
              BeliefPageModel("B", beliefs[:2] + right[2:], {}),
              BeliefPageModel("C", right, {}), BeliefPageModel("D", beliefs[:2], {})]  # fmt: skip
    seen = after(
        _page(tmp_path / "r.html", models, _split(3)),
        """
        const texts = (name, from) => [...from.querySelectorAll(name)].map(e => e.textContent);
        const correct = document.querySelector("[aria-labelledby=figures] .bars");
        const mark = correct.querySelector("s");
        const [note] = document.querySelector(".note").textContent.split(".");
        return { note, pairs: document.querySelectorAll("article").length,
                 names: texts("h3", document.querySelector("article")),
                 wrong: texts(".bars b", document.querySelector(".kind")),
                 correct: correct.querySelector("b").textContent,
                 interval: [mark.style.left, mark.style.width] };
        """,
    )
    assert seen == {
        "note": "2 images that all models have beliefs about",
        "pairs": 2,
        "names": ["A: 1 belief", "B: 1 belief", "C: 1 belief", "D: 1 belief"],
        "wrong": ["100%", "100%", "0%", "100%"],
        "correct": "25% (12 to 50)",
        "interval": ["12.5%", "37.5%"],
    }
