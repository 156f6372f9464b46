"""Question generators p(q | z, I, a): the variational model, its baselines, decoding."""

from ivqa.generators.answer_only import AnswerOnlyGenerator
from ivqa.generators.attend_and_tell import AttendAndTellGenerator
from ivqa.generators.attentive import AttentiveGenerator
from ivqa.generators.beam import Beam
from ivqa.generators.decoding import Decoded, Greedy, Sampling, Strategy
from ivqa.generators.distinct import DistinctSampling
from ivqa.generators.image_answer_type import ImageAnswerTypeGenerator
from ivqa.generators.image_only import ImageOnlyGenerator
from ivqa.generators.inference import ask, most_probable
from ivqa.generators.module import QuestionGenerationModule
from ivqa.generators.nearest_neighbour import NearestNeighbourQuestioner
from ivqa.generators.network import (
    Conditions,
    GeneratorOutput,
    Posterior,
    QuestionGenerator,
    QuestionNetwork,
)
from ivqa.generators.objective import ConstantWeight, LinearAnnealing
from ivqa.generators.prior import PriorGenerator
from ivqa.generators.protocol import Questioner, Questions, RemembersTraining
from ivqa.generators.variational import VariationalGenerator

__all__ = [
    "AnswerOnlyGenerator",
    "AttendAndTellGenerator",
    "AttentiveGenerator",
    "Beam",
    "Conditions",
    "ConstantWeight",
    "Decoded",
    "DistinctSampling",
    "GeneratorOutput",
    "Greedy",
    "ImageAnswerTypeGenerator",
    "ImageOnlyGenerator",
    "LinearAnnealing",
    "NearestNeighbourQuestioner",
    "Posterior",
    "PriorGenerator",
    "QuestionGenerationModule",
    "QuestionGenerator",
    "QuestionNetwork",
    "Questioner",
    "Questions",
    "RemembersTraining",
    "Sampling",
    "Strategy",
    "VariationalGenerator",
    "ask",
    "most_probable",
]
