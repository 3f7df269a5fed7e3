"""Tokens that a token must not see: later ones, empty slots, other rows and other documents."""

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from zoo.checks.influence import by_gradients, by_runs, of_tokens
from zoo.checks.outcome import Fails, NotApplicable
from zoo.checks.subject import Subject, T, once
from zoo.errors import ConfigError
from zoo.layers.context import Context

ISOLATED = {"data.isolate_documents": True}
# The first row is full, the second ends in empty slots.
LENGTHS = np.array([T, 8])
# The first row holds three documents. The short ones come first, so that tokens of two documents have
# near slots and near positions.
DOCUMENTS = np.array([[1] * 2 + [2] * 3 + [3] * 7, [0] * T])


class Measured(NamedTuple):
    """Influences on the outputs of a model.

    Attributes:
        seen: [B, T, B, T], by way: whether token s of row c influences the output of token t of row b.
        filled: [B, T], slots with a token.
        documents: [B, T], or None where documents are not isolated.
        refusal: why documents cannot be isolated.
    """

    seen: dict[str, Bool[np.ndarray, "B T B T"]]
    filled: Bool[np.ndarray, "B T"]
    documents: np.ndarray | None
    refusal: str


def measure(subject: Subject, documents: np.ndarray | None, refusal: str = "") -> Measured:
    """Measures the influences in a model of two rows.

    Args:
        subject: the kind.
        documents: number of the document of each token, [B, T]; None if they are not isolated.
        refusal: passed on.
    """
    isolated = documents is not None
    config = subject.config(ISOLATED if isolated else {})
    slots = np.arange(T)
    filled = slots < LENGTHS[:, None]
    starts = (
        np.zeros_like(filled, int) if not isolated else np.array([[list(r).index(d) for d in r] for r in documents])
    )
    positions = jnp.asarray(np.where(filled, slots - starts, -1))
    causal = config.model.architecture == "decoder"
    context = Context(positions, jnp.asarray(documents) if isolated else None, causal=causal, in_order=True)
    model, values, stats = subject.model(config)
    # Outputs of empty slots are never read, and may be anything.
    kept, seen = jnp.asarray(filled)[..., None], {}
    ways = {"the output changes with it": (by_runs, False), "the gradient is not 0": (by_gradients, False)}
    # What keeps statistics may compute something else in training.
    ways |= {"in training the output changes with it": (by_runs, True)} if stats else {}
    for name, (way, training) in ways.items():
        outputs, x = of_tokens(model, values, stats, replace(context, training=training), len(filled))
        seen[name] = way(lambda x, outputs=outputs: jnp.where(kept, outputs(x), 0), x)
    return Measured(seen, filled, documents, refusal)


@once
def measured(subject: Subject) -> Measured:
    """Returns the influences, with isolated documents where the kind can isolate them."""
    subject.require_model("what a token sees")
    if subject.architecture == "encoder_decoder":
        raise NotApplicable("the kind needs an encoder-decoder, and rows of one stack are compared")
    try:
        subject.config(ISOLATED)
    except ConfigError as error:
        return measure(subject, None, error.problems[0])
    return measure(subject, DOCUMENTS)


def _require_unseen(found: Measured, forbidden: Bool[np.ndarray, "B T B T"], what: str) -> None:
    """Refuses influences that are forbidden.

    Raises:
        Fails: the first of them, with the way in which it was seen.
    """
    for way, seen in found.seen.items():
        places = np.argwhere(seen & forbidden & found.filled[:, :, None, None])
        if len(places):
            row, token, other_row, other = places[0]
            raise Fails(
                f"token {token} of row {row} depends on {what}, slot {other} of row {other_row}: {way} "
                f"({len(places)} such pairs)"
            )


def causality(subject: Subject) -> str:
    """No output depends on a later token of its row."""
    found = measured(subject)
    if subject.architecture != "decoder":
        raise NotApplicable(f"the tokens of model.architecture={subject.architecture} see both sides")
    later = np.triu(np.ones((T, T), bool), 1)
    rows = np.eye(len(found.filled), dtype=bool)
    _require_unseen(found, rows[:, None, :, None] & later[None, :, None, :], "a later token")
    for way, seen in found.seen.items():
        own = np.einsum("btbt->bt", seen)
        if not own[found.filled].all():
            raise Fails(f"an output does not depend on its own token ({way} nowhere)")
    return f"of {T} tokens none depends on a later one, by runs and by gradients"


def padding(subject: Subject) -> str:
    """No output depends on an empty slot or on another row."""
    found = measured(subject)
    rows, shape = np.eye(len(found.filled), dtype=bool), (*found.filled.shape, *found.filled.shape)
    _require_unseen(found, np.broadcast_to(~rows[:, None, :, None], shape), "another row")
    _require_unseen(found, np.broadcast_to(~found.filled[None, None], shape), "padding")
    return "rows do not depend on their padding or on each other"


def documents(subject: Subject) -> str:
    """No output depends on another document of a packed row."""
    found = measured(subject)
    if found.documents is None:
        raise NotApplicable(found.refusal)
    different = found.documents[:, :, None, None] != found.documents[None, None]
    rows = np.eye(len(found.filled), dtype=bool)
    _require_unseen(found, different & rows[:, None, :, None], "another document")
    return "the three documents of a packed row do not depend on each other"
