"""The variational iVQA generator (Liu et al., "Inverse Visual Question Answering", section 3.2).

Encoder  h_0 = W_I f_I, c_0 = 0;  h_T = LSTM(q);  mu = W_mu h_T,  sigma = softplus(W_sigma h_T)
Latent   z ~ N(mu, sigma^2 I), prior N(0, I)
Decoder  h_0 = W_z z + W_I f_I + W_a a, c_0 = 0;  p(q | z, I, a) by an LSTM
"""

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.data.batch import ImageBatch
from ivqa.generators.answer_encoder import AnswerEncoder, last_hidden
from ivqa.generators.decoder import QuestionDecoder, remembering_lstm
from ivqa.generators.image_encoder import ImageEncoder
from ivqa.generators.network import Conditions, Posterior, QuestionGenerator
from ivqa.ranges import Count, CountOrZero, ShareBelowOne
from ivqa.text.vocabulary import Tokens

# softplus underflows to 0 in float32, whose logarithm the KL takes.
_SMALLEST_SCALE = 1e-6


class JointTerm(nn.Module):
    """W_J (tanh(U f_I) * tanh(V a)), what image and answer say together: (B, d_h).

    A low-rank bilinear term as in MLB (Kim et al. 2017). Which thing is the red one depends on the
    answer and on the image at once, and a sum of the two cannot say it.
    """

    def __init__(
        self,
        *,
        feature_sizes: Mapping[str, int],
        answer_size: int,
        joint_size: int,
        hidden_size: int,
    ) -> None:
        super().__init__()
        self.image = ImageEncoder(feature_sizes=feature_sizes, size=joint_size)
        self.answer = nn.Linear(answer_size, joint_size)
        self.output = nn.Linear(joint_size, hidden_size, bias=False)

    def forward(self, images: ImageBatch, encoded: Tensor) -> Tensor:
        """The term for B samples; encoded: their answers (B, d_a)."""
        return self.output(self.image(images).tanh() * self.answer(encoded).tanh())


class VariationalGenerator(QuestionGenerator):
    """p(q | z, I, a) with q(z | I, q).

    num_words, num_answer_words: vocabulary sizes with specials. feature_sizes: the global image
    features that form f_I. The sizes are the paper's where it gives them; the latent size it does
    not give. joint_size: 0 is the paper's h_0; above 0 a `JointTerm` of that rank is added to it.
    feed_condition: false is the paper's decoder; see `QuestionDecoder`.
    The encoder reads the decoder's word embedding, as in the published code; the two
    W_I are two matrices.
    """

    def __init__(
        self,
        *,
        num_words: int,
        num_answer_words: int,
        feature_sizes: Mapping[str, int],
        embedding_size: Count = 512,
        hidden_size: Count = 512,
        answer_size: Count = 512,
        latent_size: Count = 64,
        joint_size: CountOrZero = 0,
        word_dropout: ShareBelowOne = 0.0,
        dropout: ShareBelowOne = 0.5,
        feed_condition: bool = False,
    ) -> None:
        super().__init__(
            QuestionDecoder(
                num_words=num_words,
                embedding_size=embedding_size,
                hidden_size=hidden_size,
                word_dropout=word_dropout,
                dropout=dropout,
                feed_condition=feed_condition,
            )
        )
        self.latent_size = latent_size
        self.answer_encoder = AnswerEncoder(
            num_words=num_answer_words,
            embedding_size=embedding_size,
            size=answer_size,
            dropout=dropout,
        )
        self.encoder_image = ImageEncoder(feature_sizes=feature_sizes, size=hidden_size)
        self.encoder_lstm = remembering_lstm(embedding_size, hidden_size)
        self.encoder_mean = nn.Linear(hidden_size, latent_size)
        self.encoder_scale = nn.Linear(hidden_size, latent_size)
        # One bias is enough for the sum of three projections.
        self.decoder_image = ImageEncoder(feature_sizes=feature_sizes, size=hidden_size)
        self.decoder_answer = nn.Linear(answer_size, hidden_size, bias=False)
        self.decoder_latent = nn.Linear(latent_size, hidden_size, bias=False)
        self.joint: JointTerm | None = None
        if joint_size:
            self.joint = JointTerm(
                feature_sizes=feature_sizes,
                answer_size=answer_size,
                joint_size=joint_size,
                hidden_size=hidden_size,
            )

    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """W_I f_I + W_a a for the decoder and W_I f_I for the encoder."""
        encoded = self.answer_encoder(answer)
        hidden = self.decoder_image(images) + self.decoder_answer(encoded)
        if self.joint is not None:
            hidden = hidden + self.joint(images, encoded)
        return Conditions(decoder=hidden, encoder=self.encoder_image(images))

    def initial_hidden(self, conditions: Conditions, z: Tensor | None) -> Tensor:
        """h_0 = W_z z + W_I f_I + W_a a, (N, d_h)."""
        if z is None:
            raise ValueError("this generator needs z; draw it with prior() or posterior()")
        return conditions.decoder + self.decoder_latent(z)

    def posterior(self, question: Tokens, conditions: Conditions) -> Posterior:
        """q(z | I, q) of N questions."""
        assert conditions.encoder is not None  # set by conditions() above
        embedded = self.decoder.dropout(self.decoder.embedding(question.ids))
        hidden = last_hidden(self.encoder_lstm, embedded, question.lengths, conditions.encoder)
        scale = F.softplus(self.encoder_scale(hidden).float()).clamp_min(_SMALLEST_SCALE)
        return Posterior(self.encoder_mean(hidden).float(), scale)
