"""Mean word vectors computed by hand, and invalid files."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from ivqa.encoders.word_vectors import WordVectorEncoder
from ivqa.errors import UserError
from ivqa.vqa import StackedLSTMEncoder

LINES = [
    "the 0.5 0.5 0.1",
    "dog 1 0 0",
    ". . . 3 3 3",
    "cat 0.8 0.6 0",
    "red 0 0 2",
    "dog 9 9 9",
    "horse 1 0 0.2",
]
CORPUS = ["the dog", "the cat", "the red dog", "the the"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def _unit(vector: list[float]) -> list[float]:
    return (np.array(vector) / np.linalg.norm(vector)).tolist()


def test_a_question_is_the_mean_of_its_words(file: Path) -> None:
    encoder = WordVectorEncoder(str(file), idf=False).fit(CORPUS)
    vectors = encoder.encode(["The dog?", "red red dog", "zebra", "", "horse"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[0], _unit([1.5, 0.5, 0.1]), atol=1e-6)
    np.testing.assert_allclose(vectors[1], _unit([1, 0, 4]), atol=1e-6)
    assert not vectors[2:].any()  # unknown, empty, not in the corpus


def test_rare_words_weigh_more(file: Path) -> None:
    encoder = WordVectorEncoder(str(file)).fit(CORPUS)
    the, dog = np.log(5 / 5) + 1, np.log(5 / 3) + 1
    expected = _unit([0.5 * the + dog, 0.5 * the, 0.1 * the])
    np.testing.assert_allclose(encoder.encode(["the dog"])[0], expected, atol=1e-6)


def test_compression_and_the_header_of_word2vec_change_nothing(file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "vectors.txt.gz"
    packed.write_bytes(gzip.compress(("7 3\n" + " \n".join(LINES)).encode()))
    plain, other = (WordVectorEncoder(str(path)).fit(CORPUS) for path in (file, packed))
    assert np.array_equal(plain.encode(CORPUS), other.encode(CORPUS))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cat 0.8 0.6", r"line 4: 2 values, but the first line has 3; is the file truncated"),
        ("cat 0.8 0.6 0 1", r"line 4: 4 values, but the first line has 3"),
        ("cat 0.8 x 0", r"line 4: could not convert string to float"),
    ],
)
def test_the_message_gives_the_number_of_an_invalid_line(
    file: Path, line: str, message: str
) -> None:
    file.write_text("\n".join([*LINES[:3], line, *LINES[4:]]))
    with pytest.raises(ValueError, match=rf"vectors.txt, {message}"):
        WordVectorEncoder(str(file)).fit(CORPUS)


def test_invalid_inputs_are_rejected(file: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no file of word vectors 'nowhere.txt'; pass encoder.path"
    ):
        WordVectorEncoder("nowhere.txt")
    with pytest.raises(ValueError, match="vectors for 0 of the 2 words of the questions"):
        WordVectorEncoder(str(file)).fit(["\u00fcber alles"])
    with pytest.raises(ValueError, match="call fit first"):
        WordVectorEncoder(str(file)).encode(["dog"])


@pytest.mark.parametrize("content", ["", "\n", "a page of text\n", "word\n", "\x00\x01\x02"])
def test_a_file_without_word_vectors_is_refused_before_a_command_starts(
    content: str, tmp_path: Path
) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text(content)
    with pytest.raises(UserError, match=r"vectors\.txt is not a text file of word vectors"):
        WordVectorEncoder.check_arguments({"path": str(file), "idf": True})


@pytest.mark.parametrize("content", ["2 3\na 1 2 3\nb 1 2 3\n", "a 0.5 -1e-3\n", ". . . 0.1 2\n"])
def test_the_first_line_of_word_vectors_is_recognised(content: str, tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text(content)
    WordVectorEncoder.check_arguments({"path": str(file), "idf": True})


def test_a_file_that_has_almost_no_word_of_the_questions_is_refused(tmp_path: Path) -> None:
    """One word of twenty, which is a number, in a file of another language."""
    file = tmp_path / "vectors.txt"
    file.write_text("der 1 0\nhund 0 1\n2 1 1\n")
    corpus = [f"word{n} 2" for n in range(19)]
    fault = "vectors.txt has vectors for 1 of the 20 words of the questions; is it of this language"
    arguments = {"path": str(file), "idf": True, "vector_size": 2}
    for refuses in (
        lambda: WordVectorEncoder(str(file)).fit(corpus),
        lambda: WordVectorEncoder.check_corpus(arguments, corpus),
        lambda: StackedLSTMEncoder.check_corpus(arguments, corpus),
        lambda: StackedLSTMEncoder(num_words=30, vector_size=2, path=str(file)).initialise(
            [*(f"word{n}" for n in range(19)), "2"]
        ),
    ):
        with pytest.raises(UserError, match=fault):
            refuses()
    for accepted in (corpus[:9], ["hund"], []):  # 1 of 10, of 1, of none
        WordVectorEncoder.check_corpus(arguments, accepted)
    StackedLSTMEncoder.check_corpus({"path": None, "vector_size": 0}, corpus)
