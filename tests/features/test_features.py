"""Features: trained concepts, backbones from local files, and a store after a killed process."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torchvision
from torch import Tensor

from ivqa.data import VQADataset
from ivqa.features import BackboneFeatures, ConceptFeatures, FeatureStore, VGGFeatures
from ivqa.features.compact_cnn import CompactCNN
from ivqa.features.concept_training import ConceptTraining, train_concepts
from ivqa.features.concepts import ConceptVocabulary, described_images
from ivqa.features.extraction import extract
from ivqa.features.pictures import Network, Resize
from ivqa.store.integrity import MANIFEST

pytestmark = pytest.mark.usefixtures("on_cpu")

SMALL = ConceptFeatures(image_size=32, width=16, epochs=6, batch_size=8)


def small(compute: Callable[[Tensor], Mapping[str, Tensor]]) -> Network:
    """A network for pictures of 8 x 8 pixels."""
    return Network(compute, Resize(8))


def six_pixels(batch: Tensor) -> Mapping[str, Tensor]:
    return {"pooled": batch.flatten(1)[:, :6].float()}


def test_concepts_are_the_commonest_words_and_runs() -> None:
    texts = [["a red star, a blue heart"], ["the red star"], ["a red heart"]] * 5
    vocabulary = ConceptVocabulary.build(texts, size=10, longest=2)
    assert vocabulary.concepts[0] == "red"
    assert {"red star", "blue heart", "red heart"} <= set(vocabulary.concepts)
    assert "star blue" not in vocabulary.concepts  # runs end at a comma
    assert "a" not in vocabulary.concepts
    single = ConceptVocabulary.build(texts, size=2, longest=1)
    assert single.concepts == ["red", "heart"]


def test_rare_words_are_not_concepts() -> None:
    with pytest.raises(ValueError, match="fewer than two words occur with at least 5 images"):
        ConceptVocabulary.build([["a red star"]], size=10)


def test_questions_and_answers_replace_missing_captions(dataset: VQADataset) -> None:
    for file in dataset.root.glob("captions_*.json"):
        file.unlink()
    assert described_images(VQADataset(dataset.root).split("val"))[1][0] == ["What?", "blue"]


def test_the_cnn_keeps_shapes_at_any_image_size() -> None:
    network = CompactCNN(num_concepts=5, width=16)
    for size, positions in ((32, 16), (96, 144)):
        grid, pooled, logits = network(torch.rand(2, 3, size, size))
        assert grid.shape == (2, positions, 16)
        assert pooled.shape == (2, 32)
        assert logits.shape == (2, 5)


@pytest.mark.processor
def test_concepts_are_learned_stored_and_reused(
    dataset: VQADataset, tmp_path: Path, learning_seed: int
) -> None:
    small = replace(SMALL, epochs=30, seed=learning_seed)
    store = small.build(dataset, ["train", "val"], tmp_path / "features")
    split = dataset.split("val")
    rows = store.rows("val", split.image_ids)
    features = store.gather("val", rows, ["grid", "pooled", "concepts"])
    assert features["grid"].shape == (12, 16, 16)
    assert features["concepts"].dtype == torch.float32
    concepts = torch.load(store.directory / "cnn.pt", weights_only=True)["concepts"]
    colors = ("red", "blue", "green")
    found = features["concepts"][:, [concepts.index(name) for name in colors]]
    shown = torch.tensor([[name == color for color in colors] for name in split.main_answers])
    # The margin between the right colour and the best other one, for the worst image.
    assert (found[shown] - found.masked_fill(shown, 0).amax(1)).min() > 0.5

    written = (store.directory / "val" / MANIFEST).stat().st_mtime_ns
    again = small.build(dataset, ["val"], tmp_path / "features")
    assert again.cache_key() == store.cache_key()
    assert (store.directory / "val" / MANIFEST).stat().st_mtime_ns == written
    given = replace(small, weights=str(store.directory / "cnn.pt")).build(
        dataset, ["val"], tmp_path / "elsewhere"
    )
    assert torch.equal(given.gather("val", rows, ["pooled"])["pooled"], features["pooled"])


def test_killed_and_resumed_training_ends_with_the_same_weights(
    dataset: VQADataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(root: Path) -> dict[str, Tensor]:
        store = SMALL.build(dataset, ["val"], root)
        return torch.load(store.directory / "cnn.pt", weights_only=True)["state_dict"]

    def killed(self: ConceptTraining) -> None:
        if self.current_epoch == 3:
            raise RuntimeError("power cut")

    undisturbed = build(tmp_path / "undisturbed")
    with monkeypatch.context() as patch:
        patch.setattr(ConceptTraining, "on_train_epoch_start", killed)
        with pytest.raises(RuntimeError, match="power cut"):
            build(tmp_path / "killed")
    epochs = []
    monkeypatch.setattr(
        ConceptTraining, "on_train_epoch_start", lambda self: epochs.append(self.current_epoch)
    )
    resumed = build(tmp_path / "killed")
    assert epochs == [3, 4, 5]
    for name, value in undisturbed.items():
        assert torch.equal(resumed[name], value), name
    assert not list((tmp_path / "killed").rglob("last.ckpt"))


def test_computing_features_does_not_change_random_numbers(
    dataset: VQADataset, tmp_path: Path
) -> None:
    draws = []
    for _ in range(2):  # the features are computed first, then they are stored
        torch.manual_seed(3)
        SMALL.build(dataset, ["val"], tmp_path / "features")
        draws.append(torch.rand(4))
    assert torch.equal(*draws)


def test_no_val_split_is_needed(dataset: VQADataset, tmp_path: Path) -> None:
    alone = VQADataset(dataset.root, val=None)
    assert SMALL.build(alone, ["train"], tmp_path / "features").sizes["pooled"] == 32


def test_a_missing_meta_file_is_written_again(dataset: VQADataset, tmp_path: Path) -> None:
    store = SMALL.build(dataset, ["val"], tmp_path / "features")
    (store.directory / "meta.json").unlink()
    assert SMALL.build(dataset, ["val"], tmp_path / "features").sizes == store.sizes


def test_an_unreadable_image_is_reported_before_training(
    dataset: VQADataset, tmp_path: Path
) -> None:
    path = dataset.split("train").require_images().path(7)
    path.write_bytes(path.read_bytes()[:600])  # keeps the header only
    with pytest.raises(ValueError, match=r"x_0+7\.png: image 7 cannot be read"):
        SMALL.build(dataset, ["train"], tmp_path / "features")


def test_precision_excludes_concepts_that_no_held_out_image_has(tmp_path: Path) -> None:
    network = CompactCNN(num_concepts=3, width=8)
    images = np.zeros((16, 3, 16, 16), dtype=np.uint8)
    images[::2] = 255
    targets = torch.zeros(16, 3)
    targets[::2, 0] = targets[1::2, 1] = 1
    precision = train_concepts(
        network,
        (images, targets),
        (images, targets),
        tmp_path,
        epochs=10,
        batch_size=4,
        learning_rate=1e-2,
        seed=0,
    )
    assert precision == pytest.approx(1)


def test_other_settings_are_other_features(dataset: VQADataset, tmp_path: Path) -> None:
    assert SMALL.cache_key(dataset) != ConceptFeatures().cache_key(dataset)


def test_extraction_continues_where_it_was_stopped(dataset: VQADataset, tmp_path: Path) -> None:
    images, seen = dataset.split("train").require_images(), []

    def network(batch: Tensor) -> Mapping[str, Tensor]:
        seen.append(len(batch))
        if len(seen) == 8:  # the second batch of the third part
            raise KeyboardInterrupt
        return six_pixels(batch)

    settings = {"batch_size": 8, "part_size": 20}  # batches of 8, 8 and 4 images
    with pytest.raises(KeyboardInterrupt):
        extract(small(network), images, tmp_path / "halted", **settings)
    extract(small(network), images, tmp_path / "halted", **settings)
    assert sum(seen) == 60 + 16  # only the interrupted part is computed twice
    extract(small(six_pixels), images, tmp_path / "whole", batch_size=60)
    for name in ("pooled.npy", "ids.npy"):
        halted, whole = (np.load(tmp_path / kind / name) for kind in ("halted", "whole"))
        assert np.array_equal(halted, whole)
    assert not (tmp_path / "halted" / "parts").exists()


def test_a_damaged_part_is_named(dataset: VQADataset, tmp_path: Path) -> None:
    images, seen = dataset.split("train").require_images(), []

    def network(batch: Tensor) -> Mapping[str, Tensor]:
        seen.append(len(batch))
        if len(seen) == 2:
            raise KeyboardInterrupt
        return six_pixels(batch)

    settings = {"batch_size": 20, "part_size": 20}
    with pytest.raises(KeyboardInterrupt):
        extract(small(network), images, tmp_path, **settings)
    part = tmp_path / "parts" / "part_000000.npz"
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 255
    part.write_bytes(content)
    with pytest.raises(ValueError, match=r"part_000000\.npz is damaged .* delete it to compute"):
        extract(small(network), images, tmp_path, **settings)
    part.unlink()
    extract(small(network), images, tmp_path, **settings)
    assert len(np.load(tmp_path / "pooled.npy")) == 60


def test_a_full_disk_is_reported_before_writing(
    dataset: VQADataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=100))
    images = dataset.split("train").require_images()
    with pytest.raises(ValueError, match=r"x needs 0\.0 GB and its disk has 0\.0 GB left"):
        extract(small(six_pixels), images, tmp_path / "x", batch_size=10)


def test_the_message_names_the_image_of_features_that_are_not_finite(
    dataset: VQADataset, tmp_path: Path
) -> None:
    images, seen = dataset.split("train").require_images(), []

    def network(batch: Tensor) -> Mapping[str, Tensor]:
        seen.append(len(batch))
        values = torch.ones(len(batch), 1)
        values[0] = torch.nan if len(seen) == 2 else 1
        return {"pooled": values}

    with pytest.raises(ValueError, match=r"x_0+11\.png: its feature 'pooled' is not finite"):
        extract(small(network), images, tmp_path / "x", batch_size=10)


def test_backbones_load_local_weights(dataset: VQADataset, tmp_path: Path) -> None:
    random = BackboneFeatures(arch="resnet50", weights="random", image_size=64)
    torch.save(random.network().state_dict(), tmp_path / "weights.pt")
    local = BackboneFeatures(arch="resnet50", weights=str(tmp_path / "weights.pt"), image_size=64)
    first, second = (kind.build(dataset, ["val"], tmp_path / "f") for kind in (random, local))
    assert first.sizes == {"grid": 2048, "pooled": 2048}
    rows = np.arange(12)
    one, two = (store.gather("val", rows, ["grid", "pooled"]) for store in (first, second))
    assert one["grid"].shape == (12, 4, 2048)
    assert torch.equal(one["pooled"], two["pooled"])
    assert torch.allclose(one["grid"].mean(1), one["pooled"], rtol=2e-3, atol=2e-2)


def test_vgg_gives_pool5_and_fc7() -> None:
    torch.manual_seed(0)
    network = VGGFeatures(torchvision.models.vgg11(weights=None)).eval()
    with torch.inference_mode():
        features = network(torch.rand(1, 3, 64, 64))
    assert features["grid"].shape == (1, 4, 512)
    assert features["pooled"].shape == (1, 4096)


def test_the_message_for_missing_weights_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))

    def no_network(*args: object, **kwargs: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("torch.hub.download_url_to_file", no_network)
    with pytest.raises(
        ValueError, match=r"cannot be downloaded \(no route.*features\.weights=FILE"
    ):
        BackboneFeatures(arch="resnet50").network()
    with pytest.raises(ValueError, match="neither a file nor weights"):
        BackboneFeatures(arch="resnet50", weights="nowhere.pt").network()
    (tmp_path / "bad.pt").write_bytes(b"no weights")
    with pytest.raises(ValueError, match="is not a state_dict of resnet50"):
        BackboneFeatures(arch="resnet50", weights=str(tmp_path / "bad.pt")).network()


def test_images_without_questions_or_captions_are_skipped(
    dataset: VQADataset, tmp_path: Path
) -> None:
    # An image without questions and captions, whose file cannot be read.
    (dataset.root / "images" / "val" / "x_000000000099.png").write_bytes(b"no image at all")
    split = VQADataset(dataset.root).split("val")
    assert 99 in split.require_images().ids
    images, texts = described_images(split)
    assert len(images) == len(texts) == 12
    store = SMALL.build(VQADataset(dataset.root), ["val"], tmp_path / "features")
    assert len(store.gather("val", np.arange(12), ["pooled"])["pooled"]) == 12
    with pytest.raises(ValueError, match="no features for image 99"):
        store.rows("val", np.array([99]))


@pytest.mark.parametrize("content", ["no weights", "another width", "another network"])
def test_weights_that_are_no_concept_predictor_are_named(
    dataset: VQADataset, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "given.pt"
    if content == "no weights":
        file.write_bytes(b"no weights")
    elif content == "another network":
        torch.save({"fc.weight": torch.zeros(2, 2)}, file)
    else:
        state = CompactCNN(num_concepts=2, width=8).state_dict()
        torch.save({"state_dict": state, "concepts": ["red", "blue"]}, file)
    given = ConceptFeatures(**{**vars(SMALL), "weights": str(file)})
    with pytest.raises(
        ValueError, match=r"given\.pt is not a concept predictor of width 16.*cnn\.pt"
    ):
        given.build(dataset, ["val"], tmp_path / "features")


def test_the_message_names_what_a_store_lacks(dataset: VQADataset, tmp_path: Path) -> None:
    store = SMALL.build(dataset, ["val"], tmp_path)
    with pytest.raises(ValueError, match="no features for image 99"):
        store.rows("val", np.array([1, 99]))
    with pytest.raises(ValueError, match="features of split 'train' were not computed"):
        store.rows("train", np.array([1]))
    assert isinstance(FeatureStore(store.directory).sizes, dict)


def test_a_pickled_store_has_no_arrays(dataset: VQADataset, tmp_path: Path) -> None:
    store = SMALL.build(dataset, ["val"], tmp_path)
    before = store.gather("val", np.array([2, 0]), ["grid"])["grid"]
    sent = pickle.dumps(store)
    assert len(sent) < 1000
    after = pickle.loads(sent).gather("val", np.array([2, 0]), ["grid"])["grid"]
    assert torch.equal(before, after)
