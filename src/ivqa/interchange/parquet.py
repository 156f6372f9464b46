"""Parquet files with embedded images, as the library datasets reads them."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ivqa.interchange.question_levels import QuestionLevels
from ivqa.store.files import atomic_write

# Rows of a row group: readers decode a group at a time, and a group of photographs is about 16 MB.
_ROWS_AT_ONCE = 100

_TYPES: dict[str, str] = {
    "question_id": "int64",
    "image_id": "int64",
    "question": "string",
    "answer": "string",
    "answers": "list",
    "answer_type": "string",
    "question_type": "string",
    "kind": "string",
    "level": "int64",
}


def features() -> dict[str, Any]:
    """The columns in the order of the file, as `datasets.Features.to_dict` describes them."""
    described: dict[str, Any] = {"image": {"_type": "Image"}}
    for name, kind in _TYPES.items():
        value = {"dtype": "string" if kind == "list" else kind, "_type": "Value"}
        # Versions of datasets before 4 know lists as Sequence, and later ones still read it.
        described[name] = {"feature": value, "_type": "Sequence"} if kind == "list" else value
    return described


def write_parquet(path: Path, levels: QuestionLevels, level: int) -> int:
    """Writes the questions of a level with their images atomically; returns the size in bytes.

    The column `image` holds the encoded file, {"bytes", "path"}. The metadata of the file name its
    type, so that datasets decodes it to a picture.
    """
    schema = _schema()
    with atomic_write(path) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        rows = levels.with_images(level)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            table = [
                {"image": {"bytes": content, "path": name}, **record}
                for record, name, content in some
            ]
            writer.write_table(pa.Table.from_pylist(table, schema=schema))
    return path.stat().st_size


def _schema() -> pa.Schema:
    kinds = {"int64": pa.int64(), "string": pa.string(), "list": pa.list_(pa.string())}
    image = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    columns = [("image", image), *((name, kinds[kind]) for name, kind in _TYPES.items())]
    info = {"info": {"features": features()}}
    return pa.schema(columns, metadata={"huggingface": json.dumps(info)})
