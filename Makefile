.PHONY: install lint test golden site ci

install:
	pip install -e '.[test,dev]'

lint:
	ruff check
	ruff format --check
	mypy

test:
	pytest

golden:
	UPDATE_GOLDEN=1 pytest

site:
	pip install -e '.[docs]'
	mkdocs serve

ci:
	bash .ci/run
