"""Entry points: from a config to its data set and its vocabulary size."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo import config as configs
from zoo.config.fields import TASKS, chosen
from zoo.data.labelled import LabelledDataset, label_count, load_labelled, read_task, task_documents
from zoo.data.pipeline.batching import Batching
from zoo.data.rows.token_streams import Stream, cached_streams, tokenize
from zoo.data.sources.documents import Documents
from zoo.data.sources.records import DELIMITED_ENDINGS, JSON_ENDINGS, json_lines
from zoo.data.sources.source import read_components, read_held_out, read_text_file
from zoo.data.sources.stored_tokens import StoredTokens
from zoo.data.text_dataset import TextDataset, TokenizedSource, TokenizedText, joined_fingerprint
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.tokenizer_registry import tokenizer_class
from zoo.data.translation.pair_dataset import (
    TranslationDataset,
    fingerprint_of_pairs,
    load_translation,
    translation_vocab_size,
)
from zoo.data.translation.text_pairs import read_split_pairs
from zoo.errors import ConfigError, DataError
from zoo.nested import flatten


def load(config: Any) -> TextDataset | LabelledDataset | TranslationDataset:
    """Reads, splits and tokenises the sources of a config; tokens of plain text are cached.

    Args:
        config: a resolved config; `data`, `objective`, `seed` and `training.eval_batches` are used.

    Returns:
        A `LabelledDataset` for a task, a `TranslationDataset` for translation, otherwise a
        `TextDataset`.

    Raises:
        ConfigError: a bad field, or a file that does not exist.
        DataError: text that is empty, too short or bad.
    """
    if config.objective.kind in TASKS:
        return load_labelled(config)
    if config.objective.kind == "translation":
        return load_translation(config)
    data = config.data
    components = read_components(data)
    held_out = read_held_out(data, [source for _, source in components])

    def split(source: Documents | StoredTokens) -> tuple[Any, Any]:
        return (source, None) if held_out else source.split(data.validation_fraction, data.split == "clustered")

    # A tokenizer is trained on the training part of texts. Stored tokens are divided after it is
    # known, because its token between documents says where.
    splits = {place: split(source) for place, (_, source) in enumerate(components) if isinstance(source, Documents)}
    tokenizer = _build_tokenizer(
        data.tokenizer, [components[place][1] for place in splits], [train for train, _ in splits.values()]
    )
    batching = Batching(config, tokenizer)
    # No text says what the bytes of stored tokens are, and a mean over the others would mislead.
    known_bytes = tokenizer.lossless or not any(isinstance(source, StoredTokens) for _, source in components)
    parts = []
    for place, (weight, source) in enumerate(components):
        if isinstance(source, StoredTokens):
            source = _read_by(tokenizer, source, config)
            splits[place] = split(source)
        train, validation = splits[place]
        train = train.subset(data.training_fraction)
        texts = {"train": train} | ({"validation": validation} if validation else {})
        streams = _streams(tokenizer, texts, batching.with_sentences, {"validation"} if known_bytes else ())
        weight *= len(streams["train"]) ** data.mixture_exponent
        tokenized = TokenizedText(validation, streams["validation"]) if validation else None
        parts.append(TokenizedSource(weight, source, train, streams["train"], tokenized))
    if isinstance(held_out, StoredTokens):
        held_out = _read_by(tokenizer, held_out, config)
    given = held_out and TokenizedText(held_out, _held_out_stream(tokenizer, held_out, batching, data))
    dataset = TextDataset(tokenizer, batching, tuple(parts), given)
    batching.check([part.train_stream for part in parts], [text.stream for text in dataset.held_out_texts])
    return dataset


def _build_tokenizer(settings: Any, sources: Sequence[Documents], training: Sequence[Documents]) -> Tokenizer:
    """Makes the tokenizer of `data.tokenizer`; there are no texts where all tokens are stored."""
    source, training = (
        Documents.joined(texts) if texts else Documents.of((), "no text") for texts in (sources, training)
    )
    tokenizer = tokenizer_class(settings.kind).build(settings, source, training)
    return tokenizer if settings.document_id == configs.AUTO else tokenizer.with_document_id(settings.document_id)


def _read_by(tokenizer: Tokenizer, source: StoredTokens, config: Any) -> StoredTokens:
    """Returns stored tokens as those of a tokenizer."""
    found = source.read_by(tokenizer.vocab_size, tokenizer.bos_id if tokenizer.opens_documents else None)
    if config.data.isolate_documents:
        found.check_boundaries()
    return found


def _streams(
    tokenizer: Tokenizer, texts: Mapping[str, Documents | StoredTokens], with_sentences: bool, scored: Collection[str]
) -> dict[str, Stream]:
    """Returns the token streams of named parts of a source; see `cached_streams`."""
    stored = {name: Stream(text.tokens) for name, text in texts.items() if isinstance(text, StoredTokens)}
    return stored or cached_streams(tokenizer, dict(texts), with_sentences, scored)


def _held_out_stream(tokenizer: Tokenizer, held_out: Documents | StoredTokens, batching: Batching, data: Any) -> Stream:
    """Tokenises a held-out text of its own, which may have characters that the training text lacks."""
    try:
        texts = {"validation": held_out}
        return _streams(tokenizer, texts, batching.with_sentences, texts)["validation"]
    except DataError as error:
        raise DataError([f"data.held_out={data.held_out}: {problem}" for problem in error.problems]) from error


def source_fingerprint(config: Any) -> str:
    """Returns the fingerprint of the text of a resolved config, without building a tokenizer.

    It is that of the data set's `summary`. All sources are read.

    Raises:
        ConfigError, DataError: as `load`.
    """
    sources, held_out = content_fingerprints(config)
    return joined_fingerprint([*sources, *([held_out] if held_out else [])])


def content_fingerprints(config: Any) -> tuple[list[str], str]:
    """Returns the fingerprint of each source of a resolved config, and that of `data.held_out`; empty
    if there is none, or if it is part of the examples or pairs.

    Raises:
        ConfigError, DataError: as `load`.
    """
    if config.objective.kind in TASKS:
        return [read_task(config)[0].fingerprint], ""
    if config.objective.kind == "translation":
        return [fingerprint_of_pairs(*read_split_pairs(config.data))], ""
    texts = [source for _, source in read_components(config.data)]
    held_out = read_held_out(config.data, texts)
    return [text.fingerprint for text in texts], held_out.fingerprint if held_out else ""


def encode_text_file(path: str | Path, tokenizer: Tokenizer, config: Any) -> Stream:
    """Returns the token stream of a file (plain or compressed), read as the config reads text.

    Of a file with an ending of JSON, the documents are the texts at `data.column` of its objects,
    unless the config trains on text files, alone or in a mixture: such a run reads JSON as it stands.

    Raises:
        ConfigError: no such file; or a csv or tsv file, for a config that trains on no text files.
        DataError: not UTF-8, empty, or with a character that the tokenizer does not know; not JSON, or
            without the column.
    """
    trained_on = chosen(flatten(config) | {"data.held_out": ""}, "data.source")
    reads_files = "text" in trained_on
    as_records = str(path).endswith(JSON_ENDINGS) and not reads_files
    if str(path).endswith(DELIMITED_ENDINGS) and not reads_files:
        raise ConfigError(
            f'"{path}": a table, whose separators and quotes would be scored as prose; write its texts as objects '
            f'{{"{config.data.column}": ...}} of a .jsonl file, or give it an ending of .txt to score it as it stands'
        )
    if as_records:
        documents = json_lines(str(path), config.data)
    else:
        documents = read_text_file(path, config.data.document_separator, config.data.bad_text)
    try:
        empty = not documents.count
    except DataError as error:
        as_it_stands = ["a file that ends in .txt is read as it stands"] if as_records else []
        raise DataError([*error.problems, *as_it_stands]) from error
    if empty:
        raise DataError(f'"{path}": the text is empty')
    try:
        stream = tokenize(tokenizer, documents, Batching(config, tokenizer).with_sentences)
    except DataError as error:
        raise DataError([f'"{path}": {problem}' for problem in error.problems]) from error
    # The bytes of numbers are not those of what they stand for.
    return stream if tokenizer.reads_text else replace(stream, sizes=None, difference=None)


def vocabulary_size(config: Any) -> int:
    """Returns the number of ids that a model of the config needs.

    The source is read only if it determines the vocabulary (e.g. for characters).

    Raises:
        ConfigError: unknown tokenizer, or an impossible size.
        DataError: as `load`, if the source is read.
    """
    settings = config.data.tokenizer
    tokenizer_type = tokenizer_class(settings.kind)
    size = tokenizer_type.known_model_vocab_size(settings, config.objective, config.data.row_format)
    if size is not None:
        return size
    if config.objective.kind == "translation":
        return translation_vocab_size(config)
    if config.objective.kind in TASKS:
        source, training = task_documents(config)
    else:
        texts = [source for _, source in read_components(config.data) if isinstance(source, Documents)]
        return _build_tokenizer(settings, texts, texts).model_vocab_size(config.objective, config.data.row_format)
    return tokenizer_type.build(settings, source, training).model_vocab_size(config.objective, config.data.row_format)


def resolve_with_data(config: Any) -> configs.ResolvedConfig:
    """Resolves a config; reads data if only the data determine the vocabulary or the classes.

    Raises:
        ConfigError: a bad config.
        ConfigError, DataError: as `load`, if data are read.
    """
    resolved = configs.resolve(config)
    if resolved.model.vocab_size == configs.AUTO:
        resolved = configs.resolve(config, vocabulary_size(resolved))
    return with_num_classes(resolved)


def with_num_classes(resolved: Any) -> Any:
    """Replaces model.head.classes=auto of a resolved config by the number of labels in training.

    Raises:
        ConfigError, DataError: as `load`.
    """
    if resolved.objective.kind in TASKS and resolved.model.head.classes == configs.AUTO:
        return configs.resolve(configs.override(resolved, {"model.head.classes": label_count(resolved)}))
    return resolved
