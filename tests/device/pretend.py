"""The pretend device as a module of torch: `torch.pretend`, and its counters."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
from filelock import FileLock

SOURCE = Path(__file__).with_name("pretend.cpp")
NAME = "pretend"


def can_be_built() -> bool:
    """Whether there is a compiler."""
    return shutil.which(_compiler()) is not None


def _compiler() -> str:
    return os.environ.get("CXX", "g++")


def build() -> Path:
    """The shared library, compiled once for this torch, this source and this compiler."""
    from torch.utils.cpp_extension import include_paths, library_paths

    known = f"{torch.__version__} {sys.platform} {_compiler()}".encode()
    key = hashlib.sha256(SOURCE.read_bytes() + known).hexdigest()[:16]
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    library = root / "bathyscope" / "pretend-device" / f"{key}.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{library}.lock"):
        if not library.exists():
            made = library.with_suffix(".part")
            command = [_compiler(), "-O0", "-std=c++20", "-shared", "-fPIC", "-w", str(SOURCE)]
            command += [f"-I{path}" for path in include_paths()]
            for path in library_paths():
                command += [f"-L{path}", f"-Wl,-rpath,{path}"]
            command += ["-ltorch", "-ltorch_cpu", "-lc10", "-o", str(made)]
            subprocess.run(command, check=True, capture_output=True, text=True)
            made.replace(library)
    return library


@cache
def load() -> "PretendDevice":
    """Build and register the device; once in a process."""
    library = ctypes.CDLL(str(build()))
    for counter in (
        "launches",
        "synchronizations",
        "uploads",
        "downloaded",
        "device",
        "state_size",
    ):
        getattr(library, f"pretend_{counter}").restype = ctypes.c_int64
    for counter in ("allocated", "peak"):
        getattr(library, f"pretend_{counter}").restype = ctypes.c_int64
    library.pretend_set_total.argtypes = [ctypes.c_int, ctypes.c_int64]
    library.pretend_seed.argtypes = [ctypes.c_int, ctypes.c_int64]
    for name in ("get_state", "set_state"):
        getattr(library, f"pretend_{name}").argtypes = [ctypes.c_int, ctypes.c_void_p]
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _device_module(library))
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    return PretendDevice(library)


def _index(device: object, library: ctypes.CDLL) -> int:
    if isinstance(device, int):
        return device
    index = torch.device(device if device is not None else NAME).index
    return index if index is not None else int(library.pretend_device())


def _device_module(library: ctypes.CDLL) -> ModuleType:
    """What torch asks of a device beyond tensors."""
    module = ModuleType(f"torch.{NAME}")

    def get_rng_state(device: object = None) -> torch.Tensor:
        state = torch.empty(library.pretend_state_size(), dtype=torch.uint8, device="cpu")
        library.pretend_get_state(_index(device, library), state.data_ptr())
        return state

    def set_rng_state(state: torch.Tensor, device: object = None) -> None:
        state = state.contiguous()
        library.pretend_set_state(_index(device, library), state.data_ptr())

    def manual_seed_all(seed: int) -> None:
        for device in range(2):
            library.pretend_seed(device, int(seed))

    vars(module).update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        _is_in_bad_fork=lambda: False,
        device_count=lambda: 2,
        current_device=lambda: int(library.pretend_device()),
        set_device=lambda device: library.pretend_set_device(_index(device, library)),
        get_rng_state=get_rng_state,
        set_rng_state=set_rng_state,
        manual_seed=lambda seed: library.pretend_seed(_index(None, library), int(seed)),
        manual_seed_all=manual_seed_all,
        get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
        synchronize=lambda device=None: torch.accelerator.synchronize(device),
    )
    return module


@dataclass
class Counts:
    """What was counted inside `counting`."""

    synchronizations: int = 0
    launches: int = 0
    uploads: int = 0
    downloaded: int = 0
    peak: int = 0
    """Bytes beyond what was allocated at the start, on device 0."""


class PretendDevice:
    """The switches and counters of the device."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self._callback: object = None

    @contextmanager
    def counting(self) -> Iterator[Counts]:
        """Count what happens within."""
        counts = Counts()
        self.library.pretend_reset()
        at_start = self.library.pretend_allocated(0)
        yield counts
        counts.synchronizations = self.library.pretend_synchronizations()
        counts.launches = self.library.pretend_launches()
        counts.uploads = self.library.pretend_uploads()
        counts.downloaded = self.library.pretend_downloaded()
        counts.peak = self.library.pretend_peak(0) - at_start

    @contextmanager
    def without_double(self) -> Iterator[None]:
        """Within, the device knows no float64, and neither eigenvalues nor singular values, as MPS."""
        self.library.pretend_refuse_double(1)
        try:
            yield
        finally:
            self.library.pretend_refuse_double(0)

    @contextmanager
    def tf32(self) -> Iterator[None]:
        """Within, products of float32 are in TF32 wherever torch's settings allow it, and they do."""
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
        self.library.pretend_tf32(1)
        try:
            yield
        finally:
            self.library.pretend_tf32(0)
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32 = before[1]

    @contextmanager
    def total_memory(self, num_bytes: int) -> Iterator[None]:
        """Within, device 0 has so much memory."""
        self.library.pretend_set_total(0, num_bytes)
        try:
            yield
        finally:
            self.library.pretend_set_total(0, 64 << 30)

    @contextmanager
    def at_synchronizations(self, call: Callable[[], None]) -> Iterator[None]:
        """Within, `call` is called at every synchronization: to find where they come from."""
        self._callback = ctypes.CFUNCTYPE(None)(call)
        self.library.pretend_on_synchronization(self._callback)
        try:
            yield
        finally:
            self.library.pretend_on_synchronization(None)
            self._callback = None
