"""The special tokens around a text that the model of a run reads on its own."""

from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.tokenizers.marian_files import MarianTokenizer
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer import Tokenizer

# fairseq's name of the token that ends a source, and that a decoder begins with.
END = "</s>"


def frame_of_run(
    config: ResolvedConfig,
    tokenizer: Tokenizer,
    source_tokenizer: Tokenizer | None = None,
    imported: TextFrame | None = None,
) -> TextFrame:
    """Returns the frame of a text, as the model read its texts in training.

    Args:
        config: of the run.
        tokenizer: of the run; of an encoder-decoder, that of the decoder.
        source_tokenizer: of the encoder, where it is another one.
        imported: the frame that an import has recorded.
    """
    kind, opening, end = config.objective.kind, tuple(tokenizer.opening_ids), tokenizer.bos_id
    if source_tokenizer is not None and not isinstance(source_tokenizer, MarianTokenizer):
        ends, begins = (tuple(each.encode(END).tolist()) for each in (source_tokenizer, tokenizer))
        return TextFrame(after=ends, decoder=begins, ends=begins)
    if source_tokenizer is not None or (kind == "translation" and imported is None):
        return TextFrame(after=(end,), decoder=(tokenizer.start_id,), ends=(end,))
    if imported is not None:
        return imported
    if kind in (*OBJECTIVE_KINDS.having("spans"), *OBJECTIVE_KINDS.having("denoising")):
        return TextFrame(opening, (end,), (end,))
    ends_rows = config.data.row_format != "packed" or kind in TASKS
    after = (tokenizer.separator_id,) if ends_rows and tokenizer.separator_id < config.model.vocab_size else ()
    return TextFrame(opening, after, (tokenizer.start_id,))
