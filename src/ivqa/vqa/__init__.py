"""VQA systems phi(a | I, q): the zoo of published models and what they have in common."""

from ivqa.vqa.hiecoatt import HieCoAtt
from ivqa.vqa.language_only import LanguageOnly
from ivqa.vqa.lstm_qi import LSTMQI
from ivqa.vqa.mcb import MCB
from ivqa.vqa.measuring import MeasuringCallback
from ivqa.vqa.mlb import MLB
from ivqa.vqa.module import VQAModule
from ivqa.vqa.mutan import Mutan, MutanNoAttention
from ivqa.vqa.n2nmn import N2NMN
from ivqa.vqa.network import TrainingOutput, VQANetwork
from ivqa.vqa.pretrained_question_encoders import (
    SkipThoughtsQuestionEncoder,
    TransformersQuestionEncoder,
)
from ivqa.vqa.prior import Prior
from ivqa.vqa.protocol import Answerer, Attends, Metered
from ivqa.vqa.question_encoder import QuestionEncoder, RecurrentEncoder
from ivqa.vqa.stacked_encoder import StackedLSTMEncoder
from ivqa.vqa.vanilla import Vanilla

__all__ = [
    "LSTMQI",
    "MCB",
    "MLB",
    "N2NMN",
    "Answerer",
    "Attends",
    "HieCoAtt",
    "LanguageOnly",
    "MeasuringCallback",
    "Metered",
    "Mutan",
    "MutanNoAttention",
    "Prior",
    "QuestionEncoder",
    "RecurrentEncoder",
    "SkipThoughtsQuestionEncoder",
    "StackedLSTMEncoder",
    "TrainingOutput",
    "TransformersQuestionEncoder",
    "VQAModule",
    "VQANetwork",
    "Vanilla",
]
