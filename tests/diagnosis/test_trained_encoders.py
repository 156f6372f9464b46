"""Generators and policies whose parts each own an image encoder."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_diagnosis import ANSWERS, WORDS, LongIsLegal, WordAnswerer, toy_policy

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.diagnosis import PolicyObjective
from ivqa.errors import UserError
from ivqa.features import CompactNetwork, TrainableFeatures
from ivqa.generators import GeneratorModule, Questions, VariationalGenerator
from ivqa.vqa import Answerer

FEATURES = TrainableFeatures(
    network=partial(CompactNetwork, width=8, num_concepts=6), image_size=32
)
NETWORK = partial(
    VariationalGenerator, embedding_size=8, hidden_size=8, answer_size=4, latent_size=2, dropout=0.2
)
ASKED = ["yes", "red", "no", "yes"]


def _images() -> ImageBatch:
    pixels = torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8)
    return ImageBatch(torch.arange(2), torch.tensor([0, 1, 1, 0]), pixels=pixels)


def _generator(*, encoder: bool = True) -> GeneratorModule:
    return GeneratorModule(
        network=NETWORK,
        question_vocabulary=WORDS,
        answer_words=WORDS,
        feature_sizes={"concepts": 6},
        image_encoder=FEATURES.encoder(["concepts"]) if encoder else None,
    )


def _first(module: Any) -> Any:
    return module.image_encoder.network.cnn.convolutions[0].weight


def _batch(images: ImageBatch) -> VQABatch:
    words = WORDS.encode(["what color", "is it", "star", "is"])
    kinds = torch.zeros(4, dtype=torch.int64)
    return VQABatch(torch.arange(4), images, words, words, kinds, ANSWERS.encode(ASKED))


def test_a_generator_reads_what_its_encoder_computes() -> None:
    """The same weights with ready features give the same samples and likelihoods."""
    module, images = _generator().train(), _images()
    plain = _generator(encoder=False)
    plain.network.load_state_dict(module.network.state_dict())
    assert module.image_encoder is not None
    with torch.no_grad():
        concepts = module.image_encoder.eval()(images.pixels)["concepts"]
    module.train()
    ready = ImageBatch(images.ids, images.index, concepts=concepts)
    asked = ["what color", "is it star", "is", "star"]
    found = module.log_likelihood(images, ASKED, asked)
    torch.testing.assert_close(found, plain.log_likelihood(ready, ASKED, asked))
    samples = [
        one.sample(given, ASKED, 3, generator=torch.Generator().manual_seed(1))
        for one, given in ((module, images), (plain, ready))
    ]
    assert samples[0].text == samples[1].text
    assert module.image_encoder.training
    with pytest.raises(UserError, match="no image feature 'concepts'"):
        plain.sample(images, ASKED)


def test_the_loss_of_a_generator_reaches_the_first_convolution() -> None:
    module = _generator()
    module.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    module.training_step(_batch(_images()), 0).backward()
    assert _first(module).grad.abs().sum() > 0


def test_a_generator_with_an_encoder_is_loaded_from_its_checkpoint(tmp_path: Path) -> None:
    module, images = _generator().eval(), _images()
    checkpoint: dict[str, Any] = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    torch.save(checkpoint, tmp_path / "model.ckpt")
    torch.manual_seed(9)
    loaded = GeneratorModule.from_checkpoint(
        tmp_path / "model.ckpt", NETWORK, image_encoder=FEATURES.encoder(["concepts"])
    )
    asked = ["what color", "is it star", "is", "star"]
    torch.testing.assert_close(
        loaded.log_likelihood(images, ASKED, asked), module.log_likelihood(images, ASKED, asked)
    )
    with pytest.raises(UserError, match="was trained with the image encoder"):
        GeneratorModule.from_checkpoint(tmp_path / "model.ckpt", NETWORK)


@pytest.mark.parametrize("latent", ["prior", "encoder", "posterior"])
def test_a_policy_trains_a_copy_of_the_encoder(latent: Any) -> None:
    generator = _generator()
    answerer: Answerer = WordAnswerer()
    policy = toy_policy(
        questioner=generator,
        answerer=answerer,
        legality_model=LongIsLegal(),
        num_samples=6,
        latent=latent,
        kl_weight=0.1,
        entropy_weight=0.1,
        supervised_weight=0.5,
    )
    policy.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    before = _first(policy.reference).clone()
    assert _first(policy.questioner) is not _first(policy.reference)
    policy.training_step(_batch(_images()), 0).backward()
    assert _first(policy.questioner).grad.abs().sum() > 0
    assert _first(policy.reference).grad is None
    assert torch.equal(_first(policy.reference), before)
    stored: dict[str, Any] = {}
    policy.on_save_checkpoint(stored)
    assert "image_encoder" not in stored["component"]  # the parts check theirs
    assert any("image_encoder" in name for name in policy.state_dict())


def test_log_probabilities_do_not_depend_on_the_other_images_of_a_batch() -> None:
    """In training mode, normalisation would mix the images."""
    module, images = _generator().train(), _images()
    objective = PolicyObjective(num_samples=2, latent="prior")
    questions: Questions = module.sample(images, ASKED, 2)
    assert module.image_encoder is not None
    statistics: Any = module.image_encoder.network.get_buffer("cnn.convolutions.1.running_mean")
    before = statistics.clone()
    own = _batch(images).question
    together = objective.log_probs(module, images, ASKED, questions, own)
    assert torch.equal(statistics, before)
    assert images.pixels is not None
    alone = ImageBatch(images.ids[:1], torch.zeros(1, dtype=torch.int64), pixels=images.pixels[:1])
    rows = torch.tensor([0, 1])
    single = objective.log_probs(module, alone, ASKED[:1], questions.select(rows), own)
    torch.testing.assert_close(single, together[:2], atol=1e-4, rtol=1e-4)
    assert module.image_encoder.training
