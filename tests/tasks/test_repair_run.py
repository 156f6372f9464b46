"""The models of a repair, on toy models whose beliefs are counted by hand; nothing is trained."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from rich.console import Console
from toy_diagnosis import ANSWERS, LongIsLegal, WordAnswerer, toy_scene

from ivqa.consistency import ConsistencyCallback
from ivqa.data import VQADataset
from ivqa.data.batches.columns import Entry
from ivqa.diagnosis import NO_SUCH_THING, Belief
from ivqa.errors import UserError
from ivqa.generators import Questions
from ivqa.robustness import RobustnessCallback
from ivqa.runs.context import RunContext
from ivqa.runs.vocabularies import Vocabularies
from ivqa.store.files import write_json
from ivqa.tasks import repair, repair_run
from ivqa.tasks.repair_run import RepairRun, RepairSettings, Trained
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary

CONF = Path(__file__).parents[2] / "conf"
OWN = [
    ("What color is the star?", "red"),
    ("Is there a star?", "yes"),
    ("Night?", "no"),
    ("Day?", "yes"),  # the model says no, so its accuracy is 3 / 4
]
IMAGES = {"train": range(1, 9), "val": range(11, 15), "test": range(21, 26)}
# Asked for each pair (image, yes), (image, no) and (image, red) of a red star left of a blue heart.
# `WordAnswerer` says "red" to questions with "color", "yes" to others with "star", else "no".
WRONG = [
    ("What color is the heart?", "blue"),
    ("What color is the circle?", NO_SUCH_THING),
    ("Is the star blue?", "no"),
]
RIGHT = [
    ("What color is the star?", "red"),
    ("Is there a star?", "yes"),
    ("Is there a circle?", "no"),
]
UNJUDGED = "Colorful color, color!"
ASKED = [text for text, _ in WRONG + RIGHT] + [UNJUDGED, "Color?"]  # the last is not legal


class Asks:
    """A generator that asks the same questions about every pair."""

    def sample(self, images: Any, answers: list[str], num_samples: int, *rest: Any) -> Questions:
        texts = ASKED[:num_samples] * len(answers)
        pair = torch.arange(len(answers)).repeat_interleave(min(num_samples, len(ASKED)))
        tokens = Vocabulary.build(ASKED).encode(texts)
        return Questions(tokens, texts, torch.zeros(len(texts)), pair)

    log_likelihood = None


class Learns(WordAnswerer):
    """A VQA model that has learnt the questions of a split by heart, and else goes by words."""

    def __init__(self, questions: Sequence[str] = (), answers: Sequence[str] = ()) -> None:
        super().__init__()
        self.known = dict(zip(questions, answers, strict=True))
        self.answers = AnswerVocabulary(sorted({*ANSWERS.answers, *answers}))

    def answer(self, images: Any, questions: list[str]) -> list[str]:
        best = WordAnswerer.log_scores(self, images, questions).argmax(dim=1).tolist()
        usual = [ANSWERS.answers[index] for index in best]
        return [self.known.get(text, own) for text, own in zip(questions, usual, strict=True)]

    def log_scores(self, images: Any, questions: list[str], answers: Any = None) -> torch.Tensor:
        assert self.answers is not None
        scores = torch.full((len(questions), len(self.answers.answers)), 0.1)
        for row, answer in enumerate(self.answer(images, questions)):
            scores[row, self.answers.answers.index(answer)] = 0.8
        return scores.log()


@pytest.fixture
def dataset(tmp_path: Path) -> VQADataset:
    root = tmp_path / "root"
    for split, images in IMAGES.items():
        asked = [(image, *pair) for image in images for pair in OWN]
        questions = [
            {"question_id": number, "image_id": image, "question": text}
            for number, (image, text, _) in enumerate(asked)
        ]
        annotations = [
            {"question_id": number, "image_id": image, "answers": [{"answer": answer}] * 10}
            for number, (image, _, answer) in enumerate(asked)
        ]
        write_json(root / f"questions_{split}.json", {"questions": questions})
        write_json(root / f"annotations_{split}.json", {"annotations": annotations})
        scenes = {str(image): toy_scene().to_json() for image in images}
        write_json(root / f"scenes_{split}.json", scenes)
    return VQADataset(root, train="train", val="val", test="test")


@cache
def _composed() -> Any:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(
            "diagnose",
            ["experiment=repair", "model@vqa=vanilla", "data=vqa_json", "noise=word_shuffling"],
        )


def _cfg(dataset: VQADataset, run_dir: Path, **values: Any) -> Any:
    cfg = _composed().copy()
    settings = {"data.root": str(dataset.root), "output_dir": str(run_dir), "logger": None}
    settings |= {"artifacts": str(run_dir / "artifacts"), "num_images": 4, "num_latents": 8}
    settings |= {"vqa.image_features": [], "callbacks.robustness.pool": None}
    for key, value in {**settings, **values}.items():
        OmegaConf.update(cfg, key, value, merge=False)
    return cfg


@pytest.fixture
def obtained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands in for training: the contexts whose models were asked for."""
    found: list[Any] = []

    def obtain(context: RunContext) -> tuple[Any, Vocabularies, Path]:
        found.append(context)
        split = context.dataset.split("train")
        ckpt = tmp_path / f"{len(split)}.ckpt"
        ckpt.write_text(f"weights for {len(split)} questions")
        name = context.cfg.model.name
        if name == "ivqa_rl":
            module: Any = SimpleNamespace(reference=Asks(), questioner=Asks())
        elif name == "ivqa_vae":
            module = Asks()
        elif name == "vanilla":
            added = slice(len(OWN) * len(IMAGES["train"]), None)
            module = Learns(split.questions[added], split.main_answers[added])
        else:
            module = LongIsLegal()
        words = Vocabulary.build(split.questions), Vocabulary.build(split.main_answers)
        return module, Vocabularies(*words, ANSWERS), ckpt

    monkeypatch.setattr(repair_run, "obtain_module", obtain)
    return found


