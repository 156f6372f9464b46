"""Models that write their answers, diagnosed and evaluated under noise by the commands."""

import json
from pathlib import Path

import pytest
import torch
from tiny_vlm import without_num2words

from ivqa.data import VQADataset
from ivqa.diagnosis import read_beliefs
from ivqa.vqa.transformers.hf_generative import HFGenerative

from .conftest import ONE_STEP, TINY_DIAGNOSIS, Run, metrics_of
from .tiny_writers import train_tiny_writer

PARTS = [item for item in TINY_DIAGNOSIS if not item.startswith("vqa.")]
FAMILIES = [pytest.param("Qwen2.5-VL", marks=pytest.mark.slow), "SmolVLM"]


@pytest.fixture(scope="module", params=FAMILIES)
def folder(
    request: pytest.FixtureRequest, tiny_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A model that writes "Yes." where the annotators write "yes"."""
    with pytest.MonkeyPatch.context() as patch:
        without_num2words(patch)
        train = VQADataset(tiny_root).split("train")
        return train_tiny_writer(request.param, train, tmp_path_factory.mktemp("writer"))


@pytest.fixture(autouse=True)
def _num2words(monkeypatch: pytest.MonkeyPatch) -> None:
    without_num2words(monkeypatch)


def _normalised(answer: str) -> str:
    """The official normalisation of one word with a full stop."""
    return answer.lower().removesuffix(".")


def _official(answer: str, annotators: list[str]) -> float:
    """VQA accuracy: the mean over nine of ten annotators of min(matches / 3, 1).

    The official evaluation normalises nothing where all annotators agree.
    """
    compared = answer if len(set(annotators)) == 1 else _normalised(answer)
    matches = [own == compared for own in annotators]
    return sum(min((sum(matches) - own) / 3, 1) for own in matches) / len(matches)


def test_open_answers_are_evaluated_under_noise(
    folder: Path, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    status, printed = run(
        "evaluate",
        "model=hf_generative",
        f"model.path={folder}",
        "model.prompt='{question}'",
        "callbacks=robustness",
        "r_score.tolerance=0",
        "r_score.limit=1",
        "data=vqa_json",
        f"data.root={tiny_root}",
        f"output_dir={tmp_path / 'run'}",
    )
    assert status == 0, printed
    told = json.loads((tmp_path / "run" / "predictions.json").read_text())
    assert any(row["answer"].endswith(".") and row["answer"][0].isupper() for row in told)
    answered = [row for row in told if row["answer"]]  # a tiny model may write nothing
    annotations = json.loads((tiny_root / "annotations_val.json").read_text())["annotations"]
    annotators = {
        row["question_id"]: [own["answer"] for own in row["answers"]] for row in annotations
    }
    accuracies = [_official(row["answer"], annotators[row["question_id"]]) for row in answered]
    metrics = metrics_of(tmp_path / "run")
    assert metrics["vqa/failed"] == len(annotations) - len(answered)
    assert metrics["vqa/accuracy"] == pytest.approx(sum(accuracies) / len(answered), abs=1e-6)
    assert metrics["vqa/accuracy"] > 0  # no answer equals an annotator's before normalisation
    levels = [metrics[f"robustness/partition_{level}/accuracy"] for level in range(8)]
    assert levels[0] == pytest.approx(metrics["vqa/accuracy"])
    assert metrics["robustness/r_score"] == pytest.approx(1 - abs(levels[0] - levels[1]) ** 0.5)


@pytest.mark.parametrize(
    "folder", [pytest.param("Qwen2.5-VL", marks=pytest.mark.slow), "SmolVLM"], indirect=True
)
def test_beliefs_are_what_the_model_writes(
    folder: Path, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    status, printed = run(
        "diagnose",
        "vqa=hf_generative",
        f"vqa.path={folder}",
        "vqa.prompt='{question}'",
        'vqa.module.answer_forms=["{answer}","{Answer}."]',
        "data=vqa_json",
        f"data.root={tiny_root}",
        *PARTS,
        *ONE_STEP,
        f"output_dir={tmp_path / 'run'}",
    )
    assert status == 0, printed
    beliefs = read_beliefs(tmp_path / "run" / "beliefs.jsonl")
    assert len(beliefs) == metrics_of(tmp_path / "run")["beliefs/count"] > 0
    model = HFGenerative.load(str(folder))
    images = VQADataset(tiny_root).split("val").require_images()
    for belief in beliefs[:: max(1, len(beliefs) // 10)]:
        content = [
            {"type": "image", "image": images.open(belief.image_id)},
            {"type": "text", "text": belief.question},
        ]
        inputs = model.processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        told = model.model.generate(
            **inputs,
            max_new_tokens=16,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        new = told.sequences[0, inputs["input_ids"].shape[1] :]
        written = model.processor.tokenizer.decode(new, skip_special_tokens=True)
        assert written != belief.answer
        assert _normalised(written) == belief.answer
        probability = torch.cat(told.logits).softmax(dim=1)[torch.arange(len(new)), new].prod()
        assert probability - 1e-4 <= belief.phi <= 1  # the rest is that of "yes"
