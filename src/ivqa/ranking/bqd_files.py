"""Files of a basic question dataset (BQD): Parquet, and the paper's records as JSON.

A BQD is a table with one row for each main question. Its columns:

- image_id, question_id: int64
- question: the main question
- basic_questions: k texts, best first
- scores: k float32
- gap: float64, the relative duality gap of the ranking
- uncertified: bool, whether the gap exceeds the tolerance
- support: int64, how many of the k scores are over 0
- answers: optional, for each basic question the texts of its annotators
- question_answers: optional, the texts of the annotators of the main question
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ivqa.data.json_files import CONTAINERS, open_json
from ivqa.data.validation import DataError, Problems, listed, shown
from ivqa.store.files import atomic_write, check_regular, parse_json

# Key of the Parquet metadata for the origin of a file: the settings that it was built with.
_ORIGIN = b"ivqa.bqd"
_RECORDS = pa.schema(
    [
        ("question", pa.string()),
        ("basic_questions", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float32())),
    ]
)
_NEEDED = _RECORDS.names
# Keys of the paper's records and of the records that the published code wrote.
_MAIN, _BASIC = ("MQ", "question"), ("BQ", "basic")
# Keys of a record, and the columns that they hold.
_KEYS = {
    "image": "image_id",
    "question_id": "question_id",
    "MQ": "question",
    "MQ_answers": "question_answers",
}


def write_parquet(path: Path, table: pa.Table, origin: Mapping[str, Any]) -> None:
    """Writes a BQD with the settings that it was built with, `origin`, as plain values."""
    metadata = {_ORIGIN: json.dumps(origin, sort_keys=True)}
    write_table(path, table.combine_chunks().replace_schema_metadata(metadata))


def read_parquet(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Reads a BQD.

    Returns:
        The table, and its origin: the settings that it was built with, {} if it has none.

    Raises:
        DataError: The file is missing or damaged, or has no basic questions.
    """
    table = read_table(path)
    if absent := [name for name in _NEEDED if name not in table.column_names]:
        raise DataError(f"{path} holds no basic questions: it has no column {listed(absent)}")
    if fault := _fault(table):
        raise DataError(f"{path} holds no basic questions: {fault}; rank the questions again")
    origin = parse_json((table.schema.metadata or {}).get(_ORIGIN, b"{}"), path)
    if not isinstance(origin, dict):
        raise DataError(f"the metadata of {path} are damaged; rank the questions again")
    return table.replace_schema_metadata(None), origin


def write_table(path: Path, table: pa.Table) -> None:
    """Writes a Parquet file with checksums, atomically."""
    with atomic_write(path) as draft:
        pq.write_table(table, draft, compression="zstd", write_page_checksum=True)


def read_table(path: Path) -> pa.Table:
    """Reads a whole Parquet file and verifies its checksums, if it has them.

    Raises:
        DataError: The file is missing or damaged.
    """
    try:
        return pq.read_table(check_regular(path), page_checksum_verification=True)
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(
            f"{path} is cut short or damaged ({reason}); delete it and run its command again, "
            "or copy it again"
        ) from None


def list_of(kind: pa.DataType) -> pa.DataType:
    """The type of lists; their values have Parquet's own name, so that tables read back equal."""
    return pa.list_(pa.field("element", kind))


def _fault(table: pa.Table) -> str | None:
    """The fault in the columns of a BQD, None if there is none."""
    kinds = table.schema
    texts, scores = kinds.field("basic_questions").type, kinds.field("scores").type
    fits = (
        pa.types.is_string(kinds.field("question").type)
        and pa.types.is_list(texts)
        and pa.types.is_string(texts.value_type)
        and pa.types.is_list(scores)
        and pa.types.is_floating(scores.value_type)
    )
    if not fits:
        return "its columns are not texts, lists of texts and lists of scores"
    flat, values = (pc.list_flatten(table[name]) for name in _NEEDED[1:])
    if flat.null_count or any(table[name].null_count for name in _NEEDED):
        return "a value is missing"
    # With min_count=0 an empty column counts as finite.
    if values.null_count or not pc.all(pc.is_finite(values), min_count=0).as_py():
        return "a score is not finite"
    lengths = [pc.list_value_length(table[name]) for name in ("basic_questions", "scores")]
    if not lengths[0].equals(lengths[1]):
        return "a row has different numbers of scores and basic questions"
    return None


