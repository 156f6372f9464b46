"""Claim: Algorithm 1 searches 1,000 z for each of 100 pairs, verified by MLB, in under a minute.

The networks have the sizes of conf/model and random weights, which is the worst case: nearly every
sample is a question of its own, so that none is answered twice. The peer does the same work the
way Algorithm 1 is written, a z at a time: sample, ask the legality model, ask the VQA model; it is
timed on 20 z and scaled. The limit is the time that the floating-point operations of the search's
products and convolutions take in this machine's fastest product of two matrices; they are counted
in a search with a tenth of the z.
"""

import time
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis import BeliefSearch, LegalityCNN, LegalityModule
from ivqa.generators import GeneratorModule, VariationalGenerator
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa import MLB, RecurrentEncoder, VQAModule

PAIRS, LATENTS, PEER_LATENTS = 100, 1000, 20


def run() -> list[dict[str, Any]]:
    torch.manual_seed(0)
    words = Vocabulary([f"w{number}" for number in range(120)])
    answers = AnswerVocabulary([f"a{number}" for number in range(60)])
    questioner = GeneratorModule(
        network=partial(
            VariationalGenerator,
            embedding_size=256,
            hidden_size=256,
            answer_size=128,
            latent_size=32,
            joint_size=256,
            feed_condition=True,
        ),
        question_vocabulary=words,
        answer_words=Vocabulary(answers.answers),
        feature_sizes={"concepts": 415},
        max_length=10,
    )
    encoder = partial(RecurrentEncoder, embedding_size=128, size=256, cell="gru")
    answerer = VQAModule(
        network=partial(MLB, question_encoder=encoder, joint_size=256, num_glimpses=2),
        question_vocabulary=words,
        answers=answers,
        feature_sizes={"grid": 128},
    )
    legality_model = LegalityModule(
        network=partial(
            LegalityCNN, widths=(1, 2, 3, 4, 5, 6, 8), maps=(32, 64, 64, 64, 64, 32, 32)
        ),
        question_vocabulary=words,
    )
    images = ImageBatch(
        ids=torch.arange(PAIRS),
        index=torch.arange(PAIRS),
        grid=torch.randn(PAIRS, 144, 128),
        concepts=torch.rand(PAIRS, 415),
    )
    asked = [answers.answers[pair % len(answers)] for pair in range(PAIRS)]
    models = {"one": questioner}, answerer, answers, legality_model
    search = BeliefSearch(*models, num_latents=LATENTS)
    start = time.perf_counter()
    found = search(images, asked, torch.Generator().manual_seed(0))
    seconds = time.perf_counter() - start

    fewer = max(LATENTS // 10, 1)
    # The counter knows the product of the decoder out of place alone.
    in_place = {torch.ops.aten.addmm_: lambda _, a, b, **__: 2 * a[0] * a[1] * b[1]}
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        BeliefSearch(*models, num_latents=fewer)(images, asked, torch.Generator().manual_seed(0))
    limit = counter.get_total_flops() * LATENTS / fewer / _fastest()

    generator = torch.Generator().manual_seed(0)
    start = time.perf_counter()
    for _ in range(PEER_LATENTS):
        questions = questioner.sample(images, asked, 1, generator=generator)
        legality_model.probabilities(questions.text)
        answerer.answer(images, questions.text)
    peer = (time.perf_counter() - start) * LATENTS / PEER_LATENTS
    return [
        {
            "z a pair x pairs": f"{LATENTS} x {PAIRS}",
            "distinct questions": len(found.candidates),
            "ivqa, s": round(seconds, 1),
            "a z at a time, s": round(peer, 1),
            "ratio": peer / seconds,
            "limit, s": round(limit, 1),
            "of the limit": seconds / limit,
        }
    ]


def _fastest(size: int = 2048) -> float:
    """Floating-point operations a second of the fastest of ten products of two matrices."""
    first, second = torch.randn(2, size, size)
    times = []
    for _ in range(10):
        start = time.perf_counter()
        first @ second
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times)
