"""Removes the thoughts (reasoning) of a model from what it wrote."""

import re
from collections.abc import Sequence
from typing import Annotated

from ivqa.ranges import AtLeastOne

Tags = Sequence[tuple[str, Annotated[str, AtLeastOne]]]
"""Pairs of what begins and ends thoughts. The beginning may be "", where it is never written."""

THOUGHTS: Tags = (
    ("<think>", "</think>"),  # DeepSeek-R1, Qwen3, GLM-4.1V, MiMo-VL
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi-VL
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("<|channel|>", "<|channel|>final<|message|>"),  # gpt-oss
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<unused94>thought", "<unused95>"),  # MedGemma 1.5
    ("", "assistantfinal"),  # gpt-oss, by a server that leaves out special tokens
)

END = re.compile(
    r"</s>|\[EOS\]|<[^<>\s]*(end|eos|eot|eom|eod|return|turn|user|observation)[^<>\s]*>",
    re.IGNORECASE,
)
"""A token that ends a text, as servers spell it: </s>, <|im_end|>, <end_of_turn>."""

_ENDS = re.compile(rf"(\s*({END.pattern}))+\s*$", re.IGNORECASE)
# What such models write around an answer that follows thoughts.
_AROUND = re.compile(
    r"(<answer>|<conclusion>|<\|begin_of_solution\|>)(.*?)"
    r"(</answer>|</conclusion>|<\|end_of_solution\|>|$)",
    re.DOTALL | re.IGNORECASE,
)


def without_thoughts(text: str, tags: Tags = THOUGHTS) -> str | None:
    """Removes thoughts between tags (in any capitals), and end tokens that the server left.

    Many prompts contain the first tag already, so that the text begins with thoughts and has only
    the last tag: the answer is what follows it.

    Returns:
        The answer without white space around it; None if the text ends within thoughts.

    Example:
        >>> without_thoughts("<think>Is it red?</think> yes"), without_thoughts("It is.</think>no")
        ('yes', 'no')
        >>> without_thoughts("<think>Is it red? It")
    """
    thinks = False
    for first, last in tags:
        opening, closing = (re.compile(re.escape(tag), re.IGNORECASE) for tag in (first, last))
        start = len(text)
        if first and closing.search(text):
            pair = rf"{opening.pattern}.*?{closing.pattern}"
            text = re.sub(pair, "", text, flags=re.DOTALL | re.IGNORECASE)
        text = closing.split(text)[-1]
        thinks |= len(text) < start
        if first and opening.search(text):
            return None
    text = _ENDS.sub("", text).strip()
    around = _AROUND.search(text) if thinks else None
    return around[2].strip() if around else text