def write_records(path: Path, table: pa.Table) -> None:
    """Writes the paper's records {image, MQ, k x (BQ, score)} as a JSON list, one record a line.

    Records with answers also have "MQ_answers", the answers to the main question, and "answers", a
    list for each BQ; those of uncertified rankings have "uncertified": true. Records of a table
    without images have neither "image" nor "question_id". Scores are the shortest decimals that
    read back as the same float32.
    """
    with atomic_write(path) as draft, draft.open("w", encoding="utf-8") as stream:
        for number, line in enumerate(_record_lines(table)):
            stream.write(("[\n" if number == 0 else ",\n") + line)
        stream.write("\n]\n" if len(table) else "[]\n")


def read_bqd(path: Path) -> pa.Table:
    """Reads main questions, basic questions and scores of a BQD.

    Args:
        path: A Parquet file, or a JSON list by its name. The list holds the paper's records,
            {"image", "MQ", "BQ": [[text, score], ...]}, or those that the published code wrote,
            {"question", "basic": [{"question", "score"}, ...]}.

    Raises:
        DataError: The file is missing or damaged; the message lists every fault.
    """
    if path.name.endswith(CONTAINERS):
        return _records_table(path)
    return read_parquet(path)[0]


def scores_of(table: pa.Table) -> NDArray[np.float32]:
    """The scores of a BQD as a matrix (N, k) float32; shorter rankings end with zeros."""
    column = table["scores"].combine_chunks()
    counts = column.value_lengths().to_numpy()
    scores = np.zeros((len(counts), counts.max(initial=0)), dtype=np.float32)
    # Row by row, the mask has the order of the flat values.
    scores[np.arange(scores.shape[1]) < counts[:, None]] = column.flatten().to_numpy()
    return scores


def _record_lines(table: pa.Table) -> Iterator[str]:
    """Yields each record as JSON."""
    # Batches bound the number of Python objects.
    for batch in table.to_batches(max_chunksize=10_000):
        scores = scores_of(pa.Table.from_batches([batch]))
        for row, values in zip(batch.to_pylist(), scores, strict=True):
            record = {key: row[name] for key, name in _KEYS.items() if name in row}
            # str() of a float32 gives 0.2952; float() alone gives 0.2952000200748443.
            record["BQ"] = [
                [text, float(str(value))]
                for text, value in zip(row["basic_questions"], values, strict=False)
            ]
            if "answers" in row:
                record["answers"] = row["answers"]
            if row.get("uncertified"):
                record["uncertified"] = True
            yield json.dumps(record, ensure_ascii=False)


def _records_table(path: Path) -> pa.Table:
    """Reads a JSON list of records."""
    records = open_json(path)
    if not isinstance(records, list) or not records:
        raise DataError(f"{path}: must hold a list of records with MQ and BQ, at least one")
    problems = Problems()
    read = [_record(record, number, path, problems) for number, record in enumerate(records)]
    problems.raise_if_any()
    return pa.table(list(zip(*read, strict=True)), schema=_RECORDS)


def _record(
    record: Any, number: int, path: Path, problems: Problems
) -> tuple[str, list[str], list[float]]:
    """The main question, basic questions and scores of a record; adds its faults to `problems`."""
    where = f"record {number}"
    if not isinstance(record, dict):
        problems.add(path, where, "", f"must be an object, not {shown(record)}")
        return "", [], []
    question = _first(record, _MAIN)
    if not isinstance(question, str):
        problems.add(path, where, "MQ", f"must be text, not {shown(question)}")
    pairs = _first(record, _BASIC)
    if not isinstance(pairs, list):
        problems.add(path, where, "BQ", f"must be a list of (text, score), not {shown(pairs)}")
        pairs = []
    texts, scores = [], []
    for pair in pairs:
        if isinstance(pair, dict):
            # The form of the published code.
            pair = [pair.get("question"), pair.get("score")]
        if not _is_pair(pair):
            problems.add(path, where, "BQ", f"must hold (text, score), not {shown(pair)}")
            break
        texts.append(pair[0])
        scores.append(float(pair[1]))
    return question, texts, scores


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        return False
    # Not isinstance: a bool is an int, too.
    return type(pair[1]) in (int, float) and bool(np.isfinite(pair[1]))


def _first(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if name in record), None)
