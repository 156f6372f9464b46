"""A training step and the answers of a VQA model on the CPU and on a CUDA device."""

from functools import partial
from typing import Any

import pytest
import torch
from toy_zoo import ZOO, feature_sizes

from devices import on_devices, with_gradients
from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa import VQAModule

QUESTIONS = ["is it red", "what color is it", "how many", "is it", "what"]
ANSWERS = AnswerVocabulary(["yes", "red", "2", "no"])
WORDS = Vocabulary.build(QUESTIONS)


def _module(kind: str) -> VQAModule:
    torch.manual_seed(0)
    module = VQAModule(
        network=ZOO[kind][0],
        question_vocabulary=WORDS,
        answers=ANSWERS,
        feature_sizes=feature_sizes(kind),
        optimizer=partial(torch.optim.SGD, lr=0.1),
    )
    module.log_dict = lambda *_, **__: None  # type: ignore[method-assign, assignment]
    return with_gradients(module)  # dropout draws other numbers on another device


def _batch(images: ImageBatch) -> VQABatch:
    question, kinds = WORDS.encode(QUESTIONS), torch.tensor([0, 2, 1, 0, 2])
    target = torch.tensor([0, 1, 2, 3, 1])
    soft = torch.nn.functional.one_hot(target, 4).float()
    targets: dict[str, Any] = {"soft_targets": soft, "answer_counts": 10 * soft}
    return VQABatch(torch.arange(5), images, question, question, kinds, target, **targets)


def _step(module: VQAModule, batch: VQABatch) -> torch.Tensor:
    """The loss before a step of the optimiser."""
    loss = module.training_step(batch, 0)
    if loss.requires_grad:
        optimizer = module.optimizer(module.parameters())  # type: ignore[misc]
        loss.backward()
        optimizer.step()
    return loss.detach().cpu()


@on_devices
def test_a_training_step_is_that_of_the_cpu(device: str, kind: str, images: ImageBatch) -> None:
    if kind == "prior":
        pytest.skip("it counts answers and has no gradients")
    expected, module = _module(kind), _module(kind).to(device)
    batch = _batch(images)
    losses = _step(expected, batch), _step(module, batch.to(device))
    torch.testing.assert_close(losses[1], losses[0], atol=1e-4, rtol=1e-4)
    trained = module.state_dict()
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(
            trained[name].cpu(), value, atol=1e-3, rtol=1e-3, msg=partial("{}: {}".format, name)
        )


@on_devices
def test_scores_and_answers_are_those_of_the_cpu(
    device: str, kind: str, images: ImageBatch
) -> None:
    expected, module = _module(kind), _module(kind).to(device)
    here = expected.log_scores(images, QUESTIONS)
    there = module.log_scores(images, QUESTIONS)  # the images stay on the CPU
    torch.testing.assert_close(there.cpu(), here, atol=5e-3, rtol=5e-3)
    chosen = module.log_scores(images, QUESTIONS, ["no", "red"])
    torch.testing.assert_close(chosen.cpu(), here[:, [3, 1]], atol=5e-3, rtol=5e-3)
    assert module.answer(images, QUESTIONS) == expected.answer(images, QUESTIONS)
