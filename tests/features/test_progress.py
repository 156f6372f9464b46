"""The line of progress of the image features."""

from types import SimpleNamespace
from typing import Any

from ivqa.features.concept_training import TrainingProgress
from ivqa.features.decoding import tracked


def test_tracked_items_are_unchanged() -> None:
    assert list(tracked([3, 1, 2], "reading 3 images")) == [3, 1, 2]


def test_the_line_shows_steps_and_epochs_and_ends_with_the_training() -> None:
    trainer: Any = SimpleNamespace(
        estimated_stepping_batches=20, global_step=5, current_epoch=1, max_epochs=4
    )
    module: Any = None
    progress = TrainingProgress()
    progress.on_train_start(trainer, module)  # a resumed training
    assert progress._line is not None
    (task,) = progress._line.tasks
    assert (task.completed, task.total) == (5, 20)
    trainer.global_step = 6
    progress.on_train_batch_end(trainer, module, None, None, 0)
    assert task.completed == 6
    assert task.description == "image features: training the concept predictor, epoch 2 of 4"
    progress.on_exception(trainer, module, KeyboardInterrupt())
    assert progress._line is None
    progress.on_train_end(trainer, module)
