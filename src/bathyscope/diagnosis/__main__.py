"""`python -m bathyscope.diagnosis [--anew]`: the track record of findings, from the forecast's table."""

import sys
from pathlib import Path

import torch

from bathyscope.diagnosis.track_record import FILE, diagnose_table, write_records


def main() -> None:
    """Diagnose every network of the table that has not been, and write the records."""
    torch.set_num_threads(1)
    networks, records = diagnose_table(anew="--anew" in sys.argv)
    write_records(networks, records, Path(__file__).parent / FILE)
    print(f"{networks} networks diagnosed, {len(records)} codes seen.")


if __name__ == "__main__":
    main()
