"""A ViLT that trains on scenes in seconds, saved in the format of the hub."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch.nn import functional as F
from transformers import (
    PreTrainedTokenizerFast,
    ViltConfig,
    ViltForQuestionAnswering,
    ViltImageProcessor,
    ViltProcessor,
)

from ivqa.data import VQASplit
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary


def train_tiny_vilt(
    split: VQASplit, folder: Path, *, steps: int, batch_size: int = 32, hidden_size: int = 64
) -> Path:
    """Trains on the questions of a split, and saves model and processor."""
    torch.manual_seed(0)
    answers = AnswerVocabulary.build(split.main_answers, 60)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "?", *Vocabulary.build(split.questions).words]
    tokenizer = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]",
    )  # fmt: skip
    processor = ViltProcessor(ViltImageProcessor(size={"shortest_edge": 64}), fast)
    labels = dict(enumerate(answers.answers))
    model = ViltForQuestionAnswering(
        ViltConfig(
            vocab_size=len(words), hidden_size=hidden_size, num_hidden_layers=3,
            num_attention_heads=4, intermediate_size=2 * hidden_size, image_size=64, patch_size=8,
            max_position_embeddings=40, hidden_dropout_prob=0.0, id2label=labels,
            label2id={answer: at for at, answer in labels.items()},
        )
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    targets = answers.encode(split.main_answers)
    known = (targets >= 0).nonzero()[:, 0]
    images = split.require_images()
    for _ in range(steps):
        rows = known[torch.randint(len(known), (batch_size,))].tolist()
        pictures = [images.open(int(split.image_ids[row])) for row in rows]
        inputs = processor(
            images=pictures,
            text=[split.questions[row] for row in rows],
            padding=True,
            return_tensors="pt",
        )
        loss = F.cross_entropy(model(**inputs).logits, targets[rows])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
