"""VQA systems phi(a | I, q): the zoo of published models and what they have in common."""

from ivqa.vqa.language_only import LanguageOnly
from ivqa.vqa.mlb import MLB
from ivqa.vqa.module import VQAModule
from ivqa.vqa.network import VQANetwork
from ivqa.vqa.prior import Prior
from ivqa.vqa.protocol import Answerer
from ivqa.vqa.question_encoder import RecurrentEncoder
from ivqa.vqa.vanilla import Vanilla

__all__ = [
    "MLB",
    "Answerer",
    "LanguageOnly",
    "Prior",
    "RecurrentEncoder",
    "VQAModule",
    "VQANetwork",
    "Vanilla",
]
