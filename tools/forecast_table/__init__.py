"""The table behind the forecast: random trainings, each rebuilt from its number, and how they ended."""
