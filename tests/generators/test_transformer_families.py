"""Every family of models that write: likelihood, samples and adapters agree with each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_vlm import FAMILIES, without_num2words
from tiny_vlm_parts import Photographs
from tiny_writer import ANSWER_WORDS, QUESTION_WORDS

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators import Sampling
from ivqa.generators.transformers.transformer import TransformerGenerator

ANSWERS = ["yes", "dark red", "2", "a big cat", "no"]


@pytest.fixture(scope="module", autouse=True)
def _num2words() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        without_num2words(patch)
        yield


# The same code runs for all families; the VQA models' tests run each one by default.
OFTEN_USED = {"Qwen2.5-VL", "SmolVLM", "LLaVA-1.5", "PaliGemma", "BLIP-2", "Florence-2"}


@pytest.mark.parametrize(
    "name",
    [
        name if name in OFTEN_USED else pytest.param(name, marks=pytest.mark.slow)
        for name in FAMILIES
    ],
)
def test_likelihood_samples_and_gradient_agree(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    torch.manual_seed(2)
    network = TransformerGenerator(
        question_words=QUESTION_WORDS,
        answer_words=ANSWER_WORDS,
        path=str(family.build(tmp_path)),
        prompt=family.prompt.replace("{question}", "{answer}"),
        lora={"rank": 2, "target_modules": "all-linear"},
    ).eval()
    adapters = [value for value in network.parameters() if value.requires_grad]
    with torch.no_grad():
        for value in adapters:
            value.normal_(std=0.1)
    # Pictures of several shapes, two of them the same, in prompts of several lengths.
    images = ImageBatch(
        torch.tensor([7, 8, 9, 10]), torch.tensor([0, 2, 1, 3, 1]), source=Photographs()
    )
    pairs = network.conditions(images, network.answers.encode(ANSWERS))
    given = pairs.select(torch.arange(5).repeat_interleave(2))
    with torch.no_grad():
        step, state = network.decoding(given, None)
        drawn = Sampling()(step, state, 4, torch.Generator().manual_seed(3))
        scores = network.token_log_probs(drawn.tokens, None, given)
        alone = [
            network.token_log_probs(
                drawn.tokens.select(row), None, given.select(row)
            )  # one question at a time
            for row in torch.arange(10).split(1)
        ]
    torch.testing.assert_close(drawn.log_likelihood, scores.sum(dim=1), atol=2e-4, rtol=0)
    torch.testing.assert_close(torch.cat(alone), scores, atol=2e-4, rtol=0)
    with_gradient = network.token_log_probs(drawn.tokens, None, given)
    torch.testing.assert_close(with_gradient.detach(), scores, atol=2e-4, rtol=0)
    with_gradient.sum().backward()
    assert any(value.grad is not None and value.grad.abs().max() > 0 for value in adapters)
