"""Question pools on scenes and on a small data set, rule by rule."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ivqa.data import VQADataset, VQASplit
from ivqa.pools import (
    KINDS,
    GrammarReplacement,
    Pools,
    PoolSettings,
    Sources,
    TaggedReplacement,
    build_pools,
    read_pools,
    write_pools,
)
from ivqa.pools.building import _neighbours, accepted
from ivqa.scenes import SceneOracle, generate_scenes, parse
from ivqa.store.files import FileError
from ivqa.text.tokens import tokenise


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    root = generate_scenes(
        tmp_path_factory.mktemp("data") / "scenes",
        images={"train": 60, "val": 30},
        questions_per_image=10,
        workers=1,
        progress=False,
    )
    dataset = VQADataset(root, train="train", val="val")
    val = dataset.split("val")
    ids = np.unique(val.image_ids)
    features = np.random.default_rng(0).normal(size=(len(ids), 8)).astype(np.float32)
    oracle = SceneOracle.load(root, "val")
    return Sources(val, dataset.split("train"), features, ids, oracle, GrammarReplacement())


@pytest.fixture(scope="module")
def pools(sources: Sources) -> Pools:
    return build_pools(sources, PoolSettings(num_pairs=None, neighbours=10), Console())


def _by_pair(pools: Pools) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = [{kind: [] for kind in KINDS} for _ in range(len(pools))]
    for pair, question, kind in zip(
        pools.pair.tolist(), pools.questions, pools.kinds.tolist(), strict=True
    ):
        found[pair][KINDS[kind]].append(question)
    return found


def test_every_distinct_pair_has_24_different_questions(sources: Sources, pools: Pools) -> None:
    pairs = list(zip(sources.split.image_ids.tolist(), sources.split.main_answers, strict=True))
    assert list(zip(pools.image_ids.tolist(), pools.answers, strict=True)) == list(
        dict.fromkeys(pairs)
    )
    for pool in _by_pair(pools):
        texts = [" ".join(tokenise(text)) for own in pool.values() for text in own]
        assert len(texts) == len(set(texts)) == 24


def test_the_numbers_of_the_kinds(sources: Sources, pools: Pools) -> None:
    own = Counter(zip(sources.split.image_ids.tolist(), sources.split.main_answers, strict=True))
    short = 0
    for pool, image, answer in zip(
        _by_pair(pools), pools.image_ids.tolist(), pools.answers, strict=True
    ):
        assert len(pool["gt"]) == min(own[image, answer], 3)
        assert len(pool["pp"]) == 6
        if len(pool["ps"]) == 6 and len(pool["rn"]) == 6:
            assert len(pool["gt"]) + len(pool["ct"]) == 6
        short += len(pool["ps"]) < 6
    assert short < 0.9 * len(pools)


def test_no_distractor_is_correct(sources: Sources, pools: Pools) -> None:
    for pool, image, answer in zip(
        _by_pair(pools), pools.image_ids.tolist(), pools.answers, strict=True
    ):
        for kind, questions in pool.items():
            for question in questions:
                judged = sources.oracle.judge(image, question)  # type: ignore[union-attr]
                assert (answer in judged.acceptable) == (kind == "gt"), (kind, question)


def test_where_the_distractors_come_from(sources: Sources, pools: Pools) -> None:
    split, train = sources.split, sources.train
    triples = list(zip(split.image_ids.tolist(), split.questions, split.main_answers, strict=True))
    related = {(q, a) for _, q, a in triples}
    related |= set(zip(train.questions, train.main_answers, strict=True))
    unit = sources.features / np.linalg.norm(sources.features, axis=1, keepdims=True)
    similarity = unit @ unit.T
    type_of = dict(zip(split.main_answers, split.answer_types, strict=True))
    popular = {
        kind: Counter(
            q for q, own in zip(train.questions, train.answer_types, strict=True) if own == kind
        )
        for kind in set(train.answer_types)
    }
    ids = sources.image_ids.tolist()
    for pool, image, answer in zip(
        _by_pair(pools), pools.image_ids.tolist(), pools.answers, strict=True
    ):
        # Images by similarity, the image itself first.
        order = np.argsort(-similarity[ids.index(image)], kind="stable")[:11]
        near = {ids[at] for at in order}
        assert all(
            any(q == text and i in near and a != answer for i, q, a in triples)
            for text in pool["ct"]
        )
        assert all((text, answer) in related for text in pool["rn"])
        counts = popular[type_of[answer]]
        least = min(counts[text] for text in pool["pp"])
        left_out = [text for text, count in counts.items() if count > least]
        # More frequent questions are missing only where they are correct, or in the pool already.
        elsewhere = {text for own in pool.values() for text in own}
        for text in left_out:
            correct = answer in sources.oracle.judge(image, text).acceptable  # type: ignore[union-attr]
            assert correct or text in elsewhere
        truths = [tokenise(text) for text in pool["gt"]]
        for text in pool["ps"]:
            words = tokenise(text)
            different = [
                sum(a != b for a, b in zip(words, truth, strict=True))
                for truth in truths
                if len(truth) == len(words)
            ]
            assert 1 <= min(different) <= 2  # the word, and perhaps the article before it
            assert parse(text) is not None


def test_the_nearest_images_come_first(sources: Sources) -> None:
    """With identical features of two images, the questions of the twin come before others."""
    features = np.eye(len(sources.image_ids), dtype=np.float32)
    features[1] = features[0]
    twins = Sources(
        sources.split, sources.train, features, sources.image_ids, None, GrammarReplacement()
    )
    pools = build_pools(twins, PoolSettings(num_pairs=None, neighbours=1), Console())
    first, second = sources.image_ids[:2].tolist()
    split = sources.split
    of_image = {
        image: {
            q for i, q in zip(split.image_ids.tolist(), split.questions, strict=True) if i == image
        }
        for image in (first, second)
    }
    for pool, image in zip(_by_pair(pools), pools.image_ids.tolist(), strict=True):
        if image == first:
            assert set(pool["ct"]) <= of_image[first] | of_image[second]


def test_the_same_seed_gives_the_same_file(sources: Sources, tmp_path: Path) -> None:
    settings = PoolSettings(num_pairs=20)
    files = [tmp_path / name for name in ("one", "two", "three")]
    for file, seed in zip(files, (0, 0, 1), strict=True):
        chosen = PoolSettings(num_pairs=20, seed=seed)
        write_pools(file, build_pools(sources, chosen, Console()))
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
    built, read = build_pools(sources, settings, Console()), read_pools(files[0])
    assert len(read) == 20
    assert (read.answers, read.questions) == (built.answers, built.questions)
    for name in ("image_ids", "pair", "kinds"):
        np.testing.assert_array_equal(getattr(read, name), getattr(built, name))
    files[0].write_bytes(b"PAR1")
    with pytest.raises(FileError, match="holds no question pools"):
        read_pools(files[0])


def _split(questions: list[tuple[int, str, str]]) -> VQASplit:
    number = len(questions)
    return VQASplit(
        "val",
        np.arange(number),
        np.array([image for image, _, _ in questions]),
        [text for _, text, _ in questions],
        [[answer] for _, _, answer in questions],
        [answer for _, _, answer in questions],
        ["other"] * number,
        ["what is"] * number,
    )


def test_without_an_oracle_the_answers_of_the_data_decide() -> None:
    questions = [
        (1, "What color is the cat?", "red"),
        (1, "What color is the dog?", "red"),
        (1, "What is this?", "cat"),
        (2, "What color is the cat?", "red"),
        (2, "What color is the mat?", "red"),
        (2, "What color is the dog?", "blue"),
    ]
    split = _split(questions)

    class Swap:
        def variants(self, question: str, rng: random.Random):  # type: ignore[no-untyped-def]
            yield question.replace("cat", "dog")
            yield question.replace("cat", "hat")

    features = np.eye(2, dtype=np.float32)
    sources = Sources(split, split, features, np.array([1, 2]), None, Swap())
    pools = build_pools(sources, PoolSettings(), Console())
    first = _by_pair(pools)[0]
    assert set(first["gt"]) == {"What color is the cat?", "What color is the dog?"}
    assert first["ct"] == ["What is this?"]
    # "What color is the dog?" has the answer red for image 1, so it is no distractor there.
    assert first["ps"] == ["What color is the hat?"]
    assert [text for kind in ("pp", "rn") for text in first[kind]] == ["What color is the mat?"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Is there a red star?", ["Is there an orange star?", "Is there a red heart?"]),
        ("How many stars are there?", ["How many crosses are there?"]),
        ("Is the star left of the heart?", ["Is the star right of the heart?"]),
    ],
)  # fmt: skip
def test_words_are_replaced_within_the_grammar(question: str, expected: list[str]) -> None:
    found = list(GrammarReplacement().variants(question, random.Random(0)))
    assert set(expected) <= set(found)
    assert len(found) == len(set(found))
    assert all(parse(text) not in (None, parse(question)) for text in found)


def test_words_are_replaced_by_words_of_the_same_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = {"dog": "NN", "cat": "NN", "owl": "NN", "red": "JJ", "old": "JJ", "is": "VBZ"}

    def tag(text: str, tokenize: bool) -> list[tuple[str, str]]:
        assert not tokenize
        return [(word, tags.get(word, "DT")) for word in text.split()]

    monkeypatch.setattr("ivqa.pools.replacement.tag", tag)
    replacement = TaggedReplacement(["Is the dog old?", "Is the cat red?", "Is an owl red?"])
    # Nouns for the noun, adjectives for the adjective, and the article before a vowel changes.
    found = set(replacement.variants("Is the cat old?", random.Random(0)))
    assert found == {"Is the dog old?", "Is the owl old?", "Is the cat red?"}
    found = set(replacement.variants("Is an owl old?", random.Random(0)))
    assert found == {"Is a dog old?", "Is a cat old?", "Is an owl red?"}


def test_the_tagger_knows_parts_of_speech() -> None:
    """Number and part of speech stay the same, with words that the data never tag themselves."""
    asked = ["What color is the sofa?", "How many chairs are red?", "Is the lamp old?", "See pots?"]
    replacement = TaggedReplacement(asked)
    found = set(replacement.variants("How many chairs are red?", random.Random(0)))
    assert found == {"How many pots are red?", "How many chairs are old?"}
    found = set(replacement.variants("Is the sofa old?", random.Random(0)))
    assert found == {"Is the lamp old?", "Is the color old?", "Is the sofa red?"}


def test_accepted_answers_by_hand() -> None:
    given = ["orange"] * 5 + ["red"] * 3 + ["Blue", "blue."]
    assert accepted("orange", given) == {"orange", "red"}  # two annotators say blue
    assert accepted("teal", ["Two", "two", "2"]) == {"teal", "2"}  # normalised before the count


def test_an_answer_of_three_annotators_is_correct() -> None:
    """A question whose second answer is the wanted one is no distractor."""
    split = _split([(1, "What color is the cat?", "red"), (1, "What color is the hat?", "orange")])

    class Swap:
        def variants(self, question: str, rng: random.Random):  # type: ignore[no-untyped-def]
            yield question.replace("cat", "hat")

    def kinds(minority: int) -> dict[str, list[str]]:
        split.answers[1] = ["orange"] * (10 - minority) + ["red"] * minority
        sources = Sources(split, split, np.eye(1, dtype=np.float32), np.array([1]), None, Swap())
        return _by_pair(build_pools(sources, PoolSettings(), Console()))[0]

    assert [text for kind in KINDS[1:] for text in kinds(3)[kind]] == []
    assert kinds(2)["ct"] == ["What color is the hat?"]


def test_the_neighbours_are_those_of_a_full_sort() -> None:
    rng = np.random.default_rng(0)
    ids = rng.permutation(50) * 3
    features = rng.integers(0, 2, (50, 4)).astype(np.float32)  # with many ties
    found = _neighbours(features, ids, ids.tolist(), 7)
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    for row, image in enumerate(ids.tolist()):
        similarity = unit @ unit[row]
        others = [at for at in range(50) if at != row]
        nearest = sorted(others, key=lambda at: -round(float(similarity[at]), 5))[:7]
        # The order of a tie at the last place depends on rounding; the similarities do not.
        values = [round(float(similarity[ids.tolist().index(one)]), 4) for one in found[image]]
        assert values == [round(float(similarity[at]), 4) for at in nearest]
