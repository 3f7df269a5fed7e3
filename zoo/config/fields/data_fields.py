"""Fields of data, tokenizers and batches."""

from zoo.config.field import AUTO, Field
from zoo.config.fields.conditions import (
    CAUSAL,
    CONLL,
    EXAMPLE_OBJECTIVES,
    HUB,
    LABEL_OBJECTIVES,
    MASKED,
    STORED,
    TASK_OBJECTIVES,
    TEXT_OBJECTIVES,
    TFDS,
    TOKEN_OBJECTIVES,
    TRANSLATION,
    WHOLE_ROWS,
    WINDOWED,
    WITH_RECORDS,
    WITH_SPLITS,
)

DATA_FIELDS: tuple[Field, ...] = (
    Field(
        "data.source",
        "stdlib",
        str,
        "text: `stdlib` (the running Python's own library, no download; `stdlib:docstrings`), `text:PATH`, "
        "`jsonl:PATH`, `parquet:PATH` (a file, folder or glob), `tokens:PATH` (ids of nanoGPT, llm.c, Megatron or "
        "NumPy), `hf:NAME` (Hugging Face; or a folder), "
        "`tfds:NAME`, `synthetic:TASK`, or `mixture`; labelled examples: also `csv:PATH`, `tsv:PATH`, "
        "`conll:PATH`, `squad:PATH`, and `stdlib` is a built-in task; pairs of texts: `stdlib:translation`, "
        "`stdlib:classification` (labels as texts), `parallel:PATH.{en,de}`, and the sources with columns",
    ),
    Field(
        "data.column",
        "text",
        str,
        'field of a record that holds the text; "a.b" is field b within field a',
        when=WITH_RECORDS,
    ),
    Field(
        "data.second_column",
        "",
        str,
        "field of a record that holds a second text, for pairs; empty: there is none",
        when=WITH_RECORDS,
    ),
    Field("data.label_column", "label", str, "field of a record that holds the label", when=WITH_RECORDS),
    Field(
        "data.source_column",
        "source",
        str,
        'field of a record that holds the text to translate, e.g. "translation.en"',
        when=TRANSLATION,
    ),
    Field("data.target_column", "target", str, "field of a record that holds the translation", when=TRANSLATION),
    Field(
        "data.header",
        True,
        bool,
        "the first line names the columns; otherwise they are called 0, 1, 2 ...",
        when=("data.source", ("csv", "tsv")),
    ),
    Field(
        "data.conll.words",
        0,
        int,
        "column of the words, counted from 0; -1, -2 ... count from the last one",
        when=CONLL,
    ),
    Field("data.conll.tags", -1, int, "column of the tags, counted in the same way", when=CONLL),
    Field(
        "data.labels",
        (),
        tuple,
        "labels in the order of their ids; empty: the training examples' labels, sorted",
        items=str,
        when=LABEL_OBJECTIVES,
    ),
    Field(
        "data.stride",
        AUTO,
        int,
        "tokens between the starts of consecutive windows of a long text (BERT: 128)",
        minimum=1,
        auto="for extraction a third of data.sequence_length; otherwise long texts are cut off",
        when=WINDOWED,
    ),
    Field(
        "data.held_out",
        "",
        str,
        "source of the held-out text or examples, e.g. `text:dev.txt`, `tsv:dev.tsv`, or `split:NAME` of the same hf "
        "or tfds data set; empty: `validation_fraction` of the source",
    ),
    Field(
        "data.hub.revision",
        "",
        str,
        "commit of a data set on the Hugging Face hub, 40 hex digits; a folder has none",
        when=HUB,
    ),
    Field("data.hub.subset", "", str, "which of a data set's configurations; empty: the only or default one", when=HUB),
    Field("data.hub.split", "train", str, "which of a data set's splits", when=WITH_SPLITS),
    Field("data.hub.streaming", False, bool, "read records as they arrive, without a copy on this disk", when=HUB),
    Field("data.hub.folder", "", str, "where TFDS keeps its data sets; empty: its own default", when=TFDS),
    Field(
        "data.mixture",
        (),
        tuple,
        'weights and sources whose rows are mixed, e.g. "0.7*text:corpus.txt","0.3*stdlib"',
        items=str,
        when=("data.source", ("mixture",)),
    ),
    Field(
        "data.mixture_exponent",
        0.0,
        float,
        "alpha: a source with n training tokens is sampled in proportion to its weight times n^alpha; 0: to its "
        "weight, 1: to its weight and size, 0.3 as mT5 does (Xue et al. 2021, section 3.2)",
        minimum=0,
        maximum=1,
        when=("data.source", ("mixture",)),
        added=True,
    ),
    Field(
        "data.bad_text",
        "error",
        str,
        "what happens to bytes that are not UTF-8 and to NUL characters",
        {
            "error": "the run ends with an error that says where they are",
            "replace": "each bad byte or NUL becomes U+FFFD and is counted",
            "skip": "the line of a text file, or the record, is left out and counted",
        },
    ),
    Field(
        "data.token_dtype",
        "uint16",
        str,
        "type of the ids in `tokens:` files that do not tell it",
        {"uint16": "two bytes, as nanoGPT writes them", "uint32": "four bytes"},
        when=STORED,
        added=True,
    ),
    Field(
        "data.document_separator",
        "",
        str,
        "string that separates documents in a text file, whose line ends may be others than its own; empty: a file is "
        "one document",
    ),
    Field("data.validation_fraction", 0.1, float, "share of the text that is held out", above=0, maximum=0.9),
    Field(
        "data.split",
        "documents",
        str,
        "what stays together when a share of a text is held out",
        {
            "documents": "each document and its exact copies; of fewer than 20 documents the end is held out",
            "clustered": "near-duplicates: documents that share a tenth of their passages, or with fewer than 20 "
            "documents blocks of lines that do",
        },
        when=TEXT_OBJECTIVES,
        added=True,
    ),
    Field(
        "data.training_fraction",
        1.0,
        float,
        "share of the training split that is used; the held-out split and a trained tokenizer stay the same",
        above=0,
        maximum=1,
        when=TEXT_OBJECTIVES,
    ),
    Field(
        "data.examples",
        0,
        int,
        "number of training examples used, chosen by content so that larger numbers include smaller ones; "
        "0: all; the held-out split, the labels and a trained tokenizer stay the same",
        minimum=0,
        when=TASK_OBJECTIVES,
    ),
    Field(
        "data.tokenizer.kind",
        "bytes",
        str,
        "tokenizer",
        {
            "bytes": "UTF-8 bytes: 256 ids and one that opens a document",
            "byt5": "UTF-8 bytes after 3 special ids, as ByT5 numbers them",
            "characters": "the characters of the source and one id that opens a document",
            "words": "the words of the source, divided at white space, for models that read characters",
            "bpe": "byte-level byte-pair encoding, trained on the training split once and cached",
            "wordpiece": "pieces of words, with [CLS], [SEP] and [MASK], trained in the same way (BERT)",
            "unigram": "the likeliest division into pieces, trained in the same way (T5)",
            "file": "a published one, read from `path`",
            "unknown": "that of stored tokens, if nobody knows it: text is ids between spaces",
        },
    ),
    Field(
        "data.tokenizer.ids",
        0,
        int,
        "V, number of ids of an unknown tokenizer, e.g. 50257 for GPT-2; must be given",
        minimum=0,
        maximum=2**24,
        when=("data.tokenizer.kind", ("unknown",)),
        added=True,
    ),
    Field(
        "data.tokenizer.document_id",
        AUTO,
        int,
        "id of the token between documents of stored tokens, e.g. 50256 for GPT-2",
        minimum=0,
        auto="the token with which the tokenizer opens a document; of an unknown tokenizer, unknown",
        when=STORED,
        added=True,
    ),
    Field(
        "data.tokenizer.path",
        "",
        str,
        "tokenizer.json, vocab.txt, vocab.json with merges.txt, a SentencePiece .model, a .tiktoken file, or a folder "
        "or run that has one",
        when=("data.tokenizer.kind", ("file",)),
        is_path=True,
    ),
    Field(
        "data.tokenizer.vocab_size",
        8192,
        int,
        "size of a trained vocabulary",
        minimum=258,
        maximum=2**24,
        when=("data.tokenizer.kind", ("bpe", "wordpiece", "unigram")),
    ),
    Field(
        "data.tokenizer.lowercase",
        True,
        bool,
        "lower-case the text; WordPiece also strips accents (BERT uncased)",
        when=("data.tokenizer.kind", ("wordpiece", "unigram")),
    ),
    Field(
        "data.tokenizer.split_digits",
        False,
        bool,
        "every digit is a token of its own: no piece of the trained vocabulary holds a digit and another character "
        "(LLaMA)",
        when=("data.tokenizer.kind", ("bpe", "wordpiece", "unigram")),
        added=True,
        synonyms=("digit-splitting",),
    ),
    Field("data.sequence_length", 128, int, "T, tokens per row", minimum=1),
    Field("data.batch_size", 16, int, "B, rows per update, over all devices", minimum=1),
    Field(
        "data.buckets",
        8,
        int,
        "K: batches have up to K widths, T / k tokens. Pairs: k = 1 .. K, with k * batch_size pairs of width "
        "T / k; labelled examples: k = 1, 2, 4 .. K, with batch_size rows each, no narrower than 16 tokens",
        minimum=1,
        when=EXAMPLE_OBJECTIVES,
    ),
    Field(
        "data.row_format",
        "packed",
        str,
        "how text becomes rows",
        {
            "packed": "consecutive tokens, cut every T: rows are full and begin and end anywhere",
            "full_sentences": (
                "whole sentences up to T tokens, across documents, with a separator between two documents (Liu "
                "et al. 2019, section 4.2)"
            ),
            "doc_sentences": (
                "whole sentences of one document, up to T tokens; its last row is shorter (Liu et al. 2019, "
                "section 4.2)"
            ),
            "segment_pairs": (
                "two segments of sentences; the second is the next one or comes from another document (Devlin et "
                "al. 2019)"
            ),
            "sentence_pairs": "two single sentences, paired in the same way (Liu et al. 2019, section 4.2)",
            "swapped_pairs": "two consecutive segments, in this order or the other (Lan et al. 2020, section 3.1)",
        },
        when=MASKED,
    ),
    Field(
        "data.short_row_fraction",
        0.0,
        float,
        "share of the rows of segments that are shorter: their text ends with the sentence that reaches a length drawn "
        "evenly from 2 tokens to the longest (0.1 in BERT's code)",
        minimum=0,
        maximum=1,
        when=("data.row_format", ("segment_pairs", "swapped_pairs")),
        added=True,
        synonyms=("short-seq-prob",),
    ),
    Field(
        "data.position_offsets",
        (),
        tuple,
        "position of the first token of each row of a batch, in turn, in training and in evaluation; empty: 0",
        minimum=0,
        when=WHOLE_ROWS,
    ),
    Field(
        "data.batch_stages",
        (),
        tuple,
        "fewer rows in the first updates: a number of rows, its number of updates, the next number of rows, ...; "
        "data.batch_size after these",
        minimum=1,
        when=CAUSAL,
        added=True,
    ),
    Field(
        "data.length_stages",
        (),
        tuple,
        "shorter rows in the first updates, and more of them, so that the tokens stay the same: a length, its number "
        "of updates, the next length, ...; data.sequence_length after these",
        minimum=1,
        when=CAUSAL,
        added=True,
    ),
    Field(
        "data.isolate_documents",
        False,
        bool,
        "packed documents do not see each other, and each counts its positions from 0",
        when=TOKEN_OBJECTIVES,
    ),
)
