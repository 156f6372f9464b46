"""Numbers in README, in the guides and on the page of results are those of docs/results.json."""

import re

import pytest
from tools.claims import all_records, corrected, corrected_pages, filled, read_claims, without
from tools.experiments import Project, Record

from documented_commands import PROJECT
from ivqa.errors import UserError
from ivqa.store.files import read_yaml

PAGES = [
    page
    for page in (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md")))
    if page.name not in ("results.md", "papers.md")  # written from conf/results.yaml, papers.yaml
]
_SMALL = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
RESULT = re.compile(
    r"(?<![\w.])(?:(?:\d[\d,]*)?\.\d+(?!\.?\d)|\d+,\d{3}|\d+ of \d+"
    r"|\d[\d,.]* (?:percent|points|%|m?s|seconds?|minutes?|hours?|h|[KMG]i?B|times)\b"
    r"|\d[\d,.]* (?:\w+ ){0,2}(?:wrong|errors?|facts|mistakes|contradictions)\b)"
    r"|\| \d[\d,. ]*(?=\|)"
    r"|\b[Hh]alf\b|\b(?:a|two|three) (?:third|quarter|fifth|tenth)s?\b|\b(?:double|halve)[sd]\b"
    r"|\btwice (?:as|the)\b|\b(?:dozens|hundreds) of\b"
    rf"|\b(?:{'|'.join(_SMALL)}) (?:times|percent|points|of (?:{'|'.join(_SMALL)}))\b"
)
_NO_PROSE = re.compile(
    r"^```.*?^```|`[^`\n]*`|\{[^{}]*\}|\]\([^)]*\)|^(?:#|    ).*?$|<[^>\n]*>", re.M | re.S
)
RECORDS = {
    "models": Record("a", "", 0, {"mlb x=1": [{"vqa/acc": 0.7}, {"vqa/acc": 0.9}], "b": [{"n": 3}]})
}


@pytest.mark.parametrize("page", read_claims(PROJECT)[0])
def test_a_page_shows_what_was_measured(page: str) -> None:
    expected = corrected_pages(PROJECT)[PROJECT / page]
    shown = (PROJECT / page).read_text()
    pairs = zip(shown.splitlines(), expected.splitlines(), strict=True)
    assert [one for one in pairs if one[0] != one[1]] == [], "run python -m tools.claims"


def _texts(claims: dict[str, list[str]]) -> dict[str, str]:
    """All that may hold a number that no measurement gives, by page."""
    records = all_records(PROJECT)
    texts = {
        page.name: without(
            page.read_text(), claims.get(str(page.relative_to(PROJECT)), []), records
        )
        for page in PAGES
    }
    for name, one in Project(PROJECT).experiments().items():
        texts[f"conf/results.yaml, {name}"] = f"{one.before or ''} {one.after or ''}"
    content = read_yaml(PROJECT / "tools" / "papers.yaml", dict)
    listed = [one for part in ("items", "gaps", "findings") for one in content[part]]
    told = ("differs", "state", "title", "text")
    texts["tools/papers.yaml"] = " ".join(str(one.get(key, "")) for one in listed for key in told)
    return texts


def test_a_number_of_a_text_is_a_claim_or_no_result() -> None:
    claims, not_results = read_claims(PROJECT)
    phrases = sorted((one for listed in not_results.values() for one in listed), key=len)[::-1]
    found, used = [], set()
    for page, written in _texts(claims).items():
        text = " ".join(_NO_PROSE.sub(" ", written).split())
        used |= {phrase for phrase in phrases if phrase in text}
        text = re.sub("|".join(map(re.escape, phrases)), " ", text)
        found += [(page, *text[: one.end()].split()[-6:]) for one in RESULT.finditer(text)]
    assert found == [], "a sentence in tools/claims.yaml, or a phrase of its not_results"
    assert set(phrases) == used, "a phrase of not_results in tools/claims.yaml is on no page"


@pytest.mark.parametrize(
    "text",
    [
        "12.3 percent",
        ".188",
        "5 minutes",
        "3 times",
        "| 17, 3 |",
        "15,481",
        "6 of 20",
        "26 new errors",
        "a third",
        "half",
        "three times",
        "two of ten",
    ],
)
def test_a_number_that_looks_like_a_result_is_found(text: str) -> None:
    assert RESULT.search(f"It has {text} of it")


def test_texts_of_the_page_hold_the_numbers_of_the_records() -> None:
    project = Project(PROJECT)
    records, page = all_records(PROJECT), (PROJECT / "docs" / "results.md").read_text()
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
        ("{1 / [models|b|n]:share} of", "a third of"),
        ("{min([models|mlb x=1|vqa/acc], [models|b|n]) * .9:share} of", "three quarters of"),
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
        ("{.4 * [models|b|n] / 3:share}", "no simple fraction is near 0.400"),
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


def test_a_row_with_a_star_is_a_row_for_each_setting_that_has_the_metrics() -> None:
    mlb, other = {"n": 3.0, "low": 0.1, "high": 0.2}, {"low": 0.0}
    records = {"m": Record("a", "", 0, {"mlb": [mlb], "a": [mlb], "b": [other]})}
    rows = "| n | of |\n| * | {[m|*|n; n]:.0f} [{[m|*|low, high]:.1f}] |"
    page = "| n | of |\n| mlb | 9 | 9 [.7, .7] |\n| a | 9 | 9 [.7, .7] |\n"
    found = corrected(page, [rows], records, "page.md")
    assert found == "| n | of |\n| mlb | 3 | 3 [0.1, 0.2] |\n| a | 3 | 3 [0.1, 0.2] |\n"
    assert without(page, [rows], records).strip() == ""


def test_what_was_measured_by_hand_says_how() -> None:
    for name, one in read_yaml(PROJECT / "docs" / "measured.yaml", dict).items():
        assert one["command"], name
        assert re.fullmatch("[0-9a-f]{7}", one["commit"]), name
        used = "".join(
            (PROJECT / at).read_text() for at in ("tools/claims.yaml", "conf/results.yaml")
        )
        assert f"[{name}|" in used, f"no page shows {name} of docs/measured.yaml"


@pytest.mark.parametrize(("page", "number"), [("none", 0), ("has 1 and has 2", 2)])
def test_a_sentence_must_be_on_its_page_once(page: str, number: int) -> None:
    with pytest.raises(UserError, match=rf"page.md: the sentence .* is there {number} times"):
        corrected(page, ["has {[models|b|n]:.0f}"], RECORDS, "page.md")


def test_each_page_with_claims_exists() -> None:
    assert all((PROJECT / page).is_file() for page in read_claims(PROJECT)[0])
