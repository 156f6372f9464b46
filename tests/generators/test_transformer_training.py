"""Training of a transformers model as a generator: adapters, frozen weights, checkpoints."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from tiny_writer import (
    ANSWERS,
    LORA,
    QUESTION_WORDS,
    QUESTIONS,
    batch,
    images,
    module_of,
    randomise,
    tiny_writer,
)
from torch.utils.data import DataLoader
from transformers import AutoModelForImageTextToText

from ivqa.generators.transformers.transformer import TransformerGenerator
from ivqa.generators.transformers.transformer_module import TransformerModule
from ivqa.store.files import FileError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_writer(tmp_path_factory.mktemp("writer"))


def fit(module: pl.LightningModule, root: Path, steps: int = 1) -> None:
    trainer = pl.Trainer(
        default_root_dir=root,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        max_steps=steps,
    )
    loader: Any = DataLoader([batch()] * steps, batch_size=None)
    trainer.fit(module, loader)
    trainer.save_checkpoint(root / "model.ckpt")


def test_a_training_step_changes_the_adapters_alone(folder: Path, tmp_path: Path) -> None:
    module = module_of(folder, lora=LORA)
    # B is zero, so that new adapters change nothing.
    plain = module_of(folder).log_likelihood(images(), ANSWERS, QUESTIONS)
    start = module.log_likelihood(images(), ANSWERS, QUESTIONS)
    torch.testing.assert_close(start, plain, atol=1e-5, rtol=0)
    before = {name: value.clone() for name, value in module.named_parameters()}
    fit(module, tmp_path, steps=2)
    for name, value in module.named_parameters():
        assert torch.equal(value, before[name]) == ("lora_" not in name), name
    stored = torch.load(tmp_path / "model.ckpt", weights_only=True)["state_dict"]
    assert all("lora_" in name or name == "network._base" for name in stored)
    assert len(stored) == 1 + 2 * 2 * (2 + 2)  # A and B of q and v in 2 + 2 layers
    apart = module.log_likelihood(images(), ANSWERS, QUESTIONS)
    assert (apart - start).abs().max() > 0.1
    layers = [one for one in module.modules() if isinstance(one, BaseTunerLayer)]
    for layer in layers:
        assert layer.scaling["default"] == 2  # alpha / rank
        assert layer.r["default"] == 4
        layer.merge()  # type: ignore[operator]
    merged = module.log_likelihood(images(), ANSWERS, QUESTIONS)
    torch.testing.assert_close(merged, apart, atol=1e-4, rtol=0)


def test_without_lora_all_weights_are_trained_and_stored(folder: Path, tmp_path: Path) -> None:
    module = module_of(folder, lr=0.001)
    before = {name: value.clone() for name, value in module.named_parameters()}
    fit(module, tmp_path)
    changed = {
        name for name, value in module.named_parameters() if not torch.equal(value, before[name])
    }
    for part in ("vision_tower", "multi_modal_projector", "language_model", "lm_head"):
        assert any(part in name for name in changed)
    network = partial(TransformerGenerator, path=str(folder))
    again = TransformerModule.from_checkpoint(tmp_path / "model.ckpt", network)
    torch.testing.assert_close(
        again.log_likelihood(images(), ANSWERS, QUESTIONS),
        module.log_likelihood(images(), ANSWERS, QUESTIONS),
    )


def test_a_checkpoint_holds_adapters_of_one_model(folder: Path, tmp_path: Path) -> None:
    module = module_of(folder, lora=LORA, max_length=5)
    fit(module, tmp_path, steps=2)
    network = partial(TransformerGenerator, path=str(folder))
    again = TransformerModule.from_checkpoint(tmp_path / "model.ckpt", network)
    assert again.max_length == 5
    assert again.component() == module.component()
    assert again.component()["question_words"] == QUESTION_WORDS.words
    torch.testing.assert_close(
        again.log_likelihood(images(), ANSWERS, QUESTIONS),
        module.log_likelihood(images(), ANSWERS, QUESTIONS),
    )
    stored = torch.load(tmp_path / "model.ckpt", weights_only=True)
    own = copy.deepcopy(stored["state_dict"])
    module.load_state_dict(stored["state_dict"])
    assert stored["state_dict"].keys() == own.keys()  # loading leaves it as it was
    other = tiny_writer(tmp_path / "other")
    weights = AutoModelForImageTextToText.from_pretrained(other)
    with torch.no_grad():
        weights.lm_head.weight[0, 0] += 1
    weights.save_pretrained(other)
    assert str(folder) not in str(stored["component"])
    with pytest.raises(FileError, match="adapters were trained with other weights than those of"):
        TransformerModule.from_checkpoint(
            tmp_path / "model.ckpt", partial(TransformerGenerator, path=str(other))
        )
    del stored["state_dict"][next(name for name in own if "lora_" in name)]
    with pytest.raises(RuntimeError, match="Missing key"):
        module.load_state_dict(stored["state_dict"])


def test_a_copy_shares_what_is_frozen(folder: Path) -> None:
    module = module_of(folder, lora=LORA)
    other = copy.deepcopy(module)
    for (name, own), copied in zip(module.named_parameters(), other.parameters(), strict=True):
        assert (own is copied) == ("lora_" not in name)
    randomise(other)
    one, two = (m.log_likelihood(images(), ANSWERS, QUESTIONS) for m in (module, other))
    assert (one - two).abs().min() > 0.01
    assert other.network.writer.model is other.network.model is other.network.reader.model
    whole = module_of(folder)
    copied = copy.deepcopy(whole)
    assert not any(a is b for a, b in zip(whole.parameters(), copied.parameters(), strict=True))


def test_frozen_weights_may_be_bfloat16_but_adapters_are_not(folder: Path) -> None:
    module = module_of(folder, lora=LORA, dtype="bfloat16")
    kinds = {("lora_" in name, value.dtype) for name, value in module.named_parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    loss = -module.network(batch()).log_likelihood.mean()
    loss.backward()
    assert loss.dtype == torch.float32
    assert any(value.grad.abs().max() > 0 for value in module.trained_parameters())
