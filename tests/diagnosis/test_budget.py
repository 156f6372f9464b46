"""Search by budget with models whose worlds are known, and its log."""

import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ivqa.data.given_pictures import NumberedPictures
from ivqa.diagnosis import AskedLog, Belief, BudgetSearch, GivenAnswer, next_hundred, with_suspects
from ivqa.diagnosis.search.phrases import noun_phrase
from ivqa.diagnosis.search.plain_english import Arm, Meaning
from ivqa.errors import UserError
from ivqa.logic import contradictions
from ivqa.tasks.pictures.asking import Forecast, ask_in_plain_english, confirm
from ivqa.tasks.pictures.diagnosis import described
from ivqa.text.tokens import tokenise

PICTURES = 12


class Truthful:
    """Sees one white dog in every picture, and answers everything rightly."""

    asked: list[tuple[int, str]]

    def __init__(self) -> None:
        self.asked = []

    def __call__(self, pairs: Sequence[tuple[int, str]]) -> list[GivenAnswer]:
        self.asked += pairs
        return [GivenAnswer(self.answer(question), 0.9) for _, question in pairs]

    def answer(self, question: str) -> str:
        text = question.lower()
        others = [word for word in ("black", "red", "small", "large", "striped") if word in text]
        if "more than one" in text:
            return "no"
        if text.startswith("how many"):
            return "1" if "dogs" in text and not others else "0"
        if text.startswith(("is there", "are there any", "do you see")):
            return "yes" if text.endswith(("dog?", "dogs?")) and not others else "no"
        if text.startswith("are there more"):
            return "yes" if " dogs than" in text and not others else "no"
        if text.startswith("are there fewer"):
            return "yes" if "than dogs" in text else "no"
        if text.startswith(("is the", "are the")) and " dog " in text and not others:
            return "yes" if "white" in text else "no"
        if text.startswith("what color"):
            return "white" if "the dog" in text else "there is none"
        if text.startswith("what is ") and ("picture" in text or "ground" in text):
            return "dog"
        return "unknown"


class Careless(Truthful):
    """Denies everything but the dog, and answers questions about other things all the same."""

    def answer(self, question: str) -> str:
        text = question.lower()
        if text.startswith("what color"):
            return "white"
        if text.startswith("how many"):
            return "1"
        return super().answer(question)


def _beliefs(model: Truthful, questions: int = 300, **options: object) -> list[Belief]:
    return ask_in_plain_english(model, range(1, PICTURES + 1), questions, **options)  # type: ignore[arg-type]


def test_a_truthful_model_is_not_convicted() -> None:
    beliefs, figures = with_suspects(_beliefs(Truthful()))
    assert figures["beliefs/errors_at_least"] == 0
    assert figures["beliefs/suspects"] == 0
    assert {belief.suspect for belief in beliefs} == {False}


def test_the_budget_is_spent_on_different_questions_about_all_pictures() -> None:
    model = Truthful()
    beliefs = _beliefs(model, 300)
    assert len(model.asked) == len(set(model.asked)) == len(beliefs) == 300
    of_each = Counter(belief.image_id for belief in beliefs)
    assert set(of_each) == set(range(1, PICTURES + 1))
    assert max(of_each.values()) - min(of_each.values()) <= 1
    firsts = beliefs[:PICTURES]
    assert {belief.question for belief in firsts} == {"What is in the picture?"}


def test_the_search_proves_more_errors_than_chance() -> None:
    def bound(explore: float, seed: int) -> int:
        search = BudgetSearch(PICTURES, Careless(), seed=seed, explore=explore)
        asked = [one for batch in search.run(300) for one in batch]
        beliefs = [
            Belief(one.picture, one.given.answer, one.meaning.question, 0.9, 0, 1, "plain_english")
            for one in asked
        ]
        return round(len(beliefs) * with_suspects(beliefs)[1]["beliefs/errors_at_least"])

    chosen = sum(bound(0, seed) for seed in (1, 2, 3))
    drawn = sum(bound(1, seed) for seed in (1, 2, 3))
    assert chosen > 2 * drawn > 0


class Mute(Truthful):
    """Was trained on questions that are not answered by yes or no."""

    def answer(self, question: str) -> str:
        found = super().answer(question)
        return "table" if found in ("yes", "no", "unknown") else found


