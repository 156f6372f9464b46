"""Training of skip-thoughts on toy data."""

import math
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from ivqa.encoders.skip_thoughts import SkipThoughtsEncoder
from ivqa.encoders.skip_thoughts_module import SkipThoughtsModule, neighbours
from ivqa.encoders.skip_thoughts_network import Decoder, SkipThoughtsNetwork
from ivqa.text.vocabulary import EOS, UNK, Tokens, Vocabulary

# Images of two worlds; the words "what" and "is" are shared, nouns and colours are not.
WORLDS = [(["dog", "cat", "horse"], ["brown", "black"]), (["car", "bus", "truck"], ["red", "blue"])]
QUESTIONS, IMAGES = [], []
for world, (nouns, colors) in enumerate(WORLDS):
    for image in range(12):
        for noun in nouns:
            color = colors[image % 2]
            QUESTIONS.append(f"is the {noun} {color}" if image % 3 else f"what color is the {noun}")
            IMAGES.append(100 * world + image)
WORDS = Vocabulary.build(QUESTIONS)


class Data(pl.LightningDataModule):
    """The part of a VQADataModule that the module reads; one batch holds all questions."""

    evaluated = None

    def __init__(self, image_ids: list[int] | None = None) -> None:
        super().__init__()
        self.image_ids = np.array(image_ids or IMAGES)

    def encoded(self, split: str) -> Any:
        text = WORDS.encode(QUESTIONS)
        return SimpleNamespace(question=text, split=SimpleNamespace(image_ids=self.image_ids))

    def _loader(self) -> Any:
        rows = torch.arange(len(QUESTIONS))
        batch = Batch(rows, WORDS.encode(QUESTIONS))
        return DataLoader([batch], batch_size=None)  # type: ignore[arg-type]

    train_dataloader = val_dataloader = _loader


class Batch(SimpleNamespace):
    def __init__(self, rows: torch.Tensor, question: Tokens) -> None:
        super().__init__(rows=rows, question=question)

    def to(self, device: Any, **_: Any) -> "Batch":
        return self

    def __len__(self) -> int:
        return len(self.rows)


def _module(seed: int = 0, **arguments: Any) -> SkipThoughtsModule:
    torch.manual_seed(seed)
    sizes = {"embedding_size": 12, "size": 16, "decoder_size": 12, "num_predicted": 100}
    return SkipThoughtsModule(
        network=partial(SkipThoughtsNetwork, **sizes),
        question_vocabulary=WORDS,
        optimizer=partial(torch.optim.Adam, lr=0.02),
        **arguments,
    )


def _trainer(folder: Path, epochs: int) -> pl.Trainer:
    return pl.Trainer(
        default_root_dir=folder,
        max_epochs=epochs,
        num_sanity_val_steps=0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def test_neighbours_are_all_questions_of_the_image_in_a_circle() -> None:
    images = np.random.default_rng(0).integers(0, 8, size=30)
    rows = neighbours(images)
    for row, image in enumerate(images):
        same = np.flatnonzero(images == image)
        place = int(np.flatnonzero(same == row)[0])
        if len(same) == 1:
            assert rows["previous"][row] == rows["next"][row] == -1
        else:
            assert rows["next"][row] == same[(place + 1) % len(same)]
            assert rows["previous"][row] == same[place - 1]


@pytest.mark.processor
def test_an_encoding_predicts_the_other_questions_of_its_image(
    tmp_path: Path, learning_seed: int
) -> None:
    module = _module(learning_seed)
    trainer = _trainer(tmp_path, 100)
    trainer.fit(module, datamodule=Data())
    # Without the question, the loss is at least the entropy of the questions per word: there are
    # 18 different ones, equally frequent, of 16 / 3 words with <eos>.
    assert sorted(Counter(QUESTIONS).values()) == [4] * 18
    blind = math.log(18) / (16 / 3)
    for task in ("previous", "next"):
        assert trainer.callback_metrics[f"val/{task}"] < 0.5 * blind

    checkpoint = tmp_path / "model.ckpt"
    trainer.save_checkpoint(checkpoint)
    encoder = SkipThoughtsEncoder(str(checkpoint))
    vectors = encoder.encode(["What color is the dog?", "what color is the DOG", "zebra?", "?"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0], atol=1e-6)
    for name, part in module.network.items():
        assert isinstance(part, SkipThoughtsNetwork)
        own = part.encode(WORDS.encode(["what color is the dog"])).detach().numpy()
        alone = SkipThoughtsEncoder(str(checkpoint), name).encode(["what color is the dog"])  # type: ignore[arg-type]
        np.testing.assert_allclose(alone, own / np.linalg.norm(own), atol=1e-5)
    with pytest.raises(ValueError, match="no <eos>: it was trained without"):
        SkipThoughtsEncoder(str(checkpoint), use_eos=True).encode(["why"])


def test_questions_without_neighbours_need_reconstruction(tmp_path: Path) -> None:
    alone = Data(list(range(len(QUESTIONS))))
    with pytest.raises(ValueError, match=r"no image of the train split has two questions.*reconst"):
        _trainer(tmp_path, 1).fit(_module(), datamodule=alone)
    module, trainer = _module(reconstruction=1.0), _trainer(tmp_path, 40)
    trainer.fit(module, datamodule=alone)
    assert trainer.callback_metrics.keys() == {
        "train/learning_rate",
        "train/loss",
        "val/loss",
        "val/own",
    }
    assert trainer.callback_metrics["val/own"] < 0.5


def test_a_decoder_predicts_every_word_and_the_end_and_rare_words_as_unknown() -> None:
    decoder = Decoder(embedding_size=3, condition_size=2, size=4, num_predicted=6)
    embedding, condition = torch.nn.Embedding(9, 3), torch.randn(3, 2)
    ids = torch.tensor([[4, 8, 5], [5, 0, 0], [0, 0, 0]])
    losses = decoder(embedding, condition, Tokens(ids, torch.tensor([3, 1, 0])))
    assert losses.shape == (7,)  # words and ends: 4 + 2 + 1
    wanted = [[4, UNK, 5, EOS], [5, EOS], [EOS]]
    expected = []
    for row, words in enumerate(wanted):
        given = torch.tensor([1, *ids[row].tolist()])[: len(words)]
        inputs = embedding(given) + decoder.condition(condition[row])
        states, _ = decoder.gru(inputs[None])
        scores = decoder.output(states[0]).log_softmax(dim=1)
        expected += [-scores[at, word] for at, word in enumerate(words)]
    torch.testing.assert_close(losses.sort().values, torch.stack(expected).sort().values)


def test_uni_and_bi_share_no_weight_and_halves_must_be_even() -> None:
    module = _module()
    uni = {value.data_ptr() for value in module.network["uni"].parameters()}
    assert uni.isdisjoint(value.data_ptr() for value in module.network["bi"].parameters())
    with pytest.raises(ValueError, match="size=5 must be even"):
        SkipThoughtsNetwork(num_words=9, tasks=["next"], bidirectional=True, size=5)
