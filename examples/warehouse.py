"""Tables of a DuckDB database: two systems, segments, and a roll-up that adds up.

Run it with `python examples/warehouse.py`.
"""

import duckdb

import sqlmetrics as sm

TABLES = """
create table rankings as
select * from (values
    ('old', 'shoes', 'DE', 'sku-1', 0.9), ('old', 'shoes', 'DE', 'sku-2', 0.8),
    ('old', 'lamps', 'JP', 'sku-7', 0.7), ('old', 'lamps', 'JP', 'sku-8', 0.6),
    ('new', 'shoes', 'DE', 'sku-2', 0.9), ('new', 'shoes', 'DE', 'sku-3', 0.8)
) as t (model, query_id, country, sku, score);
create table judgments as
select * from (values
    ('shoes', 'sku-2', 3), ('shoes', 'sku-3', 1), ('lamps', 'sku-8', 2)
) as t (query_id, sku, grade);
"""


def main() -> None:
    """Evaluate both systems; the new one has no answer for lamps, which counts as 0."""
    with duckdb.connect() as connection:
        connection.execute(TABLES)
        result = sm.evaluate(
            "rankings",
            "judgments",
            ["ndcg@10", "recall@10", "mrr"],
            connection=connection,
            item="sku",
            system="model",
            by="country",
        )
        print(result)
        print(result.per_query().to_pylist()[0])


if __name__ == "__main__":
    main()
