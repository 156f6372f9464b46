"""The human study: blinded page, ratings of several people, agreement and correlations."""

import csv
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from ivqa.data.validation import DataError
from ivqa.errors import UserError
from ivqa.metrics import (
    CiderStatistics,
    bleu_scores,
    cider_scores,
    krippendorff_alpha,
    meteor_scores,
    rouge_l,
)
from ivqa.scenes import ScenesDataset
from ivqa.store.files import FileError
from ivqa.tasks.compare import names_of_runs
from ivqa.tasks.human_study.items import draw_study
from ivqa.tasks.human_study.task import human_study

CONF = Path(__file__).parents[2] / "conf"
IMAGES = {"train": 4, "val": 2, "test": 12}
METRICS = {"CIDEr": "cider", "MRR": "pools/mean_reciprocal_rank", "oracle": "best/consistent"}
# Questions of each model by the number of the pair, in the spelling of the model.
MODELS = {
    "secret_alpha": lambda pair: pair["question"],
    "secret_beta": lambda pair: "what color is the " + ("cat" if pair["row"] % 2 else "star"),
    # Asks the questions of the first model, in other letters, for even pairs.
    "secret_gamma": lambda pair: pair["question"].lower() if pair["row"] % 2 == 0 else "Why?",
}
QUALITY = {"secret_alpha": 0.9, "secret_beta": 0.2, "secret_gamma": 0.5}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> ScenesDataset:
    folder = tmp_path_factory.mktemp("scenes")
    return ScenesDataset(str(folder), images=IMAGES)