@pytest.mark.parametrize("explore", [0, 1])
def test_a_model_without_yes_and_no_is_soon_asked_other_questions(explore: float) -> None:
    texts = [one.question.split()[0] for one in _beliefs(Mute(), 400, explore=explore)]
    last = max(at for at, text in enumerate(texts) if text in ("Is", "Are", "Do", "Can"))
    assert 20 <= last < 250
    # A model that says yes or no is asked such questions to the end.
    usual = [one.question.split()[0] for one in _beliefs(Truthful(), 400, explore=explore)]
    assert {"Is", "Are"} & {*usual[350:]}


@pytest.mark.parametrize(("answer", "seen"), [("yes", ["lamp"]), ("table", []), ("no", [])])
def test_an_answer_that_says_nothing_shows_no_thing(answer: str, seen: list[str]) -> None:
    search = BudgetSearch(1, Truthful())
    search._learn(0, Meaning("exists", noun_phrase("lamp")), GivenAnswer(answer, 0.9))
    assert [*search._views[0].seen] == seen


def test_a_denied_phrase_with_an_adjective_is_asked_about_as_it_is() -> None:
    search = BudgetSearch(1, Truthful())
    view = search._views[0]
    for text, answer in (("large red dog", "no"), ("cat", "0"), ("white dog", "yes")):
        phrase = noun_phrase(text)
        meaning = Meaning("exists", phrase, modified=len(phrase.words) > 1)
        search._learn(0, meaning, GivenAnswer(answer, 0.9))

    def asked(family: str, modified: bool) -> set[str]:
        proposals = search._proposals(Arm(family, "denied", modified), view)
        return {meaning.question for meaning in proposals}

    assert asked("action", True) == {"What is the large red dog doing?"}
    assert asked("count", True) == {"How many large red dogs are there?"}
    # The size and the color are in the question; the cat was denied without an adjective.
    assert asked("color", True) == asked("size", True) == set()
    assert asked("color", False) == {"What color is the cat?"}
    assert asked("action", False) == {"What is the cat doing?"}
    view.convicted.add(0)  # a contradiction of the first denial was found
    assert asked("action", True) == set()


@pytest.mark.parametrize("vain", [1, 2])
def test_answers_that_say_nothing_are_counted_and_said(vain: int) -> None:
    answers = ["table"] * vain + ["yes"] * (100 - vain)
    beliefs = [
        Belief(1, answer, f"Is there a red thing{at}?", 0.9, 0, 1, "plain_english")
        for at, answer in enumerate(answers)
    ]
    found = described("Mute", beliefs, NumberedPictures({}), None, "Known.")
    assert found.metrics["beliefs/unclear"] == vain / 100
    said = "2 of its answers to yes/no questions are neither, and say nothing."
    assert found.note == ("Known." if vain == 1 else f"Known. {said}")


class Failing(Truthful):
    """Fails where it is asked for a color: an error message, or nothing at all."""

    def answer(self, question: str) -> str:
        if question.startswith("What color"):
            return "Error code: 429 - rate limit" if "the" in question else ""
        return super().answer(question)


def test_failed_answers_are_counted_said_and_scored_nowhere() -> None:
    beliefs = _beliefs(Failing())
    failed = [one for one in beliefs if one.question.startswith("What color")]
    assert len(failed) > 5
    found = described("Failing", beliefs, NumberedPictures({}), None)
    assert found.metrics["beliefs/failed"] == len(failed)
    assert found.metrics["search/questions"] == len(beliefs)
    assert found.metrics["beliefs/count"] == len(found.beliefs) == len(beliefs) - len(failed)
    # Truthful otherwise: a failed answer denies nothing.
    assert found.metrics["beliefs/errors_at_least"] == 0
    assert f"{len(failed)} of 300 answers are empty or error messages and count" in found.note
    assert "such as 'Error code: 429 - rate limit'." in found.note
    assert described("Truthful", _beliefs(Truthful()), NumberedPictures({}), None).note == ""


@pytest.mark.parametrize("answer", ["", "Error code: 429 - rate limit"])
def test_a_model_that_only_fails_ends_the_search_at_once(answer: str) -> None:
    model = Truthful()
    model.answer = lambda _: answer  # type: ignore[method-assign]
    with pytest.raises(UserError, match=f"the first 24 answers are all empty .* '{answer}'"):
        _beliefs(model)
    assert len(model.asked) == 24


def test_the_search_learns_nothing_from_a_failed_answer() -> None:
    search = BudgetSearch(1, Truthful())
    search._learn(0, Meaning("see"), GivenAnswer("Connection error. dog", 0.9))
    assert not search._views[0].seen
    assert [answer for _, answer in search._views[0].beliefs()] == [""]
    search._learn(0, Meaning("see"), GivenAnswer("dog", 0.9))
    assert [*search._views[0].seen] == ["dog"]


