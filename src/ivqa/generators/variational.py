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
from ivqa.generators.decoder import QuestionDecoder
from ivqa.generators.image_encoder import ImageEncoder
from ivqa.generators.network import Conditions, Posterior, QuestionGenerator
from ivqa.text.vocabulary import Tokens

# softplus underflows to 0 in float32, whose logarithm the KL takes.
_SMALLEST_SCALE = 1e-6


class VariationalGenerator(QuestionGenerator):
    """p(q | z, I, a) with q(z | I, q).

    num_words, num_answer_words: vocabulary sizes with specials. feature_sizes: the global image
    features that form f_I. The sizes are the paper's where it gives them; the latent size it does
    not give. The encoder reads the decoder's word embedding, as in the published code; the two
    W_I are two matrices.
    """

    def __init__(
        self,
        *,
        num_words: int,
        num_answer_words: int,
        feature_sizes: Mapping[str, int],
        embedding_size: int = 512,
        hidden_size: int = 512,
        answer_size: int = 512,
        latent_size: int = 64,
        word_dropout: float = 0.0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(
            QuestionDecoder(
                num_words=num_words,
                embedding_size=embedding_size,
                hidden_size=hidden_size,
                word_dropout=word_dropout,
                dropout=dropout,
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
        self.encoder_lstm = nn.LSTM(embedding_size, hidden_size, batch_first=True)
        self.encoder_mean = nn.Linear(hidden_size, latent_size)
        self.encoder_scale = nn.Linear(hidden_size, latent_size)
        # One bias is enough for the sum of three projections.
        self.decoder_image = ImageEncoder(feature_sizes=feature_sizes, size=hidden_size)
        self.decoder_answer = nn.Linear(answer_size, hidden_size, bias=False)
        self.decoder_latent = nn.Linear(latent_size, hidden_size, bias=False)

    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """W_I f_I + W_a a for the decoder and W_I f_I for the encoder."""
        return Conditions(
            decoder=self.decoder_image(images) + self.decoder_answer(self.answer_encoder(answer)),
            encoder=self.encoder_image(images),
        )

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
