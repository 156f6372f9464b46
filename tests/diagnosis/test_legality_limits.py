"""Defaults, optimiser, checkpoint and logged values of the legality model."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.diagnosis import KINDS, LegalityCNN, LegalityModule
from ivqa.diagnosis.beliefs.perturbation import fingerprints
from ivqa.diagnosis.legality import module as legality
from ivqa.text.vocabulary import Vocabulary

QUESTIONS = ["is it red", "what color is it", "is there a star", "what is there"]
WORDS = Vocabulary.build(QUESTIONS)


def _module(words: Vocabulary = WORDS, **settings: Any) -> LegalityModule:
    network = partial(LegalityCNN, widths=(1, 2), maps=(3, 4), embedding_size=5, dropout=0.5)
    return LegalityModule(network=network, question_vocabulary=words, **settings)


def _schedule(optimizer: Any, num_training_steps: int) -> Any:
    return torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=num_training_steps)


def _batch(size: int) -> VQABatch:
    words = WORDS.encode((QUESTIONS * size)[:size])
    none = torch.zeros(size, dtype=torch.int64)
    images = ImageBatch(ids=torch.tensor([1]), index=none)
    return VQABatch(torch.arange(size), images, words, words, none, none)


def test_before_training_the_limit_is_a_half() -> None:
    module = _module()
    assert module.limit == 0.5
    assert module.state_dict()["threshold"] == 0.5


def test_the_default_shares() -> None:
    """Half of the negatives are sampled and 0.3 spliced; without a generator none is sampled."""
    questioner: Any = SimpleNamespace()
    module = _module(questioner=questioner)
    assert (module.own_share, module.spliced_share, module.kept) == (0.5, 0.3, 0.95)
    assert module.temperatures == (1.0, 1.25, 1.5)
    assert _module().own_share == 0


def test_without_a_generator_a_third_is_spliced(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def noted(real: Any, num_words: int, kinds: torch.Tensor) -> Any:
        given.append((len(real), num_words, kinds))
        return real

    monkeypatch.setattr(legality, "perturb", noted)
    module, batch = _module(), _batch(4000)
    torch.manual_seed(0)
    assert len(module._negatives(batch)) == 4000
    ((number, num_words, kinds),) = given
    assert (number, num_words) == (4000, len(WORDS))
    shares = torch.bincount(kinds, minlength=len(KINDS)) / 4000
    splice = KINDS.index("splice")
    assert float(shares[splice]) == pytest.approx(0.3, abs=0.04)
    others = [float(share) for kind, share in enumerate(shares) if kind != splice]
    assert others == pytest.approx([0.7 / len(others)] * len(others), abs=0.03)


def test_a_share_below_one_question_does_not_use_the_generator() -> None:
    module = _module(questioner=SimpleNamespace(), own_share=0.2)  # it has no `sample`
    assert len(module._negatives(_batch(4))) == 4


def test_fitting_stores_the_questions_of_the_training_split() -> None:
    moved: list[Any] = []
    split = {"train": SimpleNamespace(question=WORDS.encode([*QUESTIONS, QUESTIONS[0]]))}
    module = _module(questioner=SimpleNamespace(to=moved.append))
    datamodule = SimpleNamespace(encoded=split.__getitem__)
    module._trainer = SimpleNamespace(datamodule=datamodule)  # type: ignore[assignment]
    module.on_fit_start()
    assert module._training_questions is not None
    each = {int(fingerprints(WORDS.encode([text]))[0]) for text in QUESTIONS}
    assert len(module._training_questions) == 4
    assert set(module._training_questions.tolist()) == each
    assert moved == [torch.device("cpu")]
    alone = _module()
    alone._trainer = module._trainer
    alone.on_fit_start()
    assert torch.equal(alone._training_questions, module._training_questions)  # type: ignore[arg-type]


@pytest.mark.parametrize("training", [True, False])
def test_many_texts_are_scored_without_dropout(
    training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In passes of three texts; afterwards the network is in its former mode."""
    monkeypatch.setattr(legality, "_TEXTS_PER_PASS", 3)
    module = _module()
    module.network.train(training)
    texts = QUESTIONS * 2
    scores = module.probabilities(texts)
    assert module.network.training is training
    assert not scores.requires_grad
    module.network.eval()
    expected = [float(module.network(WORDS.encode([text])).detach().sigmoid()) for text in texts]
    assert scores.tolist() == pytest.approx(expected, abs=1e-6)


def test_the_optimizer_gets_all_parameters_and_the_scheduler_the_steps() -> None:
    with pytest.raises(ValueError, match="without an optimizer"):
        _module().configure_optimizers()
    sgd = partial(torch.optim.SGD, lr=0.5)
    module = _module(optimizer=sgd)
    (group,) = module.configure_optimizers().param_groups
    assert list(map(id, group["params"])) == list(map(id, module.parameters()))
    module = _module(optimizer=sgd, scheduler=_schedule)
    module._trainer = SimpleNamespace(estimated_stepping_batches=7.0)  # type: ignore[assignment]
    found = module.configure_optimizers()
    assert set(found) == {"optimizer", "lr_scheduler"}
    assert set(found["lr_scheduler"]) == {"scheduler", "interval"}
    assert found["lr_scheduler"]["interval"] == "step"
    scheduler = found["lr_scheduler"]["scheduler"]
    assert scheduler.total_iters == 7
    assert isinstance(scheduler.total_iters, int)
    assert scheduler.optimizer is found["optimizer"]
    plain = partial(torch.optim.lr_scheduler.StepLR, step_size=3)
    found = _module(optimizer=sgd, scheduler=plain).configure_optimizers()
    assert found["lr_scheduler"]["scheduler"].step_size == 3


def test_a_checkpoint_describes_itself_and_is_refused_by_other_words() -> None:
    checkpoint: dict[str, Any] = {}
    module = _module()
    module.on_save_checkpoint(checkpoint)
    assert checkpoint == {
        "component": {
            "question_words": list(WORDS.words),
            "feature_sizes": {},
            "network": {
                "name": "LegalityCNN",
                "arguments": {
                    "widths": [1, 2],
                    "maps": [3, 4],
                    "embedding_size": 5,
                    "dropout": 0.5,
                },
            },
        }
    }
    module.on_load_checkpoint(checkpoint)
    with pytest.raises(ValueError, match="other question_words"):
        _module(Vocabulary.build(["is it"])).on_load_checkpoint(checkpoint)
    with pytest.raises(ValueError, match="names no component"):
        module.on_load_checkpoint({})


def test_validation_metrics_names_what_validation_logs() -> None:
    module, batch, logged = _module(), _batch(8), set()
    module.log = lambda name, value: logged.add(name)  # type: ignore[assignment, method-assign]
    module._trainer = SimpleNamespace(  # type: ignore[assignment]
        training=False, state=SimpleNamespace(fn="validate")
    )
    module.validation_step(batch, 0)
    module.on_validation_epoch_end()
    assert logged == LegalityModule.validation_metrics({}) == {"val/auroc", "val/kept"}


def test_a_loss_is_weighted_by_the_questions_of_the_batch() -> None:
    module, logged = _module(), []
    module.log = lambda *given, **options: logged.append((given, options))  # type: ignore[assignment, method-assign]
    module._training_questions = torch.zeros(0, dtype=torch.int64)
    loss = module.training_step(_batch(8), 0)
    assert logged == [(("train/loss", loss.detach()), {"batch_size": 8})]
