"""Fetch a set into the cache, whole and right or not at all."""

from pathlib import Path

from bathyscope.core.arguments import check_path
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.files import clear_remains
from bathyscope.data.cache import Report, data_folder, how_to_get, stage
from bathyscope.data.catalog import Entry, entry
from bathyscope.data.checksums import WrongChecksum
from bathyscope.data.sources import Progress, Source, SourceFailed, local_copy


def _silent(*_: object) -> None:
    pass


def fetch(
    name: str,
    *,
    data_dir: Path | str | None = None,
    source: Path | str | None = None,
    progress: Progress = _silent,
    report: Report = _silent,
) -> Path:
    """Bring a set into the cache and return its folder; one that is there is checked only.

    The sources of the set are tried in turn, and every file must have its published length and
    checksums. The files appear in one rename, so a fetch that is interrupted, at any moment, leaves
    nothing that the next one trips over; two fetches at a time wait for each other.

    Args:
        name: one of `names()` that needs a download.
        data_dir: the folder to put it below; the cache folder for None.
        source: a folder or an archive on this machine to take the files from, instead of the net.
        progress: called at each download as it proceeds.
        report: is reported, in a sentence each, what is being done.

    Returns:
        The folder with the set's files.

    Raises:
        UsageError: there is no such set, it needs no download, a checksum is wrong, an archive is
            damaged or harmful, or the disk is full.
        BathyscopeError: no source can be reached.
    """
    wanted = entry(name)
    if wanted.by_hand:
        raise UsageError(
            f"{name} cannot be fetched for you; {how_to_get(name, data_dir=data_dir)}."
        )
    if wanted.needs_nothing:
        raise UsageError(f"{name} needs no download: use it as it is.")
    folder = data_folder(data_dir) / name
    clear_remains(folder)  # a set that a killed fetch had moved aside comes back
    if source is None and _is_right(wanted, folder, report):
        report(f"{name} is in {folder} already, and right.")
        return folder
    sources = wanted.sources
    if source is not None:
        sources = (_local(wanted, check_path("source", source).expanduser()),)
    failures: list[tuple[Source, BathyscopeError]] = []
    for candidate in sources:
        report(f"Fetching {name} from {candidate.label}.")
        try:
            with stage(folder, report=report) as fresh:
                if source is None and _is_right(wanted, folder, _silent):
                    # Another process brought it while we waited for the lock.
                    raise _AlreadyThere
                candidate.obtain(fresh, progress)
                for file in wanted.files:
                    file.check(fresh)
            report(f"{name} is in {folder}; all checksums are right.")
            return folder
        except _AlreadyThere:
            return folder
        except (SourceFailed, WrongChecksum) as failure:
            failures.append((candidate, failure))
    raise _none_left(name, failures, folder)


class _AlreadyThere(Exception):
    """Leaves the staging folder without putting it in place."""


def _local(wanted: Entry, path: Path) -> Source:
    names = [file.name for file in wanted.files]
    return local_copy(path, names=names, md5=wanted.archive_md5, most_bytes=wanted.most_bytes)


def _is_right(wanted: Entry, folder: Path, report: Report) -> bool:
    if not folder.is_dir():
        return False
    try:
        for file in wanted.files:
            file.check(folder)
    except WrongChecksum as fault:
        report(f"{fault} It is replaced.")
        return False
    return True


def _none_left(
    name: str, failures: list[tuple[Source, BathyscopeError]], folder: Path
) -> BathyscopeError:
    """One sentence for all the sources that failed; a wrong checksum weighs more than no network."""
    reasons = "; ".join(f"{source.label}: {str(error).rstrip('.')}" for source, error in failures)
    text = (
        f"{name} could not be fetched ({reasons}); nothing was kept: try again, or get its files "
        f"elsewhere (the page on data in the documentation says where) and give them with --from."
    )
    if any(isinstance(error, WrongChecksum) for _, error in failures):
        return WrongChecksum(text)
    return BathyscopeError(text)
