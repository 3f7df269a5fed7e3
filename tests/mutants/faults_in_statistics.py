"""Faults in intervals, corrections, sequential designs, verdicts and fairness checks."""

from tests.mutants.mutant import Mutant

PAIRED, SEQUENTIAL = "zoo/lab/statistics/paired.py", "zoo/lab/statistics/sequential.py"
FINGERPRINT = "zoo/data/pipeline/evaluation_fingerprint.py"
RULES, CONTRAST = "zoo/lab/results/decision_rules.py", "zoo/lab/results/contrast_verdict.py"
STATISTICS_TESTS, DESIGN_TESTS = ("tests/lab/statistics/test_statistics.py",), ("tests/lab/statistics/test_design.py",)
VERDICT_TESTS = ("tests/lab/results/test_verdict.py",)

MUTANTS = (
    Mutant(
        "intervals: n degrees of freedom",
        PAIRED,
        "special.stdtrit(df, alpha / 2)",
        "special.stdtrit(df + 1, alpha / 2)",
        STATISTICS_TESTS,
    ),
    Mutant(
        "pairs: by order instead of by seed",
        PAIRED,
        "{seed: a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())}",
        "dict(enumerate(x - y for x, y in zip(a.values(), b.values())))",
        STATISTICS_TESTS,
    ),
    Mutant(
        "Holm: Bonferroni's factor for all", PAIRED, "(len(made) - rank) * value", "len(made) * value", STATISTICS_TESTS
    ),
    Mutant(
        "sequential: the first look spends all of alpha",
        SEQUENTIAL,
        "math.log1p((math.e - 1) * n / max_seeds)",
        "math.log1p(math.e - 1)",
        DESIGN_TESTS,
    ),
    Mutant(
        "verdict: equivalence tests one bound only",
        RULES,
        "-margin < low and high < margin",
        "high < margin",
        VERDICT_TESTS,
    ),
    Mutant(
        "verdict: the mean decides",
        RULES,
        "holds, refuted = high < bound, low > bound",
        "holds, refuted = low < bound, low > bound",
        VERDICT_TESTS,
    ),
    Mutant("verdict: a diverged run is left out", CONTRAST, "values[seed] = worst", "continue", VERDICT_TESTS),
    Mutant(
        "fairness: scored rows are not compared",
        FINGERPRINT,
        "digest.update(np.ascontiguousarray(array, np.int64).data)",
        "pass",
        ("tests/fields/test_evaluation_fingerprint.py",),
    ),
)
