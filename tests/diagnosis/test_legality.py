import random
from functools import partial
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.diagnosis import LegalityCNN, LegalityModule
from ivqa.text.vocabulary import Vocabulary

NOUNS = ["star", "heart", "cross", "circle", "square"]
COLORS = ["red", "blue", "green", "yellow"]
QUESTIONS = [
    *[f"what color is the {noun}" for noun in NOUNS],
    *[f"is there a {color} {noun}" for noun in NOUNS for color in COLORS],
    *[f"how many {color} {noun}s are there in the picture" for noun in NOUNS for color in COLORS],
]
WORDS = Vocabulary.build(QUESTIONS)


class _Data:
    """The part of a datamodule that the legality model reads."""

    class _Encoded:
        question = WORDS.encode(QUESTIONS)

    def encoded(self, split: str) -> Any:
        return self._Encoded()


def _batch(rng: random.Random) -> VQABatch:
    words = WORDS.encode(rng.choices(QUESTIONS, k=64))
    none = torch.zeros(64, dtype=torch.int64)
    images = ImageBatch(ids=torch.tensor([1]), index=none)
    return VQABatch(none, images, words, words, none, none)


@pytest.mark.processor
def test_it_learns_to_tell_questions_from_nonsense(learning_seed: int) -> None:
    pl.seed_everything(learning_seed, verbose=False)
    network = partial(LegalityCNN, widths=(1, 2, 3, 4), maps=(16, 32, 32, 32), embedding_size=16)
    module = LegalityModule(
        network=network,
        question_vocabulary=WORDS,
        optimizer=partial(torch.optim.Adam, lr=5e-3),
    )
    rng = random.Random(learning_seed)
    trainer = pl.Trainer(
        max_steps=150,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module.on_fit_start = lambda: setattr(  # type: ignore[method-assign]
        module, "_known", torch.zeros(0, dtype=torch.int64)
    )
    loader: Any = DataLoader([_batch(rng) for _ in range(150)], batch_size=None)
    trainer.fit(module, loader, DataLoader([_batch(rng)], batch_size=None))  # type: ignore[arg-type]
    legal = module.probabilities(["Is there a red star?", "What color is the heart?"])
    nonsense = module.probabilities(
        ["Star a is red there?", "What color is?", "The heart heart what is?", "Picture?"]
    )
    assert legal.min() > 0.8
    assert nonsense.max() < 0.3
    assert 0 < module.limit < 1
    # The calibrated limit lets 95 percent of real questions pass, and is kept with the weights.
    assert (module.probabilities(QUESTIONS) > module.limit).float().mean() > 0.85
    assert "threshold" in module.state_dict()
    assert module.probabilities([]).shape == (0,)


def test_padding_and_company_do_not_change_a_score() -> None:
    torch.manual_seed(0)
    network = partial(LegalityCNN, widths=(1, 3), maps=(4, 4), max_length=8)
    module = LegalityModule(network=network, question_vocabulary=WORDS)
    alone = module.probabilities(["Is there a star?"])
    together = module.probabilities([QUESTIONS[-1], "Is there a star?", ""])
    assert torch.allclose(alone, together[1:2], atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"widths": (1, 2), "maps": (4,)}, "2 filter widths"),
        ({"widths": (9,), "maps": (4,), "max_length": 8}, "does not fit"),
    ],
)
def test_filters_that_cannot_be_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LegalityCNN(num_words=9, **wrong)
