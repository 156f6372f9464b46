"""A tiny LLaVA that writes questions, and the questions that it is trained on."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.generators.transformers.transformer import TransformerGenerator
from ivqa.generators.transformers.transformer_module import TransformerModule
from ivqa.text.vocabulary import Vocabulary
from tiny_transformers import SPECIAL, TEXT, VISION, Pictures, save_tiny

QUESTIONS = ["is it red", "what color is it", "how many are there", "is it"]
ANSWERS = ["yes", "dark red", "2", "no"]
IMAGES = [7, 9, 8, 7]
QUESTION_WORDS = Vocabulary.build(QUESTIONS)
ANSWER_WORDS = Vocabulary.build(ANSWERS)
LORA = {"rank": 4, "alpha": 8.0, "target_modules": ["q_proj", "v_proj"]}
PROMPT = "Answer: {answer}. Ask the question."


def tiny_writer(folder: Path, more_words: Sequence[str] = ()) -> Path:
    """Saves the model: a token is a word or a mark of punctuation, in lower case."""
    texts = [*QUESTIONS, *ANSWERS, "answer : ask the question . ?", *more_words]
    words = sorted({word for text in texts for word in text.split()})
    table = {word: at for at, word in enumerate([*SPECIAL[:4], "<image>", *words])}
    tokenizer = Tokenizer(models.WordLevel(table, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", bos_token="[CLS]",
        eos_token="[SEP]",
    )  # fmt: skip
    fast.add_special_tokens({"additional_special_tokens": ["<image>"]})
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**VISION),
        text_config=LlamaConfig(**TEXT, vocab_size=len(fast) + 3),  # more logits than tokens
        image_token_index=fast.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
    )
    processor = LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        fast,
        patch_size=16,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=(
            "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}<image> "
            "{% else %}{{ c.text }} {% endif %}{% endfor %}{% endfor %}"
        ),
    )
    return save_tiny(LlavaForConditionalGeneration(config), processor, folder)


def module_of(
    folder: Path, *, max_length: int = 6, lr: float = 0.01, device: str = "cpu", **network: Any
) -> Any:
    torch.manual_seed(3)
    return TransformerModule(
        network=partial(TransformerGenerator, path=str(folder), prompt=PROMPT, **network),
        question_vocabulary=QUESTION_WORDS,
        answer_words=ANSWER_WORDS,
        feature_sizes={},
        max_length=max_length,
        device=device,
        optimizer=partial(torch.optim.Adam, lr=lr),
    )


def images(source: Any = None) -> ImageBatch:
    """Images 7, 9, 8 and 7 of four questions."""
    source = Pictures() if source is None else source
    return ImageBatch(torch.tensor([7, 8, 9]), torch.tensor([0, 2, 1, 0]), source=source)


def batch(questions: list[str] = QUESTIONS, answers: list[str] = ANSWERS) -> VQABatch:
    size = len(questions)
    return VQABatch(
        rows=torch.arange(size),
        images=images().select(torch.arange(size)),
        question=QUESTION_WORDS.encode(questions),
        answer=ANSWER_WORDS.encode(answers),
        answer_type=torch.zeros(size, dtype=torch.int64),
        target=torch.zeros(size, dtype=torch.int64),
    )


def randomise(module: TransformerModule) -> None:
    """Adapters that change the model: B is zero at first."""
    torch.manual_seed(8)
    with torch.no_grad():
        for value in module.trained_parameters():
            value.normal_(std=0.3)
