"""The studies of the theme `beyond`."""

STUDIES = {
    "dense_digits": "depth",
    "dense_mnist": "depth",
    "convolutional_digits": "depth",
    "common_cause": "common_cause",
    "catalog": "catalog",
    "transformers": "transformers",
}
"""The file in which each of them stands, in the order of the paper."""
