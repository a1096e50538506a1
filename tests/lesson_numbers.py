"""Where every number in the texts of lessons, cards and tooltips comes from.

A text says «name» where code computes the figure. The numbers that are typed stand here, by the file they
are in: what is *given* (assumed in an example, a wrong option, a setting), what is *computed* (an expression
that is worked out by the test), and what is *cited* (the reference whose line states it).
"""

GIVEN = {
    "1-first": "0.7 0.1 128 80%",
    "2-solid": "0.7 0.05 2.5 0.3 0.25 0.1 128 256 200",
    "3-expert": "0.7 0.01 24 50 200 256 20 90% 2.13",
    "01-memory-bound": "100ms 500ms 20ms 128",
    "03-accept": "0.5 0.2 0.3 0.7 0.999 24 20 2.13",
    "04-residual": "0.6 0.4 0.5",
    "06-bonus": "25 40 4.5",
    "07-greedy": "10,000",
    "08-effective-distributions": "0.7",
    "09-tokenizers": "100 200",
    "11-acceptance-and-k": "0.7 0.6 0.1 0.8 0.05 16 1.5 2.5 5.54",
    "12-metrics": "0.62 0.45 0.80 0.78 0.76 0.12 0.10",
    "13-cost": "0.7 0.3 0.1 0.05 2.5 2.3 64",
    "14-batch-and-context": "128 2,048 8,000",
    "15-measured-passes": "0.5 1.0 1.1",
    "19-trees": "16 95%",
    "20-block-verification": ".7 0.25",
    "21-exact-lossy-heuristic": "0.61 0.74",
    "plan": "15 16 20 21 24",
    # Examples of causes and faults, settings of pictures, an address.
    "programs": "0.0 0.0039 .11 0.2 .3 0.5 0.7 0.8 .8 .82 .91 .94 "
    ".99 1.4 4.8 5.1 128 256 500 2,048 8,192 48213",
}

COMPUTED = {
    "1-first": {
        "14": "7 / 0.5",
        "54times": "6.7 / 0.125",
        "300": "round(RIDGE_ROWS, -2)",
        "5times": "1 / (1 - 0.8)",
    },
    "2-solid": {
        "4GB": "32_768 * LLAMA_8B.cache_bytes / 1e9",
        "40": "round(256 * (1 - (1 - 8/256) ** 5), -1)",
    },
    "3-expert": {
        "0.15": "rejections(2)",
        "0.21": "rejections(4)",
        "5%": "100 / 20",
        "3points": "100 * sqrt(0.7 * 0.3 / 200)",
    },
    "03-accept": {"0.4": "0.2 / 0.5", "17": "2**24 / 1e6"},
    "06-bonus": {"3.5": "1 + 25 / 10", "2.5": "25 / 10", "0.625": "25 / 40"},
    "11-acceptance-and-k": {
        "3.33": "1 / (1 - 0.7)",
    },
    "12-metrics": {"0.75": "30 / 40"},
    "13-cost": {"1.43": "expected_tokens(0.3, 4)", "320": "64 * 5"},
    "14-batch-and-context": {
        "1GB": "8000 * LLAMA_8B.cache_bytes / 1e9",
        "130GB": "round(128 * 8000 * LLAMA_8B.cache_bytes / 1e9, -1)",
        "16GB": "LLAMA_8B.weights * LLAMA_8B.bytes_per_weight / 1e9",
    },
    "15-measured-passes": {
        "0.4": "4 * 0.1",
        "1.25": "2 / (4 * 0.1 + 1.2)",
        "0.91": "2 / (4 * 0.1 + 1.8)",
    },
    "24-who-does-what": {"1.4": "2 * 0.7", "2.4": "1 + 2 * 0.7"},
}

# By file and number: the reference that says so in the line that the lessons show.
CITED = {
    "1-first": {"128,256": "llama31"},
    "2-solid": {
        "2times": "magicdec", "32": "magicdec", "256": "magicdec",
        "85": "mtp", "90%": "mtp", "1.8times": "mtp",
    },
    "3-expert": {"10%": "lk", "1.5ms": "vllm-tp"},
    "01-memory-bound": {"989TFLOP": "h100", "3.35TB": "h100"},
    "05-what-the-draft-records": {"128,256": "llama31"},
    "07-greedy": {"76": "llamacpp-greedy", "80%": "llamacpp-greedy", "400": "llamacpp-greedy"},
    "09-tokenizers": {
        "151,936": "qwen-vocabulary",
        "152,064": "qwen-vocabulary",
        "128": "llamacpp-spec",
    },
    "11-acceptance-and-k": {"20": "transformers"},
    "13-cost": {"3times": "leviathan", "1.54times": "sglang-docs", "2.36": "sglang-docs"},
    "20-block-verification": {"0.05": "block-sglang", "0.08": "block-sglang", "0.14": "block-sglang"},
    "14-batch-and-context": {"32": "magicdec", "256": "magicdec"},
    "engines": {"1.0": "sglang-thresholds"},
}  # fmt: skip
