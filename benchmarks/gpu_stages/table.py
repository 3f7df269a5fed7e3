"""The stages in the order in which they are worth a device's time."""

from gpu_stages import operations, torch_steps, training_steps, whole_runs
from gpu_stages.measuring import Stage

# Sweeps and tests start processes of their own, which need the memory.
ITS_OWN: dict[str, str] = {}

STAGES: dict[str, Stage] = {
    "probe": Stage("device, versions, a large matrix product", 60, operations.probe_cells, operations.probe),
    "tests": Stage(
        "the tests that need an accelerator", 180, whole_runs.test_cells, whole_runs.run_tests, environment=ITS_OWN
    ),
    "step124": Stage("the step of GPT-2 124M", 120, training_steps.small_model_cells, training_steps.measure),
    "attention": Stage(
        "attention, forwards and backwards", 30, operations.attention_cells, operations.attention, together=True
    ),
    "lengths": Stage("the step of GPT-2 124M, scanned, by the length of a row", 90, training_steps.length_cells, training_steps.measure),
    "fused": Stage(
        "attention in compiled programs", 30, training_steps.fused_cells, training_steps.compiled_attention, together=True
    ),
    "torch": Stage(
        "the step of GPT-2 124M in PyTorch", 180, torch_steps.cells, torch_steps.measure,
        environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    ),
    "variants": Stage(
        "the step of GPT-2 124M with other parts", 120, training_steps.variant_cells, training_steps.measure
    ),
    "mixers": Stage(
        "the step of GPT-2 124M with experts, and with a state in place of attention", 120, training_steps.mixer_cells,
        training_steps.measure,
    ),
    "loss": Stage("the loss, forwards and backwards", 30, operations.loss_cells, operations.loss, together=True),
    "ladder": Stage("the step of larger models", 180, training_steps.ladder_cells, training_steps.measure),
    "population": Stage("the step of populations", 60, whole_runs.population_cells, whole_runs.population),
    "sweep": Stage("whole sweeps", 240, whole_runs.sweep_cells, whole_runs.sweep, environment=ITS_OWN),
    "decode": Stage("generation with a cache", 120, whole_runs.decode_cells, whole_runs.decode),
    "resume": Stage("a run that is stopped and continued", 150, whole_runs.resume_cells, whole_runs.resume),
}  # fmt: skip
