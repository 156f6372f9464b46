"""Types of beliefs by the oracle and by people, their shares, and the file format."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import binom
from toy_diagnosis import toy_scene

from ivqa.data import ClevrDataset
from ivqa.data.validation import DataError
from ivqa.diagnosis import (
    Belief,
    apply_annotations,
    check_annotations,
    label_weights,
    read_beliefs,
    share_of_contradictions,
    shares_of_types,
    type_of,
    typed_by_oracle,
)
from ivqa.errors import UserError
from ivqa.scenes import Scene, SceneOracle, oracle_of
from ivqa.store.files import write_json


def _belief(question: str, answer: str) -> Belief:
    return Belief(1, answer, question, 0.5, -3.0, 0.9, "rl")


def test_three_judgements_give_four_types() -> None:
    kinds = {
        (relevant, same, correct): type_of(relevant=relevant, same_fact=same, correct=correct)
        for relevant in (True, False)
        for same in (True, False)
        for correct in (True, False)
    }
    assert kinds[True, True, True] == "rephrase"
    assert kinds[True, False, True] == "complementary"
    assert kinds[True, False, False] == "adversarial"
    assert {kind for key, kind in kinds.items() if not key[0]} == {"irrelevant"}


def test_the_oracle_types_beliefs_exactly() -> None:
    scene: Scene = toy_scene()
    references = {(1, "red"): ["What color is the star?"], (1, "yes"): ["Is there a star?"]}
    beliefs = [
        _belief("Which color is the star?", "red"),  # the same program in different words
        _belief("Do you see any hearts?", "yes"),
        _belief("What color is the heart?", "red"),  # it is blue
        _belief("What color is the cross?", "red"),  # there is none
        _belief("Red the is star?", "red"),
    ]
    typed = typed_by_oracle(beliefs, SceneOracle({1: scene}), references)
    kinds = ["rephrase", "complementary", "adversarial", "irrelevant", None]
    assert [belief.type for belief in typed] == kinds
    assert [belief.type_by for belief in typed] == ["oracle"] * 4 + [None]
    shares = shares_of_types(typed)
    assert shares["beliefs/correct"] == 0.5
    assert sum(shares[f"beliefs/{kind}"] for kind in kinds[:4]) == 1


def test_the_oracle_of_another_data_set_types_beliefs_by_its_own_programs(tmp_path: Path) -> None:
    """A CLEVR root with one red cube and two questions, opened like any data set."""

    def steps(*names: str, **values: list[str]) -> list[dict[str, object]]:
        return [
            {
                "function": name,
                "inputs": [at - 1] if at else [],
                "value_inputs": values.get(name, []),
            }
            for at, name in enumerate(names)
        ]

    cube = {"filter_shape": ["cube"]}
    programs = {
        "How many cubes are there?": (steps("scene", "filter_shape", "count", **cube), "1"),
        "What number of cubes are there?": (steps("scene", "filter_shape", "count", **cube), "1"),
        "What color is the cube?": (
            steps("scene", "filter_shape", "unique", "query_color", **cube),
            "red",
        ),
    }
    questions = [
        {
            "question_index": at,
            "image_index": 1,
            "question": text,
            "program": made,
            "answer": answer,
        }
        for at, (text, (made, answer)) in enumerate(programs.items())
    ]
    thing = {"size": "small", "color": "red", "material": "metal", "shape": "cube"}
    sides: dict[str, list[list[int]]] = {
        name: [[]] for name in ("left", "right", "front", "behind")
    }
    scene = {"image_index": 1, "objects": [thing], "relationships": sides}
    for name, content in (("questions", questions), ("scenes", [scene])):
        write_json(tmp_path / name / f"CLEVR_val_{name}.json", {name: content})
    oracle = oracle_of(ClevrDataset(tmp_path), "val")
    assert oracle is not None
    references = {(1, "1"): ["How many cubes are there?"]}
    beliefs = [
        _belief("What number of cubes are there?", "1"),  # the same program in different words
        _belief("How many red things are there?", "1"),
        _belief("How many balls are there?", "1"),
        _belief("What color is the ball?", "1"),
        _belief("Cubes how many?", "1"),
    ]
    typed = typed_by_oracle(beliefs, oracle, references)
    assert [one.type for one in typed] == [
        "rephrase",
        "complementary",
        "adversarial",
        "irrelevant",
        None,
    ]


def test_shares_are_of_typed_beliefs_and_intervals_resample_images() -> None:
    """100 images with four beliefs of one type have the intervals of 100 independent beliefs."""
    kinds = ["rephrase"] * 30 + ["complementary"] * 20 + ["adversarial"] * 40 + ["irrelevant"] * 10
    beliefs = [
        replace(_belief("Is it red?", "yes"), image_id=image, type=kind, type_by="oracle")  # type: ignore[arg-type]
        for image, kind in enumerate(kinds)
        for _ in range(4)
    ]
    untyped = [replace(_belief("Is it?", "yes"), image_id=image) for image in range(200)]
    shares = shares_of_types([*untyped, *beliefs], resamples=4000)
    expected = {"rephrase": 0.3, "complementary": 0.2, "adversarial": 0.4, "irrelevant": 0.1,
                "correct": 0.5}  # fmt: skip
    for name, share in expected.items():
        assert shares[f"beliefs/{name}"] == pytest.approx(share)
        spread = 1.96 * (share * (1 - share) / 100) ** 0.5
        assert shares[f"beliefs/{name}_low"] == pytest.approx(share - spread, abs=0.025)
        assert shares[f"beliefs/{name}_high"] == pytest.approx(share + spread, abs=0.025)
    assert shares["beliefs/incorrect"] == pytest.approx(0.5)
    assert len(shares) == 3 * 5 + 1
    wrong = shares_of_types(beliefs[200:])
    assert wrong["beliefs/correct"] == 0
    assert wrong["beliefs/incorrect"] == 1
    assert wrong["beliefs/adversarial"] == pytest.approx(0.8)
    assert shares_of_types(untyped) == {}


def test_the_interval_ends_at_the_binomial_quantiles_of_95_percent() -> None:
    """100 images with one belief each: the resampled shares are binomial."""
    belief = replace(_belief("Is it red?", "yes"), type="rephrase", type_by="oracle")
    beliefs = [
        replace(belief, image_id=at, type="rephrase" if at % 2 else "adversarial")
        for at in range(100)
    ]
    shares = shares_of_types(beliefs, resamples=20_000)
    low, high = binom.ppf([0.025, 0.975], 100, 0.5) / 100  # 0.40 and 0.60; of 90 percent 0.42, 0.58
    for name in ("rephrase", "adversarial", "correct"):
        assert (shares[f"beliefs/{name}_low"], shares[f"beliefs/{name}_high"]) == (low, high)


def test_a_resampled_share_is_over_the_resampled_beliefs() -> None:
    """Nine beliefs about one image and one about another: two draws give 0, 0.9 or 1."""
    belief = replace(_belief("Is it red?", "yes"), type="rephrase", type_by="oracle")
    other = replace(belief, image_id=2, type="irrelevant")
    shares = shares_of_types([belief] * 9 + [other])
    assert shares["beliefs/rephrase"] == pytest.approx(0.9)
    assert shares["beliefs/rephrase_low"] == 0
    assert shares["beliefs/rephrase_high"] == 1
    assert shares_of_types([belief] * 9)["beliefs/rephrase_low"] == 1


def test_the_majority_of_the_annotators_decides(tmp_path: Path) -> None:
    beliefs = [_belief("Is it red?", "yes"), _belief("Is it blue?", "no")]
    votes = [(True, True, True), (True, True, True), (False, False, False)]
    names = ("relevant", "same_fact", "correct")
    key = {"image_id": 1, "answer": "yes", "question": "Is it red?"}
    records = [{**key, **dict(zip(names, vote, strict=True))} for vote in votes]
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps(records))
    first, second = apply_annotations(beliefs, file)
    assert (first.type, first.type_by) == ("rephrase", "human")
    assert second.type is None

    file.write_text(json.dumps([{**records[0], "question": "Why?"}]))
    with pytest.raises(DataError, match=r"record 1: 'Why\?' is not a belief"):
        apply_annotations(beliefs, file)
    file.write_text("[{}]")
    with pytest.raises(DataError, match="lacks 'image_id'"):
        apply_annotations(beliefs, file)


def test_incomplete_annotations_are_ignored_with_a_warning(tmp_path: Path) -> None:
    beliefs = [replace(_belief(f"Is it {color}?", "yes"), type="rephrase", type_by="oracle")
               for color in ("red", "blue", "green")]  # fmt: skip
    key = {"image_id": 1, "answer": "yes"}
    scored = {**key, "question": "Is it red?", "score": 4}
    partial = {**key, "question": "Is it red?", "relevant": True, "correct": True}
    judged = {**key, "question": "Is it blue?", "relevant": True, "same_fact": False}
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps([scored, partial, {**judged, "correct": True, "score": 1}, scored]))
    with pytest.warns(UserWarning, match=r"3 of 4 records .* \(2 have a score only\)"):
        typed = apply_annotations(beliefs, file)
    assert [belief.type for belief in typed] == [None, "complementary", None]
    assert [belief.type_by for belief in typed] == [None, "human", None]
    # Records with only a score leave all types unchanged.
    file.write_text(json.dumps([scored, {"score": 3}]))
    with pytest.warns(UserWarning, match="2 of 2 records"):
        assert apply_annotations(beliefs, file) == beliefs
    # No record has "same_fact": that is an error.
    file.write_text(json.dumps([scored, partial]))
    with pytest.raises(DataError, match="record 2: lacks 'same_fact', and no other record"):
        apply_annotations(beliefs, file)


def test_an_irrelevant_belief_needs_no_further_answer(tmp_path: Path) -> None:
    file = tmp_path / "annotations.json"
    key = {"image_id": 1, "answer": "yes", "question": "Is it red?"}
    file.write_text(json.dumps([{**key, "relevant": False}]))
    (typed,) = apply_annotations([_belief("Is it red?", "yes")], file)
    assert (typed.type, typed.type_by) == ("irrelevant", "human")


@pytest.mark.parametrize(
    ("votes", "kind"),
    [
        ([(True, True, True), (False, False, False)], "irrelevant"),  # a tie means no
        ([(True, True, True), (True, False, True)], "complementary"),
        ([(True, True, False), (True, True, True)], "adversarial"),
        ([(True, True, True), (True, False, True), (True, True, False)], "rephrase"),
        # An irrelevant belief is neither the same fact nor correct, whatever was ticked.
        ([(True, True, True), (False, True, True), (True, False, False)], "adversarial"),
    ],
)
def test_each_question_has_its_own_majority(
    votes: list[tuple[bool, ...]], kind: str, tmp_path: Path
) -> None:
    key = {"image_id": 1, "answer": "yes", "question": "Is it red?"}
    names = ("relevant", "same_fact", "correct")
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps([{**key, **dict(zip(names, one, strict=True))} for one in votes]))
    (typed,) = apply_annotations([_belief("Is it red?", "yes")], file)
    assert typed.type == kind


def test_beliefs_round_trip_and_a_broken_line_is_named(tmp_path: Path) -> None:
    beliefs = [_belief("Is it red?", "yes"), _belief("Où?", "là")]
    file = tmp_path / "beliefs.jsonl"
    file.write_text("".join(belief.line() for belief in beliefs))
    assert read_beliefs(file) == beliefs
    file.write_text(beliefs[0].line() + '{"image_id": 3\n')
    with pytest.raises(UserError, match="line 2"):
        read_beliefs(file)


def test_the_doubt_of_the_judges_is_in_the_file_where_there_are_judges(tmp_path: Path) -> None:
    plain = _belief("Is it red?", "yes")
    by_judges = {"judge_wrong": 0.75, "judge_answer": "2"}
    judged = replace(plain, type="adversarial", type_by="judge", **by_judges)  # type: ignore[arg-type]
    assert not by_judges.keys() & json.loads(plain.line()).keys()
    assert by_judges.items() <= json.loads(judged.line()).items()
    file = tmp_path / "beliefs.jsonl"
    file.write_text(plain.line() + judged.line())
    assert read_beliefs(file) == [plain, judged]


def test_weights_count_in_the_shares() -> None:
    """One belief that was drawn a third as often as the others stands for three of them."""
    kinds = ["rephrase", "adversarial", "adversarial", None]
    beliefs = [
        replace(_belief(f"Is it {at}?", "yes"), image_id=at % 2, type=kind)  # type: ignore[arg-type]
        for at, kind in enumerate(kinds)
    ]
    shares = shares_of_types(beliefs, [3, 1, 1, 7])
    assert shares["beliefs/correct"] == pytest.approx(0.6)
    assert shares["beliefs/adversarial"] == pytest.approx(0.4)
    # Image 0 has 3 of 4 correct by weight, image 1 none.
    assert shares["beliefs/correct_low"] == 0
    assert shares["beliefs/correct_high"] == pytest.approx(0.75)


def _annotated(path: Path, *changes: dict[str, object]) -> Path:
    key = {"image_id": 1, "answer": "yes", "question": "Is it red?", "relevant": False}
    path.write_text(json.dumps([{**key, **change} for change in changes]))
    return path


def test_the_weights_of_a_page_are_read(tmp_path: Path) -> None:
    beliefs = [_belief(f"Is it {color}?", "yes") for color in ("red", "blue", "green")]
    blue = {"question": "Is it blue?"}
    file = _annotated(tmp_path / "a.json", {"weight": 0.5}, {**blue, "weight": 2}, {"weight": 0.5})
    assert label_weights(beliefs, file).tolist() == [0.5, 2, 1]
    _annotated(file, {}, blue)
    assert label_weights(beliefs, file).tolist() == [1, 1, 1]
    # A record that is ignored may lack its weight.
    _annotated(file, {"weight": 3}, {"relevant": True})
    assert label_weights(beliefs, file).tolist() == [3, 1, 1]


@pytest.mark.parametrize(
    "changes",
    [
        [{"weight": 0.5}, {"weight": 1}],  # two weights of one belief
        [{"weight": 0.5}, {"question": "Is it blue?"}],
        [{}, {"question": "Is it blue?", "weight": 0.5}],
    ],
)
def test_files_of_several_pages_cannot_be_joined(
    changes: list[dict[str, object]], tmp_path: Path
) -> None:
    file = _annotated(tmp_path / "a.json", *changes)
    with pytest.raises(DataError, match="record 2: 'weight' does not fit the records before it"):
        check_annotations(file, {1})


def test_contradictions_are_counted_within_each_image() -> None:
    def belief(image_id: int, question: str, answer: str) -> Belief:
        return Belief(image_id, answer, question, 0.5, -3.0, 0.9, "rl")

    beliefs = [
        belief(1, "Is there a star?", "yes"),
        belief(1, "How many stars are there?", "0"),
        belief(1, "Is there a heart?", "yes"),
        belief(2, "Is there a heart?", "no"),  # about another image
        belief(2, "Where is this?", "beach"),
    ]
    assert share_of_contradictions(beliefs) == pytest.approx(2 / 5)
    assert share_of_contradictions(beliefs[1:]) == 0
    assert share_of_contradictions(beliefs[:2]) == 1
    assert share_of_contradictions([]) == 0
