"""The folder of configurations."""

from pathlib import Path


def conf_dir() -> Path:
    """The folder of configurations: in the package, or beside `src` where links do not work."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parents[1] / "conf"
