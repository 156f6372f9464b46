"""Data sets with an evaluation of their own, compared with the figures of the official programs.

Each function below makes the official files of a data set from a seed, with answers that differ in
case, articles, number words, contractions and full stops. The figures were computed from the same
files by the programs of the data sets: evaluation/eval_predictions.py (A-OKVQA), eval.py with
--consistency (GQA), vqaEval.py of the VizWiz API, vqaEval.py of GT-Vision-Lab/VQA (VQA v2 and
OK-VQA), evaluate.py (Visual7W).
"""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ivqa.data import DataError, VQADataset
from ivqa.metrics import vqa_accuracies
from ivqa.robustness.records import NoiseRecords
from ivqa.vqa.scores import score_answers, score_choices

CONF = Path(__file__).parents[2] / "conf" / "data"
WORDS = [
    "yes", "Yes", "no", "No.", "two", "2", "none", "0", "a dog", "dog", "The dog", "dont know",
    "don't know", "don’t know", "unanswerable", "Unanswerable.", "At a park.", "at a park",
    "1,000", "1000", "red", "Red ", "red\n", "black/white", "black white", "aint it", "ain't it",
    "couldn'tve", "weve", "we've", "whats", "what's", "2:50 pm", "grey",
]  # fmt: skip
# The last steps of programs of GQA; eval.py does not count all of them.
PROGRAM_ENDS = [
    {"operation": operation, "argument": argument, "dependencies": [0]}
    for operation, argument in [
        ("exist", "?"), ("query", "name"), ("verify color", "red"), ("choose name", "cat|dog"),
    ]
]  # fmt: skip
NUMBER = 600
Made = tuple[dict[str, Any], list[str], list[Any]]  # files by name, answers, further predictions


def exactly(value: float) -> Any:
    return pytest.approx(value, abs=1e-9, rel=0)


