"""Tasks of the harness in a folder, with data beside them."""

import json

PAIRS = """task: pairs
dataset_path: json
dataset_kwargs:
  data_files:
    test: pairs.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: ""
doc_to_target: 0
doc_to_choice: "{{[good, bad]}}"
target_delimiter: ""
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
metadata: {version: 2.0}
"""
ROLLING = """task: lines
dataset_path: json
dataset_kwargs:
  data_files: {test: pairs.jsonl}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{good}}"
metric_list:
  - {metric: bits_per_byte}
metadata: {version: 1.0}
"""
ANSWERS = """task: answers
dataset_path: json
dataset_kwargs:
  data_files: {test: pairs.jsonl}
test_split: test
output_type: generate_until
doc_to_text: "{{good}}"
doc_to_target: "{{bad}}"
generation_kwargs: {until: ["."], max_gen_toks: 4, do_sample: false}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0}
"""


def write_tasks(folder):
    """Writes three tasks of four minimal pairs of equal lengths; returns the file of the pairs."""
    folder.mkdir(parents=True)
    pairs = [
        ("the cats sit", "the cats sat"),
        ("a dog is", "a dog be"),
        ("she eats it", "she ears it"),
        ("we two", "we too"),
    ]
    lines = [json.dumps({"good": good, "bad": bad}) for good, bad in pairs]
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    for name, text in (("pairs", PAIRS), ("lines", ROLLING), ("answers", ANSWERS)):
        (folder / f"{name}.yaml").write_text(text)
    return folder / "pairs.yaml"
