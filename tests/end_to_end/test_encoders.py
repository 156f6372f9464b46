"""Skip-thoughts are trained and then used as sentence encoder and as question encoder."""

import json
from pathlib import Path

import torch

from .conftest import Run, metrics_of

SIZES = ["embedding_size=12", "size=16"]


def test_skip_thoughts_trained_here_rank_questions_and_start_question_encoders(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", "features=none", "model.epochs=2"]
    own = [f"model.module.network.{size}" for size in SIZES]
    command = ["model=skip_thoughts", *data, *own, "model.module.network.decoder_size=8"]
    status, printed = run("train", *command, f"output_dir={tmp_path / 'trained'}")
    assert status == 0, printed
    checkpoint = tmp_path / "trained" / "checkpoints" / "best.ckpt"

    shown = [*command, "model.benchmark.num_shown=3", f"output_dir={tmp_path / 'shown'}"]
    status, printed = run("evaluate", *shown)
    assert status == 0, printed
    assert "No trained" not in printed  # train.py stored it
    pairs = json.loads((tmp_path / "shown" / "neighbours.json").read_text())
    assert all(pair["question"] != pair["nearest"] for pair in pairs)
    assert f"{pairs[2]['question']} -> " in " ".join(printed.split())
    metrics = metrics_of(tmp_path / "shown")
    for source in ("", "untrained_", "chance_"):
        assert 0 <= metrics[f"neighbours/{source}same_question_type"] <= 1

    started = ["question_encoder=skip_thoughts", f"question_encoder.path={checkpoint}"]
    started += [f"question_encoder.{size}" for size in SIZES] + ["question_encoder.frozen=true"]
    ranked = ["encoder=skip_thoughts", f"encoder.path={checkpoint}", "callbacks=robustness"]
    model = ["model=language_only", *data, *started]
    status, printed = run("evaluate", *model, *ranked, f"output_dir={tmp_path / 'answers'}")
    assert status == 0, printed
    assert metrics_of(tmp_path / "answers")["robustness/gap"] < 1e-6
    stored = next(
        Path(line[12:]) for line in printed.splitlines() if line.startswith("checkpoint: ")
    )
    weights = {
        name: torch.load(tmp_path / file, weights_only=True)["state_dict"][key]
        for name, file, key in [
            ("skip", checkpoint, "network.uni.gru.weight_hh_l0"),
            ("question", stored, "network.question_encoder.recurrence.weight_hh_l0"),
        ]
    }
    assert torch.equal(weights["skip"], weights["question"])

    lost = [part.replace(str(checkpoint), "gone") for part in model]
    status, printed = run("train", *lost, f"output_dir={tmp_path / 'lost'}")
    assert status == 1
    assert "question_encoder.path=gone: there are no skip-thoughts; give the folder" in printed
