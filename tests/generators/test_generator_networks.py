"""Networks of the generators: invariances, gradients and the paper's equations."""

from collections.abc import Callable
from dataclasses import replace
from inspect import signature

import pytest
import torch
from toy_generators import (
    ANSWER_WORDS,
    FEATURE_SIZES,
    NETWORKS,
    QUESTION_WORDS,
    enlarge,
    pad,
    random_batch,
    random_images,
    random_tokens,
)

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators import ImageOnlyGenerator, QuestionGenerator, VariationalGenerator
from ivqa.generators.networks.answer_encoder import AnswerEncoder, last_hidden
from ivqa.generators.networks.image_encoder import ImageEncoder
from ivqa.text.vocabulary import Tokens, Vocabulary

Factory = Callable[..., QuestionGenerator]


def build(factory: Factory) -> QuestionGenerator:
    given = {"answer_words": Vocabulary(ANSWER_WORDS)}
    network = factory(
        num_words=len(QUESTION_WORDS) + 4,
        num_answer_words=len(ANSWER_WORDS) + 4,
        feature_sizes=FEATURE_SIZES,
        **(given if "answer_words" in signature(factory).parameters else {}),
    )
    enlarge(network)
    return network.eval()


def test_padding_never_changes_the_terms(network_factory: Factory) -> None:
    network, batch = build(network_factory), random_batch()
    wider = replace(batch, question=pad(batch.question, 4), answer=pad(batch.answer, 2))
    torch.manual_seed(1)
    output = network(batch)
    torch.manual_seed(1)
    padded = network(wider)
    torch.testing.assert_close(padded.log_likelihood, output.log_likelihood)
    torch.testing.assert_close(padded.elbo, output.elbo)
    assert padded.num_tokens.tolist() == (batch.question.lengths + 1).tolist()


def test_rows_are_scored_independently(network_factory: Factory) -> None:
    network, batch = build(network_factory), random_batch()
    conditions = network.conditions(batch.images, batch.answer)
    z = network.prior(len(batch))
    whole = network.token_log_probs(batch.question, z, conditions)
    for row in range(len(batch)):
        only = torch.tensor([row])
        alone = network.token_log_probs(
            batch.question.select(only),
            None if z is None else z[only],
            network.conditions(batch.images.select(only), batch.answer.select(only)),
        )
        torch.testing.assert_close(alone[0], whole[row])


def test_every_parameter_has_a_gradient(network_factory: Factory) -> None:
    network = build(network_factory).train()
    (-network(random_batch()).elbo.sum()).backward()
    for name, value in network.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().sum() > 0, name


def test_the_terms_stay_in_float32_under_autocast(network_factory: Factory) -> None:
    network, batch = build(network_factory), random_batch()
    exact = network(batch).log_likelihood
    # oneDNN has no LSTM in bfloat16 for processors without AVX-512; torch's own runs everywhere.
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", dtype=torch.bfloat16):
        output = network(batch)
    assert output.log_likelihood.dtype == torch.float32
    if output.kl is not None:
        assert output.kl.dtype == torch.float32
    else:
        torch.testing.assert_close(output.log_likelihood, exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    ("kind", "image_matters", "answer_matters"),
    [
        ("variational", True, True),
        ("answer_only", False, True),
        ("image_only", True, False),
        ("attend_and_tell", True, True),
        ("attentive", True, True),
    ],
)
def test_inputs_that_change_the_conditions_of_each_generator(
    kind: str, image_matters: bool, answer_matters: bool
) -> None:
    network = build(NETWORKS[kind])
    images = replace(random_images(3), index=torch.tensor([0, 1, 0]))
    answer = Tokens(torch.tensor([[4], [4], [5]]), torch.ones(3, dtype=torch.int64))
    first, other_image, other_answer = network.conditions(images, answer).decoder
    assert torch.allclose(first, other_image) != image_matters
    assert torch.allclose(first, other_answer) != answer_matters


def test_the_decoder_starts_from_the_sum_of_three_projections(variational_factory: Factory) -> None:
    network, batch = build(variational_factory), random_batch()
    assert isinstance(network, VariationalGenerator)
    z = torch.randn(len(batch), 4)
    images = batch.images
    parts = [images.feature("concepts"), images.feature("pooled"), images.feature("grid").mean(1)]
    features = torch.cat(parts, dim=1)[images.index]
    image = network.decoder_image.projection
    expected = (
        z @ network.decoder_latent.weight.T
        + features @ image.weight.T
        + image.bias
        + network.answer_encoder(batch.answer) @ network.decoder_answer.weight.T
    )
    hidden = network.initial_hidden(network.conditions(batch.images, batch.answer), z)
    torch.testing.assert_close(hidden, expected)
    with pytest.raises(ValueError, match="this generator needs z"):
        network.initial_hidden(network.conditions(batch.images, batch.answer), None)