@pytest.fixture(scope="module")
def runs(dataset: ScenesDataset, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    split = dataset.split("test")
    folder = tmp_path_factory.mktemp("runs")
    for name, ask in MODELS.items():
        run = folder / name
        run.mkdir()
        lines = []
        for row, question in enumerate(split.questions):
            asked = ask({"question": question, "row": row})
            record = {
                "question_id": int(split.question_ids[row]),
                "image_id": int(split.image_ids[row]),
                "answer": split.main_answers[row],
                "reference": question,
                "best": {
                    "text": asked,
                    "log_likelihood": -1.0,
                    "verdict": "consistent" if asked == question else "other answer",
                },
                "samples": [],
            }
            lines.append(json.dumps(record))
        (run / "questions.jsonl").write_text("\n".join(lines) + "\n")
        (run / "config.yaml").write_text(f"name: {name}\n")
        metrics = {"cider": QUALITY[name], "pools/mean_reciprocal_rank": QUALITY[name] ** 2}
        (run / "metrics.json").write_text(json.dumps(metrics | {"best/consistent": 0.5}))
    return [folder / name for name in MODELS]


@cache
def _composed() -> Any:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("evaluate", ["task=human_study"])


def _cfg(dataset: ScenesDataset, output: Path, **values: Any) -> Any:
    settings = {"num_images": None, "seed": 3, "split": "test", "resamples": 200, "logger": None}
    settings |= {"metrics": METRICS, "output_dir": str(output)}
    settings |= {"data.cache_dir": str(dataset.root.parent), "data.images": IMAGES}
    cfg = _composed().copy()
    for key, value in {**settings, **values}.items():
        OmegaConf.update(cfg, key, value, merge=False)
    return cfg


def test_a_study_has_the_300_samples_of_the_paper() -> None:
    assert _composed().num_images == 300


@pytest.fixture(scope="module")
def study(
    dataset: ScenesDataset, runs: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("study")
    human_study(_cfg(dataset, folder, runs=[str(run) for run in runs]))
    return folder


def _key(study: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((study / "key.json").read_text())
    return found


def _data(study: Path) -> dict[str, Any]:
    page = (study / "annotate.html").read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def _rate(
    study: Path, file: Path, person: str, ratings: dict[str, Any], name: str | None = None
) -> str:
    """A file as the page exports it; `name` is the id of another study."""
    content = {"study": name or _key(study)["id"], "person": person, "ratings": ratings}
    file.write_text(json.dumps(content))
    return str(file)


def test_every_question_is_in_the_page_once(study: Path, dataset: ScenesDataset) -> None:
    items = _key(study)["items"]
    split = dataset.split("test")
    images = {item["image_id"] for item in items}
    assert images == set(split.image_ids.tolist())
    by_row = {}
    for row, _question in enumerate(split.questions):
        by_row.setdefault((int(split.image_ids[row]), split.main_answers[row]), []).append(row)
    for image in images:
        own = [item for item in items if item["image_id"] == image]
        # One pair of each image, and every model has one question for it.
        assert len({item["answer"] for item in own}) == 1
        assert sorted(name for item in own for name in item["models"]) == sorted(MODELS)
        rows = by_row[image, own[0]["answer"]]
        expected = [
            {MODELS[name]({"question": split.questions[row], "row": row}).lower().rstrip("?")
             for name in MODELS}
            for row in rows
        ]  # fmt: skip
        assert {item["question"].lower().rstrip("?") for item in own} in expected
    # The first and the third model ask the same for even pairs: these are shown once.
    shared = [item for item in items if {"secret_alpha", "secret_gamma"} <= set(item["models"])]
    assert 0 < len(shared) < len(images)
    assert len({item["id"] for item in items}) == len(items)


def test_the_page_does_not_tell_the_model(study: Path, runs: list[Path]) -> None:
    page = (study / "annotate.html").read_text()
    for word in ("secret", "alpha", "beta", "gamma", *map(str, runs), str(runs[0].parent)):
        assert word not in page
    data, items = _data(study), _key(study)["items"]
    assert [item.keys() for item in data["items"]] == [
        {"id", "image", "answer", "question"} for _ in items
    ]
    assert [item["id"] for item in data["items"]] == [item["id"] for item in items]
    # All questions are written alike, whatever the model writes.
    assert all(re.fullmatch(r"[A-Z].*[^? ]\?", item["question"]) for item in data["items"])
    # Images are numbered in the order of the page.
    assert list(dict.fromkeys(item["image"] for item in data["items"])) == list(
        range(len(data["images"]))
    )


def test_the_order_depends_on_the_seed_and_not_on_the_models(
    study: Path, dataset: ScenesDataset, runs: list[Path], tmp_path: Path
) -> None:
    backwards = [str(run) for run in reversed(runs)]
    human_study(_cfg(dataset, tmp_path / "same", runs=backwards))
    assert (tmp_path / "same" / "annotate.html").read_bytes() == (
        study / "annotate.html"
    ).read_bytes()
    human_study(_cfg(dataset, tmp_path / "other", runs=backwards, seed=4, num_images=5))
    assert len({item["image_id"] for item in _key(tmp_path / "other")["items"]}) == 5
    assert _key(tmp_path / "other")["id"] != _key(study)["id"]
    # Shuffled: neither the images nor the models come in blocks.
    items = _key(study)["items"]
    assert [item["image_id"] for item in items] != sorted(item["image_id"] for item in items)
    first = [item["models"][0] for item in items]
    assert first != sorted(first)
    assert first != sorted(first, reverse=True)


def test_values_of_questions_are_those_of_the_metrics(study: Path, dataset: ScenesDataset) -> None:
    split = dataset.split("test")
    statistics = CiderStatistics.of([[text] for text in split.questions])
    for item in _key(study)["items"]:
        question, reference = [item["question"]], [[item["reference"]]]
        assert item["values"]["meteor"] == pytest.approx(meteor_scores(question, reference)[0])
        assert item["values"]["rouge_l"] == pytest.approx(rouge_l(question, reference))
        bleu = bleu_scores(question, reference)[0]
        assert [item["values"][f"bleu{n}"] for n in (1, 2, 3, 4)] == pytest.approx(bleu)
        cider = cider_scores(question, reference, statistics)[0]
        assert item["values"]["cider"] == pytest.approx(cider)
        # The first model asks the question of the data set.
        assert item["values"]["best/consistent"] == ("secret_alpha" in item["models"])


def test_scores_agreement_and_correlations(
    study: Path, dataset: ScenesDataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = _key(study)["items"]
    rng = np.random.default_rng(0)
    anna = {item["id"]: int(rng.integers(0, 5)) for item in items}
    ben = {name: min(4, score + int(rng.integers(0, 2))) for name, score in anna.items()}
    for item in items[::3]:  # people may leave questions out
        del ben[item["id"]]
    for item in items[::9]:  # nobody gave these a score
        del anna[item["id"]]
    human = [_rate(study, tmp_path / f"{n}.json", n, r) for n, r in (("Anna", anna), ("Ben", ben))]
    output = tmp_path / "out"
    best = human_study(_cfg(dataset, output, human=human, study=str(study)))
    metrics = json.loads((output / "metrics.json").read_text())

    table = np.array([[given.get(item["id"], np.nan) for item in items] for given in (anna, ben)])
    scored = ~np.isnan(table).all(axis=0)
    items, table = (
        [item for item, known in zip(items, scored, strict=True) if known],
        table[:, scored],
    )
    mean = np.nanmean(table, axis=0)
    means = {}
    for name in MODELS:
        own = [name in item["models"] for item in items]
        means[name] = mean[own].mean()
        assert metrics[f"human/{name}"] == pytest.approx(means[name])
        assert metrics[f"human/{name}_low"] < means[name] < metrics[f"human/{name}_high"]
        # The half width of a normal interval of the mean.
        half = 1.96 * mean[own].std() / np.sqrt(sum(own))
        assert metrics[f"human/{name}_high"] - means[name] == pytest.approx(half, rel=0.25)
    assert metrics["agreement/alpha"] == pytest.approx(krippendorff_alpha(table))
    assert metrics["agreement/alpha_low"] < metrics["agreement/alpha"]
    assert metrics["agreement/people"] == 2
    assert metrics["agreement/ratings"] == len(anna) + len(ben)
    humans, quality = list(means.values()), [QUALITY[name] for name in means]
    expected = scipy.stats.pearsonr(humans, quality).statistic
    assert metrics["models/pearson/cider"] == pytest.approx(expected)
    expected = scipy.stats.spearmanr(humans, quality).statistic
    assert metrics["models/spearman/pools/mean_reciprocal_rank"] == pytest.approx(expected)
    values = [item["values"]["cider"] for item in items]
    expected = scipy.stats.spearmanr(values, mean).statistic
    assert metrics["questions/spearman/cider"] == pytest.approx(expected)
    assert metrics["questions/spearman/cider_low"] < expected
    # The metric is equal for all models, but not for all questions.
    assert "models/pearson/best/consistent" not in metrics
    assert "questions/pearson/best/consistent" in metrics
    assert best == max(metrics[f"models/pearson/{name}"] for name in list(METRICS.values())[:2])

    said = capsys.readouterr().out
    assert max(map(len, said.split("run: ")[0].splitlines())) <= 80
    assert "Krippendorff's alpha (interval)" in said
    for table_name in ("scores", "over_models", "over_questions"):
        for ending in ("md", "csv", "tex", "html"):
            assert (output / f"{table_name}.{ending}").is_file()
    with (output / "scores.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["model"] for row in rows] == list(MODELS)
    assert rows[0]["score"] == f"{means['secret_alpha']:.2f}"


def test_two_models_and_one_person(
    dataset: ScenesDataset, runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "study"
    human_study(_cfg(dataset, folder, runs=[str(run) for run in runs[:2]]))
    items = _key(folder)["items"]
    ratings = {item["id"]: number % 5 for number, item in enumerate(items)}
    file = _rate(folder, folder / "anna.json", "Anna", ratings)
    output = tmp_path / "out"
    # The key is looked for beside the ratings.
    best = human_study(_cfg(dataset, output, human=file))
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "The correlation over models is left out: it needs 3 models, and the study has 2." in said
    )
    assert "The agreement is left out: it needs questions that two people scored" in said
    metrics = json.loads((output / "metrics.json").read_text())
    assert not any(name.startswith(("models/", "agreement/alpha")) for name in metrics)
    assert best == max(
        metrics["questions/pearson/cider"], metrics["questions/pearson/best/consistent"]
    )


def test_bad_ratings_are_refused_in_one_sentence(
    study: Path, dataset: ScenesDataset, tmp_path: Path
) -> None:
    item = _key(study)["items"][0]["id"]
    good = _rate(study, tmp_path / "good.json", "Anna", {item: 4})

    def refusal(*files: str) -> str:
        with pytest.raises((DataError, FileError)) as caught:
            human_study(_cfg(dataset, tmp_path / "out", human=list(files), study=str(study)))
        return str(caught.value)

    bad = tmp_path / "bad.json"
    assert "bad.json: the study has no item 'x'" in refusal(good, _rate(study, bad, "B", {"x": 1}))
    for score in (5, -1, 2.5, True, "3", None):
        message = refusal(good, _rate(study, bad, "B", {item: score}))
        assert f"bad.json, item {item}: a score must be an integer from 0 to 4" in message
    message = refusal(good, _rate(study, bad, "B", {item: 1}, "other"))
    assert "bad.json belongs to another study ('other', not" in message
    message = refusal(good, _rate(study, bad, " ANNA ", {item: 1}))
    assert "bad.json and" in message
    assert "are both ratings of 'ANNA'" in message
    assert "bad.json has no ratings" in refusal(_rate(study, bad, "B", {}))
    for content in ("[]", "{}", '{"study": "x", "person": "", "ratings": {}}'):
        bad.write_text(content)
        assert "bad.json: not a file that the annotate.html of task=human_study" in refusal(
            str(bad)
        )
    # One question has one model at least; here two models have no score.
    assert "no question of" in refusal(good)


def test_bad_runs_are_refused_in_one_sentence(
    dataset: ScenesDataset, runs: list[Path], tmp_path: Path
) -> None:
    def refusal(**values: Any) -> str:
        with pytest.raises(UserError) as caught:
            human_study(_cfg(dataset, tmp_path / "out", **values))
        return str(caught.value)

    assert "pass either runs=[RUN,...], which writes the page, or human=" in refusal()
    assert "is named twice" in refusal(runs=[str(runs[0]), str(runs[0])])
    assert "is not one of split 'val'" in refusal(runs=[str(runs[0])], split="val")
    other = tmp_path / "other"
    other.mkdir()
    assert "other has no metrics.json" in refusal(runs=[str(other)])
    (other / "metrics.json").write_text("{}")
    assert "other has no questions.jsonl" in refusal(runs=[str(other)])
    lines = (runs[0] / "questions.jsonl").read_text().splitlines()
    (other / "questions.jsonl").write_text(lines[0] + "\n" + '{"best": 1}\n')
    assert "questions.jsonl, line 2: not a line that evaluate.py writes" in refusal(
        runs=[str(other)]
    )
    (other / "questions.jsonl").write_text(lines[0].replace('"reference": "', '"reference": "x'))
    assert "line 1: question" in refusal(runs=[str(other)])
    (other / "questions.jsonl").write_text(lines[0])
    first = tmp_path / "first"
    first.mkdir()
    (first / "metrics.json").write_text("{}")
    (first / "questions.jsonl").write_text(lines[1])
    message = refusal(runs=[str(first), str(other)])
    assert "have no image-answer pair in common" in message
    (tmp_path / "anna.json").write_text("{}")
    assert f"{tmp_path} has no key.json" in refusal(human=str(tmp_path / "anna.json"))


def test_runs_are_named_by_what_distinguishes_them(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second", "deep/first")]
    for folder, seed in zip(folders, (1, 2, 2), strict=True):
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(f"name: vae\nseed: {seed}\n")
    assert names_of_runs(folders[:1]) == ["vae"]
    assert names_of_runs(folders[:2]) == ["vae, seed 1", "vae, seed 2"]
    assert names_of_runs(folders[1:]) == ["second", "first"]
    assert names_of_runs(folders) == [str(folder) for folder in folders]


def test_the_score_of_a_question_is_the_mean_over_people(
    study: Path, dataset: ScenesDataset, tmp_path: Path
) -> None:
    """Of 0, 1 and 4 it is 5 / 3, where the median is 1."""
    items = _key(study)["items"]
    files = [
        _rate(study, tmp_path / f"{score}.json", str(score), {one["id"]: score for one in items})
        for score in (0, 1, 4)
    ]
    human_study(_cfg(dataset, tmp_path / "out", human=files, study=str(study)))
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [metrics[f"human/{name}"] for name in MODELS] == pytest.approx([5 / 3] * 3)


def test_images_of_a_study_are_drawn_at_random(
    dataset: ScenesDataset, runs: list[Path], tmp_path: Path
) -> None:
    named, split = {run.name: run for run in runs}, dataset.split("test")
    drawn = [
        sorted({item.image_id for item in draw_study(named, split, num_images=4, seed=seed).items})
        for seed in range(6)
    ]
    images = sorted(set(split.image_ids.tolist()))
    assert drawn.count(images[:4]) <= 1
    assert len(set(map(tuple, drawn))) >= 4
    assert set().union(*drawn) > set(images[:4])


def test_a_study_is_written_into_a_folder_that_exists(
    dataset: ScenesDataset, runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    number = human_study(_cfg(dataset, folder, runs=[str(run) for run in runs], num_images=4))
    items = _key(folder)["items"]
    assert number == len(items)
    assert len({item["image_id"] for item in items}) == 4
    assert _key(folder)["runs"] == {run.name: str(run) for run in runs}
    config = (folder / "config.yaml").read_text()
    assert "num_images: 4\n" in config
    assert "${" not in config
    shown = [(item["id"], item["answer"], item["question"]) for item in _data(folder)["items"]]
    assert shown == [(item["id"], item["answer"], item["question"]) for item in items]
    assert _data(folder)["study"] == _key(folder)["id"]
    lines = capsys.readouterr().out.splitlines()
    assert re.findall(r"\b\d+\b", lines[0].split(":")[0]) == [str(len(items)), "3", "4"]
    assert lines[0].endswith(str(folder / "annotate.html"))
    assert lines[1].endswith(str(folder / "key.json"))
    # The seed decides which images are drawn.
    other = tmp_path / "other"
    human_study(_cfg(dataset, other, runs=[str(run) for run in runs], num_images=4, seed=4))
    assert _key(other)["id"] != _key(folder)["id"]
