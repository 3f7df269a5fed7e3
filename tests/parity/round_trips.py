"""The section of docs/parity.md on round trips of checkpoints; the tests that it names assert what its
lines say.
"""

from tests.parity.class_cases import CASES
from tests.support.checkpoints_of_others import EXPRESSED, OF_CLASSES
from tests.support.stored_outputs import read
from zoo.interop import FAMILIES

INTRODUCTION = """
## Read and written again

`zoo import` makes a run of every system above that has a class of another library, and `zoo export` writes the run as a checkpoint;
global tokens (Longformer) and the kind of positions (performer-pytorch) are not settings of their class, so
the export is refused where a run differs from what the class has.
*Tensors* says that importing and exporting a checkpoint returns every tensor bit for bit, and that the
settings, written from our config alone, are read as the same config (`tests/interop/test_export.py`).
*Loaded* says that the written checkpoint, loaded by that library, gives the same logits as the class with
the original weights, to the last bit (`tests/parity/models/test_interchange.py`).

Classes without a head (LlamaModel, BertModel, T5EncoderModel and others), classes with a head for a task
(BertForSequenceClassification and others), Qwen 2, XLM-RoBERTa, CamemBERT and the final cap of Gemma 3 are compared by their outputs alone
(`tests/parity/models/test_published_classes.py`), and the names and shapes of all tensors of every class with the class itself
(`tests/parity/models/test_importers.py`). Which published config files are accepted is in `tests/interop/published_settings.py`.

| Class | Systems | Tensors | Loaded |
| --- | --- | --- | --- |
"""

EVERY_CLASS = """
## Every class that is read

`zoo import hf:` reads these classes, which `architectures` in a `config.json` names. *Compared* says what of a class
is compared with its code in that version of its library: the outputs and gradients of systems above; the outputs alone; or the names,
shapes and default settings, which are those of a class above with the same rules. The same three hold for `zoo export`, which writes all of them.
Other models with experts, such as GLM-4.5, are refused with a line that names the experts. `make test-transformers5` reads what
transformers 5 writes of every class that has a system, and compares the classes that only it has (KimiLinearForCausalLM, NanoChatForCausalLM,
OlmoHybridForCausalLM) in the same ways as the others.

| Class | Type | Compared | With |
| --- | --- | --- | --- |
"""


def section() -> str:
    """Renders the section, with a line for every class."""
    classes: dict[str, list[str]] = {}
    for name in EXPRESSED:
        classes.setdefault(OF_CLASSES[name].reference, []).append(name)
    lines = []
    for class_name, names in sorted(classes.items()):
        libraries = ", ".join(sorted({read(name)[0]["library"] for name in names}))
        lines.append(
            f"| {class_name} | {', '.join(f'`{name}`' for name in names)} | bit-equal | by {libraries}: equal logits |\n"
        )
    return INTRODUCTION + "".join(lines) + EVERY_CLASS + "".join(map(_class_line, sorted(FAMILIES)))


def _class_line(name: str) -> str:
    systems = [system for system, record in OF_CLASSES.items() if record.reference == name]
    compared = "names, shapes and default settings"
    if systems:
        compared = f"outputs and gradients: {', '.join(f'`{system}`' for system in systems)}"
    elif name in CASES:
        compared = "outputs"
    library = read(systems[0] if systems else "llama")[0]["library"]
    kind = FAMILIES[name].model_type
    return f"| {name} | {f'`{kind}`' if kind else '–'} | {compared} | {library} |\n"
