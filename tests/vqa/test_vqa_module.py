from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader
from toy_zoo import ZOO, feature_sizes

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa import VQAModule

QUESTIONS = ["is it red", "what color is it", "how many", "is it", "what"]
ANSWERS = AnswerVocabulary(["yes", "red", "2", "no"])
WORDS = Vocabulary.build(QUESTIONS)


def _module(kind: str, seed: int = 0, **arguments: Any) -> VQAModule:
    torch.manual_seed(seed)
    settings: dict[str, Any] = {
        "network": ZOO[kind][0],
        "question_vocabulary": WORDS,
        "answers": ANSWERS,
        "feature_sizes": feature_sizes(kind),
        "optimizer": partial(torch.optim.Adam, lr=0.02),
    }
    return VQAModule(**settings | arguments)


def _batch(images: ImageBatch) -> VQABatch:
    question = WORDS.encode(QUESTIONS)
    target = torch.tensor([0, 1, 2, 3, 1])
    soft = torch.nn.functional.one_hot(target, 4).float()
    soft[0] = torch.tensor([0.9, 0.3, 0, 0])
    counts = 10 * torch.nn.functional.one_hot(target, 4).float()
    counts[0] = torch.tensor([9.0, 1, 0, 0])
    kinds = torch.tensor([0, 2, 1, 0, 2])
    targets = {"soft_targets": soft, "answer_counts": counts}
    return VQABatch(torch.arange(5), images, question, question, kinds, target, **targets)


def _trainer(folder: Path, **arguments: Any) -> pl.Trainer:
    return pl.Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        **arguments,
    )


def _loader(batch: VQABatch) -> Any:
    return DataLoader([batch], batch_size=None)  # type: ignore[arg-type]


@pytest.mark.processor
def test_it_learns_five_questions(
    kind: str, images: ImageBatch, tmp_path: Path, learning_seed: int
) -> None:
    torch.manual_seed(learning_seed)
    still: dict[str, Any] = (
        {} if kind == "prior" else {"dropout": 0.0}
    )  # there are only seven hidden units
    if kind == "lstm_qi":  # seven saturated units confuse two questions
        still |= {"hidden_size": 16, "joint_size": 32}
    network, batch = partial(ZOO[kind][0], **still), _batch(images)
    optimizer = partial(torch.optim.Adam, lr=0.01)
    module = _module(kind, learning_seed, network=network, optimizer=optimizer)
    steps = DataLoader([batch] * 400, batch_size=None)  # type: ignore[arg-type, list-item]
    _trainer(tmp_path, max_epochs=1, enable_checkpointing=False).fit(module, steps)
    if kind == "prior":  # it does not read the questions
        assert module.answer(images, QUESTIONS) == ["red"] * 5
        return
    scores = module.log_scores(images, QUESTIONS).exp()
    assert scores.gather(1, batch.target[:, None]).min() > 0.75
    assert module.answer(images, QUESTIONS) == ["yes", "red", "2", "no", "red"]


def test_the_training_loss_is_the_mean_cross_entropy(images: ImageBatch) -> None:
    module, batch = _module("vanilla").eval(), _batch(images)
    module.log_dict = lambda *_, **__: None  # type: ignore[method-assign, assignment]
    log_p = module.log_scores(images, QUESTIONS)
    right = sum(log_p[row, answer] for row, answer in enumerate([0, 1, 2, 3, 1]))
    torch.testing.assert_close(module.training_step(batch, 0), -right / 5)


def test_validation_reports_official_accuracy_by_answer_type(
    images: ImageBatch, tmp_path: Path
) -> None:
    module, batch = _module("vanilla"), _batch(images)
    values = torch.tensor([0.0, 0.3, 0.6, 0.9, 1.0])
    assert batch.soft_targets is not None
    batch.soft_targets.copy_(values[torch.randint(5, (5, 4))])
    best = [ANSWERS.answers.index(answer) for answer in module.answer(images, QUESTIONS)]
    found = [batch.soft_targets[row, answer].item() for row, answer in enumerate(best)]
    (logged,) = _trainer(tmp_path).validate(module, _loader(batch), verbose=False)
    expected = {
        "val/vqa_accuracy": sum(found) / 5,
        "val/yes_no": (found[0] + found[3]) / 2,
        "val/number": found[2],
        "val/other": (found[1] + found[4]) / 2,
    }
    assert logged == pytest.approx(expected)
    assert len(set(expected.values())) > 2
    some = replace(batch, counted=torch.tensor([False, True, False, True, False]))
    (logged,) = _trainer(tmp_path).validate(module, _loader(some), verbose=False)
    of_some = {"vqa_accuracy": (found[1] + found[3]) / 2, "yes_no": found[3], "other": found[1]}
    assert logged == pytest.approx({f"val/{name}": value for name, value in of_some.items()})


