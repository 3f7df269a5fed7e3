"""The chunked distillation loss and its custom gradient against the equation differentiated in
float64.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.making import OTHER
from tests.support.building import call, close, programs_inside
from zoo.models.head import LogitFactors
from zoo.objectives.cross_entropy import LossTerms, cross_entropy, distilled_cross_entropy

# The teacher is wider than the student.
B, T, D, E, V = 3, 12, 5, 8, 11
# kl, temperature, hard; the student's softcap, z-loss and smoothing; the teacher's softcap; biases.
KINDS = {
    "plain": (1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, False), "warm": (0.7, 3.0, 1.0, 0.0, 0.0, 0.0, 0.0, True),
    "alone": (1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, False), "all": (0.5, 2.0, 0.3, 2.0, 0.3, 0.2, 3.0, True),
}  # fmt: skip


@pytest.fixture(scope="module")
def inputs():
    """Returns three arrays each of student and teacher, targets, and weights, some of which are 0
    and some neither 0 nor 1.
    """
    generator = np.random.default_rng(0)
    arrays = {
        name: generator.standard_normal(shape).astype(np.float32)
        for name, shape in (
            ("hidden", (B, T, D)),
            ("head", (V, D)),
            ("bias", (V,)),
            ("its_hidden", (B, T, E)),
            ("its_head", (V, E)),
            ("its_bias", (V,)),
        )
    }
    weights = generator.uniform(0.2, 2, (B, T)) * (generator.random((B, T)) > 0.3)
    return arrays, generator.integers(0, V, (B, T)), weights.astype(np.float32)


def log_softmax(scores):
    largest = scores.max(axis=-1, keepdims=True)
    return scores - largest - jnp.log(jnp.exp(scores - largest).sum(axis=-1, keepdims=True))


def plain(inputs, kind):
    """Returns the sum, the two reports and the gradients of the sum from the equation, in float64."""
    arrays, targets, weights = inputs
    kl, temperature, hard, softcap, z_loss, smoothing, its_softcap, biased = KINDS[kind]

    def scores(hidden, head, bias, cap):
        scores = hidden @ head.T + (bias if biased else 0)
        return cap * jnp.tanh(scores / cap) if cap else scores

    def loss(a):
        s, t = (
            scores(a["hidden"], a["head"], a["bias"], softcap),
            scores(a["its_hidden"], a["its_head"], a["its_bias"], its_softcap),
        )
        log_p, log_q = log_softmax(t / temperature), log_softmax(s / temperature)
        divergence = temperature**2 * ((jnp.exp(log_p) * (log_p - log_q)).sum(axis=-1) * weights).sum()
        surprisal = -jnp.take_along_axis(log_softmax(s), targets[..., None], axis=-1)[..., 0]
        wanted = (1 - smoothing) * (jnp.arange(V) == targets[..., None]) + smoothing / V
        normalizer = jnp.log(jnp.exp(s).sum(axis=-1))
        own = ((-(wanted * log_softmax(s)).sum(axis=-1) + z_loss * normalizer**2) * weights).sum()
        return hard * own + kl * divergence, ((surprisal * weights).sum(), divergence)

    with jax.enable_x64(True):
        return call(
            jax.value_and_grad(loss, has_aux=True), {name: np.asarray(x, np.float64) for name, x in arrays.items()}
        )


def ours(inputs, kind, chunk, cotangent=1.0):
    arrays, targets, weights = inputs
    kl, temperature, hard, softcap, z_loss, smoothing, its_softcap, biased = KINDS[kind]

    def loss(a):
        total, entropy, divergence = distilled_cross_entropy(
            LogitFactors(a["hidden"], a["head"], a["bias"] if biased else None, softcap),
            LogitFactors(a["its_hidden"], a["its_head"], a["its_bias"] if biased else None, its_softcap),
            targets,
            weights,
            chunk,
            LossTerms(z_loss, smoothing, hard, kl, temperature),
        )
        return cotangent * total, (entropy, divergence)

    return call(jax.value_and_grad(loss, has_aux=True), arrays)


@pytest.mark.parametrize("chunk", [pytest.param(0, marks=OTHER), 7, pytest.param(18, marks=OTHER)])
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradients_match_the_equation(inputs, kind, chunk):
    (total, reports), gradients = ours(inputs, kind, chunk)
    (expected, expected_reports), expected_gradients = plain(inputs, kind)
    np.testing.assert_allclose(total, expected, rtol=2e-6)
    np.testing.assert_allclose(reports, expected_reports, rtol=2e-6)
    for name in ("hidden", "head", *(["bias"] if KINDS[kind][-1] else [])):
        close(gradients[name], expected_gradients[name], 3e-6)
    # The teacher gets no gradient.
    assert all((gradients[name] == 0).all() for name in ("its_hidden", "its_head", "its_bias"))
    assert abs(expected_gradients["its_hidden"]).max() > 0.01


def test_teacher_equal_to_the_student_adds_nothing(inputs):
    arrays, targets, weights = inputs
    own = LogitFactors(arrays["hidden"], arrays["head"], arrays["bias"], 0.0)

    def loss(hidden, with_teacher):
        own = LogitFactors(hidden, arrays["head"], arrays["bias"], 0.0)
        its = LogitFactors(jax.lax.stop_gradient(hidden), *own[1:])
        return (
            distilled_cross_entropy(own, its, targets, weights, 6, LossTerms(kl=5.0, temperature=2.0))
            if with_teacher
            else cross_entropy(own, targets, weights, 6)
        )[0]

    values, gradients = zip(
        *(call(jax.value_and_grad(lambda h, w=w: loss(h, w)), own.hidden) for w in (True, False)), strict=True
    )
    np.testing.assert_allclose(*values, rtol=1e-6)
    close(*gradients, 1e-6)


def test_gradient_is_independent_of_a_large_temperature(inputs):
    """Hinton et al. 2015, eq. 4: for large T that of T^2 KL in the scores is (s - t) / V, both
    without their means, whatever T is.
    """
    generator = np.random.default_rng(3)
    student, teacher = (generator.standard_normal((1, 4, V)).astype(np.float32) for _ in range(2))
    eye, ones, targets = np.eye(V, dtype=np.float32), np.ones((1, 4), np.float32), np.zeros((1, 4), int)

    def gradient(temperature):
        def loss(scores):
            return distilled_cross_entropy(
                LogitFactors(scores, eye, None, 0.0),
                LogitFactors(teacher, eye, None, 0.0),
                targets,
                ones,
                0,
                LossTerms(hard=0.0, kl=1.0, temperature=temperature),
            )[0]

        return call(jax.grad(loss), student)

    limit = ((student - student.mean(axis=-1, keepdims=True)) - (teacher - teacher.mean(axis=-1, keepdims=True))) / V
    sizes = [np.linalg.norm(gradient(temperature)) for temperature in (1.0, 10.0, 100.0)]
    close(gradient(100.0), limit, 0.05)
    assert 0.5 < sizes[0] / sizes[1] < 2
    assert abs(sizes[2] / sizes[1] - 1) < 0.1


@pytest.mark.parametrize("kind", ["plain", "all"])
def test_gradient_is_multiplied_by_the_cotangent(inputs, kind):
    gradients, scaled = ours(inputs, kind, 6)[1], ours(inputs, kind, 6, cotangent=-0.25)[1]
    close(scaled["hidden"], -0.25 * gradients["hidden"])


def test_tokens_of_weight_0_do_not_count(inputs):
    arrays, targets, weights = inputs
    moved = arrays | {
        name: np.where(weights[..., None] == 0, arrays[name] + 100, arrays[name]) for name in ("hidden", "its_hidden")
    }
    np.testing.assert_allclose(ours((moved, targets, weights), "all", 6)[0][0], ours(inputs, "all", 6)[0][0], rtol=1e-6)


def test_no_array_holds_the_scores_of_all_tokens(inputs):
    arrays, targets, weights = inputs

    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (variable.aval.shape for variable in equation.outvars)
            for sub in programs_inside(equation):
                yield from sizes(sub)

    def largest_with_vocabulary(chunk):
        loss = lambda a: distilled_cross_entropy(  # noqa: E731
            LogitFactors(a["hidden"], a["head"], None, 0.0),
            LogitFactors(a["its_hidden"], a["its_head"], None, 0.0),
            targets,
            weights,
            chunk,
            LossTerms(kl=1.0, temperature=2.0),
        )[0]
        return max(np.prod(shape) for shape in sizes(jax.make_jaxpr(jax.grad(loss))(arrays).jaxpr) if V in shape)

    assert largest_with_vocabulary(0) == B * T * V
    assert largest_with_vocabulary(12) == 12 * V


def test_bfloat16_states_of_both_models_keep_their_type(inputs):
    arrays, targets, weights = inputs
    narrow = arrays | {name: jnp.asarray(arrays[name], jnp.bfloat16) for name in ("hidden", "its_hidden")}
    (total, reports), gradients = ours((narrow, targets, weights), "all", 6)
    assert {value.dtype for value in (total, *reports)} == {np.dtype(np.float32)}
    assert gradients["hidden"].dtype == jnp.bfloat16
    rounded = {name: jnp.asarray(value, jnp.bfloat16) if "head" in name else value for name, value in narrow.items()}
    (expected, _), expected_gradients = plain((rounded, targets, weights), "all")
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    close(gradients["hidden"], expected_gradients["hidden"], 1e-2)
