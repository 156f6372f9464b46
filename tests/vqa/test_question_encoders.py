"""Question encoders that start from pretrained weights."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch.utils.data import DataLoader
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.encoders.encoder import unit_rows
from ivqa.encoders.skip_thoughts import SkipThoughtsEncoder
from ivqa.encoders.transformers_encoder import TransformersEncoder
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Tokens, Vocabulary
from ivqa.vqa import (
    LanguageOnly,
    QuestionEncoder,
    SkipThoughtsQuestionEncoder,
    StackedLSTMEncoder,
    TransformersQuestionEncoder,
    VQAModule,
)

QUESTIONS = ["is it reddish", "what color is it", "how many", "is it", "what"]
WORDS = Vocabulary.build(QUESTIONS)
ANSWERS = AnswerVocabulary(["yes", "red", "2", "no"])
PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "?",
    "is",
    "it",
    "red",
    "##dish",
    "what",
    "how",
    "many",
]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Uni-skip in the published format; the word "many" is not in its dictionary."""
    folder, rng = tmp_path_factory.mktemp("skip"), np.random.default_rng(0)
    words = ["<eos>", "UNK", "is", "it", "reddish", "what", "color", "how"]
    (folder / "dictionary.txt").write_text("\n".join(words) + "\n")
    np.save(folder / "utable.npy", rng.normal(size=(len(words), 5)).astype("f4"))
    shapes = {"W": (5, 16), "Wx": (5, 8), "b": (16,), "bx": (8,), "U": (8, 16), "Ux": (8, 8)}
    weights = {f"encoder_{k}": rng.normal(size=shape).astype("f4") for k, shape in shapes.items()}
    np.savez(folder / "uni_skip.npz", **weights)
    return str(folder)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of two layers whose tokeniser splits "reddish" and does not know "color"."""
    table = {piece: row for row, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    folder = tmp_path_factory.mktemp("bert")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=32, pad_token_id=0, initializer_range=0.5,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return str(folder)


def _skip_thoughts(path: str, **arguments: Any) -> Any:
    sizes: dict[str, Any] = {"embedding_size": 5, "size": 8, "dropout": 0.0}
    return partial(SkipThoughtsQuestionEncoder, path=path, **sizes | arguments)


def _module(encoder: Any) -> VQAModule:
    torch.manual_seed(1)
    return VQAModule(
        network=partial(LanguageOnly, question_encoder=encoder, joint_size=7),
        question_vocabulary=WORDS,
        answers=ANSWERS,
        feature_sizes={},
        optimizer=partial(torch.optim.Adam, lr=0.02),
    )


def _fit(module: VQAModule, folder: Path, epochs: int = 1) -> pl.Trainer:
    question, target = WORDS.encode(QUESTIONS), torch.tensor([0, 1, 2, 3, 1])
    images = ImageBatch(ids=torch.tensor([7]), index=torch.zeros(5, dtype=torch.int64))
    batch = VQABatch(torch.arange(5), images, question, question, target, target)
    trainer = pl.Trainer(
        default_root_dir=folder, max_epochs=epochs, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader([batch], batch_size=None))  # type: ignore[arg-type]
    return trainer


def test_uni_skip_encodes_as_published_until_it_is_trained(published: str) -> None:
    encoder = _skip_thoughts(published)(num_words=len(WORDS)).eval()
    encoder.initialise(WORDS.words)
    found = encoder(WORDS.encode([*QUESTIONS, "zebra"])).detach().numpy()
    expected = SkipThoughtsEncoder(published, "uni").encode([*QUESTIONS, "zebra"])
    np.testing.assert_allclose(unit_rows(found), expected, atol=1e-5)
    np.testing.assert_allclose(found[5], encoder(WORDS.encode(["many"]))[0].detach(), atol=1e-6)


def test_pieces_are_those_of_the_tokeniser(bert: str) -> None:
    encoder = TransformersQuestionEncoder(num_words=len(WORDS), path=bert).eval()
    encoder.initialise(WORDS.words)
    pieces, mask = encoder.sequences(WORDS.encode(["is it reddish", "what color"]))
    read = [[PIECES[at] for at in row[known]] for row, known in zip(pieces, mask, strict=True)]
    assert read == [
        ["[CLS]", "is", "it", "red", "##dish", "?", "[SEP]"],
        ["[CLS]", "what", "[UNK]", "?", "[SEP]"],
    ]
    texts = [f"{question}?" for question in QUESTIONS]
    found = encoder(WORDS.encode(QUESTIONS)).numpy()
    np.testing.assert_allclose(unit_rows(found), TransformersEncoder(bert).encode(texts), atol=1e-5)
    short = TransformersQuestionEncoder(num_words=len(WORDS), path=bert, max_length=3).eval()
    short.load_state_dict(encoder.state_dict())
    assert short.sequences(WORDS.encode(QUESTIONS))[0].shape == (5, 3)


@pytest.mark.parametrize("kind", ["skip_thoughts", "transformers"])
def test_padding_changes_nothing_and_an_empty_question_is_zero(
    kind: str, published: str, bert: str
) -> None:
    factory = {
        "skip_thoughts": _skip_thoughts(published),
        "transformers": partial(TransformersQuestionEncoder, path=bert),
    }[kind]
    encoder: QuestionEncoder = factory(num_words=len(WORDS)).eval()
    encoder.initialise(WORDS.words)
    question = WORDS.encode([*QUESTIONS, ""])
    encoded = encoder(question)
    assert encoded.shape == (6, encoder.size)
    assert (encoded[5] == 0).all()
    wide = Tokens(torch.nn.functional.pad(question.ids, (0, 3)), question.lengths)
    torch.testing.assert_close(encoder(wide), encoded)
    torch.testing.assert_close(encoder(WORDS.encode(["is it"])), encoded[3:4])


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("kind", ["skip_thoughts", "transformers"])
def test_training_starts_from_the_files_and_a_checkpoint_loads_without_them(
    kind: str, frozen: bool, published: str, bert: str, tmp_path: Path
) -> None:
    if kind == "skip_thoughts":
        encoder = _skip_thoughts(published, frozen=frozen)
        path, weight = published, "recurrence.weight_hh_l0"
    else:
        encoder = partial(TransformersQuestionEncoder, path=bert, frozen=frozen)
        path, weight = bert, "model.encoder.layer.1.output.dense.weight"
    start = encoder(num_words=len(WORDS))
    start.initialise(WORDS.words)
    module = _module(encoder)
    trainer = _fit(module, tmp_path, epochs=3)
    trained = module.network.question_encoder.state_dict()[weight]  # type: ignore[union-attr]
    assert torch.equal(trained, start.state_dict()[weight]) == frozen
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    stored = torch.load(tmp_path / "model.ckpt", weights_only=True)
    assert stored["component"]["network"]["arguments"]["question_encoder"]["arguments"]["path"]

    if kind == "skip_thoughts":
        again = _module(_skip_thoughts("gone", frozen=frozen))
    else:  # a transformers model needs its configuration
        other = tmp_path / "configuration"
        other.mkdir()
        (other / "config.json").write_bytes((Path(path) / "config.json").read_bytes())
        again = _module(partial(TransformersQuestionEncoder, path=str(other), frozen=frozen))
    again.load_state_dict(stored["state_dict"])
    images = ImageBatch(ids=torch.tensor([7]), index=torch.zeros(5, dtype=torch.int64))
    scores = module.log_scores(images, QUESTIONS)
    torch.testing.assert_close(again.log_scores(images, QUESTIONS), scores)


def test_files_of_other_sizes_are_refused(published: str) -> None:
    encoder = _skip_thoughts(published, size=6)(num_words=len(WORDS))
    with pytest.raises(ValueError, match=r"has embedding_size=5 and size=8, but .* 5 and 6; give"):
        encoder.initialise(WORDS.words)
    with pytest.raises(ValueError, match=r"from .\./nowhere.*pass question_encoder.path=FOLDER"):
        TransformersQuestionEncoder(num_words=9, path="./nowhere")


def test_files_of_other_sizes_are_refused_before_a_command_starts(
    published: str, tmp_path: Path
) -> None:
    sizes = {"path": published, "embedding_size": 5, "size": 8}
    SkipThoughtsQuestionEncoder.check_arguments(sizes)
    SkipThoughtsQuestionEncoder.check_arguments({**sizes, "path": "/absent", "size": 9})
    with pytest.raises(UserError, match=r"has embedding_size=5 and size=8, but .* 5 and 9"):
        SkipThoughtsQuestionEncoder.check_arguments({**sizes, "size": 9})

    plain, word2vec = tmp_path / "plain.txt", tmp_path / "word2vec.txt"
    plain.write_text("is 1 2 3\nit 4 5 6\n")
    word2vec.write_text("2 3\nis 1 2 3\nit 4 5 6\n")
    for file in (plain, word2vec):
        StackedLSTMEncoder.check_arguments({"path": str(file), "vector_size": 3})
        with pytest.raises(UserError, match=r"vectors of 3 values, but .*vector_size=4"):
            StackedLSTMEncoder.check_arguments({"path": str(file), "vector_size": 4})
