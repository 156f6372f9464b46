"""The variational iVQA generator (Liu et al., "Inverse Visual Question Answering", section 3.2).

Encoder  h_0 = W_I f_I, c_0 = 0;  h_T = LSTM(q);  mu = W_mu h_T,  sigma = softplus(W_sigma h_T)
Latent   z ~ N(mu, sigma^2 I), prior N(0, I)
Decoder  h_0 = W_z z + W_I f_I + W_a a, c_0 = 0;  p(q | z, I, a) by an LSTM
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators.networks.answer_encoder import AnswerEncoder, last_hidden
from ivqa.generators.networks.decoder import lstm_with_forget_bias
from ivqa.generators.networks.image_encoder import ImageEncoder
from ivqa.generators.networks.network import Conditions, Posterior, QuestionGenerator
from ivqa.ranges import Count, CountOrZero
from ivqa.text.vocabulary import Tokens

# softplus underflows to 0 in float32, and the KL takes the logarithm of the scale.
_SMALLEST_SCALE = 1e-6


class JointTerm(nn.Module):
    """W_J (tanh(U f_I) * tanh(V a)), a low-rank bilinear term of image and answer.

    The same term as in MLB (Kim et al. 2017). Which object is the red one depends on the answer
    and the image together; a sum of a term of each cannot express that. `joint_size` is its rank.
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
        """Computes the term (B, d_h) for images and encoded answers (B, d_a) of B samples."""
        return self.output(self.image(images).tanh() * self.answer(encoded).tanh())


class VariationalGenerator(QuestionGenerator):
    """p(q | z, I, a) with the approximate posterior q(z | I, q).

    The question encoder reads the word embedding of the decoder, as in the published code. The
    matrices W_I of encoder and decoder are two matrices. The default sizes are the paper's; the
    paper does not give latent_size.

    Args:
        num_answer_words: Size of the answer vocabulary with its special tokens.
        feature_sizes: Last dimension of each global image feature that forms f_I.
        answer_size: d_a, dimensions of the encoded answer.
        latent_size: d_z.
        joint_size: Rank of a `JointTerm` that is added to h_0; 0 is the paper's h_0.
        **decoder: Arguments of `QuestionGenerator`.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        num_answer_words: int,
        feature_sizes: Mapping[str, int],
        answer_size: Count = 512,
        latent_size: Count = 64,
        joint_size: CountOrZero = 0,
        **decoder: Any,
    ) -> None:
        super().__init__(**decoder)
        embedding_size, hidden_size = self.decoder.embedding_size, self.decoder.hidden_size
        self.latent_size = latent_size
        self.answer_encoder = AnswerEncoder(
            num_words=num_answer_words,
            embedding_size=embedding_size,
            size=answer_size,
            dropout=self.decoder.dropout.probability,
        )
        self.encoder_image = ImageEncoder(feature_sizes=feature_sizes, size=hidden_size)
        self.encoder_lstm = lstm_with_forget_bias(embedding_size, hidden_size)
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

    @override
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """Computes W_I f_I + W_a a for the decoder and W_I f_I for the question encoder."""
        encoded = self.answer_encoder(answer)  # (P, d_a)
        hidden = self.decoder_image(images) + self.decoder_answer(encoded)  # (P, d_h)
        if self.joint is not None:
            hidden = hidden + self.joint(images, encoded)
        return Conditions(decoder=hidden, encoder=self.encoder_image(images))

    @override
    def initial_hidden(self, conditions: Conditions, z: Tensor | None) -> Tensor:
        """Computes h_0 = W_z z + W_I f_I + W_a a, (N, d_h)."""
        if z is None:
            raise ValueError("this generator needs z; draw it with prior() or posterior()")
        return conditions.decoder + self.decoder_latent(z)

    @override
    def posterior(self, question: Tokens, conditions: Conditions) -> Posterior:
        assert conditions.encoder is not None  # set by conditions() above
        embedded = self.decoder.dropout(self.decoder.embedding(question.ids))  # (N, T, d_e)
        hidden = last_hidden(self.encoder_lstm, embedded, question.lengths, conditions.encoder)
        # float32 under any autocast precision: the KL takes the logarithm of a small scale.
        scale = F.softplus(self.encoder_scale(hidden).float()).clamp_min(_SMALLEST_SCALE)
        return Posterior(self.encoder_mean(hidden).float(), scale)  # (N, d_z) each
