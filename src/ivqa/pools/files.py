"""Question pools as files: written once, read by every model."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ivqa.errors import reason_of
from ivqa.pools.building import KINDS, Pools
from ivqa.store.files import FileError, atomic_write

_COLUMNS = ("pair", "image_id", "answer", "question", "kind")


def write_pools(path: Path, pools: Pools) -> None:
    """Writes pools as a Parquet file with one row for each candidate.

    The columns are pair, image_id (int64), answer, question and kind (text).
    """
    names = np.array(KINDS)
    table = pa.table(
        {
            "pair": pools.pair,
            "image_id": pools.image_ids[pools.pair],
            "answer": [pools.answers[pair] for pair in pools.pair.tolist()],
            "question": list(pools.questions),
            "kind": names[pools.kinds],
        }
    )
    with atomic_write(path) as draft:
        pq.write_table(table, draft, compression="zstd")


def read_pools(path: Path) -> Pools:
    """Reads a file of `write_pools`.

    Raises:
        FileError: The file cannot be read or has other columns.
    """
    try:
        table = pq.read_table(path, columns=list(_COLUMNS))
        pair = table["pair"].to_numpy()
        kinds = np.array([KINDS.index(kind) for kind in table["kind"].to_pylist()], dtype=np.int64)
        first = np.flatnonzero(np.diff(pair, prepend=-1))
        answers = table["answer"].to_pylist()
        return Pools(
            image_ids=table["image_id"].to_numpy()[first],
            answers=[answers[row] for row in first.tolist()],
            pair=pair,
            questions=table["question"].to_pylist(),
            kinds=kinds,
        )
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        reason = reason_of(error)
        raise FileError(f"{path} holds no question pools ({reason}); delete it") from None
