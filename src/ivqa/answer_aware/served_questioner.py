"""A vision-language model behind an endpoint that is told to ask questions; nothing is trained."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.generators import Questions, Strategy
from ivqa.ranges import NO_EFFECT, Count
from ivqa.text.tokens import detokenise, tokenise
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa.served.answer_estimates import Scoring
from ivqa.vqa.served.openai_endpoint import Endpoint
from ivqa.vqa.served.openai_model import OpenAIModel
from ivqa.vqa.served.openai_replies import REFUSAL


class ServedQuestioner(nn.Module):
    """A `Questioner` that samples questions from an OpenAI-compatible endpoint.

    An endpoint does not score given questions, so that pools cannot be ranked. `log_likelihood` of
    a sample is the log of its frequency among the samples of its pair.

    Args:
        path: Name of the model at the endpoint.
        endpoint: Sends the requests.
        question_vocabulary: Words of the questions; others become <unk> in the tokens.
        prompt: The prompt, with {answer} in it.
        max_new_tokens: Length of a question in tokens, thoughts included.
        settings: Further fields of every request, see `OpenAIModel`.

    Raises:
        UserError: The prompt has no {answer}, or the endpoint does not serve the model.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        path: str,
        endpoint: Annotated[Endpoint, NO_EFFECT],
        *,
        question_vocabulary: Vocabulary,
        prompt: str = "{answer}",
        max_new_tokens: Count = 64,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.check_arguments({"prompt": prompt})
        self.question_vocabulary = question_vocabulary
        self._client = OpenAIModel.load(
            path,
            endpoint,
            prompt=prompt.replace("{answer}", "{question}"),  # what differs between requests
            max_new_tokens=max_new_tokens,
            scoring=Scoring(phi="samples"),  # asks for no log-probabilities
            lower_case=False,
            settings=settings,
        )

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks the prompt; every command calls this before it starts.

        Raises:
            UserError: The prompt has no {answer}.
        """
        if "{answer}" not in arguments["prompt"]:
            raise UserError(f"the prompt must have {{answer}} in it, not '{arguments['prompt']}'")

    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Samples questions at the temperature of the strategy; see `Questioner.sample`.

        A deterministic strategy takes the text of temperature 0. The endpoint draws, so that
        `generator` has no effect; equal requests are answered from disk. A reply without a question
        is an empty one.
        """
        if strategy is not None and strategy.deterministic:
            greedy = self._client.answer(images, answers)
            drawn = [[text] * num_samples for text in greedy]
        else:
            temperature = float(getattr(strategy, "temperature", 1.0))
            pairs = self._client.pairs(images, answers)
            drawn = self._client.sampled(pairs, num_samples, temperature)
        texts: list[str] = []
        scores: list[float] = []
        for own in drawn:
            written = ["" if text == REFUSAL else text for text in own]
            written += [""] * (num_samples - len(written))
            asked = [detokenise(tokenise(text)) for text in written]
            counts = Counter(asked)
            texts += asked
            scores += [math.log(counts[text] / num_samples) for text in asked]
        return Questions(
            tokens=self.question_vocabulary.encode(texts),
            text=texts,
            log_likelihood=torch.tensor(scores),
            pair=torch.arange(len(answers)).repeat_interleave(num_samples),
        )

    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Not known of a served model.

        Raises:
            UserError: Always.
        """
        raise UserError(
            "an endpoint gives no probabilities of given questions: set "
            "model.benchmark.pools=null, or choose model=prompted, which loads the model here"
        )

    def usage(self) -> dict[str, float]:
        """Returns what was asked and paid for; see `OpenAIModel.usage`."""
        return self._client.usage()
