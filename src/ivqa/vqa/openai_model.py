"""A VQA model behind an OpenAI-compatible endpoint."""

import math
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch, PixelSource
from ivqa.errors import UserError
from ivqa.ranges import Count
from ivqa.terminal import terminal
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.normalisation import normalise_answer
from ivqa.vqa.answer_estimates import (
    Scoring,
    frequency_log_prob,
    reached_answers,
    unreached_log_prob,
)
from ivqa.vqa.image_urls import EncodedImage, encode_image
from ivqa.vqa.openai_endpoint import Endpoint
from ivqa.vqa.openai_errors import RequestRefused
from ivqa.vqa.openai_replies import Choice
from ivqa.vqa.openai_requests import ChatRequest

_KEPT_IMAGES = 512  # encoded images in memory: about 100 kB each
_Pair = tuple[EncodedImage, str]  # an image and the prompt about it
_PROBES = 8  # requests, one by one, until a response shows whether it has log-probabilities


class OpenAIModel(nn.Module):
    """An `Answerer` that writes its answers behind an endpoint.

    Args:
        path: Name of the model at the endpoint.
        endpoint: Sends the requests.
        prompt: The prompt, with {question} in it.
        scoring: How phi is estimated; None takes the defaults.
        max_new_tokens: Length of an answer in tokens.
        max_side: Largest width and height of an image in pixels; larger images are reduced.
        lower_case: Whether answers are put into lower case without a full stop at their end, as
            annotators write them. Where all annotators agree, the official evaluation normalises
            nothing and counts "Yes." as wrong.
        settings: Further fields of every request, such as {reasoning_effort: low}. They replace
            fields of the same name; null leaves a field out.

    Raises:
        UserError: The prompt has no {question}.
    """

    answers: AnswerVocabulary | None = None

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        *,
        prompt: str = "{question}",
        scoring: Scoring | None = None,
        max_new_tokens: Count = 16,
        max_side: Count = 2048,
        lower_case: bool = True,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if "{question}" not in prompt:
            raise UserError(f"the prompt '{prompt}' must have {{question}} in it")
        self.path = path
        self.endpoint = endpoint
        self.prompt = prompt
        self.scoring = scoring or Scoring()
        self.max_new_tokens = max_new_tokens
        self.max_side = max_side
        self.lower_case = lower_case
        self.settings = dict(settings or {})
        self._has_logprobs = {"logprobs": True, "samples": False}.get(self.scoring.phi)
        self._asks_logprobs = self.scoring.phi != "samples"
        self._scores, self._unreached = 0, 0
        self._source: PixelSource | None = None
        self._encoded: OrderedDict[int, EncodedImage] = OrderedDict()

    @classmethod
    def load(
        cls,
        path: str,
        endpoint: Endpoint,
        *,
        answers: AnswerVocabulary | None = None,
        **arguments: Any,
    ) -> Self:
        """Builds the model, and checks that the endpoint serves it.

        Args:
            path: Name of the model at the endpoint.
            endpoint: Sends the requests.
            answers: Must be None: an endpoint writes its answers.
            arguments: Further arguments of the constructor.

        Returns:
            The model.

        Raises:
            UserError: The endpoint is down or refuses the key, or has no such model; or there is a
                closed set of answers.
        """
        if answers is not None:
            # The returned alternatives do not reach most answers of a closed set, so that the best
            # of the set is not known.
            raise UserError(
                "a model behind an endpoint writes its answers; leave num_answers=null, and let "
                "the server restrict them if it can"
            )
        model = cls(path, endpoint, **arguments)
        endpoint.check(path)
        limit = endpoint.max_requests
        most = "any number of" if limit is None else f"at most {limit:,}"
        _tell(f"{path} at {endpoint.base_url}: {most} requests (max_requests)")
        return model

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        """Returns the written answers, decoded at temperature 0.

        Args:
            images: Images of B questions, with pixels.
            questions: B questions.

        Returns:
            B answers; `REFUSAL` for a refusal.

        Raises:
            UserError: The batch has no pixels, or the endpoint fails, see `Endpoint.ask`.
            ValueError: Images and questions differ in number.
        """
        texts = [choice.text for choice in self._greedy(self._pairs(images, questions))]
        return [text.lower().removesuffix(".") for text in texts] if self.lower_case else texts

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        """Estimates log phi(a | I, q); answers are compared after official normalisation.

        With log-probabilities one request scores any number of answers; see `reached_answers` for
        what they mean and `unreached_log_prob` for answers that they do not reach. Otherwise it is
        the smoothed frequency among sampled answers, see `frequency_log_prob`.

        Args:
            images: Images of B questions, with pixels.
            questions: B questions.
            answers: The answers to score.

        Returns:
            Scores, (B, len(answers)), float32.

        Raises:
            UserError: There are no answers to score or no pixels, or the endpoint fails.
            ValueError: Images and questions differ in number.
        """
        if answers is None:
            raise UserError("this model answers in its own words: say which answers to score")
        pairs = self._pairs(images, questions)
        wanted = [normalise_answer(answer) for answer in answers]
        if self._has_logprobs is None:
            self._find_out(pairs)
        self._scores += len(pairs) * len(wanted)
        if self._has_logprobs is False:
            counts = [Counter(map(normalise_answer, texts)) for texts in self._sampled(pairs)]
            rows = [[frequency_log_prob(own, answer) for answer in wanted] for own in counts]
        else:
            rows = [self._row(choice, wanted) for choice in self._greedy(pairs)]
        return torch.tensor(rows, dtype=torch.float32).view(len(pairs), len(wanted))

    def usage(self) -> dict[str, float]:
        """Returns what the command has asked, and how phi was estimated.

        Returns:
            served/requests, served/reused, served/retries, served/refusals, served/prompt_tokens
            and served/completion_tokens, see `Usage`. If phi was asked for: served/phi_logprobs, 1
            if it comes from log-probabilities and 0 if it comes from samples, and
            served/phi_samples, the number of samples, or served/phi_unreached, the share of
            (question, answer) pairs that the log-probabilities do not reach.
        """
        figures = {f"served/{name}": value for name, value in self.endpoint.figures().items()}
        if self._scores and self._has_logprobs is False:
            figures["served/phi_logprobs"] = 0.0
            figures["served/phi_samples"] = float(self.scoring.num_samples)
        elif self._scores:
            figures["served/phi_logprobs"] = 1.0
            figures["served/phi_unreached"] = self._unreached / self._scores
        return figures

    def _row(self, choice: Choice, answers: Sequence[str]) -> list[float]:
        """Log phi of normalised answers by the log-probabilities of one written answer."""
        tokens = choice.tokens or ()
        reached, least = reached_answers(tokens), unreached_log_prob(tokens)
        # A log-probability of -100 or so is 0 as a probability.
        known = [reached.get(answer, 0.0) for answer in answers]
        self._unreached += sum(not probability for probability in known)
        return [math.log(probability) if probability else least for probability in known]

    def _pairs(self, images: ImageBatch, questions: list[str]) -> list[_Pair]:
        """Encodes the images and writes the prompts of B questions."""
        if len(images) != len(questions):
            raise ValueError(
                f"{len(questions)} questions for {len(images)} images; give one question an image"
            )
        if images.source is None:
            raise UserError("this model reads pixels, but the batch has none; give an image folder")
        ids = images.ids.cpu()[images.index.cpu()].tolist()
        encoded = self._images(images.source, list(dict.fromkeys(ids)))
        prompts = [self.prompt.replace("{question}", question) for question in questions]
        return [(encoded[image_id], text) for image_id, text in zip(ids, prompts, strict=True)]

    def _images(self, source: PixelSource, ids: Sequence[int]) -> dict[int, EncodedImage]:
        """Encodes images, in threads; the last ones of the same source are kept in memory."""
        if source is not self._source:  # such as another level of noise
            self._source = source
            self._encoded.clear()
        absent = [image_id for image_id in ids if image_id not in self._encoded]
        with ThreadPoolExecutor() as pool:
            new = pool.map(lambda image_id: encode_image(source, image_id, self.max_side), absent)
            self._encoded.update(zip(absent, new, strict=True))
        wanted = {image_id: self._encoded[image_id] for image_id in ids}
        while len(self._encoded) > _KEPT_IMAGES:
            self._encoded.popitem(last=False)
        return wanted

    def _greedy(self, pairs: Sequence[_Pair]) -> list[Choice]:
        """The answers at temperature 0, with log-probabilities unless the endpoint refuses them."""
        if self._has_logprobs is None:
            self._find_out(pairs)
        settings: dict[str, Any] = {"temperature": 0, "max_tokens": self.max_new_tokens}
        if self._asks_logprobs:
            settings |= {"logprobs": True, "top_logprobs": self.scoring.top_logprobs}
        choices = [found[0] for found in self._ask(pairs, settings)]
        if self.scoring.phi == "logprobs" and any(
            choice.tokens is None and choice.text and not choice.is_refusal for choice in choices
        ):
            raise UserError(
                f"{self.endpoint.base_url} returns no log-probabilities; set scoring.phi=samples"
            )
        return choices

    def _find_out(self, pairs: Sequence[_Pair]) -> None:
        """Asks questions until a response shows whether the endpoint returns log-probabilities."""
        for pair in pairs[:_PROBES]:
            self._has_logprobs = True
            try:
                (choice,) = self._greedy([pair])
            except RequestRefused as error:
                self._has_logprobs = None
                if "logprob" not in str(error):
                    raise
                self._has_logprobs = self._asks_logprobs = False
                _tell(f"{error}; phi is estimated from samples")
                return
            # An endpoint that ignores the setting is asked on with it: its responses keep their
            # names on disk.
            self._has_logprobs = choice.tokens is not None
            if choice.text and not choice.is_refusal:
                return
            self._has_logprobs = self._has_logprobs or None

    def _sampled(self, pairs: Sequence[_Pair]) -> list[list[str]]:
        """`scoring.num_samples` answers to each question, drawn at `scoring.temperature`."""
        number = self.scoring.num_samples
        texts: list[list[str]] = [[] for _ in pairs]
        seed = 0
        # Some endpoints return fewer answers than the n that was asked for, often one.
        while rows := [row for row, own in enumerate(texts) if len(own) < number]:
            for missing in sorted({number - len(texts[row]) for row in rows}):
                asked = [row for row in rows if number - len(texts[row]) == missing]
                settings = {
                    "temperature": self.scoring.temperature,
                    "max_tokens": self.max_new_tokens,
                    "n": missing,
                    "seed": seed,
                }
                drawn = self._ask([pairs[row] for row in asked], settings)
                for row, choices in zip(asked, drawn, strict=True):
                    texts[row] += [choice.text for choice in choices][:missing]
            seed += 1
        return texts

    def _ask(self, pairs: Sequence[_Pair], settings: Mapping[str, Any]) -> list[tuple[Choice, ...]]:
        merged = {**settings, **self.settings}
        kept = {name: value for name, value in merged.items() if value is not None}
        return self.endpoint.ask(
            [ChatRequest(self.path, image, text, kept) for image, text in pairs]
        )


def _tell(text: str) -> None:
    terminal().print(text, soft_wrap=True, markup=False, highlight=False)
