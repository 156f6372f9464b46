"""Diagnosis: finds the beliefs of a VQA model with a question generator trained for it."""

from ivqa.diagnosis.beliefs.annotations import (
    apply_annotations,
    check_annotations,
    corrected_answers,
    label_weights,
)
from ivqa.diagnosis.beliefs.beliefs import (
    TYPES,
    Belief,
    read_beliefs,
    share_of_contradictions,
    shares_of_types,
    type_of,
    typed_by_oracle,
    write_beliefs,
)
from ivqa.diagnosis.beliefs.beliefs_to_show import (
    Band,
    across_confidence,
    first_meanings,
    meaning_of,
)
from ivqa.diagnosis.beliefs.challenge import write_challenge
from ivqa.diagnosis.beliefs.corrections import (
    NO_SUCH_THING,
    Irrelevant,
    RightAnswers,
    confirmed_questions,
    corrected_questions,
    noisy_questions,
    ordinary_questions,
    ordinary_share,
    right_answers,
)
from ivqa.diagnosis.beliefs.figures import SearchFigures, search_metrics
from ivqa.diagnosis.beliefs.judges import (
    Judge,
    judge_agreement,
    judge_answers,
    main_answer_share,
    typed_by_judges,
)
from ivqa.diagnosis.beliefs.labelling import drawn_for_labels, estimated_shares
from ivqa.diagnosis.beliefs.mistakes import Mistake, commonest_mistakes
from ivqa.diagnosis.beliefs.pairs import Pairs, choose_pairs
from ivqa.diagnosis.beliefs.perturbation import KINDS, perturb
from ivqa.diagnosis.beliefs.reasons import Reasons, read_reasons, reasons_of, write_reasons
from ivqa.diagnosis.beliefs.recall import ListedBeliefs, listed_beliefs
from ivqa.diagnosis.beliefs.suspects import convicted, convicting, with_suspects
from ivqa.diagnosis.candidates import Candidates
from ivqa.diagnosis.legality.cnn import LegalityCNN
from ivqa.diagnosis.legality.module import LegalityModule
from ivqa.diagnosis.policy.adversary import AdversarialJudge
from ivqa.diagnosis.policy.module import PolicyGradientModule
from ivqa.diagnosis.policy.objective import PolicyObjective
from ivqa.diagnosis.policy.rewards import (
    DiversityReward,
    GoalReward,
    LegalityReward,
    MeaningReward,
    Reward,
)
from ivqa.diagnosis.search.asked_log import AskedLog
from ivqa.diagnosis.search.asking import GivenAnswer, given_answers
from ivqa.diagnosis.search.belief_log import BeliefLog
from ivqa.diagnosis.search.budget import BudgetSearch
from ivqa.diagnosis.search.callback import BeliefCallback
from ivqa.diagnosis.search.probe import BeliefProbe, belief_figures
from ivqa.diagnosis.search.proxy import agreement, typed_by_proxy
from ivqa.diagnosis.search.questioner import PlainEnglish
from ivqa.diagnosis.search.search import BeliefSearch, Found
from ivqa.diagnosis.search.search_figures import next_hundred, search_figures
from ivqa.diagnosis.search.without_policy import WithoutPolicy

__all__ = [
    "KINDS",
    "NO_SUCH_THING",
    "TYPES",
    "AdversarialJudge",
    "AskedLog",
    "Band",
    "Belief",
    "BeliefCallback",
    "BeliefLog",
    "BeliefProbe",
    "BeliefSearch",
    "BudgetSearch",
    "Candidates",
    "DiversityReward",
    "Found",
    "GivenAnswer",
    "GoalReward",
    "Irrelevant",
    "Judge",
    "LegalityCNN",
    "LegalityModule",
    "LegalityReward",
    "ListedBeliefs",
    "MeaningReward",
    "Mistake",
    "Pairs",
    "PlainEnglish",
    "PolicyGradientModule",
    "PolicyObjective",
    "Reasons",
    "Reward",
    "RightAnswers",
    "SearchFigures",
    "WithoutPolicy",
    "across_confidence",
    "agreement",
    "apply_annotations",
    "belief_figures",
    "check_annotations",
    "choose_pairs",
    "commonest_mistakes",
    "confirmed_questions",
    "convicted",
    "convicting",
    "corrected_answers",
    "corrected_questions",
    "drawn_for_labels",
    "estimated_shares",
    "first_meanings",
    "given_answers",
    "judge_agreement",
    "judge_answers",
    "label_weights",
    "listed_beliefs",
    "main_answer_share",
    "meaning_of",
    "next_hundred",
    "noisy_questions",
    "ordinary_questions",
    "ordinary_share",
    "perturb",
    "read_beliefs",
    "read_reasons",
    "reasons_of",
    "right_answers",
    "search_figures",
    "search_metrics",
    "share_of_contradictions",
    "shares_of_types",
    "type_of",
    "typed_by_judges",
    "typed_by_oracle",
    "typed_by_proxy",
    "with_suspects",
    "write_beliefs",
    "write_challenge",
    "write_reasons",
]
