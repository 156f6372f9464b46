"""Texts as padded word indices."""

import pytest

from ivqa.text.vocabulary import DecodedTexts, Vocabulary

WORDS = Vocabulary(["is", "it", "red"])  # 4, 5 and 6


def test_texts_are_padded_to_the_longest() -> None:
    tokens = WORDS.encode(["Is it red?", "", "Red", "It is blue"])
    assert tokens.ids.tolist() == [[4, 5, 6], [0, 0, 0], [6, 0, 0], [5, 4, 3]]
    assert tokens.lengths.tolist() == [3, 0, 1, 3]
    assert WORDS.decode(tokens) == ["Is it red?", "?", "Red?", "It is <unk>?"]


def test_a_long_text_keeps_its_first_words() -> None:
    tokens = WORDS.encode(["Is it red?", "Red"], max_length=2)
    assert tokens.ids.tolist() == [[4, 5], [6, 0]]
    assert tokens.lengths.tolist() == [2, 1]


def test_there_is_one_position_at_least() -> None:
    """Recurrent layers refuse empty sequences."""
    assert WORDS.encode([""]).ids.tolist() == [[0]]
    assert WORDS.encode([]).ids.shape == (0, 1)


@pytest.mark.parametrize("reader", [WORDS, Vocabulary(["blue", "red", "unk", "is"])])
@pytest.mark.parametrize("max_length", [None, 1, 2, 9])
def test_decoded_texts_are_encoded_as_if_they_were_read(
    reader: Vocabulary, max_length: int | None
) -> None:
    tokens = Vocabulary(["blue", *WORDS.words]).encode(["Is it red?", "", "Red blue it is green"])
    texts = Vocabulary(["blue", *WORDS.words]).decode(tokens)
    assert isinstance(texts, DecodedTexts)
    assert texts == ["Is it red?", "?", "Red blue it is <unk>?"]
    found, read = (reader.encode(given, max_length) for given in (texts, list(texts)))
    assert found.ids.tolist() == read.ids.tolist()
    assert found.lengths.tolist() == read.lengths.tolist()


def test_a_reader_of_two_vocabularies_takes_neither_for_the_other() -> None:
    first, second = Vocabulary(["red", "blue"]), Vocabulary(["blue", "red"])
    for written in (first, second, first):
        texts = written.decode(written.encode(["Red", "Blue"]))
        assert WORDS.encode(texts).ids.tolist() == [[6], [3]]


def test_words_that_do_not_survive_their_text_are_read_from_it() -> None:
    """A final sigma is a capital sigma at the start of a question, which is another small one."""
    words = Vocabulary(["ς", "is"])
    texts = words.decode(words.encode(["ς is", "is ς"]))
    assert isinstance(texts, list)
    assert words.encode(texts).ids.tolist() == [[3, 5], [5, 4]]
