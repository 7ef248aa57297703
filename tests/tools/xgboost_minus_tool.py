"""XGBoost with a minus behind the metric's name."""

from __future__ import annotations

from tools import Labels, Lists, Values, xgboost_tool

metrics = xgboost_tool.named("-")
version = xgboost_tool.version


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    return xgboost_tool.values(lists, labels, text, metrics[text])


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return xgboost_tool.evaluated(lists, labels, text, metrics[text])
