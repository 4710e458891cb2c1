"""Files with the length and checksums they must have."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from bathyscope.core.errors import UsageError


class WrongChecksum(UsageError):
    """A file is not the one that was published."""


@dataclass(frozen=True)
class File:
    """A file of a data set.

    Attributes:
        name: its name within the set's folder.
        num_bytes: its length.
        md5: as published with the data; empty where nothing was published.
        sha256: pinned here; empty where the file could not be had to pin it.
    """

    name: str
    num_bytes: int
    md5: str = ""
    sha256: str = ""

    def check(self, folder: Path) -> None:
        """Raise `WrongChecksum` unless the folder holds this very file.

        Examples:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "empty"
            >>> path.touch()
            >>> File("empty", 0, md5="d41d8cd98f00b204e9800998ecf8427e").check(path.parent)
        """
        self.check_length(folder)
        for kind, right in (("md5", self.md5), ("sha256", self.sha256)):
            if right:
                check_digest(folder / self.name, kind, right)

    def check_length(self, folder: Path) -> None:
        """Raise `WrongChecksum` unless the folder holds a file of this name and length."""
        path = folder / self.name
        if not path.is_file():
            raise WrongChecksum(f"{self.name} is missing from {folder}.")
        if path.stat().st_size != self.num_bytes:
            raise WrongChecksum(
                f"{path} has {path.stat().st_size} bytes where {self.num_bytes} are right; "
                f"fetch it again."
            )


def check_digest(path: Path, kind: str, right: str) -> None:
    """Raise `WrongChecksum` unless the file's digest of that kind is the right one."""
    with path.open("rb") as handle:
        result = hashlib.file_digest(
            handle, lambda: hashlib.new(kind, usedforsecurity=False)
        ).hexdigest()
    if result != right:
        raise WrongChecksum(
            f"{path.name} has the {kind} {result} where {right} is right; "
            f"it is damaged or another file."
        )