def test_an_empty_answer_denies_nothing() -> None:
    beliefs = [("What color is the dog?", ""), ("Is there a dog?", "yes")]
    assert not any(one.certain for one in contradictions(beliefs))
    assert any(
        one.certain for one in contradictions([("How many dogs are there?", "none"), *beliefs])
    )


def test_a_share_of_the_questions_is_drawn_by_chance() -> None:
    sources = Counter(one.source for one in _beliefs(Careless(), 600, explore=0.25))
    assert sources.keys() == {"plain_english", "by_chance"}
    # 588 draws, without the first question about each picture: mean 147, deviation 10.5.
    assert 147 - 4 * 10.5 < sources["by_chance"] < 147 + 4 * 10.5
    assert {one.source for one in _beliefs(Careless(), 60)} == {"plain_english"}
    alone = Counter(one.source for one in _beliefs(Careless(), 60, explore=1))
    assert alone == {"plain_english": PICTURES, "by_chance": 60 - PICTURES}


def test_the_next_hundred_questions_are_predicted_from_the_last_ones() -> None:
    """300 questions prove five wrong answers, the next 100 three more."""

    def answers(pairs: int, questions: int, first: int) -> list[Belief]:
        texts = [("Is there a {}?", "no"), ("How many {}s are there?", "2")] * pairs
        nouns = [f"thing{first + number // 2}" for number in range(questions)]
        filled = [*texts, *[("Is there a {}?", "yes")] * (questions - len(texts))]
        return [
            Belief(1, answer, text.format(noun), 0.9, 0, 1, "plain_english")
            for (text, answer), noun in zip(filled, nouns, strict=True)
        ]

    beliefs = [*answers(5, 300, 0), *answers(3, 100, 1000)]
    assert next_hundred(beliefs[:199]) == {}
    elsewhere = [replace(one, image_id=at % 101) for at, one in enumerate(beliefs)]
    assert next_hundred(elsewhere) == {}  # fewer than 4 about each picture
    found = next_hundred(beliefs)
    assert found["search/next_100"] == pytest.approx(3.5)
    # By simulation: a number of mean 3.5 and variance 2 (3.5 + 3.5), that of a rate of variance 14
    # - 3.5. Without the factor of 2 the rate has the posterior Gamma(3.5, 100), of variance 3.5.
    rng = np.random.default_rng(0)
    drawn = rng.poisson(rng.gamma(3.5**2 / 10.5, 10.5 / 3.5, 400_000))
    assert drawn.var() == pytest.approx(14, rel=0.02)
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert (found["search/next_100_low"], found["search/next_100_high"]) == (low, high)