def test_scores_are_log_probabilities_and_columns_can_be_chosen(
    kind: str, images: ImageBatch
) -> None:
    module = _module(kind).train()
    scores = module.log_scores(images, QUESTIONS)
    torch.testing.assert_close(scores.exp().sum(dim=1), torch.ones(5))
    torch.testing.assert_close(module.log_scores(images, QUESTIONS), scores)  # no dropout
    assert module.network.training
    some = module.log_scores(images, QUESTIONS, ["no", "yes"])
    torch.testing.assert_close(some, scores[:, [3, 0]])
    single = torch.cat(
        [
            module.log_scores(images.select(torch.tensor([row])), [question])
            for row, question in enumerate(QUESTIONS)
        ]
    )
    torch.testing.assert_close(single, scores, atol=1e-4, rtol=0)


def test_bad_input_is_named(images: ImageBatch) -> None:
    module = _module("vanilla")
    with pytest.raises(ValueError, match="answer 'blue' is not among the 4 answers"):
        module.log_scores(images, QUESTIONS, ["yes", "blue"])
    with pytest.raises(ValueError, match="1 questions for 5 images"):
        module.log_scores(images, ["is it"])
    with pytest.raises(
        ValueError, match="targets must be one of main, annotators, accuracies, not soft"
    ):
        _module("vanilla", targets="soft")


def test_a_checkpoint_of_other_answers_is_refused(images: ImageBatch, tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, max_epochs=1)
    trainer.fit(_module("vanilla"), _loader(_batch(images)), _loader(_batch(images)))
    path = tmp_path / "model.ckpt"
    trainer.save_checkpoint(path)
    stored = torch.load(path, weights_only=True)["component"]
    assert stored["answers"] == ANSWERS.answers
    assert stored["network"]["arguments"]["question_encoder"]["arguments"]["size"] == 8
    other = _module("vanilla", answers=AnswerVocabulary(["yes", "no", "2", "blue"]))
    with pytest.raises(ValueError, match=r"trained with other answers: .*only here"):
        _trainer(tmp_path).validate(
            other, _loader(_batch(images)), ckpt_path=path, verbose=False, weights_only=True
        )


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("algorithm", ["norm", "value"])
def test_gradients_are_clipped_for_fused_optimisers(
    precision: Any, algorithm: str, images: ImageBatch, tmp_path: Path
) -> None:
    module = _module("vanilla", optimizer=partial(torch.optim.Adam, fused=True))
    found = []

    class Watch(pl.Callback):
        def on_before_zero_grad(self, trainer: Any, module: Any, optimizer: Any) -> None:
            found.extend([one.grad for one in module.parameters() if one.grad is not None])

    trainer = _trainer(
        tmp_path,
        max_epochs=2,
        precision=precision,
        gradient_clip_val=1e-3,
        gradient_clip_algorithm=algorithm,
        callbacks=[Watch()],
        enable_checkpointing=False,
    )
    trainer.fit(module, _loader(_batch(images)))
    gradients = torch.cat([gradient.flatten() for gradient in found])
    size = gradients.norm() if algorithm == "norm" else gradients.abs().max()
    assert 0.99e-3 < size < 1.01e-3


def test_a_loss_that_is_not_finite_names_the_rows(images: ImageBatch, tmp_path: Path) -> None:
    assert images.pooled is not None
    images.pooled[1] = float("nan")
    with pytest.raises(UserError, match=r"at step 0, for rows \[2, 3\]"):
        _trainer(tmp_path, max_epochs=1).fit(_module("vanilla"), _loader(_batch(images)))
