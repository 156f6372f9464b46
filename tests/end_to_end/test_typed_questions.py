"""The ranking of typed questions, task=rank question=TEXT, as a user sees it."""

import json
import re
from pathlib import Path

import numpy as np

from ivqa.data import VQADataset
from ivqa.encoders.tfidf import TfidfEncoder
from ivqa.ranking.bqd_files import read_bqd
from ivqa.text.duplicates import unique_questions

from .conftest import Run, metrics_of

SMALL = ["task=rank", "bqd.splits=[train]", "ranker=cosine", "encoder.size=16", "k=4"]


def _by_cosine(pool: list[str], question: str, left_out: str | None) -> list[tuple[float, str]]:
    encoder = TfidfEncoder(size=16).fit(pool)
    cosines = encoder.encode(pool) @ encoder.encode([question])[0]
    order = np.argsort(-cosines, kind="stable").tolist()
    return [(float(cosines[at]), pool[at]) for at in order if pool[at] != left_out][:4]


def test_two_questions_are_ranked_printed_and_stored(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    pool = unique_questions(VQADataset(tiny_root, train="train").split("train").questions)
    own = pool[5]
    # The first has the words of a question of the pool, which it must not get.
    typed = [own.lower(), "How many stars, or hearts?"]
    out = tmp_path / "out"
    both = f"question=['{typed[0]}','{typed[1]}']"
    data = ["data=vqa_json", f"data.root={tiny_root}"]
    status, printed = run("evaluate", *SMALL, *data, both, f"output_dir={out}")
    assert status == 0, printed
    wanted = [_by_cosine(pool, typed[0], own), _by_cosine(pool, typed[1], None)]
    rows = re.findall(r"│ +(\d) │ +(\d\.\d{4}) │ (.+?) +│", printed)
    assert [int(rank) for rank, _, _ in rows] == [1, 2, 3, 4] * 2
    assert [text for _, _, text in rows] == [text for ranked in wanted for _, text in ranked]
    for (_, score, _), (cosine, _) in zip(rows, [*wanted[0], *wanted[1]], strict=True):
        assert abs(float(score) - cosine) < 1e-4
    assert f"left out of the ranking, because it has the same words: {own}" in printed
    assert printed.count("left out of the ranking") == 1
    records = json.loads((out / "ranking.json").read_text())
    assert [record["MQ"] for record in records] == typed
    assert [[text for text, _ in record["BQ"]] for record in records] == [
        [text for _, text in ranked] for ranked in wanted
    ]
    assert read_bqd(out / "ranking.json")["question"].to_pylist() == typed
    assert metrics_of(out)["bqd/main_questions"] == 2
    assert metrics_of(out)["bqd/pool"] == len(pool)
    assert not (out / "bqd.parquet").exists()


def test_a_sentence_needs_no_quotes_of_hydra(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", f"output_dir={tmp_path / 'out'}"]
    asked = "What's the color of the star, red?"
    status, printed = run("evaluate", *SMALL, *data, f"question={asked}")
    assert status == 0, printed
    assert asked in printed


def test_a_question_without_words_is_refused(run: Run, tiny_root: Path) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}"]
    for empty in ("question=", "question=[]", "question=?", "question=['Why?',' ']"):
        status, printed = run("evaluate", *SMALL, *data, empty)
        assert status == 1
        assert "question" in printed
        assert "has no words" in printed or "not empty" in printed, printed
        assert "Traceback" not in printed
