"""Words of many scripts; English words are those of the plain rule."""

import gzip
import json
import random
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivqa.metrics.captions.bleu import bleu
from ivqa.robustness.word_shuffling import WordShuffling
from ivqa.scenes.grammar import realise
from ivqa.scenes.oracle import simple_questions
from ivqa.text.duplicates import duplicates_of, unique_questions
from ivqa.text.tokens import detokenise, tokenise
from ivqa.text.vocabulary import Vocabulary

# Two questions each that differ in vowel signs alone: cow, went; cat, cats; horse, dog.
PAIRS = {
    "Hindi": ("क्या यह गाय है?", "क्या यह गया है?"),
    "Bengali": ("এটা কি বিড়াল?", "এটা কি বিড়ালী?"),
    "Thai": ("มี ม้า ไหม?", "มี มา ไหม?"),
}


@pytest.mark.parametrize("script", PAIRS)
def test_vowel_signs_distinguish_questions(script: str) -> None:
    first, second = PAIRS[script]
    assert tokenise(first) == first.removesuffix("?").split()
    assert unique_questions([first, second]) == [first, second]
    assert duplicates_of([first], [second, first]) == [[1]]
    words = len(first.split())
    assert bleu([second], [[first]])[0] == pytest.approx((words - 1) / words)


def test_words_of_other_scripts() -> None:
    for text, words in {
        "क्षेत्र में ऋषि?": ["क्षेत्र", "में", "ऋषि"],
        "ශ්‍රී ලංකාව": ["ශ්\u200dරී", "ලංකාව"],  # a joiner between letters
        "می‌خواهم، بله؟": ["می\u200cخواهم", "بله"],
        "שָׁלוֹם עולם": ["שָׁלוֹם", "עולם"],
        "İstanbul'da mı?": ["i̇stanbul'da", "mı"],
        "これは犬ですか？": ["これは犬ですか"],
        "葛\U000e0100城市，什么颜色？": ["葛城市", "什么颜色"],
        "고양이입니까?": ["고양이입니까"],
        "2️⃣ dogs 👨‍👩‍👧 and a\u200b co\u00adat\u200d?": ["2", "dogs", "and", "a", "coat"],
        " ́ ि ?": [],  # marks without a letter
    }.items():
        assert tokenise(text) == words


def test_composed_and_decomposed_letters_are_equal() -> None:
    texts = ["Où est l’été?", "Ist das Mädchen groß?", "Có phải mèo không?", "犬がいますか", "개?"]
    for text in [*texts, *(text for pair in PAIRS.values() for text in pair)]:
        composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
        assert tokenise(decomposed) == tokenise(composed)
        assert unique_questions([composed, decomposed]) == [composed]
    assert tokenise("cafe\u0301 nai\u0308ve") == ["café", "naïve"]


def test_a_word_is_found_again_in_the_written_question() -> None:
    for pair in PAIRS.values():
        words = tokenise(pair[0])
        assert tokenise(detokenise(words)) == words
        vocabulary = Vocabulary.build(pair, min_count=1)
        assert all(word in vocabulary for text in pair for word in tokenise(text))
        (shuffled,) = WordShuffling(levels=1).disturbed([pair[0]], [])[0]
        assert sorted(tokenise(shuffled)) == sorted(words) != tokenise(shuffled)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x1FFF)))
def test_words_are_whole_and_stable(text: str) -> None:
    words = tokenise(text)
    assert tokenise(" ".join(words)) == words
    letters = "".join(words)
    kept = {one for one in unicodedata.normalize("NFC", text.lower()) if one.isalnum()}
    assert kept <= set(letters)


def _plain_words(text: str) -> list[str]:
    """The rule for English: letters and digits, apostrophes, hyphens and full stops inside."""
    return re.findall(r"[^\W_]+(?:['.\-][^\W_]+)*", text.lower().replace("’", "'"))


def test_words_of_english_questions(shared_data: Path) -> None:
    texts = []
    for split in ("train", "val"):
        file = shared_data / "vqa_v2_subset" / f"questions_{split}.json.gz"
        with gzip.open(file) as stream:
            texts += [one["question"] for one in json.load(stream)["questions"]]
    assert len(texts) > 1000
    assert [tokenise(text) for text in texts] == [_plain_words(text) for text in texts]


def test_words_of_the_embedded_questions() -> None:
    texts = [realise(one, random.Random(seed)) for one in simple_questions() for seed in range(2)]
    assert [tokenise(text) for text in texts] == [_plain_words(text) for text in texts]
    typographic = ["What’s the café’s T‑shirt — 2.5 dogs…?", "“Is it red?”, 50°C, ½, naïve"]
    assert [tokenise(text) for text in typographic] == [_plain_words(text) for text in typographic]


def test_the_words_of_a_text_that_was_read_before_are_a_new_list() -> None:
    tokenise("Is it red?").append("changed")
    assert tokenise("Is it red?") == ["is", "it", "red"]
