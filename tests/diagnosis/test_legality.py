"""The legality model against its definition: network, loss, threshold, negatives and errors."""

import random
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.diagnosis import KINDS, LegalityCNN, LegalityModule, perturb
from ivqa.diagnosis.beliefs.perturbation import fingerprints
from ivqa.diagnosis.legality import module as legality
from ivqa.text.vocabulary import PAD, Tokens, Vocabulary

NOUNS = ["star", "heart", "cross", "circle", "square"]
COLORS = ["red", "blue", "green", "yellow"]
QUESTIONS = [
    *[f"what color is the {noun}" for noun in NOUNS],
    *[f"is there a {color} {noun}" for noun in NOUNS for color in COLORS],
    *[f"how many {color} {noun}s are there in the picture" for noun in NOUNS for color in COLORS],
]
WORDS = Vocabulary.build(QUESTIONS)


class _Data:
    """The part of a datamodule that the legality model uses."""

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
        max_steps=300,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module.on_fit_start = lambda: setattr(  # type: ignore[method-assign]
        module, "_training_questions", torch.zeros(0, dtype=torch.int64)
    )
    loader: Any = DataLoader([_batch(rng) for _ in range(300)], batch_size=None)
    trainer.fit(module, loader, DataLoader([_batch(rng) for _ in range(20)], batch_size=None))  # type: ignore[arg-type]
    legal = module.probabilities(["Is there a red star?", "What color is the heart?"])
    nonsense = module.probabilities(
        ["Star a is red there?", "What color is?", "The heart heart what is?", "Picture?"]
    )
    assert legal.min() > 0.75
    assert nonsense.max() < 0.3
    assert 0 < module.limit < 1
    # 95 percent of held-out questions are above the calibrated limit, which is stored with the
    # weights: 42 or 43 of these 45, one more or less by the draw of the held-out questions.
    share = float((module.probabilities(QUESTIONS) > module.limit).float().mean())
    assert 0.88 < share < 0.99
    assert "threshold" in module.state_dict()
    assert module.probabilities([]).shape == (0,)


def _small(**settings: Any) -> LegalityModule:
    """A model with two filter widths and no dropout; logged values are in `module.shown`."""
    network = partial(LegalityCNN, widths=(1, 3), maps=(4, 5), embedding_size=6, dropout=0.0)
    module = LegalityModule(network=network, question_vocabulary=WORDS, **settings)
    module.shown = {}  # type: ignore[assignment]

    def log(name: str, value: Any, **options: Any) -> None:
        module.shown[name] = float(value.compute() if hasattr(value, "compute") else value)  # type: ignore[index]

    module.log = log  # type: ignore[assignment, method-assign]
    return module


def test_the_network_is_that_of_the_definition() -> None:
    """Filters over windows of words, their maximum, a highway layer and one logit, with loops."""
    module = _small()
    network, weights = module.network, {k: v.detach() for k, v in module.network.named_parameters()}
    texts = ["Is there a red star?", "What color?"]
    padded = [[*WORDS.encode([text]).ids[0].tolist(), *[0] * 20][:20] for text in texts]
    for text, ids in zip(texts, padded, strict=True):
        words, found = weights["embedding.weight"][ids], []
        for layer, width in enumerate((1, 3)):
            filters, bias = weights[f"filters.{layer}.weight"], weights[f"filters.{layer}.bias"]
            for one, own in zip(filters, bias, strict=True):
                windows = [float((one * words[at : at + width].T).sum() + own)
                           for at in range(20 - width + 1)]  # fmt: skip
                found.append(max(*windows, 0.0))
        features = torch.tensor(found)
        gate = 1 / (1 + (-(weights["gate.weight"] @ features + weights["gate.bias"])).exp())
        carried = (weights["carry.weight"] @ features + weights["carry.bias"]).clamp_min(0)
        mixed = gate * carried + (1 - gate) * features
        logit = (weights["output.weight"] @ mixed + weights["output.bias"])[0]
        torch.testing.assert_close(network(WORDS.encode([text])).detach()[0], logit)
        for copies in (1, 9):
            found = module.probabilities([text] * copies)
            torch.testing.assert_close(found, (1 / (1 + (-logit).exp())).expand(copies))


def test_the_loss_is_the_mean_cross_entropy_of_both_classes() -> None:
    """Negatives that are questions of the training split do not count."""
    module, batch = _small(), _batch(random.Random(0))
    fakes = ["Star a is red there?", QUESTIONS[0], "The heart heart what is?", QUESTIONS[9], "A?"]
    module._training_questions = fingerprints(WORDS.encode(QUESTIONS)).unique()
    module._negatives = lambda batch: WORDS.encode(fakes)  # type: ignore[method-assign]
    loss = module.training_step(batch, 0)
    left = [fakes[0], fakes[2], fakes[4]]
    real, fake = module.network(batch.question), module.network(WORDS.encode(left))
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    expected = (cross_entropy(real, torch.ones(64)) + cross_entropy(fake, torch.zeros(3))) / 2
    torch.testing.assert_close(loss, expected)
    assert module.shown["train/loss"] == pytest.approx(expected.item())  # type: ignore[index]
    fakes[:] = QUESTIONS[:4]
    alone = module.training_step(batch, 0)
    torch.testing.assert_close(alone, cross_entropy(real, torch.ones(64)) / 2)


