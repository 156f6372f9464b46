"""Identities of objects, configurations and files."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch

from ivqa.config.keys import model_keys
from ivqa.encoders.tfidf import TfidfEncoder
from ivqa.encoders.word_vectors import WordVectorEncoder
from ivqa.ranges import NO_EFFECT, Weights
from ivqa.ranking import LassoQuestionRanker
from ivqa.store.digests import content_digest, digest
from ivqa.store.identity import identity_of, result_settings


class Custom:
    """A ranker that a user has written."""

    def __init__(
        self,
        size: int = 3,
        cache: Annotated[str, NO_EFFECT] = "",
        device: Annotated[str | None, NO_EFFECT] = None,
        weights: Weights | None = None,
        **settings: Any,
    ) -> None:
        vars(self).update(settings, size=size, cache=cache, device=device, weights=weights)


TARGET = f"{__name__}.Custom"


def test_settings_of_every_type_change_the_identity() -> None:
    settings = [
        {"weights_of_words": [1, 2]},
        {"weights_of_words": [2, 1]},
        {"weights_of_words": np.array([1, 2])},
        {"weights_of_words": np.array([1.0, 2.0])},
        {"weights_of_words": {"a": 1}},
        {"weights_of_words": {"a", "b"}},
        {"weights_of_words": torch.tensor([1.0])},
        {"weights_of_words": torch.nn.Linear(1, 1)},
        {"weights_of_words": Custom(seed=1)},
        {"weights_of_words": Custom(seed=2)},
        {"weights_of_words": float("nan")},
        {"weights_of_words": len},
        {"weights_of_words": b"12"},
        {},
    ]
    found = [digest(identity_of(Custom(**one))) for one in settings]
    assert len(set(found)) == len(settings)
    assert digest(identity_of(Custom(weights_of_words=[1, 2]))) == found[0]


def test_caches_and_private_attributes_do_not_change_the_identity() -> None:
    def of(**settings: Any) -> str:
        return digest(identity_of(Custom(size=3, **settings)))

    assert of() == of(cache="folder", _fitted=[1], device="cuda:1")
    assert of() != of(folder="folder")


def test_the_identity_of_an_encoder_depends_on_settings_not_on_fitting() -> None:
    fitted = TfidfEncoder(size=2).fit(["is it red", "is it blue", "is it red"])
    same = LassoQuestionRanker(TfidfEncoder(size=2))
    assert identity_of(LassoQuestionRanker(fitted)) == identity_of(same)
    assert identity_of(LassoQuestionRanker(TfidfEncoder(size=3))) != identity_of(same)


def test_the_identity_of_word_vectors_depends_on_the_content_of_the_file(tmp_path: Path) -> None:
    for name, text in (("a", "red 1 2\n"), ("b", "red 1 3\n"), ("c", "red 1 2\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    a, b, c = (identity_of(WordVectorEncoder(str(tmp_path / f"{name}.txt"))) for name in "abc")
    assert a == c
    assert a != b


def test_a_configuration_keeps_decisive_settings_and_digests_of_files(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    file.write_bytes(b"one")
    part = {"_target_": TARGET, "weights": str(file), "size": 2}
    model = {"lr": 0.1, "module": part}
    found = result_settings(model, model_keys)
    neutral = {"name": "x", "benchmark": {"seed": 1}, "epochs": 3, "parts": {"a": {"b": 1}}}
    same = {**part, "device": "cuda", "cache": "x"}
    assert result_settings({**model, **neutral, "module": same}, model_keys) == found
    moved = tmp_path / "elsewhere.pt"
    moved.write_bytes(b"one")
    assert result_settings({**model, "module": {**part, "weights": str(moved)}}) == found
    assert result_settings({**model, "module": {**part, "size": 3}}) != found
    file.write_bytes(b"two")
    assert result_settings(model, model_keys) != found


def test_a_default_of_this_package_does_not_count_and_one_of_a_user_does() -> None:
    """Versions guard the defaults of this package; the source of a user's class is digested."""
    ours = {"_target_": "ivqa.vqa.MLB", "joint_size": 8}
    assert result_settings({**ours, "num_glimpses": 2}) == result_settings(ours)
    assert result_settings({**ours, "num_glimpses": 3}) != result_settings(ours)
    assert result_settings({**ours, "num_glimpses": True}) != result_settings(ours)
    own = {"_target_": TARGET}
    assert result_settings({**own, "size": 3}) != result_settings(own)


def test_the_digest_of_a_folder_covers_names_and_contents(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text("{}")
    same = content_digest(tmp_path / "one")
    assert content_digest(tmp_path / "other") == same
    (tmp_path / "other" / "config.json").rename(tmp_path / "other" / "model.json")
    assert content_digest(tmp_path / "other") != same
    assert content_digest(tmp_path / "nowhere") == ""


def test_the_digest_of_a_large_file_covers_three_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ivqa.store.digests._SAMPLED", 100)
    monkeypatch.setattr("ivqa.store.digests._SAMPLE", 10)
    file, content = tmp_path / "large", bytearray(1000)
    file.write_bytes(content)
    found = {content_digest(file)}
    for at in (3, 505, 995):
        changed = content.copy()
        changed[at] = 1
        file.write_bytes(changed)
        found.add(content_digest(file))
    assert len(found) == 4
