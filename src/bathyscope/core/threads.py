"""Threads that torch starts itself: the backward pass on an accelerator runs on one for each device."""

import threading


def on_device_thread() -> bool:
    """Whether Python did not start the thread that runs: hooks of a device's backward pass then run on it."""
    return isinstance(threading.current_thread(), threading._DummyThread)
