"""A click log with a known truth: cleaned, labelled by its clicks, and evaluated.

Run it with `python examples/clicks.py`.
"""

from tempfile import TemporaryDirectory

import sqlmetrics as sm


def main() -> None:
    """Simulate a log, then tell what was left out of it and which system does better."""
    with TemporaryDirectory() as folder:
        log = sm.simulate(folder, requests=2_000, systems=["old", "new"], seed=7)
        print(log)
        print()
        spec = sm.Spec(
            clicks={
                "impressions": {
                    "file": str(log.files["impressions"]),
                    "columns": {"query": "query", "system": "system", "time": "shown_at"},
                },
                "events": {
                    "file": str(log.files["events"]),
                    "columns": {"dwell": "dwell", "user": "user_id", "time": "happened_at"},
                },
                "cleaning": {
                    "test": "is_test = 1",
                    "max_events_per_user_hour": 200,
                    "attribution_window": "30m",
                    "min_dwell": "5s",
                },
                "labels": {"grades": {"click": 1, "add_to_cart": 2, "purchase": 3}},
            },
            metrics=["ndcg@10", "mrr", "ctr@5", "abandonment"],
        )
        print(sm.evaluate_clicks(spec))


if __name__ == "__main__":
    main()
