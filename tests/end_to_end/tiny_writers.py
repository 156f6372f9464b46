"""Tiny generative models that learn to answer scenes in seconds, with capitals and full stops."""

from pathlib import Path

import torch
from tiny_vlm import FAMILIES
from tokenizers import AddedToken
from transformers import AutoModelForImageTextToText, AutoProcessor

from ivqa.data import VQASplit
from ivqa.text.vocabulary import Vocabulary

WRITTEN = "{}."  # as chat models write; the annotators' answers are in lower case, without a stop


def train_tiny_writer(family: str, split: VQASplit, folder: Path, *, steps: int = 80) -> Path:
    """Trains a family's tiny model on 24 questions of a split, and saves it with its processor."""
    FAMILIES[family].build(folder)
    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder).train()
    rows = torch.arange(len(split))[:: max(1, len(split) // 24)][:24].tolist()
    answers = [WRITTEN.format(split.main_answers[row].capitalize()) for row in rows]
    words = [*Vocabulary.build(split.questions).words, *dict.fromkeys(answers)]
    processor.tokenizer.add_tokens([AddedToken(word, single_word=True) for word in words])
    torch.manual_seed(0)
    model.resize_token_embeddings(len(processor.tokenizer), mean_resizing=False)
    prompts = [_prompt(processor, split.questions[row]) for row in rows]
    images = split.require_images()
    inputs = processor(
        text=[f"{prompt} {answer} [SEP]" for prompt, answer in zip(prompts, answers, strict=True)],
        images=[[images.open(int(split.image_ids[row]))] for row in rows],
        padding=True,
        return_tensors="pt",
    )
    learnt = torch.tensor([3, *processor.tokenizer.convert_tokens_to_ids(answers)])
    ids = inputs["input_ids"]
    labels = ids.masked_fill(~torch.isin(ids, learnt), -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        loss = model(**inputs, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _prompt(processor: object, question: str) -> str:
    content = [{"type": "image"}, {"type": "text", "text": question}]
    return processor.apply_chat_template(  # type: ignore[attr-defined]
        [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
    )
