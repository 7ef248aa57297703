"""A spec as files of a dbt project: plain SQL models, tests, properties, a semantic model."""
