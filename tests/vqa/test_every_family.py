"""docs/model_families.md says of every family of the installed transformers whether it works."""

import pytest
import transformers
from every_family import PAGE, results_of, rows
from tiny_vlm_any import TYPES

WRITTEN = PAGE.read_text()
pytestmark = pytest.mark.skipif(
    f"transformers {transformers.__version__}," not in WRITTEN.replace("\n", " "),
    reason="the page is of another version of transformers; write it with every_family.py",
)


def test_the_page_lists_every_family() -> None:
    assert list(results_of(WRITTEN)) == TYPES


@pytest.mark.slow
def test_the_page_is_what_the_families_give() -> None:
    assert {kind: result for kind, (result, _) in rows().items()} == results_of(WRITTEN)
