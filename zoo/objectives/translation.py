"""Translation: an encoder-decoder reads a text and writes it in another language."""

from flax import nnx

from zoo.objectives.span_corruption import SpanObjective


class TranslationObjective(SpanObjective):
    """-log p(y_t | y_<t, x), the mean over the tokens of a text y and its end; x is the text that
    it translates (Sutskever et al. 2014; Vaswani et al. 2017). In training the decoder reads the
    true y_<t (teacher forcing), and labels may be smoothed.

    A batch is what `zoo.data.pipeline.buckets.PairBatches` makes: {"source": [B, T], "targets": [B,
    T]}, padded with -1; B and T differ from batch to batch. The decoder reads the tokenizer's
    `start_id` and the targets but the last. No token sees padding.
    """

    packed_without_padding = False

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why pairs cannot be evaluated; they have their own lengths, so only the
        length of training is possible.
        """
        if length != (trained := self.config.data.sequence_length):
            return f"pairs of texts have lengths of their own, of up to data.sequence_length={trained} tokens"
        return self.beyond_tables(model, length, length)
