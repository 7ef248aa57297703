"""A spec as files of other tools: dbt, SQLMesh, Superset, semantic layers."""
