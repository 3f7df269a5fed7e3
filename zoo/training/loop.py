"""The one training loop."""

from collections.abc import Sequence

import jax

from zoo.errors import Preempted
from zoo.training.executor import Crew
from zoo.training.runtime.signals import StopSignal
from zoo.training.step import Program, State
from zoo.training.training_run import Member


def train(crew: Crew, program: Program, members: Sequence[Member], state: State, stop: StopSignal) -> State:
    """Trains to `training.steps`: one run, or several whose programs and cadences are the same.

    A member takes part from the step on that it continues from, and no longer than its metrics are
    finite: then it has an `error`, that update was not applied, nothing is saved after it, and the
    others go on.

    The order is a contract: evaluate (parameters as they are) -> save -> take the next batch ->
    dispatch the step -> handle the metrics of the *previous* step. So what is saved at step n is
    one moment: the state after n updates, the evaluation at n and every metric up to n are on disk
    before the checkpoint is, and batch n has not been taken. Metrics come one step late so that the
    device never waits for the host. Where statistics of dynamics are due, a program of its own
    computes them just before the step.

    Args:
        crew: makes the steps.
        program: of every member.
        members: the runs.
        state: of all of them, by `crew.together`; its memory is taken over.
        stop: asks to end.

    Returns:
        The state at the end.

    Raises:
        Preempted: a stop was requested; every member that takes part is saved at the current step.
    """
    training = members[0].config.training
    step = min(member.begun for member in members)
    # Shapes that a program was compiled for.
    compiled: set[tuple] = set()
    # Number of the step, its metrics, what was observed of it, and whose step it was.
    pending: tuple[int, dict[str, jax.Array], dict[int, dict[str, jax.Array]], list[int]] | None = None

    def handle_pending() -> None:
        nonlocal pending
        if pending is None:
            return
        number, metrics, observed, took_part = pending
        pending = None
        values = crew.read(metrics)
        for index in took_part:
            if members[index].error is None:
                members[index].handle(number, values[index], observed.get(index))

    def taking_part() -> dict[int, Member]:
        return {index: member for index, member in enumerate(members) if member.takes_part(step)}

    def stop_clocks() -> None:
        handle_pending()
        for member in members:
            member.progress.clock.stop()

    while True:
        if not (here := taking_part()):
            left = [member.begun for member in members if member.error is None]
            if not left:
                return state
            step = min(left)
            continue
        stop.poll()
        last = step == training.steps
        eval_due = bool(last or (training.eval_every and step and step % training.eval_every == 0))
        save_due = last or (training.checkpoint_every and step and step % training.checkpoint_every == 0)
        eval_due = eval_due and any(not member.progress.evaluated for member in here.values())
        if eval_due or save_due or stop.requested:
            stop_clocks()
            if not (here := taking_part()):
                continue
            scores = {}
            for index, member in here.items():
                if eval_due and not member.progress.evaluated and not stop.requested:
                    scores[index] = member.evaluate(step, crew.state_of(state, index), stop)
            for index, member in here.items():
                if save_due or stop.requested:
                    member.save(step, crew.state_of(state, index), scores.get(index))
            if stop.requested and not (last and all(member.progress.evaluated for member in here.values())):
                raise Preempted(f"stopped at step {step} of {training.steps} and saved; the same command continues")
            if last:
                return state
        for member in here.values():
            if pending is None and step > member.begun:
                member.progress.clock.start()
        batches = {index: next(member.batches) for index, member in here.items()}
        filler = next(iter(batches.values()))
        observe = next(iter(here.values())).dynamics.due(step + 1)
        if (shape := (observe, *(array.shape for array in filler.values()))) not in compiled:
            # The clock does not run while a program is compiled, as at the start.
            stop_clocks()
            # With the program that observes, the other one is compiled too.
            compiled |= {shape, (False, *shape[1:])}
        for member in here.values():
            member.progress.evaluated = False
        observed = (
            {
                index: program.dynamics_step(
                    crew.state_of(state, index), program.put_batch(batches[index]), member.constants
                )
                for index, member in here.items()
            }
            if observe
            else {}
        )
        state, metrics = crew.step(
            state,
            [batches.get(index, filler) for index in range(len(members))],
            [index in here for index in range(len(members))],
        )
        handle_pending()
        step += 1
        for member in here.values():
            if member.error is None:
                member.progress.step = step
        pending = (step, metrics, observed, list(here))
        for member in members:
            member.checkpoints.poll()
