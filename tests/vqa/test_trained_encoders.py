"""VQA models that train an image encoder: gradients, modes, checkpoints, and that they learn."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from toy_pictures import FEATURES, picture_module, read_pictures, write_pictures
from toy_zoo import ENCODER, ZOO

from ivqa.data import VQADataModule
from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.features import CompactNetwork, TrainableFeatures
from ivqa.trained import ImageEncoder
from ivqa.vqa import LanguageOnly, RecurrentEncoder, Vanilla, VQAModule

VANILLA = partial(Vanilla, question_encoder=ENCODER, joint_size=7)
IMAGE_KINDS = [kind for kind, (_, names) in ZOO.items() if names]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> VQADataModule:
    root = tmp_path_factory.mktemp("few")
    return read_pictures(write_pictures(root, {"train": 6, "val": 3}), root / "features", "pooled")


def _trainer(**arguments: Any) -> pl.Trainer:
    return pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        **arguments,
    )


def _encoder_of(module: VQAModule) -> Any:
    assert module.image_encoder is not None
    return module.image_encoder


@pytest.mark.parametrize("kind", IMAGE_KINDS)
def test_the_gradient_reaches_the_first_convolution(kind: str, few: VQADataModule) -> None:
    network, (name,) = ZOO[kind]
    module = picture_module(few, network, name)
    module.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    module.training_step(few.batch_of("train", range(12)), 0).backward()
    first = _encoder_of(module).network.cnn.convolutions[0].weight
    assert first.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", IMAGE_KINDS)
def test_answers_are_those_of_the_features_that_the_cnn_computes(
    kind: str, few: VQADataModule
) -> None:
    """In training mode too: asking neither uses nor changes the statistics of a batch."""
    network, (name,) = ZOO[kind]
    module = picture_module(few, network, name).train()
    statistics = _encoder_of(module).network.cnn.convolutions[1].running_mean.clone()
    batch = few.batch_of("train", [0, 11, 3, 0, 1])
    questions = ["What color is it?", "What size is it?", "Is it?", "What size is it?", "it"]
    scores = module.log_scores(batch.images, questions)
    assert module.network.training
    assert _encoder_of(module).training
    assert torch.equal(_encoder_of(module).network.cnn.convolutions[1].running_mean, statistics)
    assert batch.images.pixels is not None
    with torch.no_grad():
        grid, pooled, _ = _encoder_of(module).network.cnn.eval()(batch.images.pixels / 255)
        stored = ImageBatch(batch.images.ids, batch.images.index, grid=grid, pooled=pooled)
        tokens = module.question_vocabulary.encode(questions)
        expected = module.network.eval()(stored, tokens).log_softmax(dim=1)
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-3)


def test_a_checkpoint_holds_the_encoder(few: VQADataModule, tmp_path: Path) -> None:
    optimizer = partial(torch.optim.Adam, lr=0.01)
    module = picture_module(few, VANILLA, "pooled", optimizer=optimizer)
    trainer = _trainer(max_epochs=2, limit_val_batches=0)
    trainer.fit(module, few)
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    images, questions = few.batch_of("val", range(6)).images, ["What color is it?"] * 6
    scores = module.eval().log_scores(images, questions)
    torch.manual_seed(77)
    other = picture_module(few, VANILLA, "pooled", optimizer=optimizer)
    assert not torch.allclose(other.log_scores(images, questions), scores, atol=1e-3)
    again = _trainer(max_epochs=2, limit_val_batches=0)
    again.fit(other, few, ckpt_path=tmp_path / "model.ckpt", weights_only=True)
    torch.testing.assert_close(other.eval().log_scores(images, questions), scores)
    assert len(other.optimizers().optimizer.state) == len(list(other.parameters())) - 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (None, "was trained with the image encoder {'name': 'CompactNetwork'.* stored image feat"),
        ({"image_size": 48}, "'image_size': 32}, but this run has the image encoder .* 48}"),
    ],
)
def test_a_checkpoint_of_another_encoder_is_refused(
    encoder: Any, message: str, few: VQADataModule
) -> None:
    module = picture_module(few, VANILLA, "pooled")
    checkpoint: dict[str, Any] = {}
    module.on_save_checkpoint(checkpoint)
    module.on_load_checkpoint(checkpoint)
    if encoder is not None:
        encoder = TrainableFeatures(network=FEATURES.network, **encoder).encoder(["pooled"])
    other = picture_module(few, VANILLA, "pooled", image_encoder=encoder)
    with pytest.raises(UserError, match=message):
        other.on_load_checkpoint(checkpoint)
    if encoder is None:
        stored: dict[str, Any] = {}
        other.on_save_checkpoint(stored)
        with pytest.raises(UserError, match="trained on stored image features, but this feat"):
            module.on_load_checkpoint(stored)


def test_the_encoder_may_have_a_learning_rate_of_its_own(few: VQADataModule) -> None:
    network = CompactNetwork(names=["pooled"], image_size=32, width=16)
    module = picture_module(
        few,
        VANILLA,
        "pooled",
        image_encoder=ImageEncoder(network, {}, learning_rate_scale=0.1),
        optimizer=partial(torch.optim.AdamW, lr=0.02, weight_decay=0.3),
        scheduler=partial(torch.optim.lr_scheduler.StepLR, step_size=1, gamma=0.5),
    )
    found = module.configure_optimizers()
    others, own = found["optimizer"].param_groups
    assert {id(value) for value in own["params"]} == {id(v) for v in network.parameters()}
    assert {id(v) for v in [*others["params"], *own["params"]]} == set(map(id, module.parameters()))
    assert (others["lr"], own["lr"]) == pytest.approx((0.02, 0.002))
    assert others["weight_decay"] == own["weight_decay"] == 0.3
    found["optimizer"].step()
    found["lr_scheduler"]["scheduler"].step()
    assert (others["lr"], own["lr"]) == pytest.approx((0.01, 0.001))


def test_training_batches_have_whole_images(few: VQADataModule) -> None:
    (batch,) = few.train_dataloader()
    assert batch.images.ids[batch.images.index].unique_consecutive().shape == (6,)


@pytest.mark.processor
@pytest.mark.parametrize("name", ["pooled", "concepts"])
def test_it_learns_to_see(name: str, tmp_path: Path, learning_seed: int) -> None:
    """Colors and sizes in new pictures; without looking, 1/3 and 1/2 of the answers are right."""
    dataset = write_pictures(tmp_path, {"train": 240, "val": 100})
    encoder = partial(RecurrentEncoder, embedding_size=16, size=32, dropout=0.0)
    accuracy = {}
    for feature in (None, name):
        torch.manual_seed(learning_seed)
        data = read_pictures(dataset, tmp_path / "features", feature)
        kind = Vanilla if feature else LanguageOnly
        module = picture_module(
            data,
            partial(kind, question_encoder=encoder, joint_size=64, dropout=0.0),
            feature,
            optimizer=partial(torch.optim.Adam, lr=0.01),
            scheduler=_cosine,
        )
        _trainer(max_epochs=12, limit_val_batches=0).fit(module, data)
        (metrics,) = _trainer().validate(module, data, verbose=False)
        accuracy[feature] = metrics["val/vqa_accuracy"]
    assert accuracy[None] < 0.55
    assert accuracy[name] > accuracy[None] + 0.2, accuracy


def _cosine(optimizer: Any, num_training_steps: int) -> Any:
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_training_steps)