def test_the_posterior_reads_image_and_question_but_not_the_answer(
    variational_factory: Factory,
) -> None:
    network, batch = build(variational_factory), random_batch()
    conditions = network.conditions(batch.images, batch.answer)
    other = network.conditions(batch.images, random_batch().answer)
    elsewhere = network.conditions(random_images(len(batch)), batch.answer)
    mean = network.posterior(batch.question, conditions).mean
    assert torch.equal(network.posterior(batch.question, other).mean, mean)
    assert not torch.allclose(network.posterior(batch.question, elsewhere).mean, mean)
    changed = random_tokens(len(batch), 9)
    assert not torch.allclose(network.posterior(changed, conditions).mean, mean)


def test_the_posterior_of_an_empty_question_is_that_of_its_image(
    variational_factory: Factory,
) -> None:
    network, batch = build(variational_factory), random_batch()
    conditions = network.conditions(batch.images, batch.answer)
    empty = Tokens(torch.zeros(8, 1, dtype=torch.int64), torch.zeros(8, dtype=torch.int64))
    torch.testing.assert_close(
        network.posterior(empty, conditions).mean, network.encoder_mean(conditions.encoder)
    )


def test_a_posterior_far_below_softplus_range_has_a_finite_kl(
    variational_factory: Factory,
) -> None:
    network, batch = build(variational_factory), random_batch()
    with torch.no_grad():
        network.encoder_scale.bias.fill_(-200.0)
    assert torch.isfinite(network(batch).elbo).all()


def test_samples_of_the_posterior_carry_gradients_to_the_encoder(
    variational_factory: Factory,
) -> None:
    network, batch = build(variational_factory), random_batch()
    conditions = network.conditions(batch.images, batch.answer)
    posterior = network.posterior(batch.question, conditions)
    z = posterior.sample(torch.randn_like(posterior.mean))
    network.token_log_probs(batch.question, z, conditions).sum().backward()
    assert network.encoder_lstm.weight_hh_l0.grad.abs().sum() > 0


def test_last_hidden_is_the_packed_lstm() -> None:
    lstm = torch.nn.LSTM(3, 4, batch_first=True)
    embedded, initial = torch.randn(6, 5, 3), torch.randn(6, 4)
    lengths = torch.tensor([5, 1, 3, 2, 4, 0])
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        embedded[:5], lengths[:5], batch_first=True, enforce_sorted=False
    )
    _, (hidden, _) = lstm(packed, (initial[None, :5], torch.zeros(1, 5, 4)))
    found = last_hidden(lstm, embedded, lengths, initial)
    torch.testing.assert_close(found[:5], hidden[0])
    torch.testing.assert_close(found[5], initial[5])


def test_an_empty_answer_is_zero() -> None:
    encoder = AnswerEncoder(num_words=9, embedding_size=3, size=4).eval()
    answer = Tokens(torch.tensor([[4, 5], [0, 0]]), torch.tensor([2, 0]))
    encoding = encoder(answer)
    assert (encoding[1] == 0).all()
    assert (encoding[0] != 0).all()


def test_each_image_is_projected_once_for_all_its_samples() -> None:
    encoder = ImageEncoder(feature_sizes=FEATURE_SIZES, size=6)
    images = random_images(500, distinct=3)
    rows: list[int] = []
    encoder.projection.register_forward_hook(lambda m, inputs, out: rows.append(len(inputs[0])))
    parts = [images.feature("concepts"), images.feature("pooled"), images.feature("grid").mean(1)]
    expected = encoder.projection(torch.cat(parts, dim=1)[images.index])
    torch.testing.assert_close(encoder(images), expected)
    assert rows == [500, 3]


def test_a_grid_is_averaged_over_its_positions() -> None:
    encoder = ImageEncoder(feature_sizes={"grid": 5}, size=6)
    grid = torch.randn(2, 7, 5)
    images = ImageBatch(torch.arange(2), torch.tensor([1, 0, 1]), grid=grid)
    torch.testing.assert_close(encoder(images), encoder.projection(grid.mean(1))[images.index])


def test_invalid_image_features_are_rejected() -> None:
    with pytest.raises(ValueError, match="name at least one, for example concepts"):
        ImageOnlyGenerator(num_words=9, feature_sizes={})
    encoder = ImageEncoder(feature_sizes={"concepts": 8}, size=6)
    with pytest.raises(ValueError, match=r"'concepts' has 5 dimensions, but .* built for 8"):
        encoder(random_images(2))
    with pytest.raises(ValueError, match="carries no image feature 'concepts'"):
        encoder(ImageBatch(torch.arange(2), torch.arange(2)))
