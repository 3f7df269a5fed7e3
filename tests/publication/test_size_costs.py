"""What sizes cost: which archived sweeps tell it, and the table of all sizes."""

import csv

import pytest

from publication import size_costs
from zoo.config import resolve
from zoo.files import read_json, write_json
from zoo.lab.planning.known_costs import recorded_costs
from zoo.lab.planning.known_noise import recorded_noise
from zoo.lab.sizes import decoder
from zoo.models.cost import summary

# Of the decoder of the size tiny.
PARAMETERS, TOKENS = 230_656, 512_000
SECONDS = 20.0


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Adds archived sweeps of two arms and two seeds."""

    def add(name, parameters=(PARAMETERS, PARAMETERS), tokens=TOKENS, threads=1, seconds=SECONDS, **changes):
        (tmp_path / name).mkdir()
        device = {"platform": changes.pop("platform", "cpu"), "kind": "cpu", "count": 1, "cpu_threads": threads}
        result = {
            "size": "tiny",
            "sources": ["stdlib"],
            "objectives": ["causal"],
            "command": ["zoo", "run"],
            "device": device,
            "processor": "AMD EPYC, family 25, model 1, avx2",
            "arms": [{"name": str(arm), "parameters": each} for arm, each in enumerate(parameters)],
        }
        write_json(tmp_path / name / "result.json", result | changes)
        with open(tmp_path / name / "runs.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["arm", "seed", "state", "tokens", "seconds"])
            for arm in range(len(parameters)):
                writer.writerows([[arm, seed, "done", tokens, seconds] for seed in (0, 1)])
            writer.writerow([0, 2, "diverged", tokens // 2, 1.0])

    monkeypatch.setattr(size_costs, "PATH", tmp_path / "costs.json")
    yield add
    recorded_costs.cache_clear()


def test_sweeps_of_which_each_run_had_a_core_tell_the_throughput(archive, tmp_path):
    archive("alone")
    # An arm with twice the parameters, such as experts, is another model.
    archive("one arm is larger", parameters=(PARAMETERS, 2 * PARAMETERS))
    archive("population", command=["zoo", "run", "--population"])
    archive("threads", threads=2)
    archive("gpu", platform="gpu")
    archive("budget", tokens=2 * TOKENS)
    archive("objective", objectives=["span"])
    archive("text", sources=["text:news.txt"], seconds=4 * SECONDS)
    (entry,) = read_json(size_costs.write(tmp_path))
    throughput = summary(resolve(decoder("tiny"))).flops_per_token * TOKENS / SECONDS
    assert (entry["size"], entry["instructions"], entry["sweeps"]) == ("tiny", "avx2", 3)
    assert entry["flops_per_second"] == pytest.approx([throughput / 4, throughput, throughput], rel=0.01)


def test_the_table_has_what_was_measured_and_what_follows_from_it():
    costs, noise = recorded_costs(), recorded_noise()
    rows = {line.split("`")[1]: line for line in size_costs.table().splitlines() if line.startswith("| `")}
    assert list(rows) == ["micro", "tiny", "medium", "rung1", "rung2", "rung3"]
    tiny, rung1 = (rows[size].split(" | ") for size in ("tiny", "rung1"))
    throughput = next(one for one in costs if (one["size"], one["instructions"]) == ("tiny", "avx2"))[
        "flops_per_second"
    ][1]
    flops = summary(resolve(decoder("tiny"))).flops_per_token * TOKENS
    # Two arms: three rates, four of which one is among these with three seeds, and five seeds.
    assert tiny[2:4] == [f"{flops / throughput:.0f} s", f"{19 * flops / throughput / 60:.0f} min"]
    fitted = next(one["fitted"] for one in noise if (one["size"], one["metric"]) == ("rung1", "eval/loss"))
    assert rung1[-1] == f"{fitted['difference']:.3f} ({fitted['sweeps']}) |"
    # Nothing of this size was trained on a CPU.
    assert rows["rung3"].split("|")[3].strip().startswith("(")
