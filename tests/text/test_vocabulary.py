"""Texts as padded word indices."""

from ivqa.text.vocabulary import Vocabulary

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
