"""The special tokens around a text that the model of a run reads on its own."""

from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer import Tokenizer

# Of two vocabularies (fairseq), the token that ends a source, and with which the decoder begins.
END = "</s>"


def ends_rows(config: ResolvedConfig) -> bool:
    """Whether a row ends with a separator: where training had one."""
    return config.data.row_format != "packed" or config.objective.kind in TASKS


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
    if source_tokenizer is not None and not tokenizer.has_source_side:
        ends, begins = ((each.id_of(END),) for each in (source_tokenizer, tokenizer))
        return TextFrame(after=ends, decoder=begins, ends=begins)
    if source_tokenizer is not None or (kind == "translation" and imported is None):
        return TextFrame(after=(end,), decoder=(tokenizer.start_id,), ends=(end,))
    if imported is not None:
        return imported
    if kind in (*OBJECTIVE_KINDS.having("spans"), *OBJECTIVE_KINDS.having("denoising")):
        return TextFrame(opening, (end,), (end,))
    separates = ends_rows(config) and tokenizer.separator_id < config.model.vocab_size
    decoder = (tokenizer.start_id,) if config.model.architecture == "encoder_decoder" else ()
    return TextFrame(opening, (tokenizer.separator_id,) if separates else (), decoder)
