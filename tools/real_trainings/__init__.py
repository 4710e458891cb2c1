"""A table of real trainings: many tasks, networks and settings, each trained and recorded.

`python -m tools.real_trainings draw|run|status|summary`; see README.md beside this file.
"""
