"""Question generators p(q | z, I, a): the variational model, its baselines, decoding."""

from ivqa.generators.decoding.beam import Beam
from ivqa.generators.decoding.inference import ask, most_probable
from ivqa.generators.decoding.stochastic_beam import DistinctSampling
from ivqa.generators.decoding.strategies import Decoded, Greedy, Sampling, Strategy
from ivqa.generators.module import GeneratorModule
from ivqa.generators.nearest_neighbour import NearestNeighbourQuestioner
from ivqa.generators.networks.attend_and_tell import AttendAndTellGenerator
from ivqa.generators.networks.attentive import AttentiveGenerator
from ivqa.generators.networks.baselines import (
    AnswerOnlyGenerator,
    ImageAnswerTypeGenerator,
    ImageOnlyGenerator,
    PriorGenerator,
)
from ivqa.generators.networks.network import (
    Conditions,
    GeneratorNetwork,
    GeneratorOutput,
    Posterior,
    QuestionGenerator,
)
from ivqa.generators.networks.variational import VariationalGenerator
from ivqa.generators.objective import ConstantWeight, LinearAnnealing
from ivqa.generators.protocol import Questioner, Questions, RemembersTraining

__all__ = [
    "AnswerOnlyGenerator",
    "AttendAndTellGenerator",
    "AttentiveGenerator",
    "Beam",
    "Conditions",
    "ConstantWeight",
    "Decoded",
    "DistinctSampling",
    "GeneratorModule",
    "GeneratorNetwork",
    "GeneratorOutput",
    "Greedy",
    "ImageAnswerTypeGenerator",
    "ImageOnlyGenerator",
    "LinearAnnealing",
    "NearestNeighbourQuestioner",
    "Posterior",
    "PriorGenerator",
    "QuestionGenerator",
    "Questioner",
    "Questions",
    "RemembersTraining",
    "Sampling",
    "Strategy",
    "VariationalGenerator",
    "ask",
    "most_probable",
]
