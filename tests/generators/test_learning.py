"""Training uses the conditions, and the latent variable if there are free bits."""

import gzip
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from toy_generators import loader

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.generators import (
    AnswerOnlyGenerator,
    AttentiveGenerator,
    GeneratorModule,
    Greedy,
    LinearAnnealing,
    VariationalGenerator,
)
from ivqa.text.vocabulary import Tokens, Vocabulary

COLOURS = ["red", "green", "blue", "grey"]
FRAMES = [
    "is the {} thing round",
    "can you see a {} square in this picture",
    "what is left of that {} one",
    "how many people hold {} balls",
    "where are all of the {} boxes kept",
    "who has put her {} hat there",
]


def toy_batches(num_batches: int, questions: Vocabulary, answers: Vocabulary) -> list[VQABatch]:
    """The image gives the colour, the answer one of two groups of three frames, z the frame."""
    batches = []
    for _ in range(num_batches):
        colour, frame = torch.randint(4, (64,)), torch.randint(6, (64,))
        texts = [
            FRAMES[f].format(COLOURS[c])
            for f, c in zip(frame.tolist(), colour.tolist(), strict=True)
        ]
        concepts = torch.nn.functional.one_hot(colour, 4).float()
        batches.append(
            VQABatch(
                rows=torch.arange(64),
                images=ImageBatch(torch.arange(64), torch.arange(64), concepts=concepts),
                question=questions.encode(texts),
                answer=answers.encode(["yes" if f < 3 else "no" for f in frame.tolist()]),
                answer_type=torch.zeros(64, dtype=torch.int64),
                target=torch.zeros(64, dtype=torch.int64),
            )
        )
    return batches


def fit(module: GeneratorModule, batches: list[VQABatch], root: Path) -> dict[str, float]:
    """Trains one pass on all but the last ten batches; returns validation terms of the last ten."""
    trainer = pl.Trainer(
        default_root_dir=root,
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        gradient_clip_val=5.0,
    )
    trainer.fit(module, loader(batches[:-10]), loader(batches[-10:]))
    return {name: value.item() for name, value in trainer.logged_metrics.items()}


@pytest.fixture
def toy_module() -> Callable[..., GeneratorModule]:
    def build(network: Any, **settings: Any) -> GeneratorModule:
        texts = [frame.format(colour) for frame in FRAMES for colour in COLOURS]
        return GeneratorModule(
            network=partial(network, embedding_size=32, hidden_size=48, dropout=0.0),
            question_vocabulary=Vocabulary.build(texts),
            answer_words=Vocabulary(["yes", "no"]),
            feature_sizes={"concepts": 4},
            optimizer=partial(torch.optim.Adam, lr=5e-3),
            **settings,
        )

    return build


@pytest.mark.processor
def test_z_encodes_the_frame_that_image_and_answer_do_not_determine(
    toy_module: Callable[..., GeneratorModule], tmp_path: Path, learning_seed: int
) -> None:
    torch.manual_seed(learning_seed)
    network = partial(VariationalGenerator, answer_size=16, latent_size=4)
    module = toy_module(network, free_nats=1.5, kl_schedule=LinearAnnealing(steps=100))
    batches = toy_batches(510, module.question_vocabulary, module.answer_words)
    terms = fit(module, batches, tmp_path)
    open_nats = math.log(3)  # three frames are possible for a colour and an answer
    assert terms["val/kl"] > 0.7
    assert terms["val/active_units"] >= 1
    assert terms["val/elbo"] < -open_nats + 0.05

    red = module.question_vocabulary.encode(["red"]).ids
    first = batches[0]
    row = int((first.question.ids == red).any(dim=1).nonzero()[0])
    images = first.images.select(torch.full((60,), row))
    asked = module.sample(images, ["yes"] * 60, 1, Greedy()).text
    fitting = {f"{frame.format('red').capitalize()}?" for frame in FRAMES[:3]}
    assert len(fitting & set(asked)) >= 2  # only z distinguishes them
    assert sum(text in fitting for text in asked) >= 45

    last = batches[-1]
    texts = module.question_vocabulary.decode(last.question)
    answers = [text[:-1].lower() for text in module.answer_words.decode(last.answer)]
    # All questions share their noise, and a few samples would shift the mean of all scores.
    module.likelihood_samples = 1024
    truth = module.log_likelihood(last.images, answers, texts)
    module.likelihood_samples = 16
    swapped = ["no" if answer == "yes" else "yes" for answer in answers]
    assert (truth > module.log_likelihood(last.images, swapped, texts)).float().mean() > 0.95
    assert terms["val/elbo"] < truth.mean() < -open_nats + 0.1


