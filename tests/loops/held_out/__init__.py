"""Silent bugs of the same families as `programs`, written to score what was built on those: no rule was
tuned on them. Each file has `train(fault, seed)` as there, and `CODES`: the findings that name its cause.
"""

NAMES = [f"ho{number:02}" for number in range(1, 15)]
