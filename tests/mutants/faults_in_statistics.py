"""Faults in intervals, corrections, sequential designs, verdicts and fairness checks."""

from tests.mutants.mutant import Mutant

PAIRED, SEQUENTIAL = "zoo/lab/statistics/paired.py", "zoo/lab/statistics/sequential.py"
FINGERPRINT = "zoo/data/pipeline/evaluation_fingerprint.py"
VERDICT, FAIRNESS = "zoo/lab/results/verdict.py", "zoo/lab/planning/fairness.py"
STATISTICS_TESTS, DESIGN_TESTS = ("tests/lab/statistics/test_statistics.py",), ("tests/lab/statistics/test_design.py",)
VERDICT_TESTS, PLAN_TESTS = ("tests/lab/results/test_verdict.py",), ("tests/lab/planning/test_plan.py",)

SIMULATION_TESTS = ("tests/lab/statistics/test_simulations.py",)

MUTANTS = (
    Mutant(
        "intervals: n degrees of freedom",
        PAIRED,
        "special.stdtrit(n - 1, alpha / 2)",
        "special.stdtrit(n, alpha / 2)",
        STATISTICS_TESTS,
    ),
    Mutant(
        "intervals: one-sided quantile",
        PAIRED,
        "special.stdtrit(n - 1, alpha / 2)",
        "special.stdtrit(n - 1, alpha)",
        STATISTICS_TESTS,
    ),
    Mutant(
        "intervals: population standard deviation",
        PAIRED,
        "sd = float(values.std(ddof=1))\n    if sd",
        "sd = float(values.std(ddof=0))\n    if sd",
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
        "Holm: corrected p may fall",
        PAIRED,
        "highest = max(highest, min(1.0,",
        "highest = max(0.0, min(1.0,",
        STATISTICS_TESTS,
    ),
    Mutant(
        "Hedges: no correction for few pairs",
        PAIRED,
        "mean / sd * (1 - 3 / (4 * n - 5))",
        "mean / sd",
        STATISTICS_TESTS,
    ),
    Mutant(
        "interaction: sum of the effects",
        PAIRED,
        "(x11[seed] - x01[seed]) - (x10[seed] - x00[seed])",
        "(x11[seed] - x01[seed]) + (x10[seed] - x00[seed])",
        STATISTICS_TESTS,
    ),
    Mutant("bootstrap: with too few seeds", PAIRED, "BOOTSTRAP_FROM = 10", "BOOTSTRAP_FROM = 4", STATISTICS_TESTS),
    Mutant(
        "sequential: the first look spends all of alpha",
        SEQUENTIAL,
        "math.log1p((math.e - 1) * n / max_seeds)",
        "math.log1p(math.e - 1)",
        DESIGN_TESTS,
    ),
    Mutant(
        "sequential: paths beyond the bound continue",
        SEQUENTIAL,
        "alive &= t < bound",
        "alive &= t < math.inf",
        DESIGN_TESTS,
    ),
    Mutant("power: wrong tail", SEQUENTIAL, "power - stats.nct.sf(", "power - stats.nct.cdf(", DESIGN_TESTS),
    Mutant(
        "verdict: superiority without its margin",
        VERDICT,
        'bound = -margin if rule == "superiority" else margin',
        "bound = 0.0",
        VERDICT_TESTS,
    ),
    Mutant(
        "verdict: equivalence tests one bound only",
        VERDICT,
        "-margin < low and high < margin",
        "high < margin",
        VERDICT_TESTS,
    ),
    Mutant(
        "verdict: the mean decides",
        VERDICT,
        "holds, refuted = high < bound, low > bound",
        "holds, refuted = low < bound, low > bound",
        VERDICT_TESTS,
    ),
    Mutant("verdict: a diverged run is left out", VERDICT, "values[seed] = worst", "continue", VERDICT_TESTS),
    Mutant(
        "verdict: accuracies are losses",
        VERDICT,
        "sign = -1 if higher_is_better(contrast.a.metric) else 1",
        "sign = 1",
        VERDICT_TESTS,
    ),
    Mutant("verdict: one pair is enough", VERDICT, "MINIMUM_PAIRS = 2", "MINIMUM_PAIRS = 1", VERDICT_TESTS),
    Mutant(
        "verdict: one refuted contrast is ignored",
        VERDICT,
        '"not supported" if "refuted" in outcomes else ',
        "",
        VERDICT_TESTS,
    ),
    Mutant(
        "verdict: refutations are not corrected",
        VERDICT,
        'outcome.outcome == "refuted" and p >= alpha',
        "False",
        SIMULATION_TESTS,
    ),
    Mutant(
        "fairness: unequal levels pass", FAIRNESS, "if common and extra:", "if common and extra and False:", PLAN_TESTS
    ),
    Mutant("fairness: unequal sizes pass", FAIRNESS, "if gap > worst:", "if gap > worst + 1:", PLAN_TESTS),
    Mutant(
        "fairness: unequal text passes",
        FINGERPRINT,
        'found = {"text": (self.text, other.text)}',
        'found = {"text": (self.text, self.text)}',
        ("tests/fields/test_evaluation_fingerprint.py",),
    ),
    Mutant(
        "fairness: scored rows are not compared",
        FINGERPRINT,
        "digest.update(np.ascontiguousarray(array, np.int64).data)",
        "pass",
        ("tests/fields/test_evaluation_fingerprint.py",),
    ),
    Mutant(
        "fairness: no problem is rejected", FAIRNESS, "if kind not in experiment.allow]", "if kind is None]", PLAN_TESTS
    ),
)
