"""Thoughts as models write them, before the answer that is looked for."""

import pytest

from ivqa.text.thoughts import THOUGHTS, without_thoughts


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", "yes"),
        ("<think>\nIs it?\n</think>\n\nyes", "yes"),
        ("<Think>Is it?</THINK>yes", "yes"),
        ("It is not blue.\n</think>\n\nyes", "yes"),  # the prompt holds the first tag
        ("<think>no <think>or</think> maybe</think> yes", "yes"),
        ("yes <think>or no?</think>", "yes"),
        ("<thinking>no</thinking><answer> yes </answer>", "yes"),
        ("<answer>yes</answer>", "<answer>yes</answer>"),  # without thoughts: the text of a picture
        ("[THINK]no[/THINK]yes", "yes"),
        ("<|channel|>analysis<|message|>no<|end|><|start|>assistant<|channel|>final<|message|>yes"
         "<|return|>", "yes"),
        ("analysisIs it no?assistantfinalyes", "yes"),
        ("<|begin_of_thought|>no<|end_of_thought|>\n<|begin_of_solution|>yes<|end_of_solution|>",
         "yes"),
        ("<|channel>thought\nno<channel|>yes", "yes"),
        ("<SUMMARY>Is it?</SUMMARY>\n<REASONING>no</REASONING>\n<CONCLUSION> yes </CONCLUSION>",
         "yes"),  # LLaVA-CoT
        ("<unused94>thought\nno<unused95>yes", "yes"),
        ("yes<|im_end|>\n", "yes"),
        ("<br>", "<br>"),
        ("analysis of data", "analysis of data"),
        ("<think></think>", ""),
        ("<think>It is", None),
        ("<think>It is</think> yes <think>", None),
        ("<|channel|>commentary<|message|>It is", None),
        ("[THINK]It is", None),
    ],
)  # fmt: skip
def test_the_answer_is_what_is_left(text: str, answer: str | None) -> None:
    assert without_thoughts(text) == answer


@pytest.mark.parametrize(("first", "last"), THOUGHTS)
def test_all_tags_are_known(first: str, last: str) -> None:
    assert without_thoughts(f"{first}no, or is it?\n{last}\n yes") == "yes"
    assert without_thoughts(f"{first}no, or is it?") == (None if first else "no, or is it?")


def test_other_tags_can_be_given() -> None:
    assert without_thoughts("<x>no</x> <think>yes", [("<x>", "</x>")]) == "<think>yes"
    assert without_thoughts("<think>no</think>yes", []) == "<think>no</think>yes"
