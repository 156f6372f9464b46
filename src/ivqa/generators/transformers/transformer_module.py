"""Training of a transformers model as a question generator."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from torch import nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.device import on_cpu
from ivqa.generators.decoding.strategies import Strategy
from ivqa.generators.likelihood import Likelihood
from ivqa.generators.module import GeneratorModule
from ivqa.generators.protocol import Questions
from ivqa.generators.transformers.transformer import TransformerGenerator
from ivqa.ranges import NO_EFFECT


class TransformerModule(GeneratorModule):
    """Maximises log p(q | I, a) of a `TransformerGenerator`; a `Questioner`.

    Its tokens, in `Questions.tokens` and as `question_vocabulary`, are those of the model.

    Args:
        device: Where questions are asked and scored outside of a Trainer, as `trainer.accelerator`
            says it: cpu, or gpu or auto for an accelerator if there is one. Questions and scores
            are where their images are.
        **options: Arguments of `GeneratorModule`. The network is a `TransformerGenerator` or a
            partial of it, the vocabularies are those of batches, and max_length is a number of
            tokens.
    """

    version: ClassVar[int] = 1

    network: TransformerGenerator

    reads_pixels = True
    """It reads images, although it needs no image features."""

    def __init__(self, *, device: Annotated[str, NO_EFFECT] = "cpu", **options: Any) -> None:
        super().__init__(**options)
        self.question_vocabulary = self.network.questions
        self.answer_words = self.network.answers
        self._asked_on = device

    @override
    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        self._leave_cpu()
        found = super().sample(images, answers, num_samples, strategy, generator)
        here = images.index.device
        return replace(
            found,
            tokens=found.tokens.to(here),
            log_likelihood=found.log_likelihood.to(here),
            pair=found.pair.to(here),
        )

    @override
    def likelihood(
        self,
        images: ImageBatch,
        answers: list[str],
        questions: list[str],
        samples: int | None = None,
    ) -> Likelihood:
        self._leave_cpu()
        found = super().likelihood(images, answers, questions, samples)
        return Likelihood(found.value.to(images.index.device))

    @override
    def trained_parameters(self) -> Iterable[nn.Parameter]:
        return [value for value in self.parameters() if value.requires_grad]

    @override
    def component(self) -> dict[str, Any]:
        """Returns the words of the batches and the network's settings, for a checkpoint.

        The folder of the model is left out: `from_checkpoint` needs it in `network`.
        """
        component = super().component()
        settings = component["network"]
        arguments = {name: one for name, one in settings["arguments"].items() if name != "path"}
        return {
            **component,
            "question_words": list(self.network.question_words.words),
            "answer_words": list(self.network.answer_words.words),
            "network": {**settings, "arguments": arguments},
        }

    def _leave_cpu(self) -> None:
        """Moves the model to an accelerator; a Trainer leaves it on the CPU when it ends."""
        if self.device.type == "cpu" and not on_cpu(self._asked_on):
            self.to(torch.accelerator.current_accelerator())
