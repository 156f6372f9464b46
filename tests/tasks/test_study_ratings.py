"""The ratings of several people, joined into a table."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ivqa.data import DataError
from ivqa.tasks.human_study.items import Study, StudyItem
from ivqa.tasks.human_study.ratings import read_ratings

STUDY = Study(
    "s1", {}, {}, [StudyItem(name, 1, "no", "Is it?", "Is it?", ["a"], {}) for name in "xyz"]
)


def _file(folder: Path, name: str, **content: Any) -> Path:
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"study": "s1", "person": name, "ratings": {"x": 1}} | content))
    return file


def test_a_row_is_a_person_and_a_column_an_item(tmp_path: Path) -> None:
    files = [
        _file(tmp_path, "Ben", ratings={"z": 4, "x": 0}),
        _file(tmp_path, "Anna", person="  Anna B ", ratings={"y": 2}),
    ]
    names, ratings = read_ratings(files, STUDY)
    assert names == ["Ben", "Anna B"]
    nan = float("nan")
    np.testing.assert_array_equal(ratings, [[0, nan, 4], [nan, 2, nan]])


@pytest.mark.parametrize("name", ["anna b", "Anna  B", " ANNA B"])
def test_two_files_of_a_person_are_named(name: str, tmp_path: Path) -> None:
    files = [_file(tmp_path, "one", person="Anna B"), _file(tmp_path, "two", person=name)]
    with pytest.raises(DataError) as caught:
        read_ratings(files, STUDY)
    assert f"{files[1]} and {files[0]} are both" in str(caught.value)
    assert f"'{name.strip()}'" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"ratings": {"x": 5}}, "item x: a score must be an integer from 0 to 4, not 5"),
        ({"ratings": {"x": -1}}, "item x: a score must be an integer from 0 to 4, not -1"),
        ({"ratings": {"x": 1.0}}, "item x: a score must be an integer from 0 to 4"),
        ({"ratings": {"x": True}}, "item x: a score must be an integer from 0 to 4"),
        ({"ratings": {"x": 1, "w": 1}}, "the study has no item 'w'"),
        ({"ratings": {}}, "has no ratings"),
        ({"ratings": [1]}, "not a file that"),
        ({"person": " "}, "not a file that"),
        ({"person": 1}, "not a file that"),
        ({"study": "s2"}, "another study ('s2', not 's1')"),
        ({"study": None}, "another study"),
    ],
)
def test_what_is_wrong_is_said(content: dict[str, Any], problem: str, tmp_path: Path) -> None:
    file = _file(tmp_path, "Anna", **content)
    with pytest.raises(DataError) as caught:
        read_ratings([file], STUDY)
    assert str(file) in str(caught.value)
    assert problem in str(caught.value)


def test_a_list_is_no_file_of_ratings(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text("[]")
    with pytest.raises(DataError, match="not a file that"):
        read_ratings([file], STUDY)
