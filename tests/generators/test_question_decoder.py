"""The question decoder against its equations written out."""

import pytest
import torch
from toy_generators import enlarge, pad, random_tokens

from ivqa.generators.networks.decoder import LockedDropout, QuestionDecoder, word_embedding
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens

NUM_WORDS = 11


@pytest.fixture(params=[False, True], ids=["h_0 once", "h_0 at every word"])
def decoder(request: pytest.FixtureRequest) -> QuestionDecoder:
    decoder = QuestionDecoder(
        num_words=NUM_WORDS, embedding_size=5, hidden_size=7, feed_condition=request.param
    )
    enlarge(decoder)
    return decoder.eval()


def test_teacher_forcing_is_the_lstm_equations_written_out(decoder: QuestionDecoder) -> None:
    question = random_tokens(6, NUM_WORDS)
    hidden = torch.randn(6, 7)
    log_probs = decoder(hidden, question)
    for row in range(6):
        h, c = hidden[row], torch.zeros(7)
        words = question.ids[row, : question.lengths[row]].tolist()
        fed = 0.0 if decoder.feed is None else decoder.feed.weight @ hidden[row]
        for position, (before, word) in enumerate(zip([BOS, *words], [*words, EOS], strict=True)):
            gates = (
                decoder.lstm.weight_ih_l0 @ (decoder.embedding.weight[before] + fed)
                + decoder.lstm.bias_ih_l0
                + decoder.lstm.weight_hh_l0 @ h
                + decoder.lstm.bias_hh_l0
            )
            i, f, g, o = gates.chunk(4)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            logits = decoder.output.weight @ h + decoder.output.bias
            possible = torch.cat([logits[[EOS, UNK]], logits[4:]])
            expected = logits[word] - possible.logsumexp(0)
            torch.testing.assert_close(log_probs[row, position], expected)
        assert (log_probs[row, len(words) + 1 :] == 0).all()


@pytest.mark.parametrize("rows", [1, 10_000])  # without and with the table of input gates
def test_steps_agree_with_teacher_forcing(decoder: QuestionDecoder, rows: int) -> None:
    question = random_tokens(5, NUM_WORDS, min_length=5)
    hidden = torch.randn(5, 7)
    step, state = decoder.stepper(rows), decoder.start(hidden)
    inputs = torch.cat([torch.full((5, 1), BOS), question.ids], dim=1)
    targets = torch.cat([question.ids, torch.full((5, 1), EOS)], dim=1)
    steps = []
    for position in range(6):
        log_probs, state = step(state, inputs[:, position])
        steps.append(log_probs.gather(1, targets[:, position, None]))
    torch.testing.assert_close(torch.cat(steps, dim=1), decoder(hidden, question))


def test_probabilities_sum_to_one_without_pad_and_bos(decoder: QuestionDecoder) -> None:
    log_probs, _ = decoder.stepper(1)(decoder.start(torch.randn(4, 7)), torch.full((4,), BOS))
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(4))
    assert (log_probs[:, [PAD, BOS]] == float("-inf")).all()
    assert torch.isfinite(log_probs[:, [EOS, UNK, 4]]).all()


def test_padding_changes_nothing(decoder: QuestionDecoder) -> None:
    question, hidden = random_tokens(6, NUM_WORDS), torch.randn(6, 7)
    torch.testing.assert_close(decoder(hidden, pad(question, 3))[:, :6], decoder(hidden, question))


def test_the_score_of_an_empty_question_is_that_of_eos(decoder: QuestionDecoder) -> None:
    hidden = torch.randn(2, 7)
    empty = Tokens(torch.zeros(2, 1, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
    first, _ = decoder.stepper(1)(decoder.start(hidden), torch.full((2,), BOS))
    torch.testing.assert_close(decoder(hidden, empty)[:, 0], first[:, EOS])
    assert (decoder(hidden, empty)[:, 1] == 0).all()


def test_word_dropout_replaces_inputs_in_training_only() -> None:
    decoder = QuestionDecoder(
        num_words=NUM_WORDS, embedding_size=5, hidden_size=7, word_dropout=1.0
    )
    enlarge(decoder)
    question, hidden = random_tokens(4, NUM_WORDS, min_length=5), torch.randn(4, 7)
    other = Tokens(question.ids.flip(1), question.lengths)
    hidden_words = Tokens(torch.full_like(question.ids, UNK), question.lengths)
    decoder.train()
    # With all inputs replaced by <unk>, a word's loss depends only on the word and its position.
    dropped, reversed_ = decoder(hidden, question), decoder(hidden, other)
    decoder.eval()
    seen = decoder(hidden, question)
    assert not torch.allclose(dropped, seen)
    step, state = decoder.stepper(1), decoder.start(hidden)
    tokens = torch.full((4,), BOS)
    for position in range(5):
        log_probs, state = step(state, tokens)
        tokens = hidden_words.ids[:, position]
        for scored, text in ((dropped, question), (reversed_, other)):
            torch.testing.assert_close(
                scored[:, position], log_probs.gather(1, text.ids[:, position, None]).squeeze(1)
            )


def test_dropout_is_the_same_at_every_word_and_keeps_the_mean() -> None:
    dropout = LockedDropout(0.3)
    dropped = dropout(torch.ones(400, 3, 50))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    torch.testing.assert_close(dropped.unique(), torch.tensor([0, 1 / 0.7]))
    assert dropped.mean().item() == pytest.approx(1, abs=0.03)
    assert (dropout.eval()(torch.ones(2, 3, 4)) == 1).all()
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), not 1"):
        LockedDropout(1.0)


def test_pad_has_the_zero_embedding() -> None:
    weight = word_embedding(NUM_WORDS, 3).weight
    assert (weight[PAD] == 0).all()
    assert weight[1:].abs().max() <= 0.08