def opened(choice: str, root: Path, files: dict[str, Any], **more: Any) -> VQADataset:
    """The data set as `data=CHOICE data.root=ROOT` opens it, after its files are written."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps(content))
    cfg = OmegaConf.create({"data": OmegaConf.load(CONF / f"{choice}.yaml")})
    dataset: VQADataset = instantiate(
        OmegaConf.merge(cfg, {"data": {"root": str(root)}}).data, **more
    )
    return dataset


def annotated(rng: random.Random, number: int = 10) -> tuple[list[str], str]:
    """The answers of annotators, unanimous or not, and one that may equal some of them."""
    pool = rng.sample(WORDS, rng.randint(1, 4))
    return [rng.choice(pool) for _ in range(number)], rng.choice([*pool, rng.choice(WORDS)])


def made_aokvqa(seed: int) -> Made:
    rng, records, answers, chosen = random.Random(seed), [], list[str](), list[Any]()
    for at in range(NUMBER):
        given, answer = annotated(rng, rng.choice([10, 10, 2]))
        choices = rng.sample(WORDS, 4)
        records.append({
            "split": "val", "image_id": at, "question_id": f"name{at}", "question": "What is it?",
            "choices": choices, "correct_choice_idx": rng.randrange(4), "direct_answers": given,
            "difficult_direct_answer": rng.random() < 0.3, "rationales": [],
        })  # fmt: skip
        answers.append(answer)
        chosen.append(rng.choice(choices))
    return {"aokvqa_v1p0_val.json": records}, answers, chosen


def made_gqa(seed: int) -> Made:
    rng = random.Random(seed)
    words = ["yes", "no", "red", "Red", "dog", "a dog", "color", "shape"]
    names = [f"{rng.choice(['0', '1', '00'])}{at:04d}" for at in range(NUMBER)]
    questions, choices, answers = dict[str, Any](), dict[str, Any](), list[str]()
    for at, name in enumerate(names):
        structural = rng.choice(["query", "verify", "choose", "logical", "compare"])
        questions[name] = {
            "question": f"Is it {'very ' * (at % 3)}red?", "imageId": "12",
            "answer": rng.choice(words), "isBalanced": rng.random() < 0.6,
            "entailed": [name, *rng.sample(names, rng.randint(0, 3))],
            "groups": {"global": rng.choice([None, "color", "animal"])},
            "semantic": [
                {"operation": "select", "argument": "dog (1)", "dependencies": []},
                *[{"operation": "filter color", "argument": "red", "dependencies": [0]}] * (at % 2),
                PROGRAM_ENDS[at % 4],
            ],
            "types": {
                "structural": structural, "semantic": rng.choice(["obj", "attr", "rel"]),
                "detailed": rng.choice(["twoCommon", "existC"]),
            },
        }  # fmt: skip
        choices[name] = {"valid": rng.sample(words, 4), "plausible": rng.sample(words, 2)}
        right = questions[name]["answer"]
        answers.append(right if rng.random() < 0.4 else rng.choice([*words, ""]))
    files = {"questions/val_all_questions.json": questions, "eval/val_choices.json": choices}
    return files, answers, []


def made_vizwiz(seed: int) -> Made:
    rng, records, answers, scores = random.Random(seed), [], list[str](), list[Any]()
    for at in range(NUMBER):
        given, answer = annotated(rng)
        kind = rng.choice(["yes/no", "number", "other", "unanswerable"])
        records.append({
            "image": f"VizWiz_val_{at:08d}.jpg", "question": "What is it?", "answer_type": kind,
            "answers": [{"answer": text, "answer_confidence": "yes"} for text in given],
            "answerable": int(kind != "unanswerable"),
        })  # fmt: skip
        answers.append(rng.choice([answer, answer, "unanswerable"]))
        scores.append(rng.choice([rng.random(), 0.5, 0.25]))
    return {"Annotations/val.json": records}, answers, scores


def made_vqa(seed: int, prefix: str) -> Made:
    rng, asked, known, answers = random.Random(seed), list[Any](), list[Any](), list[str]()
    for at in range(NUMBER):
        given, answer = annotated(rng)
        key = {"image_id": at, "question_id": 10 * at}
        asked.append({**key, "question": "What is it?"})
        known.append({
            **key, "question_type": rng.choice(["what is", "is the"]),
            "answer_type": rng.choice(["yes/no", "number", "other"]),
            "answers": [
                {"answer_id": n, "answer": text, "raw_answer": f"{text}s"}
                for n, text in enumerate(given, 1)
            ],
        })  # fmt: skip
        answers.append(answer)
    files = {
        f"{prefix}OpenEnded_mscoco_val2014_questions.json": {"questions": asked},
        f"{prefix}mscoco_val2014_annotations.json": {"annotations": known},
    }
    return files, answers, []


def made_visual7w(seed: int) -> Made:
    rng, images, answers, chosen = random.Random(seed), list[Any](), list[str](), list[Any]()
    for at in range(NUMBER):
        right, *wrong = rng.sample(WORDS, 4)
        pair = {
            "qa_id": at, "image_id": at, "question": "What is it?", "answer": right,
            "type": rng.choice(["what", "who"]), "multiple_choices": wrong,
        }  # fmt: skip
        images.append({"split": "val", "image_id": at, "qa_pairs": [pair]})
        answers.append(rng.choice([right, right.upper(), f"{right}.", rng.choice(WORDS)]))
        chosen.append(rng.choice([right, *wrong]))
    return {"dataset_v7w_telling.json": {"images": images}}, answers, chosen


SEED = 7
OFFICIAL: dict[str, dict[str, float]] = {
    "aokvqa": {
        "vqa/accuracy": 0.5103174603174601,
        "vqa/multiple_choice": 0.24166666666666667,
    },
    "gqa": {
        "vqa/accuracy": 0.4650537634408602,
        "gqa/binary": 0.4844290657439446,
        "gqa/open": 0.3975903614457831,
        "gqa/consistency": 0.45052083333333326,
        "gqa/validity": 0.34408602150537637,
        "gqa/plausibility": 0.20698924731182797,
        "gqa/distribution": 0.09034045459049313,
        "gqa/structural/choose": 0.5866666666666667,
        "gqa/structural/compare": 0.4117647058823529,
        "gqa/structural/logical": 0.3855421686746988,
        "gqa/structural/query": 0.3975903614457831,
        "gqa/structural/verify": 0.5714285714285714,
        "gqa/semantic/attr": 0.4253731343283582,
        "gqa/semantic/obj": 0.47580645161290325,
        "gqa/semantic/rel": 0.5,
        "gqa/steps/1": 0.4845360824742268,
        "gqa/steps/2": 0.4581818181818182,
        "gqa/length/3": 0.48717948717948717,
        "gqa/length/4": 0.45454545454545453,
        "gqa/length/5": 0.4552238805970149,
    },
    "vizwiz": {
        "vqa/accuracy": 0.22233333333333338,
        "vqa/number": 0.26183206106870227,
        "vqa/other": 0.17426470588235296,
        "vqa/unanswerable": 0.22335329341317361,
        "vqa/yes_no": 0.22951807228915658,
    },
    "vizwiz scores": {
        "vizwiz/answerability_average_precision": 0.2770606489816264,
        "vizwiz/answerability_f1": 0.3282937365010799,
    },
    "vizwiz answers": {
        "vizwiz/answerability_average_precision": 0.2834502295856717,
        "vizwiz/answerability_f1": 0.33333333333333326,
    },
    "okvqa": {
        "vqa/accuracy": 0.6008333333333336,
        "vqa/number": 0.6111111111111112,
        "vqa/other": 0.5747422680412371,
        "vqa/yes_no": 0.6153846153846154,
        "vqa/question_type/is_the": 0.6202127659574467,
        "vqa/question_type/what_is": 0.5836477987421387,
    },
    "vqa_v2": {
        "vqa/accuracy": 0.6008333333333336,
        "vqa/number": 0.6111111111111112,
        "vqa/other": 0.5747422680412371,
        "vqa/yes_no": 0.6153846153846154,
        "vqa/question_type/is_the": 0.6202127659574467,
        "vqa/question_type/what_is": 0.5836477987421387,
    },
    "visual7w": {
        "vqa/accuracy": 0.5166666666666667,
        "vqa/question_type/what": 0.4919093851132686,
        "vqa/question_type/who": 0.5429553264604811,
        "vqa/multiple_choice": 0.26666666666666666,
    },
}


@pytest.mark.parametrize(
    ("choice", "made", "split"),
    [
        ("aokvqa", made_aokvqa(SEED), "val"),
        ("gqa", made_gqa(SEED), "val_all"),
        ("vizwiz", made_vizwiz(SEED), "val"),
        ("okvqa", made_vqa(SEED, ""), "val2014"),
        ("vqa_v2", made_vqa(SEED, "v2_"), "val2014"),
        ("visual7w", made_visual7w(SEED), "val"),
    ],
    ids=["aokvqa", "gqa", "vizwiz", "okvqa", "vqa_v2", "visual7w"],
)
def test_the_figures_equal_those_of_the_official_program(
    choice: str, made: Made, split: str, tmp_path: Path
) -> None:
    files, answers, further = made
    data = opened(choice, tmp_path, files).split(split)
    found = score_answers(data, answers)
    if data.multiple_choices is not None:
        found |= score_choices(data, further)
    wanted = OFFICIAL[choice]
    assert {name: found[name] for name in wanted} == {
        name: exactly(value) for name, value in wanted.items()
    }
    given = [answer or "nothing" for answer in answers]  # an empty answer is no answer there
    noisy = NoiseRecords.scored(data, [given, ["nothing"] * len(answers)]).curve().metrics()
    assert noisy["partition_0/accuracy"] == exactly(wanted["vqa/accuracy"])


def test_vizwiz_answerability_from_scores_and_from_answers(tmp_path: Path) -> None:
    files, answers, scores = made_vizwiz(SEED)
    split = opened("vizwiz", tmp_path, files).split("val")
    for how, probability in (("answers", None), ("scores", 1 - np.array(scores))):
        found = score_answers(split, answers, probability)
        for name, value in OFFICIAL[f"vizwiz {how}"].items():
            assert found[name] == exactly(value)
    files["Annotations/val.json"] = [
        record for record in files["Annotations/val.json"] if record["answerable"]
    ]
    answerable = opened("vizwiz", tmp_path, files).split("val")
    found = score_answers(answerable, ["yes"] * len(answerable))
    assert not any(name.startswith("vizwiz/") for name in found)


def test_a_choice_is_right_whatever_the_direct_answers_are(tmp_path: Path) -> None:
    """One of ten direct answers is the correct choice: VQA accuracy would give it .3."""
    files, _, _ = made_aokvqa(SEED)
    for record in files["aokvqa_v1p0_val.json"]:
        right = record["choices"][record["correct_choice_idx"]]
        record["direct_answers"] = [right] + ["other"] * 9
        record["difficult_direct_answer"] = True
    split = opened("aokvqa", tmp_path, files).split("val")
    right = [given[0] for given in split.answers]
    assert score_choices(split, right) == {"vqa/multiple_choice": 1}
    assert score_choices(split, [""] * len(right)) == {"vqa/multiple_choice": 0}
    assert "vqa/accuracy" not in score_answers(split, right)  # no direct answer counts
    with pytest.raises(ValueError, match="split 'val' has no question that counts"):
        NoiseRecords.scored(split, [right])


def test_gqa_figures_that_cannot_be_computed_are_left_out(tmp_path: Path) -> None:
    files, answers, _ = made_gqa(SEED)
    names = list(files["questions/val_all_questions.json"])
    balanced = {
        name: one
        for name, one in files.pop("questions/val_all_questions.json").items()
        if one["isBalanced"]
    }
    choices = files.pop("eval/val_choices.json")
    own = [answer for name, answer in zip(names, answers, strict=True) if name in balanced]
    files["questions/val_balanced_questions.json"] = balanced
    found = score_answers(opened("gqa", tmp_path, files).split("val"), own)
    assert found["vqa/accuracy"] == exactly(OFFICIAL["gqa"]["vqa/accuracy"])
    assert not {"gqa/consistency", "gqa/validity", "gqa/plausibility"} & found.keys()
    # The choices in parts, as for train; then a question without choices.
    parts = {
        f"val_choices/val_choices_{at}.json": dict([one]) for at, one in enumerate(choices.items())
    }
    found = score_answers(opened("gqa", tmp_path, parts).split("val"), own)
    assert found["gqa/validity"] == exactly(OFFICIAL["gqa"]["gqa/validity"])
    name = next(iter(balanced))
    parts[f"val_choices/val_choices_{names.index(name)}.json"] = {}
    split = opened("gqa", tmp_path, parts).split("val")
    with pytest.raises(DataError, match=f"question {name}: has no choices; use the files of one"):
        score_answers(split, own)


@pytest.mark.parametrize("entailed", [[["1"]], [5], "12", {"1": 2}, 7])
def test_entailed_questions_of_gqa_are_a_list_of_names(entailed: Any, tmp_path: Path) -> None:
    files, answers, _ = made_gqa(SEED)
    questions = files["questions/val_all_questions.json"]
    name = next(name for name, one in questions.items() if one["isBalanced"])
    questions[name]["entailed"] = entailed
    split = opened("gqa", tmp_path, files).split("val_all")
    with pytest.raises(DataError, match=f"question {name}: entailed: must hold texts"):
        score_answers(split, answers)


def test_full_stops_of_visual7w(tmp_path: Path) -> None:
    """The toolkit counts them; VQA's rule for a single annotator does not."""
    files, _, _ = made_visual7w(SEED)
    for image in files["dataset_v7w_telling.json"]["images"]:
        image["qa_pairs"][0]["answer"] = "At a park."
    split = opened("visual7w", tmp_path, files).split("val")
    answers = ["AT A PARK.", "At a park", "in a park."] * (NUMBER // 3)
    found = score_answers(split, answers)
    assert found["vqa/accuracy"] == exactly(1 / 3)
    assert found["visual7w/normalised"] == exactly(2 / 3)
    written = ["At a park", "at a park.", "At a park."]
    assert vqa_accuracies(written, [["At a park."]] * 3).tolist() == [1, 1, 1]
