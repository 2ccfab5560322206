# Every target is one readable line; `make help` lists them. All set-up happens on the way: see $(READY).
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
.DEFAULT_GOAL := help
.PHONY: help book test lab serve sync release bundle grade check pins clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

$(READY): pyproject.toml constraints.txt
	$(PYTHON) tools/setup.py

book: $(READY)  ## set up what is missing and build the rendered book
	$(BIN)/python tools/book.py

test: $(READY)  ## set up what is missing and run every test
	$(BIN)/python tools/test.py $(ARGS)

lab: $(READY)  ## JupyterLab on a working copy of notebooks/ (workspace/, never read by anything else)
	$(BIN)/python tools/lab.py

serve: book  ## the built book on localhost
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

sync: $(READY)  ## chapters in book/ to notebooks in notebooks/, by jupytext
	$(BIN)/python tools/sync.py

release: $(READY)  ## student notebooks from solutions/; never overwrites an edited one
	$(BIN)/autograder release

bundle: $(READY)  ## the student's zip, in dist/
	$(BIN)/autograder bundle

grade: $(READY)  ## score notebooks: make grade SUBMISSIONS=dir [ARGS="--exercise ex1"]
	$(BIN)/autograder grade "$(SUBMISSIONS)" --out dist/grades $(ARGS)

check: $(READY)  ## format, lint, types, links, drift
	$(BIN)/python tools/check.py

pins: $(READY)  ## write constraints.txt anew from the ranges in pyproject.toml
	$(BIN)/python tools/pins.py

clean:  ## remove everything that the targets above made, but not workspace/
	rm -rf .venv _build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
