"""The precision of training that suits the machine."""

import torch
from omegaconf import DictConfig, open_dict

from ivqa.device import fastest_dtype, on_cpu, uses_avx512
from ivqa.errors import UserError


def set_precision(trainer: DictConfig) -> None:
    """Replaces precision=auto of a trainer, and checks that this machine has the precision.

    Raises:
        UserError: bfloat16 on a CPU without AVX-512: oneDNN has no bfloat16 LSTM there.
    """
    cpu = on_cpu(trainer.accelerator)
    if trainer.precision == "auto":
        # Mixed precision speeds up every model on CPUs with fast bfloat16.
        mixed = cpu and fastest_dtype() is torch.bfloat16
        with open_dict(trainer):
            trainer.precision = "bf16-mixed" if mixed else "32-true"
    if cpu and str(trainer.precision).startswith("bf16") and not uses_avx512():
        raise UserError(
            f"trainer.precision={trainer.precision} needs a processor with AVX-512, and this one "
            "has none; set trainer.precision=auto, which chooses the fastest one of this machine"
        )
