"""Studies of the length of shortcuts, and of curvature."""

STUDIES = {
    "figure_2": "figure_2",
    "figure_3": "figure_3",
    "figure_4": "figure_4",
    "figure_5": "figure_5",
    "figure_6": "figure_6",
    "figure_7": "figure_7",
    "figure_8": "figure_8",
    "figure_9": "figure_9",
    "figure_10": "figure_10",
    "figure_11": "figure_11",
}
"""The file in which each of them stands, in the order of the paper."""
