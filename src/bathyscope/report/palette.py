"""The colors, once: for the page in light and dark, and for pictures.

Grey is magnitude and says nothing of good and bad; warm and blue are distance from good, above and
below. Ramps follow ColorBrewer (OrRd, Blues), whose steps are seen as equal; on dark paper they run
from dark to bright instead, so that the worst always stands out most.
"""

Ramp = tuple[str, str, str, str, str, str, str, str, str]

LINES = ("#0a7bbd", "#d1600a", "#00946b", "#b4619a", "#8a7a00", "#4f8fd0", "#6b6b6b")
"""Curves: legible on white and on black, distinguished without full color vision (Okabe and Ito)."""

DARK_LINES = ("#3fa9e8", "#ff9147", "#2fc79a", "#e08cc6", "#c9b72c", "#7fb5f0", "#a3a3a3")
"""The same curves on dark paper."""

LIGHT: dict[str, str] = {
    "paper": "#fffffe",
    "ink": "#1c1e21",
    "soft": "#5e646b",
    "rule": "#dcdfe2",
    "wash": "#f5f5f3",
    "problem": "#b3261e",
    "warning": "#a15c00",
    "note": "#2a6496",
    "clean": "#2c7a3f",
    "nf": "#b8139a",
    "hatch": "#c9ccce",
}
DARK: dict[str, str] = {
    "paper": "#15171a",
    "ink": "#e6e8ea",
    "soft": "#9aa1a9",
    "rule": "#33383e",
    "wash": "#1d2024",
    "problem": "#ff8a80",
    "warning": "#f2b457",
    "note": "#82b8e6",
    "clean": "#7fcb8f",
    "nf": "#ff4fd0",
    "hatch": "#454b52",
}
LIGHT_RAMPS: dict[str, Ramp] = {
    "w": (
        *("#eceae4", "#fbe6c4", "#fdd49e", "#fdbb84", "#fc8d59"),
        *("#ef6548", "#d7301f", "#b30000", "#7f0000"),
    ),
    "b": (
        *("#eceae4", "#d6e6f4", "#bad6eb", "#9ac8e0", "#6aaed6"),
        *("#4292c6", "#2171b5", "#08519c", "#08306b"),
    ),
    "c": (
        *("#f0f0ee", "#e1e2e1", "#cfd1d1", "#b9bcbd", "#a0a4a6"),
        *("#868b8e", "#6b7175", "#51575b", "#373c40"),
    ),
}
DARK_RAMPS: dict[str, Ramp] = {
    "w": (
        *("#2a2d31", "#4a3722", "#6a4624", "#8d5526", "#b3652b"),
        *("#da7b3d", "#f5985f", "#ffb78c", "#ffdcc4"),
    ),
    "b": (
        *("#2a2d31", "#21364a", "#22496a", "#25608d", "#2f79b2"),
        *("#4995d1", "#72b2e8", "#a2cff6", "#d2e9ff"),
    ),
    "c": (
        *("#2a2d31", "#383c41", "#494e54", "#5c6269", "#727981"),
        *("#8a919a", "#a4abb4", "#c0c6cd", "#dee2e6"),
    ),
}


def light_color(shade_class: str) -> str:
    """The color of a shade class (`w3`, `b8`, `c0`, `nf`) on white.

    Examples:
        >>> light_color("w8"), light_color("nf")
        ('#7f0000', '#b8139a')
    """
    if shade_class in LIGHT:
        return LIGHT[shade_class]
    return LIGHT_RAMPS[shade_class[0]][int(shade_class[1:])]


def style_sheet() -> str:
    """The colors as CSS variables by theme, and a class for every shade; paper is always light."""
    light = _variables(LIGHT, LIGHT_RAMPS)
    dark = _variables(DARK, DARK_RAMPS)
    shades = [f"{name}{level}" for name, ramp in LIGHT_RAMPS.items() for level in range(len(ramp))]
    classes = "".join(f".{shade}{{--shade:var(--{shade})}}" for shade in [*shades, "nf"])
    lines = "".join(f".l{at}{{--line:{color}}}" for at, color in enumerate(LINES))
    bright = "".join(f".l{at}{{--line:{color}}}" for at, color in enumerate(DARK_LINES))
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"@media print{{:root{{color-scheme:light;{light}}}}}{classes}{lines}"
        f"@media screen and (prefers-color-scheme:dark){{{bright}}}"
    )


def _variables(colors: dict[str, str], ramps: dict[str, Ramp]) -> str:
    named = {**colors}
    for name, ramp in ramps.items():
        named |= {f"{name}{level}": color for level, color in enumerate(ramp)}
    return "".join(f"--{name}:{color};" for name, color in named.items())