@pytest.mark.parametrize(("training", "fn"), [(True, "fit"), (False, "fit"), (False, "validate")])
def test_the_limit_is_a_quantile_of_real_questions_calibrated_in_training(
    training: bool, fn: str
) -> None:
    module = _small(kept=0.9)
    module._trainer = SimpleNamespace(training=training, state=SimpleNamespace(fn=fn))  # type: ignore[assignment]
    scores = torch.arange(101)[torch.randperm(101)] / 100
    module._real_scores = list(scores.split(20))
    module.auroc.update(torch.tensor([0.9, 0.1]), torch.tensor([1, 0]))
    module.on_validation_epoch_end()
    limit = 0.1 if fn == "fit" else 0.5  # unchanged
    assert module.limit == pytest.approx(limit)
    assert module._real_scores == []
    assert module.shown["val/kept"] == pytest.approx(  # type: ignore[index]
        sum(score > module.limit for score in scores.tolist()) / 101
    )
    assert module.shown["val/auroc"] == 1  # type: ignore[index]


def test_validation_compares_real_questions_with_one_damaged_copy_of_each() -> None:
    module, batch = _small(), _batch(random.Random(1))
    module.validation_step(batch, 4)
    generator = torch.Generator().manual_seed(4)
    kinds = torch.randint(len(KINDS), (64,), generator=generator)
    damaged = WORDS.decode(perturb(batch.question, len(WORDS), kinds, generator))
    asked = WORDS.decode(batch.question)
    other = [text for text, own in zip(damaged, asked, strict=True) if text != own]
    assert 0 < len(other) <= 64
    real, fake = module.probabilities(asked), module.probabilities(other)
    torch.testing.assert_close(torch.cat(module._real_scores), real)
    above = (real[:, None] > fake).double() + 0.5 * (real[:, None] == fake).double()
    # Scores of equal texts may differ in the last digit when their padding differs.
    assert float(module.auroc.compute()) == pytest.approx(float(above.mean()), abs=0.01)


def test_negatives_are_damaged_questions_and_generated_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quarter of 64 are sampled for the images and answers of the first 16 questions."""
    asked: list[Any] = []

    class Questioner:
        def sample(self, images: Any, answers: list[str], number: int, strategy: Any) -> Any:
            asked.append((images.index.tolist(), answers, number, strategy.temperature))
            return SimpleNamespace(text=["Red red?"] * len(answers))

    questioner: Any = Questioner()
    module = _small(questioner=questioner, own_share=0.25, spliced_share=0.3, temperatures=(1, 2))
    answers = SimpleNamespace(main_answers=[f"answer {row}" for row in range(100)])
    data = SimpleNamespace(dataset=SimpleNamespace(split=lambda name: answers))
    module._trainer = SimpleNamespace(datamodule=data)  # type: ignore[assignment]
    kinds: list[int] = []

    def noted(real: Any, num_words: int, kind: torch.Tensor) -> Any:
        kinds.extend(kind.tolist())
        return real

    monkeypatch.setattr(legality, "perturb", noted)
    batch = replace(_batch(random.Random(2)), rows=torch.arange(30, 94))
    for _ in range(100):
        texts = WORDS.decode(module._negatives(batch))
        assert texts[:16] == ["Red red?"] * 16
        assert texts[16:] == WORDS.decode(batch.question)[16:]
    for index, given, number, _ in asked:
        assert index == batch.images.index[:16].tolist()
        assert given == [f"answer {row}" for row in range(30, 46)]
        assert number == 1
    assert {temperature for *_, temperature in asked} == {1.0, 2.0}
    shares = [kinds.count(kind) / len(kinds) for kind in range(len(KINDS))]
    assert len(kinds) == 4800
    assert shares[KINDS.index("splice")] == pytest.approx(0.3 / 0.75, abs=0.05)
    assert shares[:5] == pytest.approx([0.6 / 5] * 5, abs=0.03)


def test_padding_and_other_texts_do_not_change_a_score() -> None:
    torch.manual_seed(0)
    network = partial(LegalityCNN, widths=(1, 3), maps=(4, 4), max_length=8)
    module = LegalityModule(network=network, question_vocabulary=WORDS)
    alone = module.probabilities(["Is there a star?"])
    together = module.probabilities([QUESTIONS[-1], "Is there a star?", ""])
    assert torch.allclose(alone, together[1:2], atol=1e-6)


@pytest.mark.parametrize("length", [0, 1, 5, 6, 8, 11])
def test_few_different_words_are_multiplied_once(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 words are read; what the convolutions find is the truth."""
    network = LegalityCNN(num_words=12, widths=(1, 3), maps=(4, 5), max_length=8).eval()
    ids = torch.randint(12, (40, length), generator=torch.Generator().manual_seed(length))
    for row, words in enumerate(ids):
        words[row % (length + 1) :] = PAD
    questions = Tokens(ids, (ids != PAD).sum(dim=1))
    by_convolution = network(questions).detach()
    monkeypatch.delattr(LegalityCNN, "_maxima")
    with torch.no_grad():
        torch.testing.assert_close(network(questions), by_convolution)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"widths": (1, 2), "maps": (4,)}, "2 filter widths"),
        ({"widths": (9,), "maps": (4,), "max_length": 8}, "does not fit"),
        ({"widths": (9, 2), "maps": (4, 4), "max_length": 8}, "does not fit"),
    ],
)
def test_impossible_filters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LegalityCNN(num_words=9, **wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"own_share": 1.0}, "own_share must be"),
        ({"own_share": 0.6, "spliced_share": 0.5}, "spliced_share must be between"),
        ({"temperatures": ()}, "temperatures must be above 0"),
        ({"temperatures": (1.0, 0.0)}, "temperatures must be above 0"),
    ],
)
def test_impossible_shares_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _small(**wrong)
    _small(own_share=0.5, spliced_share=0.5)
    LegalityCNN(num_words=9, widths=(8,), maps=(4,), max_length=8)
