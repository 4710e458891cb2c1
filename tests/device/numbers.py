"""What a call has answered, as numbers and words that can be compared."""

import math

import bathyscope as bs

Numbers = dict[str, object]


def numbers_of(diagnosis: bs.diagnosis.Diagnosis) -> Numbers:
    result: Numbers = {
        f"{name}.{column}": list(values)
        for name, measured in diagnosis.measurements.items()
        for column, values in measured.columns.items()
    }
    result["findings"] = [(f.code, f.severity.value, f.blocks) for f in diagnosis.findings]
    return result


def compare_numbers(theirs: Numbers, ours: Numbers) -> None:
    assert theirs.keys() == ours.keys()
    for name, wanted in ours.items():
        found = theirs[name]
        if not isinstance(wanted, list) or not any(isinstance(v, float) for v in wanted):
            assert found == wanted, name
            continue
        scale = max(
            (abs(v) for v in wanted if isinstance(v, float) and math.isfinite(v)), default=0
        )
        for a, b in zip(found, wanted, strict=True):
            if not isinstance(b, float):
                assert a == b, name
            elif not math.isfinite(b):
                assert str(a) == str(b), name
            else:
                assert abs(a - b) <= 1e-2 * abs(b) + 1e-4 * scale + 1e-6, (name, a, b)
