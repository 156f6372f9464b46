"""VQA systems phi(a | I, q): the zoo of published models and what they have in common."""

from ivqa.vqa.measuring import MeasuringCallback, images_for
from ivqa.vqa.module import VQAModule
from ivqa.vqa.network import TrainingOutput, VQANetwork
from ivqa.vqa.networks.blind import LanguageOnly, Prior
from ivqa.vqa.networks.hiecoatt import HieCoAtt
from ivqa.vqa.networks.lstm_qi import LSTMQI
from ivqa.vqa.networks.mcb import MCB
from ivqa.vqa.networks.mlb import MLB
from ivqa.vqa.networks.mutan import Mutan, MutanNoAttention
from ivqa.vqa.networks.n2nmn import N2NMN
from ivqa.vqa.networks.pretrained_question_encoders import (
    SkipThoughtsQuestionEncoder,
    TransformersQuestionEncoder,
)
from ivqa.vqa.networks.question_encoder import QuestionEncoder, RecurrentEncoder
from ivqa.vqa.networks.stacked_encoder import StackedLSTMEncoder
from ivqa.vqa.networks.vanilla import Vanilla
from ivqa.vqa.protocol import Answerer, Attends, Metered, ReadsWords

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
    "ReadsWords",
    "RecurrentEncoder",
    "SkipThoughtsQuestionEncoder",
    "StackedLSTMEncoder",
    "TrainingOutput",
    "TransformersQuestionEncoder",
    "VQAModule",
    "VQANetwork",
    "Vanilla",
    "images_for",
]
