"""The generated root: reproducible, in the official layout, with the intended biases."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import joblib
import pytest
from PIL import Image

from ivqa.data import VQADataset
from ivqa.scenes import generate_scenes

# Attention maps that each module of an expert layout takes (Hu et al., N2NMN, ICCV 2017).
NUM_INPUT_MAPS = {
    "_Find": 0,
    "_Transform": 1,
    "_And": 2,
    "_Scene": 0,
    "_Exist": 1,
    "_Count": 1,
    "_Describe": 1,
    "_MoreNum": 2,
    "_EqualNum": 2,
    "_SameProperty": 2,
}


def _read(root: Path, name: str, split: str = "train") -> dict:
    return json.loads((root / f"{name}_{split}.json").read_text())


def _contents(root: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file()
    }


def test_one_seed_gives_the_same_bytes_for_any_number_of_workers(tmp_path: Path) -> None:
    settings = {"images": {"train": 60, "val": 4}, "seed": 5, "progress": False}
    first = generate_scenes(tmp_path / "a", workers=1, **settings)
    second = generate_scenes(tmp_path / "b", workers=2, **settings)
    other = generate_scenes(tmp_path / "c", workers=1, **(settings | {"seed": 6}))
    assert _contents(first) == _contents(second)
    assert _read(first, "questions") != _read(other, "questions")


def test_a_complete_root_is_kept_and_an_interrupted_one_replaced(tmp_path: Path) -> None:
    root, draft = tmp_path / "scenes", tmp_path / ".scenes.draft"
    draft.mkdir()
    (draft / "leftover").touch()
    generate_scenes(root, images={"train": 2}, workers=1, progress=False)
    assert not (root / "leftover").exists()
    assert not draft.exists()
    before = (root / "manifest.json").stat().st_mtime_ns
    generate_scenes(root, images={"train": 2}, workers=1, progress=False)
    assert (root / "manifest.json").stat().st_mtime_ns == before
    generate_scenes(root, images={"train": 3}, workers=1, progress=False)
    assert len(list((root / "images" / "train").iterdir())) == 3


SCRIPT = """
import sys
from pathlib import Path
from ivqa.scenes import generate_scenes
if __name__ == "__main__":
    generate_scenes(Path(sys.argv[1]), images={"train": int(sys.argv[2])}, progress=False)
"""


def test_a_plain_script_can_be_the_first_that_needs_scenes(tmp_path: Path) -> None:
    """As README's example: without `if __name__ == "__main__"`."""
    lines = [line.strip() for line in SCRIPT.splitlines() if "__main__" not in line]
    (tmp_path / "plain.py").write_text("\n".join(["print('started')", *lines]))
    command = [sys.executable, "plain.py", "scenes", "120"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "started\n"), ran.stderr
    alone = generate_scenes(tmp_path / "alone", images={"train": 120}, workers=1, progress=False)
    assert _contents(tmp_path / "scenes") == _contents(alone)


def _start(script: Path, root: Path, images: int) -> subprocess.Popen[bytes]:
    script.write_text(SCRIPT)  # a file, because the worker processes import it
    return subprocess.Popen([sys.executable, str(script), str(root), str(images)])


def test_processes_that_need_the_same_scenes_at_once_share_them(tmp_path: Path) -> None:
    running = [_start(tmp_path / "script.py", tmp_path / "scenes", 4) for _ in range(2)]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    alone = generate_scenes(tmp_path / "alone", images={"train": 4}, workers=1, progress=False)
    assert _contents(tmp_path / "scenes") == _contents(alone)


def test_a_job_of_joblib_can_be_the_first_that_needs_scenes(tmp_path: Path) -> None:
    settings = {"images": {"train": 4}, "workers": 2, "progress": False}
    roots = [tmp_path / name / "scenes" for name in ("a", "b")]
    list(
        joblib.Parallel(n_jobs=2)(joblib.delayed(generate_scenes)(one, **settings) for one in roots)
    )
    assert _contents(roots[0]) == _contents(generate_scenes(tmp_path / "alone", **settings))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes by /proc")