Make = Callable[..., RepairRun]


@pytest.fixture
def make(dataset: VQADataset, tmp_path: Path, obtained: list[Any]) -> Make:
    """Builds a run; its arguments are those of `RepairSettings`, and `cfg` of the configuration."""

    def run(cfg: dict[str, Any] | None = None, **settings: Any) -> RepairRun:
        run_dir = tmp_path / "run"
        values = _cfg(dataset, run_dir, **(cfg or {}))
        context = RunContext(values, dataset, None, Console(file=StringIO(), width=40))
        return RepairRun(context, run_dir, RepairSettings(**settings))

    return run


def _texts(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    return [(entry.question, (entry.answers or [""])[0]) for entry in entries]


def _images(entries: Sequence[Any]) -> list[int]:
    return [entry.image_id for entry in entries]


@pytest.mark.parametrize(
    ("cfg", "latents", "asked", "pairs"),
    [
        ({}, 8, ASKED[:7], 3),
        ({}, 2, ASKED[:2], 3),
        ({"legality": 0}, 8, ASKED, 3),
        # "yes" is the most frequent answer of the training split.
        ({"pool": "top", "num_top_answers": 1}, 8, ["Is the star blue?", "Is there a star?"], 1),
    ],
)
def test_beliefs_are_those_of_the_configured_pairs_and_questions(
    cfg: dict[str, Any], latents: int, asked: list[str], pairs: int, make: Make
) -> None:
    run = make(cfg)
    model = run.trained("before", [])
    beliefs, number = run.beliefs(model, "train", "corrected", 3, latents, 5)
    images = set(_images(beliefs))
    assert len(images) == 3
    assert images < set(IMAGES["train"])
    assert number == 3 * pairs
    assert sorted((one.image_id, one.question) for one in beliefs) == sorted(
        (image, text) for image in images for text in asked
    )
    types = {one.question: one.type for one in beliefs}
    right = {"Is there a circle?": "complementary"} | {text: "rephrase" for text, _ in OWN}
    wrong = {WRONG[0][0]: "adversarial", WRONG[1][0]: "irrelevant", WRONG[2][0]: "adversarial"}
    assert types == {text: (right | wrong).get(text) for text in asked}
    everything, number = run.beliefs(model, "val", "corrected", None, latents, 5)
    assert set(_images(everything)) == set(IMAGES["val"])
    assert number == 4 * pairs


def test_beliefs_are_searched_once_for_each_origin(make: Make, tmp_path: Path) -> None:
    run = make()
    model = run.trained("before", [])
    first = run.beliefs(model, "train", "corrected", 3, 8, 1)
    asked = model.module.asked  # type: ignore[attr-defined]
    assert run.beliefs(model, "train", "corrected", 3, 8, 1) == first
    assert model.module.asked == asked > 0  # type: ignore[attr-defined]
    (file,) = (run.run_dir / "beliefs").iterdir()
    assert file.name.startswith("before_corrected_")
    changed = tmp_path / "changed.ckpt"
    changed.write_text("other weights")
    retrained = Trained("before", model.module, model.datamodule, changed)
    others: list[tuple[RepairRun, Trained, tuple[Any, ...]]] = [
        (run, retrained, ("train", "corrected", 3, 8, 1)),
        (run, model, ("val", "corrected", 3, 8, 1)),
        (run, model, ("train", "corrected", 4, 8, 1)),
        (run, model, ("train", "corrected", 3, 7, 1)),
        (run, model, ("train", "corrected", 3, 8, 2)),
        (make(policy=True), model, ("train", "corrected", 3, 8, 1)),
        (make({"legality": 0}), model, ("train", "corrected", 3, 8, 1)),
    ]
    for number, (other, asked_model, where) in enumerate(others, start=2):
        other.beliefs(asked_model, *where)
        assert len(list((run.run_dir / "beliefs").glob("before_corrected_*.jsonl"))) == number
    seeds = [run.beliefs(model, "train", "corrected", 3, 8, seed)[0] for seed in range(4)]
    assert len({frozenset(_images(own)) for own in seeds}) > 1


def test_only_a_policy_is_trained_against_the_model(make: Make, obtained: list[Any]) -> None:
    run = make(policy=True)
    model = run.trained("before", [])
    obtained.clear()
    beliefs, _ = run.beliefs(model, "train", "corrected", 2, 8, 1)
    policy = obtained[-1].cfg.model
    assert (policy.name, policy.part_ckpt.answerer) == ("ivqa_rl", str(model.checkpoint))
    assert obtained[-1].dataset is run.context.dataset
    assert run.context.cfg.model.part_ckpt.answerer == "auto"
    assert set(run._questioners(model)) == {"supervised", "rl"}
    assert {one.source for one in beliefs} <= {"supervised", "rl"}
    obtained.clear()
    alone = make()
    assert set(alone._questioners(model)) == {"supervised"}
    assert [context.cfg.model.name for context in obtained] == ["ivqa_vae", "legality"]


def test_corrections_teach_right_answers_to_wrong_beliefs_first(make: Make) -> None:
    run = make(num_images=3, num_latents=8, right_beliefs=None)
    entries = run.corrections(run.trained("before", []), 1)
    images = sorted(set(_images(entries)))
    assert len(images) == 3
    assert set(images) < set(IMAGES["train"])
    found = [(image, *pair) for image, pair in zip(_images(entries), _texts(entries), strict=True)]
    assert sorted(found[:9]) == sorted((image, *pair) for image in images for pair in WRONG)
    assert sorted(found[9:]) == sorted((image, *pair) for image in images for pair in RIGHT)
    layouts = {"What": ["_Find", "_Describe"], "Is": ["_Find", "_Exist"]}
    for entry in entries:
        if entry.question != "Is the star blue?":
            assert entry.layout == layouts[entry.question.split()[0]]


@pytest.mark.parametrize(
    ("settings", "wrong", "right"),
    [
        ({"right_beliefs": 0.5}, 9, 4),
        ({"right_beliefs": 0}, 9, 0),
        ({"irrelevant": "leave_out"}, 6, 6),
        ({"num_latents": 2}, 6, 0),  # the questions about heart and circle
        ({"num_images": None}, 24, 24),
    ],
)
def test_settings_bound_the_corrections(
    settings: dict[str, Any], wrong: int, right: int, make: Make
) -> None:
    run = make(**{"num_images": 3, "num_latents": 8, **settings})
    texts = Counter(one for one, _ in _texts(run.corrections(run.trained("before", []), 1)))
    assert sum(texts[one] for one, _ in WRONG) == wrong
    assert sum(texts[one] for one, _ in RIGHT) == right


def test_without_labels_the_most_probable_world_and_what_follows_is_taught(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers are wrong here, so that those of the oracle would be seen."""
    kinds = {
        "What color is the heart?": "adversarial",
        "What color is the circle?": "irrelevant",
        "Is there a circle?": "complementary",
    }

    def typed(beliefs: list[Belief], callback: Any, *where: Any) -> Any:
        assert isinstance(callback, ConsistencyCallback)
        assert where == (model.module, model.datamodule, stage)
        own = [replace(one, type=kinds.get(one.question)) for one in beliefs]
        return (
            own,
            lambda _, question: ["green"] if question == "What color is the heart?" else None,
        )

    monkeypatch.setattr(repair_run, "typed_by_consistency", typed)
    run = make(num_images=3, num_latents=8, right_beliefs=None, teacher="consistency")
    model, stage = run.trained("before", []), "train"
    entries = run.corrections(model, 1)
    taught = [("What color is the heart?", "green"), ("What color is the circle?", NO_SUCH_THING)]
    taught += [("Is there a circle?", "no")]
    counted = Counter(_texts(entries))
    assert {one: counted.pop(one) for one in taught} == dict.fromkeys(taught, 3)
    following = {("Is there a heart?", "yes"), ("Is there a green heart?", "yes")}
    following |= {("Is the heart green?", "yes"), ("Do you see a circle?", "no")}
    following |= {("How many circles are there?", "0")}
    assert counted.total() == 6  # one for each of the first and the third
    assert set(counted) <= following
    stage = "val"
    assert run.wrong_rate(model) == pytest.approx(6 / 7)  # all but one of seven beliefs
    # Ordinary questions are those that there are: the oracle would answer new ones.
    assert set(_texts(run.ordinary(entries * 4))) <= set(OWN)


def test_each_round_and_seed_draws_anew(make: Make) -> None:
    def drawn(number: int, seed: int = 1, **settings: Any) -> list[tuple[int, str, str]]:
        run = make({"seed": seed}, num_latents=8, **settings)
        entries = run.corrections(run.trained("before", []), number)
        return [
            (image, *pair) for image, pair in zip(_images(entries), _texts(entries), strict=True)
        ]

    cases: list[dict[str, Any]] = [
        {"num_images": 3},  # the images
        {"num_images": None, "right_beliefs": 0.2},  # the right beliefs
        {"num_images": None, "irrelevant": "uniform", "right_beliefs": 0},  # the answers
    ]
    for settings in cases:
        first = drawn(1, **settings)
        others = [drawn(2, **settings), drawn(3, **settings), drawn(1, 2, **settings)]
        assert drawn(1, **settings) == first
        assert all(other != first for other in others)
        assert others[0] != others[1]
    answers = {answer for _, text, answer in drawn(1, **cases[2]) if "circle" in text}
    assert len(answers) > 1
    assert answers <= set(ANSWERS.answers)


def test_ordinary_questions_are_new_ones_about_training_images(make: Make) -> None:
    added = [Entry("1", 1, image, "Is it?", ["no"]) for image in IMAGES["train"]] * 5

    def drawn(seed: int) -> list[Entry]:
        return make({"seed": seed}, ordinary=0.5).ordinary(added)

    assert len(drawn(1)) == 20
    assert set(_images(drawn(1))) <= set(IMAGES["train"])
    assert len({text for text, _ in _texts(drawn(1))}) > len(OWN)  # the oracle asks
    assert drawn(1) == drawn(1) != drawn(2)


def test_a_model_is_trained_with_the_added_questions(make: Make, obtained: list[Any]) -> None:
    run = make()
    before = run.trained("before", [])
    assert (before.name, before.added) == ("before", None)
    assert obtained[-1].dataset is run.context.dataset
    assert not (run.run_dir / "added").exists()
    entries = [
        Entry("7", 7, 3, "Is it a dog?", ["no"] * 10, layout=["_Find", "_Exist"]),
        Entry("7", 7, 1, "Is it a heart?", ["yes"] * 10, layout=["_Find", "_Exist"]),
    ]
    model = run.trained("round_1", entries)
    assert model.name == "round_1"
    assert model.added is not None
    assert model.added.question_ids.tolist() == [1, 2]
    assert model.added.image_ids.tolist() == [3, 1]
    extended = obtained[-1].dataset.split("train")
    assert extended.questions == [text for _ in IMAGES["train"] for text, _ in OWN] + [
        "Is it a dog?",
        "Is it a heart?",
    ]
    assert model.module.known == {"Is it a dog?": "no", "Is it a heart?": "yes"}  # type: ignore[attr-defined]
    assert model.checkpoint.read_text() == "weights for 34 questions"
    assert model.datamodule.dataset is run.context.dataset
    assert model.datamodule.answer_vocabulary is model.module.answers
    assert model.datamodule.question_vocabulary == Vocabulary.build(extended.questions)
    written = VQADataset(run.run_dir / "added", train="round_1", val=None).split("train")
    assert (written.questions, written.main_answers) == (model.added.questions, ["no", "yes"])
    progress = json.loads((run.run_dir / "progress.json").read_text())
    assert progress == {"models": ["before", "round_1"]}


class Levels:
    """A noise of two levels that notes its pool."""

    levels = 2

    def __init__(self) -> None:
        self.pools: list[Sequence[str]] = []

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        self.pools.append(training)
        return [[f"{text} {level}?" for text in questions] for level in (1, 2)]


class Blurs(Levels):
    """A noise on images."""

    def disturbed_image(self, image: Any, level: int) -> Any:
        return image


def _with_callback(run: RepairRun, callback: Any) -> RepairRun:
    vars(run)["robustness"] = callback
    return run


@pytest.mark.parametrize("pool", [None, ["Pool?"]])
def test_controls_have_as_many_questions_about_the_same_images(
    pool: list[str] | None, make: Make
) -> None:
    images = [3, 3, 1, 8] * 5
    entries = [Entry("1", 1, image, f"Is it {at}?", ["no"]) for at, image in enumerate(images)]

    def trained(seed: int) -> tuple[list[Trained], Levels]:
        noise = Levels()
        callback = RobustnessCallback(noise, pool=None if pool is None else lambda _: pool)
        run = _with_callback(make({"seed": seed}), callback)
        return run.controls(run.trained("round_1", entries)), noise

    (ordinary, noisy), noise = trained(1)
    assert (ordinary.name, noisy.name) == ("ordinary", "noisy")
    for model in (ordinary, noisy):
        assert model.added is not None
        assert model.added.image_ids.tolist() == images
        # The model learnt these and not the corrected ones.
        assert set(model.module.known) == set(model.added.questions)  # type: ignore[attr-defined]
    assert ordinary.added is not None
    assert noisy.added is not None
    assert len(set(ordinary.added.questions)) > len(OWN)  # the oracle asks new ones
    answers = {f"{text} {level}?": answer for text, answer in OWN for level in (1, 2)}
    assert [answers[text] for text in noisy.added.questions] == noisy.added.main_answers
    assert noise.pools == [pool or [text for _ in IMAGES["train"] for text, _ in OWN]]
    for again, same in ((trained(1)[0], True), (trained(2)[0], False)):
        for old, new in zip((ordinary, noisy), again, strict=True):
            assert old.added is not None
            assert new.added is not None
            assert (old.added.questions == new.added.questions) is same


@pytest.mark.parametrize("callback", [None, RobustnessCallback(Blurs())])
def test_without_noise_on_questions_there_is_one_control(callback: Any, make: Make) -> None:
    run = _with_callback(make(), callback)
    repaired = run.trained("round_1", [Entry("1", 1, 3, "Is it a dog?", ["no"])])
    assert [model.name for model in run.controls(repaired)] == ["ordinary"]


def test_figures_are_those_counted_by_hand(make: Make) -> None:
    measured = {"r_score": 0.5, "r_score_low": 0.4, "r_score_high": 0.6, "acc_diff": 0.1}
    measured |= {"below_blind": 1.0}

    class Callback:
        def metrics(self, module: Any, datamodule: Any, stage: str) -> dict[str, float]:
            assert (module, datamodule) == (model.module, model.datamodule)
            assert stage == "test"
            return {f"robustness/{name}": value for name, value in measured.items()} | {"a/b": 1}

    class Consistency(Callback):
        def metrics(self, *asked: Any) -> dict[str, float]:
            super().metrics(*asked)
            return {f"consistency/{name}": value for name, value in rates.items()} | {"a/b": 1}

    rates = {"rate": 0.7, "rate_low": 0.6, "rate_high": 0.8}
    run = _with_callback(make(num_images=2, num_latents=1), Callback())
    vars(run)["_callback"] = lambda kind: Consistency()
    model = run.trained("before", [])
    # 3 pairs of each of 4 images; of 7 beliefs about an image, 3 are wrong and 3 right.
    expected = {"per_pair": 7 / 3, "judged": 6 / 7, "adversarial": 2 / 6, "irrelevant": 1 / 6}
    expected |= {"wrong_rate": 0.5, "wrong_rate_low": 0.5, "wrong_rate_high": 0.5}
    expected |= {"contradictions": 2 / 7, "correct_per_pair": 1.0, "added_questions": 0.0}
    expected |= {"accuracy": 0.75, "consistency": 0.7}
    expected |= {"consistency_low": 0.6, "consistency_high": 0.8}
    figures = run.figures(model)
    accuracies = {name for name in figures if name.startswith("accuracy_")}
    assert figures == pytest.approx(
        expected | measured | {name: figures[name] for name in accuracies}
    )
    (file,) = (run.run_dir / "beliefs").glob("before_reported_*")
    assert len(file.read_text().splitlines()) == 4 * 7
    # A model that learnt the right answers believes them.
    entries = [Entry("1", 1, 3, text, [answer]) for text, answer in [*WRONG, ("Day?", "yes")]]
    model = run.trained("round_1", entries)
    figures = run.figures(model)
    assert figures["wrong_rate"] == 0
    assert (figures["accuracy"], figures["added_questions"]) == (1, 4)
    # The heart is blue and the circle nothing, so nobody asked for these answers; "Is the star
    # blue?" is a right belief in "no" now.
    assert figures["correct_per_pair"] == pytest.approx(4 / 3)
    vars(run)["_callback"] = lambda kind: None
    bare = _with_callback(run, None).figures(model)
    assert not {*measured, "consistency"} & set(bare)


def test_a_repair_from_its_configuration_to_its_files(
    dataset: VQADataset,
    tmp_path: Path,
    obtained: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_dir = tmp_path / "run"
    begun: list[tuple[Any, ...]] = []
    monkeypatch.setattr(repair, "begin_run", lambda *given, resume: begun.append((*given, resume)))
    monkeypatch.setattr(repair, "with_features", lambda context, splits: context)
    said = StringIO()

    def opened(cfg: Any, splits: list[str]) -> RunContext:
        assert splits == ["train", "val", "test"]
        return RunContext(cfg, dataset, None, Console(file=said, width=40))

    monkeypatch.setattr(repair, "open_context", opened)
    cfg = _cfg(dataset, run_dir, **{"repair.num_images": 3, "repair.num_latents": 8})
    assert repair.repair(cfg) == 0
    assert begun == [(cfg, run_dir, False)]
    metrics = json.loads((run_dir / "metrics.json").read_text())
    # 3 images with 3 wrong and 3 right beliefs each, and int(0.3 * 18) ordinary questions. Round 2
    # finds nothing wrong and so adds nothing: the repair ends.
    assert {name.partition("/")[0] for name in metrics} == {
        *("before", "round_1", "repaired", "ordinary", "noisy"),
    }
    assert (metrics["before/wrong_rate"], metrics["round_1/wrong_rate"]) == (0.5, 0)
    assert metrics["repaired/accuracy"] == metrics["round_1/accuracy"]
    assert metrics["before/accuracy"] == 0.75
    added = {name: metrics[f"{name}/added_questions"] for name in ("before", "round_1", "noisy")}
    assert added == {"before": 0, "round_1": 18 + 5, "noisy": 18 + 5}
    table = pd.read_csv(run_dir / "table.csv")
    assert list(table["model"]) == ["before", "round 1, repaired", "ordinary", "noisy"]
    assert list(table["wrong"])[:2] == [0.5, 0]
    progress = json.loads((run_dir / "progress.json").read_text())
    assert progress == {"models": ["before", "round_1", "ordinary", "noisy"]}
    # Lines are not broken, so that they can be searched and copied.
    lines = said.getvalue().splitlines()
    assert any(line.endswith(f"{tmp_path / '32.ckpt'}") for line in lines)
    (line,) = [line for line in lines if line.startswith("round 1: ")]
    assert re.findall(r"[\d.]+%?", line) == ["1", "18", "50.0%", "0.0%"]
    searched = [line for line in lines if "searching beliefs about" in line]
    assert [re.findall(r"about (\d+) .* split (\w+)", line)[0] for line in searched] == [
        *[("4", "val"), ("3", "train"), ("4", "val"), ("3", "train")],
        *[("4", "test")] * 4,
    ]


@pytest.mark.parametrize(
    ("key", "value", "fits"),
    [
        ("vqa.pretrained", True, False),
        ("vqa.untrained", True, False),
        ("vqa.pretrained", False, True),
        ("model.part_ckpt.answerer", "mlb.ckpt", False),
        ("model.part_ckpt.questioner", "vae.ckpt", True),
    ],
)
def test_only_models_that_are_trained_here_are_repaired(
    key: str, value: Any, fits: bool, dataset: VQADataset, tmp_path: Path
) -> None:
    cfg = _cfg(dataset, tmp_path)
    OmegaConf.update(cfg, key, value, force_add=True)
    if fits:
        repair._check_trains(cfg)
        return
    with pytest.raises(UserError, match="train"):
        repair._check_trains(cfg)
