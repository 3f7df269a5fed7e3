"""Faults in intervals, corrections, sequential designs, verdicts and fairness checks."""

from tests.mutants.mutant import Mutant

PAIRED, SEQUENTIAL = "zoo/lab/statistics/paired.py", "zoo/lab/statistics/sequential.py"
FINGERPRINT = "zoo/data/pipeline/evaluation_fingerprint.py"
RULES, CONTRAST = "zoo/lab/results/decision_rules.py", "zoo/lab/results/contrast_verdict.py"
SIZED, LAW, FACTOR = (f"zoo/lab/statistics/{name}.py" for name in ("sized_losses", "compute_law", "compute_factor"))
HUBER, SLOPE = "zoo/lab/statistics/size_token_law.py", "zoo/lab/statistics/effect_slope.py"
LAW_TESTS = ("tests/lab/statistics/test_scaling_laws.py",)
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
        "Welch: degrees of freedom of all seeds",
        SIZED,
        "part**2 / (len(values) - 1)",
        "part**2 / len(values)",
        LAW_TESTS,
    ),
    Mutant("law: the threshold of a profile is not squared", LAW, "half**2 / norm", "half / norm", LAW_TESTS),
    Mutant(
        "law: the influence of the exponent is left out",
        LAW,
        "True, self._exponent_is_free]",
        "True, False]",
        LAW_TESTS,
    ),
    Mutant(
        "times the compute: as if both arms had the same", FACTOR, "share * math.exp(each)", "math.exp(each)", LAW_TESTS
    ),
    Mutant(
        "slope: natural logarithms",
        SLOPE,
        "x = np.log10(differences.compute)",
        "x = np.log(differences.compute)",
        LAW_TESTS,
    ),
    Mutant("law of N and D: squares in place of the Huber loss", HUBER, 'loss="huber"', 'loss="linear"', LAW_TESTS),
    Mutant(
        "fairness: scored rows are not compared",
        FINGERPRINT,
        "digest.update(np.ascontiguousarray(array, np.int64).data)",
        "pass",
        ("tests/fields/test_evaluation_fingerprint.py",),
    ),
)
