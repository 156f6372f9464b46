import torch

from ivqa.diagnosis import KINDS, perturb
from ivqa.diagnosis.perturbation import fingerprints
from ivqa.text.vocabulary import PAD, Vocabulary

WORDS = Vocabulary(["how", "many", "red", "stars", "are", "there", "now", "a", "b", "c", "d", "e"])


def _damaged(text: str, kind: str, times: int = 200) -> list[list[str]]:
    tokens = WORDS.encode([text] * times)
    kinds = torch.full((times,), KINDS.index(kind))
    damaged = perturb(tokens, len(WORDS), kinds, torch.Generator().manual_seed(0))
    assert (damaged.ids[~damaged.mask] == PAD).all()
    return [text.lower().rstrip("?").split() for text in WORDS.decode(damaged)]


def test_each_kind_does_what_it_says() -> None:
    question = "how many red stars are there"
    words = question.split()
    for damaged in _damaged(question, "swap"):
        assert sorted(damaged) == sorted(words)
        assert sum(a != b for a, b in zip(damaged, words, strict=True)) == 2
    assert {len(damaged) for damaged in _damaged(question, "drop")} == {5}
    for damaged in _damaged(question, "repeat"):
        assert len(damaged) == 7
        assert any(damaged[:i] + damaged[i + 1 :] == words for i in range(7))
    for damaged in _damaged(question, "replace"):
        assert len(damaged) == 6
        assert sum(a != b for a, b in zip(damaged, words, strict=True)) <= 1
    for damaged in _damaged(question, "truncate"):
        assert 1 <= len(damaged) < 6
        assert words[: len(damaged)] == damaged
    # All places are hit.
    assert len({tuple(damaged) for damaged in _damaged(question, "drop")}) == 6


def test_a_single_word_is_replaced_whatever_the_kind() -> None:
    for kind in KINDS:
        assert {len(damaged) for damaged in _damaged("how", kind)} == {1}


def test_fingerprints_depend_on_the_words_alone() -> None:
    short = WORDS.encode(["how many", "many how"])
    padded = WORDS.encode(["how many", "many how", "how many red stars are there now"])
    assert fingerprints(short).tolist() == fingerprints(padded).tolist()[:2]
    assert fingerprints(padded).unique().numel() == 3
