"""The questioner and its training: samples, scores, checkpoints and messages."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LinearLR, LRScheduler
from toy_generators import (
    FEATURE_SIZES,
    QUESTION_WORDS,
    enlarge,
    loader,
    random_batch,
    random_images,
)

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.generators import (
    AnswerOnlyGenerator,
    Beam,
    GeneratorModule,
    Greedy,
    LinearAnnealing,
    Questioner,
    QuestionGenerator,
    Questions,
    Sampling,
    VariationalGenerator,
)
from ivqa.generators import likelihood as likelihood_module
from ivqa.text.vocabulary import Vocabulary

Factory = Callable[..., QuestionGenerator]
Build = Callable[..., GeneratorModule]
STRATEGIES = [Greedy(), Sampling(), Beam(size=2)]
ANSWERS = ["yes", "red dog", "yes", "2", "unheard of", ""]


def quiet_trainer(root: Path, **arguments: Any) -> pl.Trainer:
    return pl.Trainer(
        default_root_dir=root,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **{"enable_checkpointing": False, "max_epochs": 1, **arguments},
    )


def sample(module: Questioner, images: ImageBatch, strategy: Any, num: int = 3) -> Questions:
    generator = torch.Generator().manual_seed(7)
    return module.sample(images, ANSWERS, num, strategy, generator)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_log_likelihood_of_samples_is_that_of_the_network(
    network_factory: Factory, build_module: Build, strategy: Any
) -> None:
    module, images = build_module(network_factory), random_images(6)
    questions = sample(module, images, strategy)
    assert questions.pair.tolist() == [row for row in range(6) for _ in range(3)]
    assert questions.text == module.question_vocabulary.decode(questions.tokens)
    network = module.network.eval()
    conditions = network.conditions(images, module.answer_words.encode(ANSWERS))
    log_probs = network.token_log_probs(
        questions.tokens, questions.z, conditions.select(questions.pair)
    )
    torch.testing.assert_close(questions.log_likelihood, log_probs.sum(dim=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_samples_are_equal_in_training_and_evaluation_mode(
    network_factory: Factory, build_module: Build, strategy: Any
) -> None:
    module, images = build_module(network_factory), random_images(6)
    module.eval()
    quiet = sample(module, images, strategy)
    module.train()
    again = sample(module, images, strategy)
    assert again.text == quiet.text
    assert torch.equal(again.log_likelihood, quiet.log_likelihood)
    assert module.network.training


def test_decoding_in_chunks_changes_nothing(
    network_factory: Factory, build_module: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, images = build_module(network_factory), random_images(6)
    whole = sample(module, images, Beam(size=2), 5)
    monkeypatch.setattr(likelihood_module, "_DECODED_ROWS", 8)
    chunked = sample(module, images, Beam(size=2), 5)
    assert chunked.text == whole.text
    torch.testing.assert_close(chunked.log_likelihood, whole.log_likelihood)


def test_samples_of_one_pair_differ_by_their_z(
    variational_factory: Factory, build_module: Build
) -> None:
    module = build_module(variational_factory)
    questions = module.sample(random_images(1), ["red"], 40, Greedy())
    assert len(set(questions.text)) > 3
    assert questions.z.shape == (40, 4)


def test_without_z_a_deterministic_strategy_repeats_itself(build_module: Build) -> None:
    module = build_module(partial(AnswerOnlyGenerator, hidden_size=9))
    steps: list[int] = []
    stepper = module.network.decoder.stepper
    module.network.decoder.stepper = lambda rows, look=None: steps.append(rows) or stepper(rows)
    questions = module.sample(random_images(2), ["red", "yes"], 40, Greedy())
    assert len(set(questions.text[:40])) == 1
    assert len(questions.tokens) == len(questions.pair) == len(questions.log_likelihood) == 80
    assert steps == [2]  # one row for each pair was decoded
    assert questions.z is None


def test_likelihood_without_z_is_exact(build_module: Build) -> None:
    module = build_module(partial(AnswerOnlyGenerator, hidden_size=9))
    images = random_images(6)
    questions = module.sample(images, ANSWERS, 1)
    scores = module.log_likelihood(images, ANSWERS, questions.text)
    torch.testing.assert_close(scores, questions.log_likelihood, rtol=1e-4, atol=1e-4)


def test_likelihood_with_z_is_the_integral_over_the_prior(
    variational_factory: Factory, build_module: Build
) -> None:
    module, images = build_module(variational_factory), random_images(6)
    texts = ["What is this?", "How many?", "Is there a colour?", "?", "What?", "Of the the?"]
    enlarge(module, 0.4)
    module.likelihood_samples = 4000
    scores = module.log_likelihood(images, ANSWERS, texts)
    network = module.network.eval()
    conditions = network.conditions(images, module.answer_words.encode(ANSWERS))
    tokens = module.question_vocabulary.encode(texts)
    draws = 20_000
    for row in range(6):
        only = torch.full((draws,), row)
        with torch.no_grad():
            log_probs = network.token_log_probs(
                tokens.select(only), network.prior(draws), conditions.select(only)
            ).sum(dim=1)
        expected = log_probs.double().logsumexp(0) - math.log(draws)
        assert scores[row].item() == pytest.approx(expected.item(), abs=0.03)


def test_a_score_does_not_depend_on_the_other_questions(
    network_factory: Factory, build_module: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, images = build_module(network_factory), random_images(6)
    texts = ["What is this?", "How many?", "Is there a colour?", "?", "What?", "Of the the?"]
    whole = module.log_likelihood(images, ANSWERS, texts)
    assert whole.dtype == torch.float32
    assert torch.equal(module.log_likelihood(images, ANSWERS, texts), whole)
    monkeypatch.setattr(likelihood_module, "_SCORED_LOGITS", 1)
    torch.testing.assert_close(module.log_likelihood(images, ANSWERS, texts), whole)
    alone = module.log_likelihood(images.select(torch.tensor([2])), ANSWERS[2:3], texts[2:3])
    torch.testing.assert_close(alone, whole[2:3])


def test_conditions_of_equal_pairs_are_computed_once(
    variational_factory: Factory, build_module: Build
) -> None:
    module = build_module(variational_factory)
    images = random_images(24, distinct=1)
    rows: list[int] = []
    module.network.decoder_answer.register_forward_hook(
        lambda layer, inputs, output: rows.append(len(output))
    )
    module.log_likelihood(images, ["red"] * 12 + ["yes"] * 12, ["What is this?"] * 24)
    assert rows == [2]


def test_inputs_of_unequal_length_are_rejected(
    variational_factory: Factory, build_module: Build
) -> None:
    module = build_module(variational_factory)
    with pytest.raises(ValueError, match="1 answers for 2 images"):
        module.sample(random_images(2), ["red"])
    with pytest.raises(ValueError, match="3 questions for 2 answers"):
        module.log_likelihood(random_images(2), ["red", "2"], ["a", "b", "c"])
    with pytest.raises(ValueError, match="num_samples must be at least 1"):
        module.sample(random_images(2), ["red", "2"], 0)
    with pytest.raises(ValueError, match="max_length must be at least 1, not 0"):
        build_module(variational_factory, max_length=0)


def test_training_lowers_the_loss_and_logs_its_terms(
    network_factory: Factory, build_module: Build, tmp_path: Path
) -> None:
    module = build_module(
        network_factory,
        scheduler=partial(torch.optim.lr_scheduler.StepLR, step_size=10, gamma=0.5),
        kl_schedule=LinearAnnealing(steps=40),
    )
    batches = [random_batch() for _ in range(5)]
    trainer = quiet_trainer(tmp_path, max_epochs=8)
    (before,) = trainer.validate(module, loader(batches), verbose=False)
    trainer.fit(module, loader(batches), loader(batches))
    after = {name: value.item() for name, value in trainer.logged_metrics.items()}
    assert after["val/loss"] < before["val/loss"] - 1
    assert after["val/loss"] == pytest.approx(-after["val/elbo"])
    latent = {"val/kl", "val/active_units", "train/kl", "train/kl_weight"}
    expected = {"val/loss", "val/elbo", "val/nll_per_word", "val/perplexity"}
    expected |= {"train/loss", "train/nll_per_word", "train/learning_rate"}
    assert after.keys() == expected | (latent if module.network.latent_size else set())
    if module.network.latent_size:
        assert after["train/kl_weight"] == pytest.approx(39 / 40)
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.01 / 16)


def test_a_scheduler_may_ask_for_the_number_of_steps(
    network_factory: Factory, build_module: Build, tmp_path: Path
) -> None:
    def falling(optimizer: Optimizer, num_training_steps: int) -> LRScheduler:
        return LinearLR(optimizer, 1.0, 0.0, total_iters=num_training_steps)

    module = build_module(network_factory, scheduler=falling)
    batches = [random_batch() for _ in range(4)]
    trainer = quiet_trainer(tmp_path, max_epochs=3)
    trainer.fit(module, loader(batches), loader(batches))
    assert trainer.lr_scheduler_configs[0].scheduler.total_iters == 12
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0)


def test_a_loss_that_is_not_finite_names_the_rows(build_module: Build, tmp_path: Path) -> None:
    module = build_module(partial(AnswerOnlyGenerator, hidden_size=9))
    batch = random_batch()
    with torch.no_grad():  # only questions with this word meet the broken weights
        module.network.decoder.embedding.weight[4] = float("nan")
    ids = batch.question.ids.clone()
    ids[ids == 4] = 5
    ids[0, 0] = 4
    broken = replace(batch, question=replace(batch.question, ids=ids))
    message = r"step 0, for rows 1000 of the training split \(1 of 8 in the batch\); lower the"
    with pytest.raises(UserError, match=message):
        quiet_trainer(tmp_path).fit(module, loader([broken]), loader([broken]))


@pytest.fixture
def checkpoint(variational_factory: Factory, build_module: Build, tmp_path: Path) -> Path:
    module = build_module(variational_factory)
    trainer = quiet_trainer(tmp_path)
    trainer.fit(module, loader([random_batch()]), loader([random_batch()]))
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    return tmp_path / "model.ckpt"


def test_a_checkpoint_holds_tensors_plain_containers_and_its_component(
    checkpoint: Path,
) -> None:
    component = torch.load(checkpoint, weights_only=True)["component"]
    assert component["question_words"] == QUESTION_WORDS
    assert component["feature_sizes"] == FEATURE_SIZES
    assert component["network"]["arguments"]["hidden_size"] == 9
    module = GeneratorModule.from_checkpoint(checkpoint, VariationalGenerator)
    assert not module.training
    assert module.component() == component
    assert module.network.latent_size == 4
    assert module.max_length == 6
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())


def test_a_checkpoint_of_another_network_is_rejected(
    checkpoint: Path, variational_factory: Factory, build_module: Build, tmp_path: Path
) -> None:
    load = GeneratorModule.from_checkpoint
    with pytest.raises(ValueError, match="holds a VariationalGenerator, not a AnswerOnlyGen"):
        load(checkpoint, AnswerOnlyGenerator)
    with pytest.raises(ValueError, match="trained with latent_size=4, not 8"):
        load(checkpoint, partial(VariationalGenerator, latent_size=8))
    with pytest.raises(UserError, match="there is no checkpoint"):
        load(tmp_path / "absent.ckpt", VariationalGenerator)
    torch.save({"state_dict": {}}, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match="was not written by ivqa"):
        load(tmp_path / "other.ckpt", VariationalGenerator)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"question_vocabulary": Vocabulary(["what", "zebra"])},
            r"other question_words: 11 words there, 2 here, such as \['zebra'\] only here",
        ),
        ({"answer_words": Vocabulary(["yes"])}, "other answer_words: 6 words there, 1 here;"),
        (
            {"feature_sizes": {"concepts": 5}},
            r"other feature_sizes: {'concepts': 5, 'pooled': 3, 'grid': 4} there, {'c",
        ),
    ],
)
def test_resuming_with_other_inputs_is_rejected(
    checkpoint: Path,
    variational_factory: Factory,
    build_module: Build,
    tmp_path: Path,
    arguments: dict[str, Any],
    message: str,
) -> None:
    module = build_module(variational_factory, **arguments)
    data = loader([random_batch()])
    with pytest.raises(ValueError, match=message):
        quiet_trainer(tmp_path).fit(module, data, data, ckpt_path=checkpoint)


def test_network_settings_must_be_plain(build_module: Build) -> None:
    with pytest.raises(ValueError, match="network setting is a Tensor"):
        build_module(partial(VariationalGenerator, hidden_size=9, dropout=torch.tensor(0.5)))


def test_training_without_an_optimizer_is_rejected(
    variational_factory: Factory, build_module: Build
) -> None:
    with pytest.raises(ValueError, match="built without an optimizer"):
        build_module(variational_factory, optimizer=None).configure_optimizers()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_pairs_on_the_cpu_are_moved_to_the_gpu(
    network_factory: Factory, build_module: Build
) -> None:
    module, images = build_module(network_factory).cuda(), random_images(6)
    questions = sample(module, images, Beam(size=2))
    assert questions.tokens.ids.is_cuda
    scores = module.log_likelihood(images, ANSWERS, questions.text[::3])
    module.cpu()
    expected = module.log_likelihood(images, ANSWERS, questions.text[::3])
    torch.testing.assert_close(scores.cpu(), expected, rtol=1e-3, atol=1e-3)
