"""WUPS over a WordNet of six synsets, whose similarities are computed by hand.

    thing (depth 1)
      furniture (2): chair, stool, seat (3; one synset), table (3)
      animal, seat (2; one synset): dog (3)

"seat" has two senses.

Wu and Palmer: 2 * depth of the deepest common ancestor / (depth of one + depth of the other).
"""

import sys
from pathlib import Path

import nltk
import numpy as np
import pytest
from nltk.corpus.reader import WordNetCorpusReader
from nltk.corpus.util import LazyCorpusLoader

from ivqa.errors import UserError
from ivqa.metrics import wup_similarity, wups
from ivqa.metrics.wups import require_wordnet

SYNSETS = {  # words of a synset: (parent, children)
    ("thing",): (None, ["furniture", "animal"]),
    ("furniture",): ("thing", ["chair", "table"]),
    ("animal", "seat"): ("thing", ["dog"]),
    ("chair", "stool", "seat"): ("furniture", []),
    ("table", "side_table"): ("furniture", []),
    ("dog",): ("animal", []),
}
CHAIR_TABLE, CHAIR_DOG, CHAIR_FURNITURE = 4 / 6, 2 / 6, 4 / 5


def _write_wordnet(folder: Path) -> None:
    """Writes the files of WordNet 3.0; a synset is named by the offset of its line."""
    folder.mkdir(parents=True)
    header = "  1 WordNet 3.0 Copyright\n"
    offsets: dict[str, int] = {}  # by the first word of a synset
    senses: dict[str, list[int]] = {}  # by word
    at = len(header)

    def line(words: tuple[str, ...], place: dict[str, int]) -> str:
        parent, children = SYNSETS[words]
        links = [("@", parent)] if parent else []
        links += [("~", child) for child in children]
        names = " ".join(f"{word} 0" for word in words)
        pointers = "".join(f"{sign} {place.get(other, 0):08d} n 0000 " for sign, other in links)
        own = place.get(words[0], 0)
        return f"{own:08d} 00 n {len(words):02x} {names} {len(links):03d} {pointers}| a thing\n"

    for words in SYNSETS:
        offsets[words[0]] = at
        for word in words:
            senses.setdefault(word, []).append(at)
        at += len(line(words, {}))
    (folder / "data.noun").write_text(header + "".join(line(words, offsets) for words in SYNSETS))
    index = "".join(
        f"{word} n {len(found)} 0 {len(found)} 0 {' '.join(f'{at:08d}' for at in found)}\n"
        for word, found in sorted(senses.items())
    )
    (folder / "index.noun").write_text(index)
    (folder / "data.adj").write_text(header)
    for name in ("data.verb", "data.adv", "index.verb", "index.adj", "index.adv", "index.sense"):
        (folder / name).touch()
    for name in ("noun.exc", "verb.exc", "adj.exc", "adv.exc"):
        (folder / name).touch()
    (folder / "noun.exc").write_text("chairs chair\n")
    (folder / "lexnames").write_text("00\tnoun.Tops\t1\n")


@pytest.fixture(autouse=True)
def _wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_wordnet(tmp_path / "corpora" / "wordnet")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])  # NLTK reads no other folders
    reader = LazyCorpusLoader("wordnet", WordNetCorpusReader, None)
    # The function `wups` hides the module of the same name in the package.
    monkeypatch.setattr(sys.modules["ivqa.metrics.wups"], "wordnet", reader)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("chair", "chair", 1.0),
        ("chair", "stool", 1.0),
        ("chair", "table", CHAIR_TABLE),
        ("chair", "side table", CHAIR_TABLE),
        ("chair", "dog", CHAIR_DOG),
        ("furniture", "chair", CHAIR_FURNITURE),
        ("seat", "table", CHAIR_TABLE),  # by the sense that is closer
        ("dog", "seat", 4 / 5),
        ("unknown", "unknown", 1.0),
        ("unknown", "chair", 0.0),
    ],
)
def test_similarity_after_wu_and_palmer(first: str, second: str, expected: float) -> None:
    assert wup_similarity(first, second) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "truth", "exact", "soft"),
    [
        ("chair", "table", 0.1 * CHAIR_TABLE, CHAIR_TABLE),
        ("chair, dog", "dog, chair", 1.0, 1.0),
        # dog of the answer has no better partner than chair; the truth is covered completely.
        ("chair, dog", "chair", 0.1 * CHAIR_DOG, CHAIR_DOG),
        ("chair", "chair, dog", 0.1 * CHAIR_DOG, CHAIR_DOG),
        # forth: table-chair; back: chair-table and dog-table: the product of both.
        ("table", "chair, dog", 0.01 * CHAIR_TABLE * CHAIR_DOG, CHAIR_TABLE * CHAIR_DOG),
        ("Chair", "chair", 1.0, 1.0),
        ("", "chair", 0.0, 0.0),
    ],
)
def test_an_answer_of_several_words_is_a_set(
    answer: str, truth: str, exact: float, soft: float
) -> None:
    assert wups([answer], [[truth]], 0.9) == pytest.approx([exact])
    assert wups([answer], [[truth]], 0.0) == pytest.approx([soft])


def test_the_threshold_itself_is_similar_enough() -> None:
    assert wups(["chair"], [["furniture"]], CHAIR_FURNITURE) == pytest.approx([CHAIR_FURNITURE])


def test_annotators_count_equally() -> None:
    found = wups(["chair", "dog"], [["chair", "table", "dog"], ["dog"]], 0.0)
    np.testing.assert_allclose(found, [(1 + CHAIR_TABLE + CHAIR_DOG) / 3, 1], rtol=1e-6)


def test_unusable_input_is_named() -> None:
    with pytest.raises(ValueError, match="1 predictions for 2 questions"):
        wups(["chair"], [["chair"], ["dog"]], 0.9)
    with pytest.raises(ValueError, match="no human answer"):
        wups(["chair"], [[]], 0.9)


def test_an_absent_wordnet_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent:
        def synsets(self, word: str) -> list[object]:
            raise LookupError(word)

    monkeypatch.setattr(sys.modules["ivqa.metrics.wups"], "wordnet", Absent())
    with pytest.raises(UserError, match=r"nltk\.downloader wordnet"):
        require_wordnet()
