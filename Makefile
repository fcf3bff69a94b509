# The commands of accel-lab. `make` alone explains them.

# Empty the rules that make knows by itself: none of them is wanted here.
MAKEFLAGS += --no-builtin-rules
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup bisect test test-slow test-all bench lint format lock docker-image docker-build docker-base clean
# The goals share one environment and two cores; side by side they only get in each other's way.
.NOTPARALLEL:

PYTHON ?= python3
VENV ?= .venv
LOCKS ?= dev torch
IMAGE ?= accel-lab
DOCKER ?= docker
# Two workers, each with whole modules: a module keeps one warm server. tests/conftest.py puts the long ones first.
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder --durations=30

# What a person typed reaches the shell through the environment and exactly as typed, so that a path may hold
# spaces, quotes and dollar signs. ARGS alone is a piece of shell text: ARGS='--name "two words"' is two words.
export LAB_VENV := $(value VENV)
export LAB_PYTHON := $(value PYTHON)
export LAB_LOCKS := $(value LOCKS)
export LAB_SCRIPT := $(value SCRIPT)
export LAB_VERSIONS := $(value VERSIONS)
export LAB_OUT := $(value OUT)
export LAB_PYTHON_TORCH := $(value PYTHON_TORCH)
export LAB_TORCH := $(value TORCH)
export LAB_BASE := $(value BASE)
# Not handed on under their own names: a script that is bisected should see the environment of its user.
$(foreach name,VENV PYTHON LOCKS SCRIPT ARGS VERSIONS OUT PYTHON_TORCH TORCH BASE PYTEST_ARGS BENCH_ARGS IMAGE DOCKER_ARGS,\
	$(if $(filter command,$(firstword $(origin $(name)))),$(eval unexport $(name))))
define IN_VENV
env -u LAB_VENV -u LAB_PYTHON -u LAB_LOCKS -u LAB_SCRIPT -u LAB_VERSIONS -u LAB_OUT -u LAB_PYTHON_TORCH \
	-u LAB_TORCH -u LAB_BASE \
	-u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKE_TERMERR -u MAKE_TERMOUT "$$LAB_VENV/bin/python"
endef

ifneq ($(filter bisect,$(MAKECMDGOALS)),)
ifeq ($(strip $(value SCRIPT)),)
$(error make bisect needs a script: make bisect SCRIPT=path/to/repro.py)
endif
endif

ifneq ($(filter docker-build,$(MAKECMDGOALS)),)
ifeq ($(strip $(value TORCH)),)
$(error make docker-build needs releases that docker/builds.toml has: make docker-build TORCH=2.13.0)
endif
endif

help: ## Explain the targets (the default).
	@echo "accel-lab: from a script that fails under torch.compile to the stage at fault, with evidence."
	@echo
	@echo "  make bisect SCRIPT=repro.py [ARGS='...'] [VERSIONS=...] [OUT=folder] [PYTHON_TORCH=python]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "Variables of bisect (paths are taken as they are, spaces included):"
	@echo "  SCRIPT         the failing script; ARGS are its arguments, quoted as for a shell"
	@echo "  VERSIONS       releases of torch to search, as accel-lab bisect --versions takes them"
	@echo "  OUT            folder for the report and the bundle (--out)"
	@echo "  PYTHON_TORCH   the interpreter whose torch is probed (--python); default: the one in VENV"
	@echo "Exit status of bisect: 0 when accel-lab has done its job, which is both 'the script does not fail' (its 0)"
	@echo "  and 'the failure was reproduced' (its 1). All else (2 usage, 3 the lab could not, 125 cannot tell) is an"
	@echo "  error for make, which exits 2. For the exact code run accel-lab bisect itself."
	@echo
	@echo "Variables of setup:"
	@echo "  VENV           where the environment lies (now: $$LAB_VENV)"
	@echo "  PYTHON         the interpreter that makes it, 3.10 or newer (now: $$LAB_PYTHON)"
	@echo "  LOCKS          what goes into it, from .locks/ (now: $$LAB_LOCKS); LOCKS=dev leaves out torch"
	@echo
	@echo "Variables of the docker targets:"
	@echo "  BASE           the image to build on, or for docker-base to make; default: the pinned public one, and"
	@echo "                 for docker-build what docker-base has made, if it is there"
	@echo "  TORCH          releases for docker-build, from docker/builds.toml, or all of them: TORCH=all"
	@echo "  IMAGE          the name that docker-image gives (now: $(IMAGE)); DOCKER_ARGS go to docker build"
	@echo "  DOCKER         the docker client (now: $(DOCKER)); it must know BuildKit"
	@echo "Others: PYTEST_ARGS for test, BENCH_ARGS for bench."

