"""Merging the shards of a basic question dataset."""

from pathlib import Path

import pytest
from toy_bqd import MakeRanking, write

from ivqa.data import DataError
from ivqa.encoders.tfidf import TfidfEncoder
from ivqa.ranking import LassoQuestionRanker, RandomRanker
from ivqa.ranking.bqd_files import read_parquet, write_parquet
from ivqa.ranking.bqd_ranking import merge_shards
from ivqa.ranking.question_rankers import QuestionRanker


@pytest.mark.parametrize("num_shards", [2, 3, 6])
@pytest.mark.parametrize(
    "ranker", [LassoQuestionRanker(TfidfEncoder(size=24, min_count=1)), RandomRanker()]
)
def test_merged_shards_equal_the_file_of_one_process(
    ranker: QuestionRanker, num_shards: int, make: MakeRanking, tmp_path: Path
) -> None:
    one = write(make("one", ranker=ranker), tmp_path / "one.parquet")
    shards = [
        write(make(f"{shard}", ranker=ranker, shard=shard, num_shards=num_shards), file)
        for shard, file in enumerate(tmp_path / f"{shard}.parquet" for shard in range(num_shards))
    ]
    table, origin = merge_shards(shards[::-1])
    write_parquet(tmp_path / "merged.parquet", table, origin)
    assert (tmp_path / "merged.parquet").read_bytes() == one.read_bytes()


def _shards(make: MakeRanking, tmp_path: Path, **changes: object) -> list[Path]:
    files = [tmp_path / f"shard_{shard}.parquet" for shard in range(3)]
    for shard, file in enumerate(files):
        job = make(ranker=RandomRanker(), shard=shard, num_shards=3, **changes)
        write(job, file)
    return files


def test_shards_that_do_not_belong_together_are_refused(make: MakeRanking, tmp_path: Path) -> None:
    files = _shards(make, tmp_path)
    with pytest.raises(DataError, match=r"shard 1 of 3 is missing .* with shard=1"):
        merge_shards([files[0], files[2]])
    copied = tmp_path / "copy.parquet"
    copied.write_bytes(files[1].read_bytes())
    # Part 1, the third and fourth distinct questions; ids count down from 80.
    with pytest.raises(DataError, match=r"2 question ids .*, such as 40 in .*shard_1.*in .*copy"):
        merge_shards([*files, copied])
    with pytest.raises(DataError, match=r"shard 0, 2 of 3 is missing .* with shard=0,2"):
        merge_shards([files[1]])
    with pytest.raises(DataError, match="no shards"):
        merge_shards([])
    other = make("other", ranker=RandomRanker(), shard=1, num_shards=3, k=6)
    with pytest.raises(DataError, match=r"shard_1.parquet has other settings .*k is 5 there, 6"):
        merge_shards([files[0], write(other, files[1]), files[2]])
    write_parquet(files[1], read_parquet(files[0])[0], {})
    with pytest.raises(DataError, match=r"shard_1.parquet is not a shard"):
        merge_shards(files)


def test_a_single_shard_is_the_whole_file(make: MakeRanking, tmp_path: Path) -> None:
    job = make(ranker=RandomRanker())
    table, origin = merge_shards([write(job, tmp_path / "one.parquet")])
    assert table.equals(job.table())
    assert origin == job.origin


def test_a_damaged_shard_is_named(make: MakeRanking, tmp_path: Path) -> None:
    files = _shards(make, tmp_path)
    content = files[1].read_bytes()
    for length in (0, 3, len(content) // 2, len(content) - 1):
        files[1].write_bytes(content[:length])
        with pytest.raises(DataError, match=r"shard_1.parquet is cut short or damaged") as raised:
            merge_shards(files)
        assert "\n" not in str(raised.value)
    # A readable file with rows missing, as another program might write.
    files[1].write_bytes(content)
    table, origin = read_parquet(files[1])
    write_parquet(files[1], table.slice(1), origin)
    with pytest.raises(DataError, match="hold 8 main questions of 9"):
        merge_shards(files)
