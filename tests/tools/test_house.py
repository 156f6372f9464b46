"""The house: its rooms, files and imports stay within their targets."""

from pathlib import Path

from tools.house import counts


def test_no_room_file_or_import_is_over_its_target() -> None:
    rows = {row["what"]: row for row in counts(Path(__file__).parents[2])}
    assert rows["lines under src"]["is"] > 10_000  # it counted
    for what in ("files in a folder", "lines of a file", "circle of imports"):
        assert rows[what]["is"] <= rows[what]["target"], rows[what]["over"]
