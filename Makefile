.PHONY: install lint test golden site ci

install:
	pip install -e '.[test,dev]'

lint:
	ruff check
	ruff format --check
	mypy

test:
	pytest

# all that are written by a test, those that a plain pytest only draws too
golden:
	UPDATE_GOLDEN=1 SQLMETRICS_ALL=1 pytest -n 2 -m "long or not long" tests/test_docs.py tests/test_docs_pages.py \
		tests/test_stable.py tests/test_house.py tests/cli tests/spec/test_schema.py tests/evaluation/test_bad_input.py \
		tests/catalog/test_catalog.py tests/sql/test_portable.py tests/comparison/test_report_gallery.py
	UPDATE_GOLDEN=1 SQLMETRICS_ALL=1 pytest -n 0 -m "long or not long" tests/proof/test_presets_page.py

site:
	pip install -e '.[docs]'
	mkdocs serve

ci:
	bash .ci/run
