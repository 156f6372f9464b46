"""The presets of the paper, compared with its equations written out word by word."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from toy_generators import ANSWER_WORDS, FEATURE_SIZES, QUESTION_WORDS, enlarge, random_batch

from ivqa.generators import GeneratorModule
from ivqa.text.vocabulary import Vocabulary

CONF = Path(__file__).parents[2] / "conf"
BOS, EOS = 1, 2
SIZES = ["embedding_size=7", "hidden_size=6", "answer_size=5"]


def _preset(name: str, *overrides: str) -> GeneratorModule:
    """The preset as it stands in conf/, with small layers and large weights."""
    sizes = [f"model.module.network.{size}" for size in (*SIZES, *overrides)]
    with initialize_config_dir(str(CONF), version_base=None):
        cfg = compose("train", [f"model={name}", *sizes])
    module: GeneratorModule = instantiate(
        {key: value for key, value in cfg.model.module.items() if key != "scheduler"},
        question_vocabulary=Vocabulary(QUESTION_WORDS),
        answer_words=Vocabulary(ANSWER_WORDS),
        feature_sizes=FEATURE_SIZES,
    )
    enlarge(module, 0.5)
    module.log_dict = lambda *args, **kwargs: None  # type: ignore[method-assign, assignment]
    return module.eval()  # no dropout


def _lstm(lstm: nn.LSTM, word: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an LSTM; PyTorch's order of the gates is i, f, g, o."""
    size = len(hidden)
    sums = lstm.weight_ih_l0 @ word + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ hidden + lstm.bias_hh_l0
    i, f, g, o = (sums[at : at + size] for at in range(0, 4 * size, size))
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _encoded(network: Any, words: list[int]) -> Tensor:
    """The answer: the last state of an LSTM that starts at zero."""
    hidden, cell = torch.zeros(5), torch.zeros(5)
    for word in words:
        embedded = network.answer_encoder.embedding.weight[word]
        hidden, cell = _lstm(network.answer_encoder.lstm, embedded, hidden, cell)
    return hidden


def _log_softmax(network: Any, hidden: Tensor) -> Tensor:
    logits = network.decoder.output.weight @ hidden + network.decoder.output.bias
    return logits - logits[2:].exp().sum().log()  # without <pad> and <bos>


def _words(tokens: Any, row: int) -> list[int]:
    return tokens.ids[row, : tokens.lengths[row]].tolist()


def test_the_variational_preset_has_the_equations_of_the_paper() -> None:
    """The negative ELBO of a batch by equations 5 and 6, and the first state of the decoder."""
    module, batch = _preset("ivqa_vae_paper", "latent_size=4"), random_batch(6)
    network: Any = module.network
    torch.manual_seed(3)
    loss = module.training_step(batch, 0)
    torch.manual_seed(3)
    noise = torch.randn(6, 4)
    starts, bounds = [], []
    for row in range(6):
        image = int(batch.images.index[row])
        feature = torch.cat(
            [
                batch.images.feature("concepts")[image],
                batch.images.feature("pooled")[image],
                batch.images.feature("grid")[image].mean(0),
            ]
        )
        question = _words(batch.question, row)
        # Encoder: h_0 = W_I f_I, c_0 = 0.
        of_image = network.encoder_image.projection
        hidden, cell = of_image.weight @ feature + of_image.bias, torch.zeros(6)
        for word in question:
            embedded = network.decoder.embedding.weight[word]
            hidden, cell = _lstm(network.encoder_lstm, embedded, hidden, cell)
        mean = network.encoder_mean.weight @ hidden + network.encoder_mean.bias
        raw = network.encoder_scale.weight @ hidden + network.encoder_scale.bias
        scale = torch.log(1 + torch.exp(raw))
        z = mean + scale * noise[row]
        # Decoder: h_0 = W_z z + W_I f_I + W_a a, c_0 = 0; its inputs are the previous words alone.
        of_image = network.decoder_image.projection
        answer = _encoded(network, _words(batch.answer, row))
        hidden = network.decoder_latent.weight @ z
        hidden = hidden + of_image.weight @ feature + of_image.bias
        hidden, cell = hidden + network.decoder_answer.weight @ answer, torch.zeros(6)
        starts.append(hidden)
        likelihood = torch.zeros(())
        for before, word in zip([BOS, *question], [*question, EOS], strict=True):
            embedded = network.decoder.embedding.weight[before]
            hidden, cell = _lstm(network.decoder.lstm, embedded, hidden, cell)
            likelihood = likelihood + _log_softmax(network, hidden)[word]
        divergence = kl_divergence(Normal(mean, scale), Normal(torch.zeros(4), torch.ones(4)))
        bounds.append(likelihood - divergence.sum())
    torch.testing.assert_close(loss, -torch.stack(bounds).mean(), atol=1e-4, rtol=1e-4)

    conditions = network.conditions(batch.images, batch.answer)
    posterior = network.posterior(batch.question, conditions)
    hidden = network.initial_hidden(conditions, posterior.sample(noise))
    torch.testing.assert_close(hidden, torch.stack(starts), atol=1e-5, rtol=1e-4)
    state = network.decoding(conditions, posterior.sample(noise))[1]
    torch.testing.assert_close(state[0], hidden)
    assert len(state) == 2  # h_0 and c_0: nothing is fed at each word
    assert state[1].abs().sum() == 0


