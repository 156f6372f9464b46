"""Each kind of damage does what its name says, and fingerprints depend on the words only."""

import torch

from ivqa.diagnosis import KINDS, perturb
from ivqa.diagnosis.beliefs.perturbation import fingerprints
from ivqa.text.vocabulary import PAD, Vocabulary

WORDS = Vocabulary(["how", "many", "red", "stars", "are", "there", "now", "a", "b", "c", "d", "e"])


def _damaged(text: str, kind: str, times: int = 200) -> list[list[str]]:
    tokens = WORDS.encode([text] * times)
    kinds = torch.full((times,), KINDS.index(kind))
    damaged = perturb(tokens, len(WORDS), kinds, torch.Generator().manual_seed(0))
    assert (damaged.ids[~damaged.mask] == PAD).all()
    return [text.lower().rstrip("?").split() for text in WORDS.decode(damaged)]


def test_each_kind_damages_as_documented() -> None:
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
    for damaged in _damaged(question, "splice"):  # all questions of the batch are equal
        starts = range(1, 6)
        ends = range(6)
        assert damaged in [(words[:start] + words[end:])[:7] for start in starts for end in ends]
    assert len({tuple(damaged) for damaged in _damaged(question, "splice", 500)}) > 20
    # Every position is dropped at least once.
    assert len({tuple(damaged) for damaged in _damaged(question, "drop")}) == 6


def test_a_splice_ends_like_the_next_question() -> None:
    tokens = WORDS.encode(["how many stars", "a b c d e", "are there red now"])
    kinds = torch.full((3,), KINDS.index("splice"))
    beginnings, ends = ["how many stars", "a b c d e", "are there red now"], [1, 2, 0]
    for seed in range(50):
        damaged = perturb(tokens, len(WORDS), kinds, torch.Generator().manual_seed(seed))
        for row, text in enumerate(WORDS.decode(damaged)):
            words = text.lower().rstrip("?").split()
            own, other = beginnings[row].split(), beginnings[ends[row]].split()
            splices = [own[:i] + other[j:] for i in range(1, len(own)) for j in range(len(other))]
            assert words in [splice[:6] for splice in splices]


def test_every_kind_replaces_a_single_word() -> None:
    for kind in KINDS:
        assert {len(damaged) for damaged in _damaged("how", kind)} == {1}


def test_fingerprints_depend_on_the_words_only() -> None:
    short = WORDS.encode(["how many", "many how"])
    padded = WORDS.encode(["how many", "many how", "how many red stars are there now"])
    assert fingerprints(short).tolist() == fingerprints(padded).tolist()[:2]
    assert fingerprints(padded).unique().numel() == 3