def test_a_killed_generation_leaves_no_worker(tmp_path: Path) -> None:
    drafts = tmp_path / ".scenes.draft" / "images" / "train"
    process = _start(tmp_path / "script.py", tmp_path / "scenes", 100_000)
    while not (drafts.is_dir() and any(drafts.iterdir())) and process.poll() is None:
        time.sleep(0.05)
    workers = _children(process.pid)
    assert len(workers) >= 2
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [pid for pid in workers if _runs(pid)] == []


def _children(pid: int) -> list[int]:
    stats = [file.read_text() for file in Path("/proc").glob("[0-9]*/stat")]
    # "pid (name) state parent ..."
    found = [(int(text.split()[0]), text.rpartition(")")[2].split()) for text in stats]
    return [child for child, (_, parent, *_) in found if int(parent) == pid]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_impossible_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"images\.train must be between 1"):
        generate_scenes(tmp_path / "x", images={"train": 0})
    with pytest.raises(ValueError, match="come in pairs"):
        generate_scenes(tmp_path / "x", images={"train": 3}, balanced=True)


def test_the_root_reads_as_vqa_data(scenes_root: Path) -> None:
    split = VQADataset(scenes_root).split("train")
    assert len(split) == 360
    assert len(set(split.question_ids.tolist())) == 360
    assert all(len(answers) == 10 for answers in split.answers)
    assert split.captions is not None
    assert all(len(split.captions[image_id]) == 5 for image_id in split.image_ids.tolist())
    images = split.require_images()
    assert images.open(int(split.image_ids[0])).size == (128, 128)


def test_the_main_answer_is_the_annotators_mode(scenes_root: Path) -> None:
    disagreeing = 0
    for record in _read(scenes_root, "annotations")["annotations"]:
        counts = Counter(answer["answer"] for answer in record["answers"])
        assert counts.most_common(1)[0][0] == record["multiple_choice_answer"]
        disagreeing += len(counts) > 1
    assert 0.3 < disagreeing / 360 < 0.9


def test_the_biases_are_those_of_vqa(scenes_root: Path) -> None:
    answers: dict[str, Counter] = {"yes/no": Counter(), "number": Counter(), "other": Counter()}
    for record in _read(scenes_root, "annotations")["annotations"]:
        answers[record["answer_type"]][record["multiple_choice_answer"]] += 1
    yes_no = answers["yes/no"]
    assert 0.5 < yes_no["yes"] / yes_no.total() < 0.7
    assert answers["number"].most_common(1)[0][0] == "2"
    scenes = _read(scenes_root, "scenes").values()
    stars = Counter(
        thing["color"] for scene in scenes for thing in scene["things"] if thing["shape"] == "star"
    )
    assert stars["yellow"] / stars.total() > 0.5


@pytest.mark.parametrize("root_name", ["scenes_root", "balanced_root"])
def test_layouts_are_reverse_polish(root_name: str, request: pytest.FixtureRequest) -> None:
    for tokens in _read(request.getfixturevalue(root_name), "layouts").values():
        maps = 0
        for token in tokens[:-1]:
            assert NUM_INPUT_MAPS[token] <= maps
            maps += 1 - NUM_INPUT_MAPS[token]
        assert maps == NUM_INPUT_MAPS[tokens[-1]]
        assert tokens[-1] not in ("_Find", "_Transform", "_And")


def test_balanced_pairs_answer_the_same_question_differently(balanced_root: Path) -> None:
    questions = _read(balanced_root, "questions")["questions"]
    answers = {
        record["question_id"]: record["multiple_choice_answer"]
        for record in _read(balanced_root, "annotations")["annotations"]
    }
    pairs = {question["question_id"]: question for question in questions}
    yes = Counter(answer for answer in answers.values() if answer in ("yes", "no"))
    assert yes["yes"] == yes["no"] > 0
    for question_id, question in pairs.items():
        if question["image_id"] % 2:  # ids start at 1: the first of each pair
            twin = pairs[question_id + 100]
            assert twin["question"] == question["question"]
            assert answers[question_id + 100] != answers[question_id]


def test_pictures_differ_where_scenes_do(balanced_root: Path) -> None:
    first, second = sorted((balanced_root / "images" / "train").iterdir())[:2]
    with Image.open(first) as a, Image.open(second) as b:
        assert a.tobytes() != b.tobytes()
