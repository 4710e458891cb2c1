"""A real browser, where there is one: Chromium without a window, driven by selenium."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--window-size=1280,900", "--disable-dev-shm-usage"),
)


@dataclass
class Browser:
    """A driver that remembers what a page asked of the network and what it complained about."""

    driver: Any
    folder: Path

    def open(self, html: str) -> Any:
        self.driver.get("about:blank")
        self.requests()
        self.complaints()
        file = self.folder / "page.html"
        file.write_text(html, encoding="utf-8")
        self.driver.get(file.as_uri())
        return self.driver

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address asked for since the last call, but for the page itself and its own data."""
        entries = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        asked = [
            entry["params"]["request"]["url"]
            for entry in entries
            if entry["method"] == "Network.requestWillBeSent"
        ]
        own = (self.folder / "page.html").as_uri()
        return [
            url for url in asked if url != own and not url.startswith(("data:", "about:", "blob:"))
        ]

    def emulate(self, *, width: int = 1280, dark: bool = False, media: str = "") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        wanted = {"media": media, "features": [theme]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
        frames = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        self.driver.execute_async_script(frames)  # the page has heard of its new size


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not (CHROMIUM and DRIVER):
        pytest.skip("no browser: install chromium and chromium-driver to test the page in one")
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium to drive a browser")
    from selenium.webdriver.chrome.service import Service

    folder = tmp_path_factory.mktemp("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(180)  # a busy machine
    try:
        yield Browser(driver, folder)
    finally:
        driver.quit()


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    chromium.emulate()
    return chromium
