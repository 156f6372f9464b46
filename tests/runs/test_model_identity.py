"""The settings that change the identity of a trained model, and those that do not."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf, open_dict
from rich.console import Console

from ivqa.runs.context import RunContext

CONF = Path(__file__).parents[2] / "conf"
NETWORK = '''"""A user's own network."""

from ivqa.vqa import LanguageOnly


class Mine(LanguageOnly):
    """Answers."""

    def forward(self, images, question):
        """Logits."""
        return 2 * super().forward(images, question)  # doubled
'''


def _bench(
    *overrides: str, data: str = "data", features: str | None = "key", cwd: Any = None
) -> RunContext:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("evaluate", ["trainer.precision=32-true", *overrides])
    with open_dict(cfg):
        cfg.output_dir = "run"
    found: Any = SimpleNamespace(cache_key=lambda: features, sizes={"grid": 8, "concepts": 3})
    dataset: Any = SimpleNamespace(cache_key=lambda: data, stages={"train": "train", "val": "val"})
    return RunContext(cfg, dataset, found, Console())


def _identity(*overrides: str, **options: Any) -> dict[str, Any]:
    return _bench(*overrides, **options).model_identity


POLICY = ["model=ivqa_rl", "model@vqa=mlb"]


@pytest.mark.parametrize(
    "neutral",
    [
        "model.benchmark.num_latents=3",
        "artifacts=elsewhere",
        "logger=none",
        "logger=wandb",
        "callbacks=robustness",
        "callbacks.progress.leave=true",
        "trainer.accelerator=cpu",
        "trainer.devices=2",
        "trainer.log_every_n_steps=1",
        "num_workers=3",
        "output_dir=elsewhere",
        "ckpt=some.ckpt",
        "split=val",
        "ranker=cosine",
        "noise=word_shuffling",
    ],
)
def test_settings_that_change_no_weight_keep_the_identity(neutral: str) -> None:
    assert _identity(*POLICY, neutral) == _identity(*POLICY)


@pytest.mark.parametrize(
    "decisive",
    [
        "model.module.optimizer.lr=1e-3",
        "model.module.objective.num_samples=4",
        "model.parts.questioner.module.optimizer.lr=1e-3",
        "model.parts.questioner.epochs=1",
        "model.parts.legality_model.module.network.embedding_size=8",
        "vqa.module.network.joint_size=8",
        "vqa.epochs=1",
        "vqa.batch_size=7",
        "model@vqa=mutan",
        "reward@model.module.rewards=goal",
        "seed=2",
        "model.batch_size=3",
        "min_word_count=2",
        "trainer.max_epochs=1",
        "trainer.limit_train_batches=2",
        "augment=word_shuffling",
        "augment=implications",
    ],
)
def test_settings_that_change_weights_change_the_identity(decisive: str) -> None:
    assert _identity(*POLICY, decisive) != _identity(*POLICY)


def test_data_and_features_change_the_identity() -> None:
    found = _identity("model=mlb")
    assert _identity("model=mlb", data="other") != found
    assert _identity("model=mlb", features="other") != found
    # A text-only model does not depend on image features.
    blind = _identity("model=language_only")
    assert _identity("model=language_only", features="other") == blind


def test_a_part_has_the_identity_of_the_same_model_alone() -> None:
    part = _bench(*POLICY).parts["answerer"]
    assert part.model_identity == _identity("model=mlb")


def test_the_checkpoint_of_a_part_is_identified_by_its_content(tmp_path: Path) -> None:
    def of(name: str) -> dict[str, Any]:
        return _identity(*POLICY, f"model.part_ckpt.answerer={tmp_path / name}")

    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / f"{name}.ckpt").write_bytes(content)
    assert of("a.ckpt") == of("b.ckpt")
    assert of("a.ckpt") != of("c.ckpt")
    assert of("a.ckpt") != _identity(*POLICY)


def test_the_files_of_a_question_encoder_are_identified_by_content(tmp_path: Path) -> None:
    for name in ("one", "same", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name if name == "other" else "{}")
    command = ["model=mlb", "question_encoder=transformers"]
    one, same, other = (
        _identity(*command, f"question_encoder.path={tmp_path / name}")
        for name in ("one", "same", "other")
    )
    assert one == same
    assert one != other


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "my_network.py"
    file.write_text(NETWORK)
    yield file
    sys.modules.pop("my_network", None)


def test_a_changed_forward_is_another_model_and_a_changed_comment_is_not(network: Path) -> None:
    def changed(old: str, new: str) -> dict[str, Any]:
        assert old in NETWORK
        network.write_text(NETWORK.replace(old, new))
        importlib.invalidate_caches()
        return _identity("model=language_only", "model.module.network._target_=my_network.Mine")

    before = changed("Mine", "Mine")
    assert changed("# doubled", "# twice") == before
    assert changed('"""Logits."""', '"""The logits (B, |A|)."""') == before
    assert changed("return 2 *", "return 3 *") != before
    assert changed("Mine", "Mine") == before
    assert before["code"] != _identity("model=language_only")["code"]


def test_the_identity_is_plain_json() -> None:
    import json

    identity = _identity(*POLICY)
    assert json.loads(json.dumps(identity)) == identity
    assert OmegaConf.create(identity)


@pytest.mark.parametrize("features", ["efficientnet_lite", "resnet152"])
def test_released_weights_are_not_for_pretrained_features(features: str) -> None:
    part = _bench(*POLICY, f"features={features}").parts["questioner"]
    assert part.released is None
