"""Extraction: where in a context the answer to a question begins and ends."""

import jax
import jax.numpy as jnp
from flax import nnx

from zoo.objectives.objective import Batch, Constants, ForwardMode, Sums
from zoo.objectives.tasks.task import TaskObjective

# Far below any score, but finite, so that no gradient is lost.
_EXCLUDED = -1e9


class ExtractionObjective(TaskObjective):
    """-(log softmax(h . w_start)[start] + log softmax(h . w_end)[end]) / 2, the mean over rows, with
    the states h of all tokens and two learned vectors (Devlin et al. 2019, section 4.2).

    Each softmax is over the tokens of the context and [CLS], which is the answer of a row without
    one. A batch has "starts" and "ends" [B], and "context" [B, 2], the first place of the context
    and the one after its last. `zoo.data.labelled.question_windows.Extraction` turns the scores
    into answers and scores these.
    """

    outputs = ("real", "start_scores", "end_scores")

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> tuple[Sums, Sums]:
        """Scores every row's span."""
        scores, real = self.scores(model, batch, constants, mode), self.real(batch)
        places = jnp.arange(scores.shape[1])[None]
        allowed = (places == 0) | ((places >= batch["context"][:, :1]) & (places < batch["context"][:, 1:]))
        start, end = (jnp.where(allowed, scores[..., side], _EXCLUDED) for side in (0, 1))
        loss = (
            sum(
                -jnp.take_along_axis(jax.nn.log_softmax(one), jnp.maximum(batch[name], 0)[:, None], axis=1)[:, 0]
                for one, name in ((start, "starts"), (end, "ends"))
            )
            / 2
        )
        total = jnp.where(real, loss, 0.0).sum()
        outputs = {} if mode.training else {"real": real, "start_scores": start, "end_scores": end}
        return {"loss": total}, {"loss": total, "weight": real.sum().astype(jnp.float32)} | outputs
