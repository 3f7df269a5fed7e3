"""Kinds of objective."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.kind import Kind, KindTable

KIND = "objective.kind"

_TASK = frozenset({"task", "examples", "decoder", "encoder", "elmo"})


def _derive_prefix(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"objective.prefix_length": max(1, flat["data.sequence_length"] // 2)}


def _bidirectional_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    sampled = flat["objective.sampled_softmax"]
    if sampled and flat["objective.z_loss"]:
        yield (
            "objective.z_loss weighs the normaliser of the full softmax, which objective.sampled_softmax never "
            "computes; set one of them to 0"
        )
    if sampled and flat["objective.label_smoothing"]:
        yield (
            "objective.label_smoothing spreads over all ids, which objective.sampled_softmax never scores; "
            "set one of them to 0"
        )
    if flat["model.vocab_size"] != AUTO and sampled > flat["model.vocab_size"]:
        yield f"objective.sampled_softmax={sampled} is more than model.vocab_size={flat['model.vocab_size']} ids"
    if flat["data.isolate_documents"]:
        yield (
            "objective.kind=bidirectional reads a row from end to end; it cannot be combined with "
            "data.isolate_documents=true"
        )


# Traits: "decoder", "encoder", "encoder_decoder", "elmo" (architectures that it trains), "tokens" (it
# predicts tokens), "task" (it scores labels, with a head of its own), "sequence" (a task that reads
# one vector of each row), "examples" (it reads examples, not running text), "text" (it reads running
# text), "whole_rows" (the model reads rows as they are, which may begin at any position), "causal"
# (it predicts each token from those before it), "masking" (it hides tokens), "masked" (it predicts
# them where they stand).
OBJECTIVE_KINDS = KindTable(
    KIND,
    (
        Kind(
            KIND,
            "causal",
            "the next token, from all before it",
            frozenset({"decoder", "tokens", "text", "whole_rows", "causal"}),
        ),
        Kind(
            KIND,
            "masked",
            "hidden tokens, from all others (Devlin et al. 2019)",
            frozenset({"encoder", "tokens", "text", "whole_rows", "masking", "masked"}),
        ),
        Kind(
            KIND,
            "prefix",
            "the second part of a row, token by token, from the first part (Raffel et al. 2020, section 3.2.3)",
            frozenset({"decoder", "encoder_decoder", "tokens", "text"}),
            (
                Field(
                    "objective.prefix_length",
                    AUTO,
                    int,
                    "tokens of a row that the encoder reads, or that see each other in a decoder",
                    minimum=1,
                    auto="half of data.sequence_length",
                ),
            ),
            derive=_derive_prefix,
        ),
        Kind(
            KIND,
            "span",
            "spans cut out of a row, from the rest of it (Raffel et al. 2020, section 3.1.4; T5)",
            frozenset({"encoder_decoder", "tokens", "text"}),
            (
                Field(
                    "objective.noise_density",
                    0.15,
                    float,
                    "share of a row's tokens that are cut out",
                    above=0,
                    maximum=0.9,
                ),
                Field(
                    "objective.mean_span_length",
                    3.0,
                    float,
                    "mean number of tokens in a span that is cut out",
                    minimum=1,
                ),
                Field(
                    "objective.sentinels",
                    100,
                    int,
                    "number of sentinel ids, in addition to the tokenizer's, that stand for spans",
                    minimum=1,
                ),
            ),
        ),
        Kind(
            KIND,
            "denoising",
            'a whole row, from a copy of it with hidden tokens (Raffel et al. 2020, section 3.3.1, "BERT-style")',
            frozenset({"encoder_decoder", "tokens", "text", "masking"}),
        ),
        Kind(
            KIND,
            "translation",
            "a text in another language, token by token, from the original (Vaswani et al. 2017)",
            frozenset({"encoder_decoder", "tokens", "examples"}),
            (
                Field("objective.beams", 5, int, "beam width when held-out texts are translated", minimum=1),
                Field(
                    "objective.length_penalty",
                    1.0,
                    float,
                    "a in the beam search score log p / length^a; above 0 favours long translations",
                ),
            ),
        ),
        Kind(
            KIND,
            "bidirectional",
            "the next token from those before it, and the one before from those after it (Peters et al. 2018)",
            frozenset({"elmo", "tokens", "text"}),
            (
                Field(
                    "objective.sampled_softmax",
                    0,
                    int,
                    "number of ids sampled per update for its softmax; 0: the full softmax (Jozefowicz et al. 2016; "
                    "the published ELMo: 8192)",
                    minimum=0,
                ),
            ),
            problems=_bidirectional_problems,
        ),
        Kind(
            KIND,
            "classification",
            "the label of a text or of a pair of texts (Devlin et al. 2019, section 4.1)",
            _TASK | {"sequence"},
        ),
        Kind(
            KIND,
            "regression",
            "a number for a text or a pair of texts, by squared error (Devlin et al. 2019, section 4.1)",
            _TASK | {"sequence"},
        ),
        Kind(KIND, "tagging", "a tag for each word, from its first token (Devlin et al. 2019, section 5.3)", _TASK),
        Kind(
            KIND,
            "extraction",
            "where in a context the answer to a question begins and ends (Devlin et al. 2019, section 4.2)",
            _TASK,
            (Field("objective.longest_answer", 30, int, "maximum number of tokens in an answer", minimum=1),),
        ),
    ),
)
