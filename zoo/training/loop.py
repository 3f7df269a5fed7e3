"""The one training loop."""

import contextlib

from zoo.errors import Preempted
from zoo.training.run_group import RunGroup
from zoo.training.runtime.signals import StopSignal
from zoo.training.state import State


def train(run: RunGroup, state: State, stop: StopSignal) -> State:
    """Trains a run to `training.steps`.

    The order of one iteration is a contract: evaluate (parameters as they are) -> save -> take the
    next batch -> dispatch the step -> handle the metrics of the *previous* step. A checkpoint at
    step n is therefore a consistent snapshot: it holds the state after n updates; the evaluation at
    n and every metric up to n are on disk before it; and batch n has not been taken.

    Metrics are read one step late so that the device never waits for the host. A run whose metrics
    are not finite gets an `error`; that update is not applied, and nothing is saved after it.

    Args:
        run: the run, or several that are trained as one program.
        state: its state; the memory is reused.
        stop: polled in every iteration.

    Returns:
        The state at the end.

    Raises:
        Preempted: a stop was requested; the run is saved at the current step.
    """
    training, step, previous = run.training, 0, None
    with contextlib.closing(run):
        while (step := run.next_step(step)) is not None:
            stop.poll()
            last = step == training.steps
            evaluate, save = run.must_evaluate(step), last or is_multiple(step, training.checkpoint_every)
            if evaluate or save or stop.requested:
                previous = run.pause(previous)
                if run.next_step(step) != step:  # The metrics of this step were not finite.
                    continue
                stop.doing = "this evaluation" if evaluate else "this step"
                scores = run.evaluate(step, state, stop) if evaluate and not stop.requested else {}
                if save or stop.requested:
                    run.save(step, state, scores)
                stop.doing = "this step"
                if stop.requested and not (last and run.is_evaluated(step)):
                    raise Preempted(f"stopped at step {step} of {training.steps} and saved; the same command continues")
                if last:
                    return state
            if previous is None:
                run.start_clocks(step)
            batch = run.next_batch(step)
            if run.must_compile(batch):  # That is not part of the measured time.
                previous = run.pause(previous)
                stop.doing = "compiling"
            state, metrics = run.dispatch(state, batch)
            stop.doing = "this step"
            run.handle(previous)
            step, previous = step + 1, metrics
            run.advance(step)
    return state


def is_multiple(step: int, every: int) -> bool:
    """Returns whether `step` is a positive multiple of `every`, which is 0 for never."""
    return bool(every and step and step % every == 0)