@pytest.mark.slow
@pytest.mark.processor
def test_the_answer_decides_which_cell_the_words_look_at(
    tmp_path: Path, learning_seed: int
) -> None:
    """Each image has all four colours, one in each cell, so that their mean is always the same."""
    torch.manual_seed(learning_seed)
    texts = [f"is the {colour} thing round" for colour in COLOURS]
    places = ["first", "second", "third", "last"]
    module = GeneratorModule(
        network=partial(
            AttentiveGenerator,
            answer_size=16,
            latent_size=2,
            grid_size=16,
            heads=2,
            embedding_size=32,
            hidden_size=32,
            dropout=0.0,
        ),
        question_vocabulary=Vocabulary.build(texts),
        answer_words=Vocabulary(places),
        feature_sizes={"grid": 8},
        optimizer=partial(torch.optim.Adam, lr=4e-3),
    )
    batches = []
    here = torch.eye(4).expand(64, 4, 4)  # features of a CNN tell the place, too
    for _ in range(510):
        colours = torch.rand(64, 4).argsort(dim=1)  # the colour in each cell
        place = torch.randint(4, (64,))
        asked = colours.gather(1, place[:, None])[:, 0].tolist()
        batches.append(
            VQABatch(
                rows=torch.arange(64),
                images=ImageBatch(
                    torch.arange(64),
                    torch.arange(64),
                    grid=torch.cat([torch.nn.functional.one_hot(colours, 4), here], dim=2),
                ),
                question=module.question_vocabulary.encode([texts[at] for at in asked]),
                answer=module.answer_words.encode([places[at] for at in place.tolist()]),
                answer_type=torch.zeros(64, dtype=torch.int64),
                target=torch.zeros(64, dtype=torch.int64),
            )
        )
    terms = fit(module, batches, tmp_path)
    # Without attention the colour is open: log 4 = 1.39 nats.
    assert terms["val/elbo"] > -0.35


@pytest.mark.slow
@pytest.mark.processor
def test_without_free_bits_the_posterior_collapses(
    toy_module: Callable[..., GeneratorModule], tmp_path: Path, learning_seed: int
) -> None:
    torch.manual_seed(learning_seed)
    module = toy_module(partial(VariationalGenerator, answer_size=16, latent_size=4))
    batches = toy_batches(310, module.question_vocabulary, module.answer_words)
    assert fit(module, batches, tmp_path)["val/kl"] < 0.1


@pytest.mark.processor
def test_the_answer_excludes_half_of_the_frames(
    toy_module: Callable[..., GeneratorModule], tmp_path: Path, learning_seed: int
) -> None:
    torch.manual_seed(learning_seed)
    module = toy_module(partial(AnswerOnlyGenerator, answer_size=16))
    batches = toy_batches(410, module.question_vocabulary, module.answer_words)
    # Given the answer alone, four colours and three frames are possible.
    assert fit(module, batches, tmp_path)["val/loss"] == pytest.approx(math.log(12), abs=0.15)


@pytest.mark.slow
def test_answers_make_real_questions_more_predictable(shared_data: Path, tmp_path: Path) -> None:
    root = shared_data / "vqa_v2_subset"

    def read(name: str, key: str) -> list[dict[str, Any]]:
        with gzip.open(root / f"{name}_train.json.gz") as file:
            return json.load(file)[key]

    by_id = {item["question_id"]: item for item in read("annotations", "annotations")}
    items = read("questions", "questions")[:12_000]
    texts = [item["question"] for item in items]
    answers = [by_id[item["question_id"]]["multiple_choice_answer"] for item in items]
    questions, words = Vocabulary.build(texts, 2), Vocabulary.build(answers, 2)
    tokens, given = questions.encode(texts, 20), words.encode(answers, 4)
    losses = []
    for blind in (True, False):
        if blind:
            known = Tokens(torch.zeros_like(given.ids), torch.zeros_like(given.lengths))
        else:
            known = given
        batches = [
            VQABatch(
                rows=rows,
                images=ImageBatch(rows, torch.arange(len(rows))),
                question=tokens.select(rows),
                answer=known.select(rows),
                answer_type=torch.zeros_like(rows),
                target=torch.zeros_like(rows),
            )
            for rows in torch.arange(len(items)).split(64)
        ]
        torch.manual_seed(0)
        module = GeneratorModule(
            network=partial(
                AnswerOnlyGenerator, embedding_size=64, hidden_size=96, answer_size=64, dropout=0.1
            ),
            question_vocabulary=questions,
            answer_words=words,
            feature_sizes={},
            optimizer=partial(torch.optim.Adam, lr=4e-3),
        )
        losses.append(fit(module, batches, tmp_path)["val/perplexity"])
    assert losses[1] < losses[0] - 1.5
