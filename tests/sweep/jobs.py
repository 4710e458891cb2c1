"""What sweeps run in tests: importable, for a worker process must find it."""

import os
import signal
import time
from pathlib import Path

from bathyscope.runs import Configuration, open_run


class Job(Configuration):
    """A run that notes each of its starts outside its folder."""

    number: int
    log: str
    seconds: float = 0.0
    fate: str = "finish"

    def prefix(self) -> str:
        return f"job-{self.number}"


def work(job: Job, folder: Path) -> None:
    """Finish, diverge, raise, crash or die, as the job says."""
    with open_run(folder, job) as run:
        with Path(job.log).open("a") as log:  # one short line: appended whole
            log.write(f"{job.number}\n")
        time.sleep(job.seconds)
        if job.fate == "raise":
            raise ArithmeticError("as asked")
        if job.fate == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if job.fate == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        run.log({"kind": "step", "number": job.number})
        run.end(
            "diverged" if job.fate == "diverge" else "finished", result={"square": job.number**2}
        )
