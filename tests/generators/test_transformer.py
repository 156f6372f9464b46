"""A transformers model as a generator: its likelihood and samples, and what it refuses."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_vlm_whole import tiny_qwen35
from tiny_writer import (
    ANSWER_WORDS,
    ANSWERS,
    IMAGES,
    LORA,
    QUESTION_WORDS,
    QUESTIONS,
    batch,
    images,
    module_of,
    randomise,
    tiny_writer,
)
from torch import Tensor
from transformers import AutoModelForImageTextToText, AutoProcessor

from ivqa.config.values import value_fault
from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.generators import Beam, Greedy, Sampling, ask
from ivqa.generators.transformers.lora import LowRankSettings
from ivqa.generators.transformers.transformer import TransformerGenerator
from ivqa.generators.transformers.transformer_module import TransformerModule
from ivqa.text.vocabulary import EOS, UNK, Tokens, Vocabulary
from ivqa.vlm.loading import load_pretrained
from tiny_transformers import Pictures, tiny_blip2, tiny_paligemma, tiny_qwen

pytestmark = pytest.mark.usefixtures("on_cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_writer(tmp_path_factory.mktemp("writer"))


@pytest.fixture(scope="module")
def learnt(folder: Path) -> TransformerModule:
    """A module with adapters that has learnt the four questions."""
    module = module_of(folder, lora=LORA)
    optimizer = torch.optim.Adam(module.trained_parameters(), lr=0.01)
    losses = []
    for _ in range(90):
        loss = -module.network(batch()).log_likelihood.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5
    return module.eval()


@torch.no_grad()
def with_labels(folder: Path, image: int, answer: str, question: str) -> float:
    """log p(q | I, a) by one call of transformers with labels, without this package."""
    model = AutoModelForImageTextToText.from_pretrained(folder)
    processor = AutoProcessor.from_pretrained(folder)
    text = f"<image> Answer: {answer}. Ask the question. "
    prompt = processor(text=text, images=Pictures().open(image), return_tensors="pt")
    own = processor.tokenizer(question, add_special_tokens=False)["input_ids"]
    written = torch.tensor([[*own, processor.tokenizer.eos_token_id]])
    ids = torch.cat([prompt["input_ids"], written], dim=1)
    labels = ids.clone()
    labels[:, : -written.shape[1]] = -100
    given = {"pixel_values": prompt["pixel_values"], "attention_mask": torch.ones_like(ids)}
    loss = model(input_ids=ids, labels=labels, **given).loss
    return -float(loss) * written.shape[1]


def test_likelihood_is_that_of_transformers_with_labels(folder: Path) -> None:
    module = module_of(folder)
    expected = [
        with_labels(folder, *case)
        for case in zip(IMAGES, ANSWERS, ["is it red ?", *[q + " ?" for q in QUESTIONS[1:]]],
                        strict=True)
    ]  # fmt: skip
    texts = ["is  it red", "What color is it?", "How many are there ?", "Is it?"]
    scores = module.log_likelihood(images(), ANSWERS, texts)
    torch.testing.assert_close(scores, torch.tensor(expected), atol=1e-4, rtol=0)
    # The batch has words of the data, and likelihoods per word count those.
    output = module.network.eval()(batch())
    torch.testing.assert_close(output.log_likelihood, scores, atol=1e-4, rtol=0)
    assert output.num_tokens.tolist() == [4, 5, 5, 3]


@pytest.mark.parametrize("build", [tiny_qwen, tiny_paligemma, tiny_blip2])
def test_other_families_equal_a_plain_pass(build: Any, tmp_path: Path) -> None:
    """Positions with three axes, a prefix that is read in both directions, an encoder-decoder."""
    path = build(tmp_path)
    before = "<|vision_start|> <|image_pad|> <|vision_end|> " if build is tiny_qwen else ""
    before = "<image>" if build is tiny_paligemma else before
    network = TransformerGenerator(
        question_words=QUESTION_WORDS,
        answer_words=ANSWER_WORDS,
        path=str(path),
        prompt=before + "answer : {answer} question",
    ).eval()
    texts = ["a cat", "dark red", "2", "no"]
    conditions = network.conditions(images(), network.answers.encode(texts))
    own = [[12, 15], [14], [], [13, 13, 16]]
    tokens = Tokens(
        torch.tensor([[at + 4 for at in row] + [0] * (3 - len(row)) for row in own]),
        torch.tensor([len(row) for row in own]),
    )
    with torch.no_grad():
        scores = network.token_log_probs(tokens, None, conditions).sum(dim=1)
    with_gradient = network.token_log_probs(tokens, None, conditions).sum(dim=1)
    model, processor = load_pretrained(str(path), AutoModelForImageTextToText)
    for row, (image, text) in enumerate(zip(IMAGES, texts, strict=True)):
        read = f"{before}answer : {text} question"
        inputs = processor(text=read, images=Pictures().open(image), return_tensors="pt")
        inputs.pop("labels", None)
        expected = plain_score(model, inputs, [*own[row], 3])
        torch.testing.assert_close(scores[row], expected, atol=1e-4, rtol=0)
        torch.testing.assert_close(with_gradient[row].detach(), expected, atol=1e-4, rtol=0)
    # Three questions of each pair; some end before others, but of PaliGemma's 1,200 tokens one is
    # hardly ever the end.
    given = conditions.select(torch.arange(4).repeat_interleave(3))
    with torch.no_grad():
        step, state = network.decoding(given, None)
        decoded = Sampling()(step, state, 5, torch.Generator().manual_seed(3))
        again = network.token_log_probs(decoded.tokens, None, given).sum(dim=1)
    assert build is tiny_paligemma or decoded.tokens.lengths.unique().numel() > 1
    torch.testing.assert_close(decoded.log_likelihood, again, atol=1e-4, rtol=0)


def test_a_question_is_spelled_as_the_tokeniser_spells_it(tmp_path: Path) -> None:
    """With byte pairs, in which a text of capitals and digits has several spellings."""
    network = TransformerGenerator(
        question_words=QUESTION_WORDS, answer_words=ANSWER_WORDS, path=str(tiny_qwen35(tmp_path))
    ).eval()
    texts = ["What's on the T-shirt?", "How many dogs, are there?", "is it 2.5", "What color?"]
    written = ["What's on the t-shirt?", "How many dogs are there?", "Is it 2.5?", "What color?"]
    tokens = network.questions.encode(texts)
    own = network.processor.tokenizer(written, add_special_tokens=False)["input_ids"]
    assert [(row - 4).tolist() for row in _rows(tokens)] == own
    assert network.questions.decode(tokens) == written
    answers = network.answers.encode(ANSWERS)
    assert network.answers.decode(answers) == ANSWERS
    with torch.no_grad():
        conditions = network.conditions(images(), answers)
        scores = network.token_log_probs(tokens, None, conditions).sum(dim=1)
        step, state = network.decoding(conditions, None)
        decoded = Greedy()(step, state, 5)
        again = network.token_log_probs(decoded.tokens, None, conditions).sum(dim=1)
    torch.testing.assert_close(decoded.log_likelihood, again, atol=1e-4, rtol=0)
    content = [{"type": "image"}, {"type": "text", "text": "Answer: dark red. Ask the question."}]
    prompt = network.processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, enable_thinking=False
    )
    inputs = network.processor(text=prompt, images=Pictures().open(9), return_tensors="pt")
    end = network.processor.tokenizer.eos_token_id
    expected = plain_score(network.model, inputs, [*own[1], end])
    torch.testing.assert_close(scores[1], expected, atol=1e-4, rtol=0)


@torch.no_grad()
def plain_score(model: Any, inputs: Any, tokens: list[int]) -> Tensor:
    """log p of tokens after a prompt, from the logits of one sequence."""
    written = torch.tensor([tokens])
    if model.config.is_encoder_decoder or model.config.text_config.is_encoder_decoder:
        decoded = torch.cat([torch.zeros(1, 1, dtype=torch.int64), written[:, :-1]], dim=1)
        logits = model(**inputs, decoder_input_ids=decoded).logits
    else:
        more = {"input_ids": written[:, :-1], "attention_mask": torch.ones_like(written[:, :-1])}
        more["mm_token_type_ids"] = torch.zeros_like(written[:, :-1])
        more["token_type_ids"] = torch.ones_like(written[:, :-1])
        for name, value in more.items():
            if name in inputs:
                inputs[name] = torch.cat([inputs[name], value], dim=1)
        logits = model(**inputs).logits[:, -written.shape[1] :]
    return logits.log_softmax(dim=2).gather(2, written[:, :, None]).sum()


@pytest.mark.parametrize("strategy", [Greedy(), Sampling(), Beam(size=2)], ids=repr)
def test_the_score_of_a_sample_is_its_likelihood(learnt: TransformerModule, strategy: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    questions = learnt.sample(images(), ANSWERS, 5, strategy, generator)
    assert questions.pair.tolist() == [row for row in range(4) for _ in range(5)]
    conditions, row = learnt.encode_pairs(images(), ANSWERS)
    with torch.no_grad():
        scores = learnt.network.token_log_probs(
            questions.tokens, None, conditions.select(row[questions.pair])
        )
    torch.testing.assert_close(questions.log_likelihood, scores.sum(dim=1), atol=1e-4, rtol=0)
    # As text: of the samples that are spelled as the tokeniser spells them.
    texts = learnt.question_vocabulary.encode(questions.text)
    same = [
        bool(a.equal(b))
        for a, b in zip(_rows(texts), _rows(questions.tokens), strict=True)
    ]  # fmt: skip
    assert sum(same) >= 10
    again = learnt.log_likelihood(
        images().select(questions.pair), [ANSWERS[at] for at in questions.pair], questions.text
    )
    torch.testing.assert_close(
        questions.log_likelihood[same], again[same], atol=1e-4, rtol=0
    )  # fmt: skip


def _rows(tokens: Tokens) -> list[Tensor]:
    return [
        row[:length] for row, length in zip(tokens.ids, tokens.lengths.tolist(), strict=True)
    ]  # fmt: skip


def test_a_temperature_scores_what_sampling_draws_from(learnt: TransformerModule) -> None:
    strategy = Sampling(temperature=1.7)
    questions = learnt.sample(images(), ANSWERS, 6, strategy, torch.Generator().manual_seed(2))
    conditions, row = learnt.encode_pairs(images(), ANSWERS)
    given = conditions.select(row[questions.pair])
    with torch.no_grad():
        scores = learnt.network.token_log_probs(questions.tokens, None, given, 1.7)
        step, state = learnt.network.decoding(given, None)
        tokens = torch.full((24,), 1)  # <bos>
        for position in range(questions.tokens.ids.shape[1] + 1):
            log_probs, state = step(state, tokens)
            log_probs[:, UNK] = -torch.inf
            weights = strategy.probabilities(log_probs)
            drawn = questions.tokens.lengths >= position
            tokens = torch.full((24,), EOS)
            if position < questions.tokens.ids.shape[1]:
                words = questions.tokens.ids[:, position]
                tokens = torch.where(questions.tokens.lengths > position, words, EOS)
            expected = (weights / weights.sum(dim=1, keepdim=True)).gather(1, tokens[:, None]).log()
            torch.testing.assert_close(
                scores[drawn, position], expected[drawn, 0], atol=1e-4, rtol=0
            )


def test_a_batch_equals_single_questions_and_reads_a_picture_once(folder: Path) -> None:
    module = module_of(folder, lora=LORA)
    randomise(module)
    source = Pictures()
    together = module.log_likelihood(images(source), ANSWERS, QUESTIONS)
    assert sorted(source.opened) == [7, 8, 9]
    for row in range(4):
        one = module.log_likelihood(
            images().select(torch.tensor([row])), [ANSWERS[row]], [QUESTIONS[row]]
        )
        torch.testing.assert_close(one[0], together[row], atol=1e-4, rtol=0)
    parted = module_of(folder, lora=LORA, rows_at_once=3)
    randomise(parted)
    scores = parted.log_likelihood(images(), ANSWERS, QUESTIONS)
    torch.testing.assert_close(scores, together, atol=1e-4, rtol=0)
    sizes: list[int] = []
    decoding = parted.network.decoding
    parted.network.decoding = lambda given, z: sizes.append(len(given)) or decoding(given, z)
    drawn = parted.sample(images(), ANSWERS, 2, Sampling(), torch.Generator().manual_seed(4))
    assert sizes == [3, 3, 2]
    conditions, row = module.encode_pairs(images(), ANSWERS)
    with torch.no_grad():
        again = module.network.eval().token_log_probs(
            drawn.tokens, None, conditions.select(row[drawn.pair])
        )
    torch.testing.assert_close(drawn.log_likelihood, again.sum(dim=1), atol=1e-4, rtol=0)


def test_the_answer_and_the_image_matter(learnt: TransformerModule, folder: Path) -> None:
    best = ask(learnt, images(), ANSWERS, num_latents=1)
    assert best.text == ["Is it red?", "What color is it?", "How many are there?", "Is it?"]
    # Rows 0 and 3 are of one image: the answer alone chooses among their questions.
    right = learnt.log_likelihood(images(), ANSWERS, QUESTIONS)
    swapped = learnt.log_likelihood(images(), ["no", *ANSWERS[1:3], "yes"], QUESTIONS)
    assert (right - swapped)[[0, 3]].min() > 3
    other = images().select(torch.tensor([1, 0, 3, 1]))
    assert (learnt.log_likelihood(other, ANSWERS, QUESTIONS) - right).abs().min() > 1e-3


def test_unknown_words_and_marks_are_unknown(folder: Path) -> None:
    network = module_of(folder).network.eval()
    words = network.question_words
    tokens = network.questions.translate(
        Tokens(torch.tensor([[4, 3, 5]]), torch.tensor([3])), words
    )
    assert tokens.ids[0].tolist().count(UNK) == 1
    texts = network.questions.encode(["what <image> zebra", ""])
    # "image", "zebra" and [UNK] are no words of this tokeniser; an empty question has its mark.
    assert texts.ids[0].tolist().count(UNK) == 2
    assert texts.lengths.tolist() == [4, 1]
    conditions = network.conditions(images(), network.answers.encode(ANSWERS))
    step, state = network.decoding(conditions, None)
    with torch.no_grad():
        log_probs, _ = step(state, torch.full((4,), 1))
        logits = next(network._read(conditions))[0]
        plain = network.model(**logits.inputs()).logits[0, -1].softmax(dim=0)
    probs = log_probs[int(logits.rows[0])].exp()
    torch.testing.assert_close(probs.sum(), torch.tensor(1.0))
    # [PAD], [UNK], [CLS], <image> and three logits without a token; [SEP] ends a question.
    marks = [0, 1, 2, 4, *range(len(plain) - 3, len(plain))]
    torch.testing.assert_close(probs[UNK], plain[marks].sum())
    torch.testing.assert_close(probs[EOS], plain[3])
    torch.testing.assert_close(probs[4 + 5 : -3], plain[5:-3])


def test_all_end_tokens_end_a_question(folder: Path, tmp_path: Path) -> None:
    path = tiny_writer(tmp_path)
    model = AutoModelForImageTextToText.from_pretrained(path)
    color = module_of(folder).network.questions.encode(["color"]).ids[0, 0] - 4
    model.generation_config.eos_token_id = [3, int(color)]
    model.save_pretrained(path)
    scores = []
    for module in (module_of(folder), module_of(path)):
        given = module.network.eval()
        conditions = given.conditions(images(), given.answers.encode(ANSWERS))
        step, state = given.decoding(conditions, None)
        with torch.no_grad():
            scores.append(step(state, torch.full((4,), 1))[0].exp())
    one, both = scores
    torch.testing.assert_close(both[:, EOS], one[:, EOS] + one[:, 4 + color])
    assert not both[:, 4 + color].any()


def test_bad_input_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="there is no folder '/absent'"):
        module_of(Path("/absent"))
    with pytest.raises(UserError, match=r"must have \{answer\} in it, not 'Ask.'"):
        TransformerGenerator.check_arguments({"lora": None, "prompt": "Ask."})
    modules = {**LORA, "target_modules": ["q_proj", "query"]}
    with pytest.raises(UserError, match=r"no module 'query'; it has .*q_proj"):
        module_of(folder, lora=modules)
    with pytest.raises(UserError, match=r"target_modules=.*nothing.*not found.*the model has"):
        module_of(folder, lora={**LORA, "target_modules": ".*nothing"})
    for wrong, message in (
        ({"rank": 0}, "lora.rank=0: .*greater than or equal to 1"),
        ({"target_modules": []}, "lora.target_modules"),
        ({"size": 3}, "lora has no setting size; it has rank, alpha"),
    ):
        assert message.split(":")[0] in str(value_fault("lora", wrong, LowRankSettings))
        with pytest.raises(UserError, match=message):
            module_of(folder, lora=wrong)
    module = module_of(folder)
    with pytest.raises(UserError, match="reads pixels, but the batch has none"):
        module.log_likelihood(replace(images(), source=None), ANSWERS, QUESTIONS)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UserError, match=r"pip install 'ivqa\[lora\]', or set .*lora=null"):
        TransformerGenerator.check_arguments({"lora": LORA, "prompt": "{answer}"})


def test_no_pictures_no_questions(folder: Path) -> None:
    empty = ImageBatch(torch.tensor([7]), torch.zeros(0, dtype=torch.int64), source=Pictures())
    assert module_of(folder).log_likelihood(empty, [], []).shape == (0,)


def test_only_a_gpu_that_is_asked_for_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module moves once, before it asks; the double of `to` stays on the CPU."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    for device, moves in (("cpu", 0), ("auto", 2), ("gpu", 2)):
        module = module_of(folder, device=device)
        moved: list[torch.device] = []
        monkeypatch.setattr(module, "to", moved.append)
        module.sample(images(), ANSWERS, 2, Greedy())
        module.log_likelihood(images(), ANSWERS, QUESTIONS)
        assert moved == [torch.device("cuda")] * moves


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_scores_on_a_gpu_are_those_of_the_cpu(folder: Path) -> None:
    here, there = (module_of(folder, lora=LORA, device=device) for device in ("cpu", "gpu"))
    for module in (here, there):
        randomise(module)
    scores = [module.log_likelihood(images(), ANSWERS, QUESTIONS) for module in (here, there)]
    assert there.device.type == "cuda"
    torch.testing.assert_close(scores[0], scores[1], atol=1e-3, rtol=0)
    asked = [ask(module, images(), ANSWERS, num_latents=1) for module in (here, there)]
    assert asked[0].text == asked[1].text
    loss = -there.network(batch().to("cuda")).log_likelihood.mean()
    loss.backward()


def test_a_batch_of_words_that_a_model_does_not_know_is_refused(folder: Path) -> None:
    network = TransformerGenerator(
        question_words=Vocabulary([]), answer_words=Vocabulary([]), path=str(folder)
    )
    with pytest.raises(UserError, match="start from model=ivqa_transformer"):
        network(batch())
