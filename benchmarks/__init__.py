"""How much CPU time a metric costs: sqlmetrics beside a bare join and its peers.

`python -m benchmarks --rows 10_000_000` runs it, from the checkout's folder:

    data ─> measure (one process a run) ─> agreement ─> report
                    └─ contenders

Every contender reads the same two Parquet files and gives the same six means. No time is
printed before their numbers were found equal.
"""
