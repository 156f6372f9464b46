"""The belief probe and its callback, against figures that are counted by hand."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor
from toy_diagnosis import ANSWERS, LongIsLegal, WordAnswerer
from toy_root import toy_root

from ivqa.data import VQADataModule, VQADataset, build_vocabularies
from ivqa.diagnosis import Belief, BeliefCallback, BeliefProbe, belief_figures
from ivqa.errors import UserError
from ivqa.generators import Questions
from ivqa.store.files import write_json
from ivqa.text.vocabulary import Vocabulary

# Asked for each of the pairs (1, no), (1, red) and (1, yes). The answerer says "red" to questions
# with "color", "yes" to others with "star", and "no" to the rest.
ASKED = [
    "What color is the star?",  # red: right, the data set's own question
    "What color is the heart?",  # red: wrong, it is blue
    "What color is the circle?",  # red: there is none
    "Is the star blue?",  # yes: wrong
    "Is there a star?",  # yes: right, the data set's own question
    "Is there a circle?",  # no: right; the third question believes in a circle
    "Colorful color, color!",  # red: nobody understands it
    "Color?",  # one word is not legal
]


class Asks:
    """A generator that asks the same questions about every pair."""

    def __init__(self, feature_sizes: dict[str, int] | None = None) -> None:
        self.feature_sizes = feature_sizes or {}

    def sample(self, images: Any, answers: list[str], num_samples: int, *rest: Any) -> Questions:
        texts = ASKED[:num_samples] * len(answers)
        pair = torch.arange(len(answers)).repeat_interleave(num_samples)
        tokens = Vocabulary.build(ASKED).encode(texts)
        return Questions(tokens, texts, torch.zeros(len(texts)), pair)

    def log_likelihood(self, *arguments: Any) -> Tensor:
        raise NotImplementedError


def _datamodule(dataset: VQADataset) -> VQADataModule:
    return VQADataModule(dataset, None, *build_vocabularies(dataset.split("train")), ANSWERS)


def test_the_figures_are_those_counted_by_hand(tmp_path: Path) -> None:
    probe = BeliefProbe({"supervised": Asks()}, LongIsLegal(), num_latents=len(ASKED))
    data = _datamodule(toy_root(tmp_path))
    beliefs, number = probe.beliefs(WordAnswerer(), data, "val")
    pairs = probe.pairs(WordAnswerer(), data, "val")[0]
    assert number == 3
    assert list(zip(pairs.images, pairs.answers, strict=True)) == [
        (1, "no"),
        (1, "red"),
        (1, "yes"),
    ]
    types = {belief.question: (belief.answer, belief.type) for belief in beliefs}
    assert types == {
        ASKED[0]: ("red", "rephrase"),
        ASKED[1]: ("red", "adversarial"),
        ASKED[2]: ("red", "irrelevant"),
        ASKED[3]: ("yes", "adversarial"),
        ASKED[4]: ("yes", "rephrase"),
        ASKED[5]: ("no", "complementary"),
        ASKED[6]: ("red", None),
    }
    figures = belief_figures(beliefs, number)
    assert figures.pop("wrong_rate_low") == 0.5  # one image: the bootstrap draws it every time
    assert figures.pop("wrong_rate_high") == 0.5
    assert figures == pytest.approx(
        {
            "per_pair": 7 / 3,
            "judged": 6 / 7,
            "adversarial": 2 / 6,
            "irrelevant": 1 / 6,
            "wrong_rate": 3 / 6,
            "contradictions": 2 / 7,
        }
    )


def test_the_interval_of_the_wrong_rate_is_that_of_its_complement() -> None:
    """Of three images, one has a wrong belief; the bootstrap of the wrong ones by hand."""
    right = Belief(1, "yes", "Is it?", 0.9, -1.0, 1.0, "rl", "rephrase", "proxy")
    wrong = replace(right, type="adversarial")
    beliefs = [replace(right, image_id=1)] * 3
    beliefs += [replace(wrong, image_id=2), replace(right, image_id=3)]
    figures = belief_figures(beliefs, 3)
    counts = np.random.default_rng(0).multinomial(3, [1 / 3] * 3, 200_000)
    share = counts @ [0, 1, 0] / (counts @ [3, 1, 1])
    low, high = np.quantile(share, [0.025, 0.975])
    assert (figures["wrong_rate_low"], figures["wrong_rate_high"]) == pytest.approx((low, high))
    assert low < 0.2 < high  # 0.2 of the beliefs are wrong


def test_a_probe_without_legality_and_with_frequent_answers(tmp_path: Path) -> None:
    data = _datamodule(toy_root(tmp_path))
    probe = BeliefProbe({"supervised": Asks()}, LongIsLegal(), num_latents=8, legality=0)
    assert "Color?" in {belief.question for belief in probe.beliefs(WordAnswerer(), data, "val")[0]}
    first = BeliefProbe(
        {"supervised": Asks()}, LongIsLegal(), num_latents=8, pool="top", num_top_answers=1
    )
    assert first.pairs(WordAnswerer(), data, "val")[0].answers == ["red"]
    assert {belief.answer for belief in first.beliefs(WordAnswerer(), data, "val")[0]} == {"red"}


def test_without_an_oracle_the_proxy_judges(tmp_path: Path) -> None:
    dataset = toy_root(tmp_path, scenes=False)
    captions = [{"image_id": 1, "caption": "a red star and a blue heart"}]
    write_json(tmp_path / "captions_val.json", {"annotations": captions})
    probe = BeliefProbe({"supervised": Asks()}, LongIsLegal(), num_latents=6)
    beliefs, number = probe.beliefs(WordAnswerer(), _datamodule(dataset), "val")
    types = {belief.question: belief.type for belief in beliefs}
    # Nobody answered the question about the heart, and no caption names a circle.
    assert types[ASKED[0]] == types[ASKED[4]] == "rephrase"
    assert types[ASKED[1]] is None
    assert types[ASKED[2]] == types[ASKED[5]] == "irrelevant"
    figures = belief_figures(beliefs, number)
    assert figures["judged"] == pytest.approx(4 / 6)
    assert figures["wrong_rate"] == pytest.approx(2 / 4)
    assert figures["contradictions"] == pytest.approx(2 / 6)  # "red" circle, no circle


def test_beliefs_that_nobody_can_judge_have_no_wrong_rate(tmp_path: Path) -> None:
    dataset = toy_root(tmp_path, scenes=False)
    probe = BeliefProbe({"supervised": Asks()}, LongIsLegal(), num_latents=8)
    beliefs, number = probe.beliefs(WordAnswerer(), _datamodule(dataset), "val")
    unjudged = [belief for belief in beliefs if belief.type is None]
    # "Is there a circle?" no, and what color it is; five beliefs in all.
    for some, contradictions in ((unjudged, 2 / 5), ([], 0)):
        figures = belief_figures(some, number)
        assert math.isnan(figures.pop("wrong_rate"))
        expected = {"per_pair": len(some) / 3, "judged": 0, "contradictions": contradictions}
        assert figures == expected


def test_a_feature_that_the_data_lack_is_named(tmp_path: Path) -> None:
    probe = BeliefProbe({"supervised": Asks({"concepts": 5})}, LongIsLegal())
    with pytest.raises(UserError, match="reads the image feature 'concepts'"):
        probe.beliefs(WordAnswerer(), _datamodule(toy_root(tmp_path)), "val")


class Trained(pl.LightningModule, WordAnswerer):
    """The toy answerer with a weight to train, because Lightning needs one."""

    def __init__(self) -> None:
        pl.LightningModule.__init__(self)
        WordAnswerer.__init__(self)
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self.weight**2

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        pass

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def _trainer(folder: Path, callback: pl.Callback, epochs: int = 1) -> pl.Trainer:
    return pl.Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        callbacks=[callback],
        default_root_dir=str(folder),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )


@pytest.mark.parametrize(("every", "measured"), [(0, []), (1, [1, 2, 3]), (2, [2])])
def test_the_callback_runs_every_n_epochs(every: int, measured: list[int], tmp_path: Path) -> None:
    callback = BeliefCallback(Asks(), LongIsLegal(), num_latents=8, every_n_epochs=every)
    module, data = Trained(), _datamodule(toy_root(tmp_path))
    epochs: list[int] = []

    class Watch(pl.Callback):
        def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
            if module.asked:
                epochs.append(trainer.current_epoch + 1)
                module.asked = 0

    trainer = _trainer(tmp_path, callback, 3)
    trainer.callbacks.append(Watch())  # type: ignore[attr-defined]
    trainer.fit(module, datamodule=data)
    assert epochs == measured
    logged = {name for name in trainer.callback_metrics if name.startswith("beliefs/")}
    assert BeliefCallback.validation_metrics({"every_n_epochs": every}) <= logged
    assert bool(logged) == bool(every)


def test_validate_and_test_always_measure(tmp_path: Path) -> None:
    callback = BeliefCallback(Asks(), LongIsLegal(), num_latents=8, every_n_epochs=0)
    module, data = Trained(), _datamodule(toy_root(tmp_path))
    for run in ("validate", "test"):
        trainer = _trainer(tmp_path, callback)
        (logged,) = getattr(trainer, run)(module, datamodule=data, verbose=False)
        assert logged["beliefs/wrong_rate"] == pytest.approx(0.5)
        assert logged["beliefs/per_pair"] == pytest.approx(7 / 3)
    assert BeliefCallback.validation_metrics({"every_n_epochs": 0}) == set()
    with pytest.raises(UserError, match="BeliefCallback needs a trainer with a VQADataModule"):
        _trainer(tmp_path, callback).validate(module, data.loader("val"), verbose=False)
