"""A generator trained with a VQA model of its own: losses by hand, and what each task reads."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from toy_diagnosis import ANSWERS, WORDS

from ivqa.answer_aware import ConsensusQuestioner, DualModule
from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.features import CompactNetwork, TrainableFeatures
from ivqa.generators import GeneratorModule, Sampling, VariationalGenerator
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa import TrainingOutput, Vanilla, VQAModule
from ivqa.vqa.networks.question_encoder import RecurrentEncoder

QUESTIONS = ["what color is it", "is it star", "what is", "star", "is it"]
ASKED = ["red", "yes", "purple", "no", "yes"]  # purple is outside of the closed set
KNOWN = {0: 2, 1: 0, 3: 1, 4: 0}  # red, yes, no, yes: the columns of the other four
FEATURES = TrainableFeatures(
    network=partial(CompactNetwork, width=8, num_concepts=5), image_size=32
)


def _settings() -> dict[str, Any]:
    return {
        "network": partial(
            VariationalGenerator,
            embedding_size=6,
            hidden_size=8,
            answer_size=4,
            latent_size=3,
            dropout=0.0,
        ),
        "question_vocabulary": WORDS,
        "answer_words": Vocabulary(["yes", "no", "red"]),
        "feature_sizes": {"concepts": 5, "pooled": 4},
    }


def _module(**arguments: Any) -> DualModule:
    torch.manual_seed(1)
    encoder = partial(RecurrentEncoder, embedding_size=4, size=6, dropout=0.0)
    return DualModule(
        **_settings()
        | {
            "answers": ANSWERS,
            "answer_network": partial(Vanilla, question_encoder=encoder, joint_size=5, dropout=0.0),
            "answer_features": ["pooled"],
        }
        | arguments
    )


def _images() -> ImageBatch:
    drawn = torch.Generator().manual_seed(2)
    return ImageBatch(
        torch.arange(3),
        torch.tensor([0, 2, 1, 1, 0]),
        concepts=torch.rand(3, 5, generator=drawn),
        pooled=torch.randn(3, 4, generator=drawn),
    )


def _batch(images: ImageBatch | None = None) -> VQABatch:
    target = ANSWERS.encode(ASKED)
    return VQABatch(
        rows=torch.arange(5),
        images=_images() if images is None else images,
        question=WORDS.encode(QUESTIONS),
        answer=Vocabulary(["yes", "no", "red"]).encode(ASKED),
        answer_type=torch.tensor([2, 0, 2, 0, 0]),
        target=target,
        soft_targets=torch.nn.functional.one_hot(target.clamp_min(0), 3).float()
        * (target >= 0)[:, None],
    )


def _trainer(root: Path, **arguments: Any) -> pl.Trainer:
    return pl.Trainer(
        default_root_dir=root,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **arguments,
    )


def _loss(module: GeneratorModule, batch: VQABatch) -> Tensor:
    torch.manual_seed(3)  # of z
    module.log = module.log_dict = lambda *arguments, **named: None  # type: ignore[method-assign]
    module._trainer = type("Steps", (), {"global_step": 0})()  # type: ignore[assignment]
    return module.training_step(batch, 0)


def test_the_loss_adds_the_cross_entropy_of_the_known_answers() -> None:
    module = _module(answer_loss_weight=0.7)
    alone = GeneratorModule(**_settings())
    alone.network.load_state_dict(module.network.state_dict())
    logits = module.answerer.network(_images(), WORDS.encode(QUESTIONS))
    surprise = [-logits[row].softmax(dim=0)[column].log() for row, column in KNOWN.items()]
    expected = _loss(alone, _batch()) + 0.7 * torch.stack(surprise).sum() / 4
    torch.testing.assert_close(_loss(module, _batch()), expected)


class _Further(Vanilla):
    """Has a loss of its own, as networks that learn layouts have."""

    def train_forward(self, batch: VQABatch) -> TrainingOutput:
        return TrainingOutput(
            self(batch.images, batch.question), lambda losses: {"layout": 2 * losses.sum()}
        )


def test_further_losses_of_the_vqa_network_are_added() -> None:
    encoder = partial(RecurrentEncoder, embedding_size=4, size=6, dropout=0.0)
    network = partial(_Further, question_encoder=encoder, joint_size=5, dropout=0.0)
    plain = _module(answer_loss_weight=0.0)
    module = _module(answer_network=network, answer_loss_weight=0.5)
    module.load_state_dict(plain.state_dict())
    logits = module.answerer.network(_images(), WORDS.encode(QUESTIONS))
    surprise = [-logits[row].softmax(dim=0)[column].log() for row, column in KNOWN.items()]
    total = torch.stack(surprise).sum()
    expected = _loss(plain, _batch()) + 0.5 * (total / 4 + 2 * total)
    torch.testing.assert_close(_loss(module, _batch()), expected)


@pytest.mark.parametrize("algorithm", [None, "norm", "value"])
def test_gradients_of_each_network_are_clipped_alone(algorithm: str | None) -> None:
    module = _module()
    parts = (list(module.network.parameters()), list(module.answerer.network.parameters()))
    for parameters, size in zip(parts, (3.0, 0.1), strict=True):
        for value in parameters:
            value.grad = torch.full_like(value, size)
    before = [torch.cat([value.grad.flatten() for value in own]) for own in parts]  # type: ignore[union-attr]
    module.configure_gradient_clipping(None, 0.5, algorithm)  # type: ignore[arg-type]
    after = [torch.cat([value.grad.flatten() for value in own]) for own in parts]  # type: ignore[union-attr]
    for was, now in zip(before, after, strict=True):
        expected = was.clamp(-0.5, 0.5) if algorithm == "value" else 0.5 * was / was.norm()
        torch.testing.assert_close(now, expected)
    module.configure_gradient_clipping(None, None)  # type: ignore[arg-type]
    assert torch.equal(after[0], torch.cat([v.grad.flatten() for v in parts[0]]))  # type: ignore[union-attr]


def test_questions_without_a_known_answer_train_the_generator_alone() -> None:
    module = _module()
    batch = replace(_batch(), target=torch.full((5,), -1))
    _loss(module, batch).backward()
    assert all(not value.grad.any() for value in module.answerer.parameters())  # type: ignore[union-attr]
    assert any(value.grad.any() for value in module.network.parameters())  # type: ignore[union-attr]


def test_an_infinite_loss_of_the_vqa_model_names_its_rows() -> None:
    module = _module()
    images = _images()
    assert images.pooled is not None
    images.pooled[1, 0] = torch.inf  # the generator reads the concepts alone
    module.network = GeneratorModule(**_settings() | {"feature_sizes": {"concepts": 5}}).network
    with pytest.raises(UserError, match=r"VQA model is not finite at step 0, for rows \[3\]"):
        _loss(module, _batch(images))


def test_questions_are_those_of_the_generator_alone() -> None:
    module = _module()
    alone = GeneratorModule(**_settings())
    alone.network.load_state_dict(module.network.state_dict())
    drawn = [
        one.sample(_images(), ASKED, 4, Sampling(), torch.Generator().manual_seed(4))
        for one in (module, alone)
    ]
    assert drawn[0].text == drawn[1].text
    scores = [one.log_likelihood(_images(), ASKED, QUESTIONS) for one in (module, alone)]
    assert torch.equal(*scores)


def test_a_benchmark_weights_questions_by_the_models_own_vqa_model() -> None:
    module = _module()
    weighted = ConsensusQuestioner.of(module, answer_weight=2.0)
    own = module.log_likelihood(_images(), ASKED, QUESTIONS)
    logits = module.answerer.network(_images(), WORDS.encode(QUESTIONS)).log_softmax(dim=1)
    fit = torch.stack(
        [logits[0, 2], logits[1, 0], torch.tensor(1e-12).log(), logits[3, 1], logits[4, 0]]
    )
    found = weighted.log_likelihood(_images(), ASKED, QUESTIONS)
    torch.testing.assert_close(found, own + 2 * fit)


def test_training_teaches_both_tasks_and_validation_measures_both(tmp_path: Path) -> None:
    module = _module(optimizer=partial(torch.optim.Adam, lr=0.02))
    loader = DataLoader([_batch()], batch_size=None)
    before = _trainer(tmp_path).validate(module, loader, verbose=False)[0]
    _trainer(tmp_path, max_epochs=60).fit(module, loader)
    after = _trainer(tmp_path).validate(module, loader, verbose=False)[0]
    assert after["val/nll_per_word"] < before["val/nll_per_word"] - 0.5
    # The four known answers are learned; the official accuracy of the fifth question is 0.
    assert after["val/vqa_accuracy"] == pytest.approx(0.8)
    assert after["val/yes_no"] == pytest.approx(1.0)
    assert after["val/other"] == pytest.approx(0.5)
    assert set(before) <= DualModule.validation_metrics({"network": {"latent_size": 3}}) | {
        "val/number"
    }


def test_pixels_are_encoded_once_for_both_losses() -> None:
    module = _module(
        feature_sizes={"concepts": 5, "pooled": 16},
        image_encoder=FEATURES.encoder(["concepts", "pooled"]),
    )
    assert module.image_encoder is not None
    passes: list[int] = []
    module.image_encoder.register_forward_hook(lambda *_: passes.append(1))
    pixels = torch.randint(256, (3, 3, 32, 32), dtype=torch.uint8)
    images = ImageBatch(torch.arange(3), torch.tensor([0, 2, 1, 1, 0]), pixels=pixels)
    _loss(module, _batch(images)).backward()
    assert len(passes) == 1
    # Outside of training, the VQA model encodes pixels itself.
    with torch.no_grad():
        encoded = images.encoded(module.image_encoder.eval())
    asked = module.answerer.log_scores(images, QUESTIONS)
    ready = ImageBatch(images.ids, images.index, pooled=encoded.pooled)
    torch.testing.assert_close(
        asked, module.answerer.network.eval()(ready, WORDS.encode(QUESTIONS)).log_softmax(dim=1)
    )


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_each_network_has_its_learning_rate(scale: float) -> None:
    module = _module(
        feature_sizes={"concepts": 5, "pooled": 16},
        image_encoder=FEATURES.encoder(["concepts", "pooled"]),
        optimizer=partial(torch.optim.Adam, lr=0.02),
        answer_learning_rate_scale=3.0,
    )
    assert module.image_encoder is not None
    module.image_encoder.learning_rate_scale = scale
    rates = {
        id(value): group["lr"]
        for group in module.configure_optimizers().param_groups
        for value in group["params"]
    }
    assert rates.keys() == {id(value) for value in module.parameters()}
    for part, expected in (
        (module.network, 0.02),
        (module.answerer.network, 0.06),
        (module.image_encoder, 0.02 * scale),
    ):
        (found,) = {rates[id(value)] for value in part.parameters()}
        assert found == pytest.approx(expected)


def test_a_checkpoint_names_both_networks_and_the_answers() -> None:
    component = _module().component()
    assert component["answers"] == list(ANSWERS.answers)
    assert component["network"]["name"] == "VariationalGenerator"
    assert component["answer_network"]["name"] == "Vanilla"
    assert component["answer_network"]["arguments"]["joint_size"] == 5
    assert isinstance(_module().answerer, VQAModule)
