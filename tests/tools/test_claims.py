"""Numbers in README, in the guides and on the page of results are those of docs/results.json."""

from pathlib import Path

import pytest
from tools.claims import corrected, corrected_pages, filled
from tools.experiments import Project, Record

from documented_commands import PROJECT
from ivqa.errors import UserError
from ivqa.store.files import read_yaml

RECORDS = {
    "models": Record("a", "", 0, {"mlb x=1": [{"vqa/acc": 0.7}, {"vqa/acc": 0.9}], "b": [{"n": 3}]})
}


@pytest.mark.parametrize("page", read_yaml(PROJECT / "tools" / "claims.yaml", dict))
def test_a_page_shows_what_was_measured(page: str) -> None:
    expected = corrected_pages(PROJECT, Project(PROJECT).records())[PROJECT / page]
    shown = (PROJECT / page).read_text()
    pairs = zip(shown.splitlines(), expected.splitlines(), strict=True)
    assert [one for one in pairs if one[0] != one[1]] == [], "run python -m tools.claims"


def test_readme_has_no_result_that_is_not_checked() -> None:
    """The numbers of the results in README, counted by hand: a new one needs a sentence."""
    readme = (PROJECT / "README.md").read_text()
    table = readme.partition("## Results")[2].partition("All tables,")[0]
    named = read_yaml(PROJECT / "tools" / "claims.yaml", dict)["README.md"]
    digits = [word for word in table.replace("|", " ").split() if any(map(str.isdigit, word))]
    unmeasured = {"1:", "7:", "1", "20"}  # levels of noise, and the limit of R_score
    shown = [word for word in digits if word not in unmeasured]
    assert len(shown) == sum(text.count("{[") for text in named)


def test_texts_of_the_page_hold_the_numbers_of_the_records() -> None:
    project = Project(PROJECT)
    records, page = project.records(), (PROJECT / "docs" / "results.md").read_text()
    for name, one in project.experiments().items():
        for text in (one.before, one.after):
            if name in records and text:
                assert filled(text, records).strip() in page, "run python -m tools.results --page"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{[models|mlb x=1|vqa/acc]:.1%} percent", "80.0 percent"),
        ("{1 - [models|mlb x=1|vqa/acc] / [models|b|n]:.2f}", "0.73"),
        ("{[models|b|n]:,.0f}, $x^{2}$ and {table: [a]}", "3, $x^{2}$ and {table: [a]}"),
    ],
)
def test_a_number_is_the_mean_over_seeds_in_its_format(text: str, expected: str) -> None:
    assert filled(text, RECORDS) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{[x|mlb|n]:.1f}", r"names \[x\|...\], which docs/results.json does not have"),
        ("{[models|c|n]:.1f}", r"\[models\|c\|n\], which was not measured; settings: mlb x=1, b"),
        ("{[models|b|k]:.1f}", r"\[models\|b\|k\], which was not measured"),
    ],
)
def test_a_number_that_nobody_measured_is_an_error(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        filled(text, RECORDS)


def test_only_the_numbers_of_a_sentence_are_written_anew() -> None:
    page = "# 7\n\nAccuracy of 12.3\npercent (of 7), then 4,000.\n"
    sentence = "of {[models|mlb x=1|vqa/acc]:.1%} percent (of 7), then {1000 * [models|b|n]:,.0f}."
    found = corrected(page, [sentence], RECORDS, "page.md")
    assert found == "# 7\n\nAccuracy of 80.0\npercent (of 7), then 3,000.\n"
    assert corrected(found, [sentence], RECORDS, "page.md") == found


@pytest.mark.parametrize(("page", "number"), [("none", 0), ("has 1 and has 2", 2)])
def test_a_sentence_must_be_on_its_page_once(page: str, number: int) -> None:
    with pytest.raises(UserError, match=rf"page.md: the sentence .* is there {number} times"):
        corrected(page, ["has {[models|b|n]:.0f}"], RECORDS, "page.md")


def test_each_page_with_claims_exists() -> None:
    assert all(
        Path(PROJECT / page).is_file() for page in read_yaml(PROJECT / "tools/claims.yaml", dict)
    )
