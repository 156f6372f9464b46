"""What the package exports, and what importing it costs."""

import subprocess
import sys

import pytest

import ivqa.data


def test_every_export_is_there():
    for name in ivqa.data.__all__:
        assert getattr(ivqa.data, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'VQADatamodule'"):
        _ = ivqa.data.VQADatamodule


def test_the_download_command_starts_without_torch():
    code = "import sys, ivqa.data.download; print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