@pytest.mark.parametrize("step", [0, 250, 10_000])
def test_the_kl_of_the_variational_preset_always_costs_itself(step: int) -> None:
    """No annealing, no free nats: the loss is the negative ELBO at every step."""
    module, batch = _preset("ivqa_vae_paper", "latent_size=4"), random_batch(6)
    module._trainer = type("Steps", (), {"global_step": step})()  # type: ignore[assignment]
    torch.manual_seed(3)
    loss = module.training_step(batch, 0)
    torch.manual_seed(3)
    torch.testing.assert_close(loss, -module.network(batch).elbo.mean())


@pytest.mark.parametrize(("changed", "weight"), [((), 1.0), (("doubly_stochastic=0.3",), 0.3)])
def test_show_attend_and_tell_of_the_papers_is_doubly_stochastic(
    changed: tuple[str, ...], weight: float
) -> None:
    """h_0 = tanh(W [mean g; a]), c_0 = 0; weight * sum_l (1 - sum_t alpha_tl)^2 is added."""
    module, batch = (
        _preset("ivqa_attend_and_tell_paper", "attention_size=5", *changed),
        random_batch(5),
    )
    layers: Any = module.network
    losses = []
    for row in range(5):
        grid = batch.images.feature("grid")[batch.images.index[row]]
        answer = _encoded(layers, _words(batch.answer, row))
        joint = layers.initial.weight @ torch.cat([grid.mean(0), answer]) + layers.initial.bias
        hidden, cell = torch.tanh(joint), torch.zeros(6)
        looked, loss = torch.zeros(len(grid)), torch.zeros(())
        question = _words(batch.question, row)
        for before, word in zip([BOS, *question], [*question, EOS], strict=True):
            energies = torch.stack(
                [
                    layers.score.weight[0]
                    @ torch.tanh(
                        layers.of_cell.weight @ one
                        + layers.of_cell.bias
                        + layers.of_state.weight @ hidden
                    )
                    for one in grid
                ]
            )
            alpha = energies.exp() / energies.exp().sum()
            looked = looked + alpha
            seen = sum(share * one for share, one in zip(alpha, grid, strict=True))
            word_in = layers.decoder.embedding.weight[before] + layers.seen.weight @ seen
            hidden, cell = _lstm(layers.decoder.lstm, word_in, hidden, cell)
            loss = loss - _log_softmax(layers, hidden)[word]
        losses.append(loss + weight * ((1 - looked) ** 2).sum())
    found = module.training_step(batch, 0)
    torch.testing.assert_close(found, torch.stack(losses).mean(), atol=1e-4, rtol=1e-4)
    # The term is no part of the likelihood, which ranks and validates.
    assert bool(-layers(batch).elbo.mean() < found)


def test_questions_are_decoded_from_the_state_of_training() -> None:
    """Decoding word by word gives the likelihood of `forward`, where c_0 = 0 too."""
    module, batch = _preset("ivqa_attend_and_tell_paper", "attention_size=5"), random_batch(5)
    network = module.network
    conditions = network.conditions(batch.images, batch.answer)
    step, state = network.decoding(conditions, None)
    torch.testing.assert_close(state[1], torch.zeros(5, 6))
    ids, lengths = batch.question.ids, batch.question.lengths
    total, before = torch.zeros(5), torch.full((5,), BOS)
    for place in range(ids.shape[1] + 1):
        log_probs, state = step(state, before)
        words = ids[:, place] if place < ids.shape[1] else torch.zeros(5, dtype=torch.int64)
        before = torch.where(place == lengths, torch.tensor(EOS), words)
        own = log_probs.gather(1, before[:, None])[:, 0]
        total = total + torch.where(place <= lengths, own, torch.zeros(()))
    torch.testing.assert_close(network(batch).log_likelihood, total, atol=1e-4, rtol=1e-4)
