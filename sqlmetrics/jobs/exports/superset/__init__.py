"""Superset: a dashboard that `superset import-dashboards` takes, with all that it stands on."""
