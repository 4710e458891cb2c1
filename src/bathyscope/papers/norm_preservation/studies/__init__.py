"""Studies of the norm of gradients on their way through blocks."""

STUDIES = {
    "figure_2": "figure_2",
    "figure_3": "figure_3",
    "figure_4": "figure_4",
    "figure_5": "figure_5",
    "table_1": "table_1",
    "table_2": "table_2",
    "table_3": "table_3",
    "overhead": "overhead",
}
"""The file in which each of them stands, in the order of the paper."""
