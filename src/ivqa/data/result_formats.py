"""The formats of result files: the official JSON, and what lmms-eval and VLMEvalKit log.

| file | format |
|---|---|
| .json, .json.gz, .zip | a list of {"question_id", "answer"}; VLMEvalKit's list of rows |
| .jsonl | lmms-eval's --log_samples, or {"question_id", "answer"} in each line; for POPE also
          {"question", "answer"}, where the number of the line is the id |
| .tsv, .xlsx | VLMEvalKit's table with the columns question_id (or index) and prediction |
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ivqa.data.json_files import open_json
from ivqa.data.validation import DataError, Problems
from ivqa.files import FileError, check_regular, parse_json, read_text

# What the tools log as the answer where a request failed; it must not count as a wrong answer.
_FAILURES = ("[LMMS_EVAL_REQUEST_FAILED", "Failed to obtain answer via API")


def result_records(path: Path, problems: Problems) -> Iterator[tuple[str, Any]]:
    """Reads the records of a result file in any of the formats of this module.

    Args:
        path: The file.
        problems: Collects the faults of single records.

    Yields:
        The place of a record in the file, such as "line 3", and the record {"question_id",
        "answer"}. Fields are missing where the file lacks them.

    Raises:
        DataError: The file cannot be read or has another format.
    """
    readers = {".jsonl": _lines, ".tsv": _table, ".xlsx": _workbook}
    for where, record in readers.get(path.suffix.lower(), _list)(path):
        read = _unified(record, where, path, problems)
        answer = read.get("answer") if isinstance(read, dict) else None
        if isinstance(answer, str) and answer.strip().startswith(_FAILURES):
            problems.add(path, where, "", f"the request failed ({answer.strip()[:60]}); ask again")
        elif read is not None:
            yield where, read


def _list(path: Path) -> Iterator[tuple[str, Any]]:
    records = open_json(path)
    if not isinstance(records, list):
        raise DataError(f'{path}: must hold a list of {{"question_id", "answer"}}')
    for number, record in enumerate(records):
        yield f"record {number}", record


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    # splitlines() would also split at characters such as U+2028, which answers may contain.
    try:
        for number, line in enumerate(read_text(path).split("\n"), start=1):
            if line.strip():
                record = parse_json(line.encode(), f"{path}, line {number}")
                if isinstance(record, dict) and record.keys() == {"question", "answer"}:
                    record["question_id"] = number  # POPE's evaluation compares line by line
                yield f"line {number}", record
    except FileError as error:
        raise DataError(str(error)) from None


def _table(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = read_text(path)
    except FileError as error:
        raise DataError(str(error)) from None
    csv.field_size_limit(1 << 30)  # the column of images in base64 is long
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")
    _check_columns(path, reader.fieldnames or [])
    for row in reader:
        yield f"line {reader.line_num}", _row(row)


def _workbook(path: Path) -> Iterator[tuple[str, Any]]:
    import pandas as pd

    try:
        # Answers such as "none" and "NA" are texts, not missing values.
        table = pd.read_excel(check_regular(path), dtype=str, keep_default_na=False)
    except ImportError:
        raise DataError(
            f"{path}: reading .xlsx files needs openpyxl; pip install 'ivqa[excel]', or save "
            "the table as .tsv"
        ) from None
    except FileError as error:
        raise DataError(str(error)) from None
    except Exception as error:  # readers of damaged archives raise many types
        raise DataError(f"{path} is not a readable .xlsx file ({error}); write it again") from None
    _check_columns(path, list(table.columns))
    # Row 1 holds the names of the columns.
    for number, row in enumerate(table.to_dict("records"), start=2):
        yield f"row {number}", _row({str(name): value for name, value in row.items()})


def _check_columns(path: Path, names: Any) -> None:
    if "prediction" not in names or not {"question_id", "index"} & set(names):
        raise DataError(
            f"{path}: must have the columns question_id (or index) and prediction, as VLMEvalKit "
            f"writes them; it has {', '.join(map(str, names)) or 'none'}"
        )


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a table with its id as an integer, where the text is one."""
    name = "question_id" if "question_id" in row else "index"
    text = str(row[name]).strip()
    is_integer = text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()
    return {"question_id": int(text) if is_integer else row[name], "prediction": row["prediction"]}


def _unified(record: Any, where: str, path: Path, problems: Problems) -> Any:
    """The record with the keys question_id and answer; None after a fault that is reported."""
    if not isinstance(record, dict):
        return record
    if "filtered_resps" in record or "resps" in record:
        return _logged_sample(record, where, path, problems)
    if "prediction" in record:
        row = _row(record) if {"question_id", "index"} & record.keys() else record
        return {**row, "answer": row["prediction"]}
    return record


def _logged_sample(
    record: dict[str, Any], where: str, path: Path, problems: Problems
) -> dict[str, Any] | None:
    """Reads a sample of lmms-eval.

    It holds the answer in `filtered_resps`; `resps` is absent where it is the same. The question is
    in `doc` (versions before 0.7) or in the value of a metric, such as `submission` of exported
    tasks and of the VQA v2 test, or `pope_accuracy`.
    """
    answer = record.get("filtered_resps", record.get("resps"))
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, list):
        problems.add(path, where, "", f"has {len(answer)} answers; run lmms-eval with --repeats 1")
        return None
    holders = [record, record.get("doc"), *record.values()]
    ids = [one["question_id"] for one in holders if isinstance(one, dict) and "question_id" in one]
    if not ids:
        problems.add(
            path,
            where,
            "question_id",
            "is missing; run a task that task=export wrote, which logs it",
        )
        return None
    return {"question_id": ids[0], "answer": answer}