def test_the_search_stops_where_more_questions_bring_little(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console(width=200)
    beliefs = _beliefs(Truthful(), 600, stop_below=1.0, console=console)
    assert 200 <= len(beliefs) < 200 + 64  # no prediction before
    assert "more are expected to prove 0.5 wrong answers, fewer than stop_below=1" in (
        capsys.readouterr().out
    )
    assert len(_beliefs(Careless(), 400, stop_below=1.0)) == 400


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        ({"questions": 900, "minutes": None, "cost": None}, "questions=900"),
        ({"questions": None, "minutes": 12, "cost": None}, "minutes=12"),
        ({"questions": None, "minutes": 13, "cost": 0.3}, "cost=0.3"),
        ({"questions": 936, "minutes": 12.2, "cost": 0.31}, ""),
    ],
)
def test_a_forecast_above_a_limit_is_asked_about(
    limits: dict[str, float | None],
    passed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forecast = Forecast(936, 12.2, (1_120_000, 9_400), 0.31)
    console = Console()
    assert forecast.above(limits) == passed
    assert Forecast(936, 12.2).above({"cost": 0.1}) == ""  # unknown
    if not passed:
        confirm(forecast, limits, console)
        return
    message = f"the other 936 questions pass ask_above.{passed}; the answers are kept"
    with pytest.raises(UserError, match=message):
        confirm(forecast, limits, console)
    for typed, goes_on in (("y\n", True), ("Yes\n", True), ("\n", False), ("", False)):
        terminal = io.StringIO(typed)
        terminal.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr("sys.stdin", terminal)
        with nullcontext() if goes_on else pytest.raises(UserError, match="the same command goes"):
            confirm(forecast, limits, console)


class Namer(Truthful):
    """Names things, shapes and colors, of whatever it is asked."""

    def __init__(self, *things: str) -> None:
        super().__init__()
        self.things = things

    def answer(self, question: str) -> str:
        text = question.lower()
        if text.startswith("what shape"):
            return "star"
        if text.startswith("what color"):
            return "red"
        if text.startswith("what is "):
            return self.things[len(self.asked) % len(self.things)]
        return "yes"


SCENES = ["yes", "no", "2", "red", "blue", "star", "circle", "square", "large", "plain"]
DAQUAR = [
    "yes",
    "2",
    "table",
    "white",
    "brown",
    "glass",
    "paper",
]  # "square" is none of its answers
VQA = [*DAQUAR, "square", "circle", *map(str, range(40))]


@pytest.mark.parametrize(
    ("answers", "things", "asked"),
    [
        (SCENES, ["star"], {"What shape is the object?", "What shape is the red object?"}),
        (DAQUAR, ["sign", "chair"], set()),
        ([*DAQUAR, "square"], ["sign", "chair"], set()),
        (VQA, ["sign", "chair"], {"What shape is the sign?", "What shape is the red sign?"}),
        (None, ["sign", "chair"], {"What shape is the sign?", "What shape is the red sign?"}),
    ],
)
@pytest.mark.parametrize("explore", [0, 1])
def test_an_attribute_is_asked_for_where_the_model_can_name_it(
    answers: list[str] | None, things: list[str], asked: set[str], explore: float
) -> None:
    beliefs = _beliefs(Namer(*things), 600, answers=answers, explore=explore)
    about_shapes = {one.question for one in beliefs if one.question.startswith("What shape")}
    # Companions of the things and what follows from answers may have a shape too.
    assert asked <= about_shapes
    nouns = {text.rstrip("?").split()[-1] for text in about_shapes}
    assert nouns <= ({"object"} if answers is SCENES else {"sign", "light", "window", "table"})
    assert bool(asked) == bool(nouns)
    assert (beliefs[0].question == "What shape is the object?") == (answers is SCENES)
    texts = [one.question for one in beliefs]
    assert any("made of" in text for text in texts) == (answers is None)
    assert not [text for text in texts if re.fullmatch(r"Is the (red )?\w+ star\?", text)]


def test_a_model_is_asked_only_with_words_that_it_knows() -> None:
    words = frozenset(tokenise("Is there a an any dog what in the picture shape object"))
    beliefs = _beliefs(Truthful(), 40, words=words, answers=["star", "heart"])
    texts = {belief.question for belief in beliefs}
    assert texts <= {"What shape is the object?", "What is in the picture?", "Is there a dog?"}
    assert "What is in the picture?" in texts
    assert len(beliefs) < 40  # nothing else can be asked


def test_equal_seeds_ask_equal_questions() -> None:
    assert _beliefs(Careless(), seed=3) == _beliefs(Careless(), seed=3)
    assert _beliefs(Careless(), seed=3) != _beliefs(Careless(), seed=4)


def test_a_killed_search_asks_nothing_twice_and_ends_with_the_same_beliefs(tmp_path: Path) -> None:
    whole = _beliefs(Careless(), 200)
    file, origin = tmp_path / "parts" / "asked.jsonl", {"model": "careless"}
    first = Careless()
    _beliefs(AskedLog(file, first, origin), 80)  # type: ignore[arg-type]
    with file.open("a") as stream:
        stream.write('{"image_id": 3, "quest')  # a line that a kill has cut
    second = Careless()
    log = AskedLog(file, second, origin)  # type: ignore[arg-type]
    assert len(log) == 80
    found = _beliefs(log, 200)
    assert found == whole
    assert len(first.asked) == 80
    assert len(second.asked) == 120
    assert not set(first.asked) & set(second.asked)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 201


def test_answers_of_another_model_or_damaged_ones_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    _beliefs(AskedLog(file, Truthful(), {"model": "a"}), 20)  # type: ignore[arg-type]
    with pytest.raises(
        UserError, match=r"asked\.jsonl was written for other settings \(model is a"
    ):
        AskedLog(file, Truthful(), {"model": "b"})
    file.write_text(file.read_text() + '{"image_id": 1, "question": "Is it day?"}\n')
    with pytest.raises(UserError, match=r"line 22: not an answer \(KeyError\('answer'\)\)"):
        AskedLog(file, Truthful(), {"model": "a"})
