"""Diagnosis: finds the beliefs of a VQA model with a question generator trained for it."""

from ivqa.diagnosis.adversary import AdversarialJudge
from ivqa.diagnosis.annotations import apply_annotations, check_annotations, corrected_answers
from ivqa.diagnosis.belief_log import BeliefLog
from ivqa.diagnosis.beliefs import (
    TYPES,
    Belief,
    read_beliefs,
    share_of_contradictions,
    shares_of_types,
    type_of,
    typed_by_oracle,
    write_beliefs,
)
from ivqa.diagnosis.callback import BeliefCallback
from ivqa.diagnosis.candidates import Candidates
from ivqa.diagnosis.challenge import write_challenge
from ivqa.diagnosis.consensus import ConsensusQuestioner
from ivqa.diagnosis.contradictions import contradicting
from ivqa.diagnosis.corrections import (
    NO_SUCH_THING,
    Irrelevant,
    confirmed_questions,
    corrected_questions,
    noisy_questions,
    ordinary_questions,
    ordinary_share,
    right_answers,
)
from ivqa.diagnosis.dual_module import DualModule
from ivqa.diagnosis.figures import SearchFigures, search_metrics
from ivqa.diagnosis.legality import LegalityModule
from ivqa.diagnosis.legality_cnn import LegalityCNN
from ivqa.diagnosis.meaning_reward import MeaningReward
from ivqa.diagnosis.mistakes import Mistake, commonest_mistakes, sharpest_contradictions
from ivqa.diagnosis.pairs import Pairs, choose_pairs
from ivqa.diagnosis.perturbation import KINDS, perturb
from ivqa.diagnosis.policy import PolicyGradientModule
from ivqa.diagnosis.policy_objective import PolicyObjective
from ivqa.diagnosis.probe import BeliefProbe, belief_figures
from ivqa.diagnosis.proxy import agreement, typed_by_proxy
from ivqa.diagnosis.reasons import Reasons, read_reasons, reasons_of, write_reasons
from ivqa.diagnosis.recall import ListedBeliefs, listed_beliefs
from ivqa.diagnosis.reranking import RerankedQuestioner
from ivqa.diagnosis.rewards import DiversityReward, GoalReward, LegalityReward, Reward
from ivqa.diagnosis.samples import (
    Band,
    across_confidence,
    first_meanings,
    meaning_of,
    most_confident,
)
from ivqa.diagnosis.search import BeliefSearch, Found

__all__ = [
    "KINDS",
    "NO_SUCH_THING",
    "TYPES",
    "AdversarialJudge",
    "Band",
    "Belief",
    "BeliefCallback",
    "BeliefLog",
    "BeliefProbe",
    "BeliefSearch",
    "Candidates",
    "ConsensusQuestioner",
    "DiversityReward",
    "DualModule",
    "Found",
    "GoalReward",
    "Irrelevant",
    "LegalityCNN",
    "LegalityModule",
    "LegalityReward",
    "ListedBeliefs",
    "MeaningReward",
    "Mistake",
    "Pairs",
    "PolicyGradientModule",
    "PolicyObjective",
    "Reasons",
    "RerankedQuestioner",
    "Reward",
    "SearchFigures",
    "across_confidence",
    "agreement",
    "apply_annotations",
    "belief_figures",
    "check_annotations",
    "choose_pairs",
    "commonest_mistakes",
    "confirmed_questions",
    "contradicting",
    "corrected_answers",
    "corrected_questions",
    "first_meanings",
    "listed_beliefs",
    "meaning_of",
    "most_confident",
    "noisy_questions",
    "ordinary_questions",
    "ordinary_share",
    "perturb",
    "read_beliefs",
    "read_reasons",
    "reasons_of",
    "right_answers",
    "search_metrics",
    "share_of_contradictions",
    "shares_of_types",
    "sharpest_contradictions",
    "type_of",
    "typed_by_oracle",
    "typed_by_proxy",
    "write_beliefs",
    "write_challenge",
    "write_reasons",
]