setup: ## Make the environment in VENV from the hash-locked requirements; nothing to do while they are the same.
	@files=(); for lock in $$LAB_LOCKS; do files+=(".locks/$$lock.txt"); done; \
	if command -v sha256sum >/dev/null; then sum=(sha256sum); else sum=(shasum -a 256); fi; \
	stamp="$$LAB_VENV/.accel-lab-$$(cat -- "$${files[@]}" | "$${sum[@]}" | cut -c 1-16)"; \
	project="$$PWD $$("$${sum[@]}" < pyproject.toml)"; \
	if [ -x "$$LAB_VENV/bin/python" ] && [ "$$(cat "$$stamp" 2>/dev/null)" = "$$project" ]; then exit 0; fi; \
	locked=; if [ -x "$$LAB_VENV/bin/python" ] && [ -e "$$stamp" ]; then locked=yes; fi; \
	if [ -d "$$LAB_VENV" ]; then rm -f -- "$$LAB_VENV"/.accel-lab-*; fi; \
	if [ -z "$$locked" ]; then \
		echo "setup: making $$LAB_VENV from $${files[*]} (with torch that is several gigabytes and minutes)"; \
		"$$LAB_PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10) and "setup: Python 3.10 or newer is needed; name one with PYTHON=")'; \
		"$$LAB_PYTHON" -m venv -- "$$LAB_VENV"; \
		"$$LAB_VENV/bin/python" -m pip install --disable-pip-version-check --require-hashes "$${files[@]/#/--requirement=}"; \
	fi; \
	echo "setup: installing accel-lab from $$PWD"; \
	if "$$LAB_VENV/bin/python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("setuptools") is None)'; then \
		"$$LAB_VENV/bin/python" -m pip install --disable-pip-version-check --no-deps --no-index --no-build-isolation --editable .; \
	else \
		"$$LAB_VENV/bin/python" -m pip install --disable-pip-version-check --no-deps --editable .; \
	fi; \
	printf '%s\n' "$$project" > "$$stamp"

bisect: setup ## Find the stage at fault for SCRIPT; writes a report and a bundle.
	@options=(); \
	if [ -n "$$LAB_VERSIONS" ]; then options+=(--versions "$$LAB_VERSIONS"); fi; \
	if [ -n "$$LAB_OUT" ]; then options+=(--out "$$LAB_OUT"); fi; \
	if [ -n "$$LAB_PYTHON_TORCH" ]; then options+=(--python "$$LAB_PYTHON_TORCH"); fi; \
	code=0; $(IN_VENV) -m accel_lab bisect "$${options[@]}" "$$LAB_SCRIPT" $(value ARGS) || code=$$?; \
	if [ "$$code" -gt 1 ]; then exit "$$code"; fi

test: setup ## Run the tests that take a few minutes together; it says what is left to test-all.
	@$(IN_VENV) -m pytest -m "not slow" $(PYTEST_ARGS)
	@echo "Not run: tests with the mark slow (golden cases, several builds of torch, Docker, long reductions)."
	@echo "make test-all runs them too; what this machine has no Docker, browser or builds for is skipped."

test-slow: setup ## Run what `make test` leaves out.
	@$(IN_VENV) -m pytest -m slow $(PYTEST_ARGS)

test-all: test test-slow ## Run all tests; what needs Docker, a browser or several torch builds is skipped where there is none.

bench: setup ## Bisect every golden case in repros/ and print the localization score.
	@$(IN_VENV) benchmarks/localize.py $(BENCH_ARGS)

lint: setup ## Check style, formatting, types and layers; all four, also when one of them fails.
	@code=0; \
	$(IN_VENV) -m ruff check --no-cache . || code=1; \
	$(IN_VENV) -m ruff format --check . || code=1; \
	$(IN_VENV) -m mypy || code=1; \
	$(IN_VENV) -m pytest -q tests/test_layers.py || code=1; \
	exit "$$code"

format: setup ## Rewrite the code as the formatter wants it.
	@$(IN_VENV) -m ruff check --fix-only .
	@$(IN_VENV) -m ruff format .

LOCK := uv pip compile --quiet --universal --python-version 3.10 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate pyproject.toml
lock: setup ## Resolve .locks/*.txt anew after a change of the dependencies (add LOCK_ARGS=--upgrade for newer releases).
	@$(IN_VENV) -m $(LOCK) $(LOCK_ARGS) --output-file .locks/lab.txt
	@$(IN_VENV) -m $(LOCK) $(LOCK_ARGS) --extra dev --constraint .locks/lab.txt --output-file .locks/dev.txt
	@$(IN_VENV) -m $(LOCK) $(LOCK_ARGS) --extra torch --constraint .locks/dev.txt --output-file .locks/torch.txt

docker-image: ## Build the image IMAGE (accel-lab), which holds the lab with torch and a C++ compiler.
	@options=(); if [ -n "$$LAB_BASE" ]; then options+=(--build-arg "BASE=$$LAB_BASE"); fi; \
	DOCKER_BUILDKIT=1 $(DOCKER) build "$${options[@]}" $(DOCKER_ARGS) --tag $(IMAGE) .

docker-build: setup ## Build the images accel-lab-torch:TORCH, one pinned build of torch each, for the docker provider.
	@options=(); if [ -n "$$LAB_BASE" ]; then options+=(--base "$$LAB_BASE"); fi; \
	$(IN_VENV) docker/build.py "$${options[@]}" $$LAB_TORCH

docker-base: ## Make a base image from Debian packages (as root, with debootstrap), where no image registry is reached.
	@DOCKER="$(DOCKER)" docker/make-base.sh $${LAB_BASE:+"$$LAB_BASE"}

clean: ## Remove what the other targets made here, but not VENV, runs/ or reports.
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis bisect/accel_lab.egg-info
	@find bisect tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
