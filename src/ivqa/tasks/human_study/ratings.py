"""The ratings of a human study: exported files of several people, checked and joined."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ivqa.data.validation import DataError, shown
from ivqa.report.pages.annotation_page import HIGHEST_SCORE
from ivqa.store.files import read_json
from ivqa.tasks.human_study.items import Study


def read_ratings(files: Sequence[Path], study: Study) -> tuple[list[str], NDArray[np.float64]]:
    """Reads the files that the page of a study exports, one of each person.

    Each holds {"study", "person", "ratings": {item id: score}}.

    Returns:
        The names of the P people, and their ratings of the N items of the study, (P, N) float64,
        NaN where a person did not rate an item.

    Raises:
        DataError: A file was not exported by the page of this study, has an item that the study
            does not have, or a score that is not an integer from 0 to 4; or two files are of the
            same person.
    """
    column = {item.id: number for number, item in enumerate(study.items)}
    people: dict[str, Path] = {}
    names = []
    ratings = np.full((len(files), len(column)), np.nan)
    for row, file in enumerate(files):
        person, given = _exported(file, study)
        same = " ".join(person.casefold().split())
        if same in people:
            raise DataError(
                f"{file} and {people[same]} are both ratings of '{person}'; pass one file of each "
                "person"
            )
        people[same] = file
        names.append(person)
        for item, score in given.items():
            if item not in column:
                raise DataError(
                    f"{file}: the study has no item {shown(item)}; export the ratings again"
                )
            if type(score) is not int or not 0 <= score <= HIGHEST_SCORE:
                raise DataError(
                    f"{file}, item {item}: a score must be an integer from 0 to {HIGHEST_SCORE}, "
                    f"not {shown(score)}; correct it"
                )
            ratings[row, column[item]] = score
    return names, ratings


def _exported(file: Path, study: Study) -> tuple[str, dict[str, object]]:
    """The person and the ratings of a file."""
    content = read_json(file)
    fields = content if isinstance(content, dict) else {}
    person, given = fields.get("person"), fields.get("ratings")
    if not (isinstance(person, str) and person.strip() and isinstance(given, dict)):
        raise DataError(
            f"{file}: not a file that the annotate.html of task=human_study exports; pass one file "
            "of each person"
        )
    if fields.get("study") != study.id:
        raise DataError(
            f"{file} belongs to another study ({shown(fields.get('study'))}, not '{study.id}'); "
            "pass study=DIR, the run directory with the page that was rated"
        )
    if not given:
        raise DataError(f"{file} has no ratings; leave it out")
    return person.strip(), given
