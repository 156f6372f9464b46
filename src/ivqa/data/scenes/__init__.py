"""The embedded data set: generated scenes, questions about them, and an oracle."""

from ivqa.data.scenes.dataset import generate_scenes
from ivqa.data.scenes.grammar import parse
from ivqa.data.scenes.oracle import Judgement, Oracle
from ivqa.data.scenes.world import Scene

__all__ = ["Judgement", "Oracle", "Scene", "generate_scenes", "parse"]
