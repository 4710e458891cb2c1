"""`python -m tools.track_record [--again]`: diagnose the networks of the forecast's table, and count.

Networks that were diagnosed with today's thresholds are kept, unless `--again` is given.
"""

import sys
from pathlib import Path

import torch

import bathyscope.rules
from bathyscope.rules.findings import FILE
from tools.track_record.counting import diagnose_table, write_records


def main() -> None:
    """Diagnose every network of the table that has not been, and write the records into the package."""
    torch.set_num_threads(1)
    networks, records = diagnose_table(again="--again" in sys.argv)
    write_records(networks, records, Path(bathyscope.rules.__file__).parent / FILE)
    print(f"{networks} networks diagnosed, {len(records)} codes seen.")


if __name__ == "__main__":
    main()
