"""A VQA model behind an OpenAI-compatible endpoint."""

import math
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ivqa.data.batches.batch import ImageBatch, PixelSource
from ivqa.errors import UserError
from ivqa.ranges import NO_EFFECT, Count
from ivqa.terminal import terminal
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.normalisation import normalise_answer
from ivqa.text.thoughts import THOUGHTS, Tags
from ivqa.vqa.served.answer_estimates import Scoring, frequency_log_probs, log_phi
from ivqa.vqa.served.image_urls import EncodedImage, encode_image
from ivqa.vqa.served.openai_client import LogprobsRefused, RequestRefused, TakenFields
from ivqa.vqa.served.openai_endpoint import REMEDY, Endpoint
from ivqa.vqa.served.openai_replies import Choice, read_choices
from ivqa.vqa.served.openai_requests import ChatRequest

_KEPT_IMAGES = 512  # encoded images in memory: about 100 kB each
_Pair = tuple[EncodedImage, str]  # an image and the prompt about it
_MOST_LOST = 0.01  # share of answers that are cut or failed without a warning
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
            fields of the same name; null leaves a field out. Where the first request is refused,
            max_tokens becomes max_completion_tokens, or temperature is left out.
        thoughts: Tags around thoughts, which are no part of an answer; None takes the usual ones,
            see `THOUGHTS`.

    Raises:
        UserError: The prompt has no {question}.
    """

    version: ClassVar[int] = 1

    answers: AnswerVocabulary | None = None

    def __init__(
        self,
        path: str,
        endpoint: Annotated[Endpoint, NO_EFFECT],
        *,
        prompt: str = "{question}",
        scoring: Scoring | None = None,
        max_new_tokens: Count = 16,
        max_side: Count = 2048,
        lower_case: bool = True,
        settings: Mapping[str, Any] | None = None,
        thoughts: Tags | None = None,
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
        self.thoughts = THOUGHTS if thoughts is None else thoughts
        self._has_logprobs = {"logprobs": True, "samples": False}.get(self.scoring.phi)
        self._asks_logprobs = self.scoring.phi != "samples"
        self._scores, self._by_samples, self._unreached = 0, 0, 0
        self._flaw = ""  # why phi is not estimated from log-probabilities
        self._told: set[str] = set()
        self._fields = TakenFields()
        self._source: PixelSource | None = None
        self._encoded: OrderedDict[int, EncodedImage] = OrderedDict()

    @classmethod
    def load(
        cls,
        path: str,
        endpoint: Annotated[Endpoint, NO_EFFECT],
        *,
        answers: AnswerVocabulary | None = None,
        **arguments: Any,
    ) -> Self:
        """Builds the model, and checks that the endpoint serves it.

        `answers` must be None: an endpoint writes its answers.

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
        """Returns the written answers, decoded at temperature 0; see `Answerer.answer`.

        A refusal is `REFUSAL`, and "" where there is no answer.

        Raises:
            UserError: The batch has no pixels, or the endpoint fails, see `Endpoint.ask`.
            ValueError: Images and questions differ in number.
        """
        choices = self._greedy(self.pairs(images, questions))
        if choices and all(choice.is_lost for choice in choices):
            self._tell_once(f"warning: {self.path} gave no answer (served/failed); ", REMEDY)
        texts = [choice.text for choice in choices]
        return [text.lower().removesuffix(".") for text in texts] if self.lower_case else texts

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        """Estimates log phi(a | I, q) of given answers; see `Answerer.log_scores`.

        Answers are compared after official normalisation. With log-probabilities one request scores
        any number of answers; see `reached_answers` for what they mean and `unreached_log_prob` for
        answers that they do not reach. Otherwise it is the smoothed frequency among sampled
        answers, see `frequency_log_probs`.

        Raises:
            UserError: There are no answers to score or no pixels, or the endpoint fails.
            ValueError: Images and questions differ in number.
        """
        if answers is None:
            raise UserError("this model answers in its own words: say which answers to score")
        pairs = self.pairs(images, questions)
        wanted = [normalise_answer(answer) for answer in answers]
        if self._has_logprobs is None:
            self._find_out(pairs)
        if self._has_logprobs is False:
            if self._flaw:  # "" where samples are set
                self._tell_once("phi is estimated from samples, because ", self._flaw)
            rows = self._from_samples(pairs, wanted)
        else:
            choices = self._greedy(pairs)
            rows = [self._from_tokens(choice, wanted) for choice in choices]
            flawed = [row for row, one in enumerate(choices) if one.is_answer and not one.tokens]
            if flawed:
                reason = self._faulty(choices[flawed[0]])
                self._tell_once("phi of some answers is estimated from samples, because ", reason)
                sampled = self._from_samples([pairs[row] for row in flawed], wanted)
                for row, values in zip(flawed, sampled, strict=True):
                    rows[row] = values
        self._scores += len(pairs) * len(wanted)
        return torch.tensor(rows, dtype=torch.float32).view(len(pairs), len(wanted))

    def usage(self) -> dict[str, float]:
        """Returns what was asked, and warns if over one percent of the answers were cut or failed.

        Returns:
            served/requests, served/reused, served/retries, served/answers, served/refusals,
            served/cut, served/failed, served/prompt_tokens and served/completion_tokens, see
            `Usage`, and served/cost if the prices are known. If phi was asked for:
            served/phi_logprobs, the share of (question, answer) pairs whose phi comes from
            log-probabilities; served/phi_samples, the number of samples, if others come from
            samples; and served/phi_unreached, the share of the first that the log-probabilities do
            not reach.
        """
        usage = self.endpoint.usage
        if max(usage.cut, usage.failed) > _MOST_LOST * usage.answers:
            _tell(
                f"warning: of {usage.answers:,} answers {usage.cut:,} are cut (served/cut) and "
                f"{usage.failed:,} are none (served/failed); {REMEDY}"
            )
        figures = {f"served/{name}": value for name, value in self.endpoint.figures().items()}
        if self._scores:
            figures["served/phi_logprobs"] = 1 - self._by_samples / self._scores
        if self._by_samples:
            figures["served/phi_samples"] = float(self.scoring.num_samples)
        if by_tokens := self._scores - self._by_samples:
            figures["served/phi_unreached"] = self._unreached / by_tokens
        return figures

    def _from_tokens(self, choice: Choice, answers: Sequence[str]) -> list[float]:
        """Log phi of normalised answers by the log-probabilities of one written answer."""
        if not choice.is_answer or not choice.tokens:
            self._unreached += len(answers) * (not choice.is_answer)
            return [-math.inf] * len(answers)
        values, unreached = log_phi(choice.tokens, answers)
        self._unreached += unreached
        return values

    def _from_samples(self, pairs: Sequence[_Pair], answers: Sequence[str]) -> list[list[float]]:
        """Log phi of normalised answers by the frequencies of sampled ones."""
        self._by_samples += len(pairs) * len(answers)
        drawn = self.sampled(pairs, self.scoring.num_samples, self.scoring.temperature)
        counts = [Counter(map(normalise_answer, texts)) for texts in drawn]
        return [frequency_log_probs(own, answers) for own in counts]

    def pairs(self, images: ImageBatch, questions: list[str]) -> list[_Pair]:
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
        if self.scoring.phi == "logprobs":
            for choice in choices:
                if choice.is_answer and not choice.tokens:
                    raise UserError(f"{self._faulty(choice)}; set scoring.phi=samples")
        return choices

    def _find_out(self, pairs: Sequence[_Pair]) -> None:
        """Asks questions until an answer shows whether the endpoint returns log-probabilities."""
        for pair in pairs[:_PROBES]:
            self._has_logprobs = True
            try:
                (choice,) = self._greedy([pair])
            except LogprobsRefused as error:
                self._has_logprobs = self._asks_logprobs = False
                self._flaw = str(error)
                return
            # An endpoint that ignores the setting is asked on with it: its responses keep their
            # names on disk.
            self._has_logprobs = None
            if choice.is_answer:
                self._has_logprobs = bool(choice.tokens)
                self._flaw = self._faulty(choice)
                return

    def _faulty(self, choice: Choice) -> str:
        usable = f" that can be used: {choice.flaw}" if choice.flaw else ""
        return f"{self.endpoint.base_url} returns no log-probabilities{usable}"

    def sampled(self, pairs: Sequence[_Pair], number: int, temperature: float) -> list[list[str]]:
        """Draws `number` answers to each question, at a temperature above 0.

        Refusals are answers; samples that are cut before their answer or failed are left out.
        """
        if self.settings.get("temperature") == 0:
            raise UserError(
                "settings.temperature=0 makes all samples equal; remove it from settings: answers "
                "are decoded at temperature 0 anyway, and samples at scoring.temperature"
            )
        drawn: list[list[Choice]] = [[] for _ in pairs]
        seed = 0
        # Some endpoints return fewer answers than the n that was asked for, often one.
        while rows := [row for row, own in enumerate(drawn) if len(own) < number]:
            if seed and self.settings.get("seed") is not None:
                raise UserError(
                    f"settings.seed={self.settings['seed']} makes all samples equal, because the "
                    "endpoint draws one for each request; remove it from settings"
                )
            for missing in sorted({number - len(drawn[row]) for row in rows}):
                asked = [row for row in rows if number - len(drawn[row]) == missing]
                settings = {
                    "temperature": temperature,
                    "max_tokens": self.max_new_tokens,
                    "n": missing,
                    "seed": seed,
                }
                found = self._ask([pairs[row] for row in asked], settings, draw=seed)
                for row, choices in zip(asked, found, strict=True):
                    drawn[row] += choices[:missing]
            seed += 1
        return [[choice.text for choice in own if not choice.is_lost] for own in drawn]

    def _ask(
        self, pairs: Sequence[_Pair], settings: Mapping[str, Any], draw: int = 0
    ) -> list[tuple[Choice, ...]]:
        if not self._fields.accepted and len(pairs) > 1:
            self._ask(pairs[:1], settings, draw)  # one request finds out what the endpoint refuses
        merged = {**settings, **self.settings}
        kept = self._fields.translated({k: v for k, v in merged.items() if v is not None})
        draw = 0 if "seed" in kept else draw  # the requests differ by the seed
        requests = [ChatRequest(self.path, image, text, kept, draw) for image, text in pairs]
        try:
            found = self.endpoint.ask(requests, partial(read_choices, thoughts=self.thoughts))
        except RequestRefused as error:
            if not self._fields.learn(error, kept):
                raise
            if "temperature" not in self._fields.translated(kept):
                self._tell_once("warning: no temperature is taken: ", "answers are sampled")
            return self._ask(pairs, settings, draw)
        self._fields.accepted = True
        return found

    def _tell_once(self, text: str, reason: str) -> None:
        if text not in self._told:
            self._told.add(text)
            _tell(text + reason)


def _tell(text: str) -> None:
    terminal().print(text, soft_wrap=True, markup=False, highlight=False)
