# Needs Python 3.11 or later, pip and make; everything else goes into .venv, or into .venv-3.N for PYTHON=python3.N.
PYTHON ?= python3
VENV := .venv$(patsubst python%,-%,$(filter python3.%,$(notdir $(PYTHON))))
BIN := $(VENV)/bin
SAMPLES := plugins/ort-lite-sample plugins/ort-lite-accelerator
WORKERS ?= 2

# Byte code is kept whatever the user's shell says: each worker, and each process that a test starts, would compile all sources.
unexport PYTHONDONTWRITEBYTECODE

# If the home's cache folder is not writable, every process would compile its kernels again. build/cache then holds them.
HOME_CACHE_IS_WRITABLE := $(shell \
	(folder="$${XDG_CACHE_HOME:-$${HOME:?}/.cache}" && mkdir -p "$$folder" && test -w "$$folder" && echo yes) 2>/dev/null)
ifneq ($(HOME_CACHE_IS_WRITABLE),yes)
$(info The cache folder of the home cannot be written: kernels are kept in build/cache.)
export XDG_CACHE_HOME := $(CURDIR)/build/cache
endif

# Plugins that need an accelerator's package, or a server's. Each is tested in .venv-NAME, with the real one.
PLUGINS := openvino onnxruntime xla serve ep
ACCELERATORS := $(foreach name,$(PLUGINS),$(if $(wildcard plugins/ort-lite-$(name)/pyproject.toml),$(name)))

.PHONY: help demo demo-ray wheels check-wheels test test-quick test-targets test-emulated test-browser test-examples test-optimum test-plugins test-ray $(ACCELERATORS:%=test-plugin-%) compare site lint format clean
.PRECIOUS: .venv-%/installed

help:
	@echo "make demo          install into $(VENV), search sentences by meaning (examples/semantic_search.py), and write a page about the session"
	@echo "make demo-ray      score sentences on a cluster on this machine, with a worker killed half-way (plugins/ort-lite-ray)"
	@echo "make test          lint, type-check and run the tests"
	@echo "make test-quick    run the tests that are not marked slow; PYTHON=python3.N: with another Python, in .venv-3.N"
	@echo "make test-targets  run the CPU provider's tests for lesser targets than this machine"
	@echo "make test-examples run the examples that need more packages, in an environment of their own"
	@echo "make test-optimum  run Hugging Face's Optimum with onnxruntime and with ort-lite, in an environment with torch"
	@echo "make test-plugins  run those of the plugins that need other packages, each in an environment of its own"
	@echo "make test-browser  open the page of a model, and the playground, in Chromium, which must be installed"
	@echo "make test-ray      run those of plugins/ort-lite-ray, on a cluster of this machine whose workers are killed"
	@echo "make test-emulated MACHINES='haswell armv8.0'"
	@echo "                   run conformance cases and models on CPUs that QEMU emulates"
	@echo "make wheels        build dist/: ort-lite, and kernel packs for ARCHITECTURES ($(ARCHITECTURES))"
	@echo "make check-wheels  build those for this machine's level, and try them in an environment that has no compiler"
	@echo "make compare BASE=<commit> [ONLY=models,operators,startup,size] [FULL=1] [MODELS=DIR] [FILTER=TEXT]"
	@echo "                   report what became slower or larger than in another commit"
	@echo "make site          build the documentation into build/site; a warning is an error"
	@echo "make lint          ruff and mypy alone"
	@echo "make format        let ruff format and fix the sources"
	@echo "make clean         remove the environments and what the tools left"

demo: $(VENV)/installed-demo
	mkdir -p build
	$(BIN)/python examples/semantic_search.py --page build/demo.html

demo-ray: .venv-ray/installed
	RAY_USAGE_STATS_ENABLED=0 .venv-ray/bin/python plugins/ort-lite-ray/demo.py

# One worker takes a test file whole: its tests share their compiled kernels. Files are taken in the order of tests/conftest.py.
IN_FILES := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: lint
	$(BIN)/python -m pytest $(IN_FILES)

test-quick: $(VENV)/installed-test
	$(BIN)/python -m pytest $(IN_FILES) -m "not slow"

# Each target starts with kernels that nobody has compiled yet: it takes some times as long as `make test`.
test-targets: $(VENV)/installed-test
	for target in x86-64-v3 x86-64; do \
		$(BIN)/python -m pytest $(IN_FILES) --target $$target tests/cpu tests/conformance tests/models || exit 1; \
	done

# Not part of `make test`: downloads QEMU and an AArch64 Python into FOLDER, and takes three to ten minutes a machine.
FOLDER ?= build/emulation
MACHINES ?= nehalem haswell armv8.0 dotprod i8mm
test-emulated: $(VENV)/installed-test $(FOLDER)/fetched
	$(BIN)/python -m tests.emulation $(FOLDER) $(MACHINES)

$(FOLDER)/fetched: | $(VENV)/installed-test
	tests/emulation/fetch.sh $(FOLDER) $(abspath $(BIN)/python)

# A skipped test counts as failed. Pictures of the pages are left in build/screenshots.
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
test-browser: build/site/index.html $(VENV)/installed-browser
	@test -n "$(CHROMIUM)" || { echo "make test-browser: no Chromium: expected chromium, chromium-browser or google-chrome on PATH;" \
		"on Debian, apt-get install chromium" >&2; exit 2; }
	$(BIN)/python -m pytest -p tests.no_skips tests/browser

# Kernels are taken from the kernel cache, or compiled: half an hour for both architectures on two cores, where none is there.
ARCHITECTURES ?= x86_64 aarch64
wheels: dist/pure
	for name in $(ARCHITECTURES); do \
		$(BIN)/python -m tests.packs build build/packs/$$name-all.pack $$name || exit 1; \
		$(BIN)/python -m tests.packs wheel build/packs/$$name-all.pack dist || exit 1; \
	done

# Without the cases of ONNX's suite: those that the models of the tests need are all in the list.
check-wheels: dist/pure
	$(BIN)/python -m tests.packs build build/packs/$(shell uname -m)-own.pack own --cases 0
	$(BIN)/python -m tests.packs wheel build/packs/$(shell uname -m)-own.pack build/packs
	$(BIN)/python -m tests.packs check dist/ort_lite-*.whl build/packs/ort_lite_kernels-*.whl

.PHONY: dist/pure
dist/pure: $(VENV)/installed-test
	$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir dist .

test-plugins: $(ACCELERATORS:%=test-plugin-%)

# Not among those: its tests start a cluster and kill its workers, for minutes.
test-ray: .venv-ray/installed
	.venv-ray/bin/python -m pytest -p tests.no_skips plugins/ort-lite-ray/tests

# A skipped test counts as failed: everything that the tests need is installed.
$(ACCELERATORS:%=test-plugin-%): test-plugin-%: .venv-%/installed
	.venv-$*/bin/python -m pytest -p tests.no_skips -n $(WORKERS) plugins/ort-lite-$*/tests

# Spark runs on a Java: where none is, its example is left out, which is said.
JAVA := $(shell command -v java)
# Notebooks and BentoML keep settings in the home. pip, before them, has the user's own, where its configuration may be.
ifneq ($(shell test -w "$$HOME" && echo yes),yes)
test-examples: private export HOME := $(shell mkdir -p build/home)$(CURDIR)/build/home
endif
test-examples: .venv-examples/installed
	@test -n "$(JAVA)" || echo "make test-examples: no Java is installed: the example of Spark is left out" >&2
	.venv-examples/bin/python -m pytest -p tests.no_skips -n $(WORKERS) --dist loadfile $(if $(JAVA),,-k 'not spark') \
		--ignore examples/tests/test_hugging_face.py examples/tests

# Not among those: torch is some hundred megabytes for CPUs, and gigabytes where pip takes the build for GPUs.
test-optimum: .venv-optimum/installed
	.venv-optimum/bin/python -m pytest -p tests.no_skips examples/tests/test_hugging_face.py

# On a machine that does nothing else. The page is left in build/compare.
compare: $(VENV)/installed-test
	@test -n "$(BASE)" || { echo "make compare: name the commit to compare with: make compare BASE=HEAD~1" >&2; exit 2; }
	$(BIN)/python -m tests.benchmarks.compare $(BASE) $(if $(ONLY),--only $(ONLY)) $(if $(FULL),--full) \
		$(if $(MODELS),--models $(MODELS)) $(if $(FILTER),--filter "$(FILTER)")

# In $(VENV): the page of the command line is what ort-lite's own parser says, and the tests run what the pages show.
site: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

build/site/index.html:
	$(MAKE) site

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers $(WORKERS)

format: $(VENV)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Empty files that date an installation: it is repeated where the metadata is newer. Sources are installed editable.
$(VENV)/created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed-demo: $(VENV)/created pyproject.toml ort_lite/_version.py
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e ".[demo]"
	touch $@

$(VENV)/installed-test: $(VENV)/created pyproject.toml ort_lite/_version.py $(SAMPLES:%=%/pyproject.toml)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e ".[test]" $(SAMPLES:%=-e %)
	touch $@

$(VENV)/installed-browser: $(VENV)/installed-test
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e ".[test,browser]"
	touch $@

# RapidOCR and Magika require onnxruntime, which is left out: ort-lite takes its place.
.venv-examples/installed: pyproject.toml ort_lite/_version.py plugins/ort-lite-sample/pyproject.toml
	$(PYTHON) -m venv .venv-examples
	.venv-examples/bin/python -m pip install --disable-pip-version-check --quiet -e ".[examples]" -e plugins/ort-lite-sample
	.venv-examples/bin/python -m pip install --disable-pip-version-check --quiet --no-deps rapidocr-onnxruntime==1.4.4 magika==1.0.3
	touch $@

.venv-optimum/installed: pyproject.toml ort_lite/_version.py
	$(PYTHON) -m venv .venv-optimum
	.venv-optimum/bin/python -m pip install --disable-pip-version-check --quiet -e ".[optimum]"
	touch $@

$(VENV)/installed-docs: $(VENV)/created pyproject.toml ort_lite/_version.py
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e ".[docs]" $(SAMPLES:%=-e %)
	touch $@

# Replicas on Ray Serve are servers of plugins/ort-lite-serve.
.venv-ray/installed: pyproject.toml ort_lite/_version.py plugins/ort-lite-ray/pyproject.toml plugins/ort-lite-serve/pyproject.toml
	$(PYTHON) -m venv .venv-ray
	.venv-ray/bin/python -m pip install --disable-pip-version-check --quiet -e . -e plugins/ort-lite-serve -e "./plugins/ort-lite-ray[serve,test]"
	touch $@

# The plugin is compiled. Its tests run with earlier releases of onnxruntime, too, each of which has a folder.
EARLIER := 1.24.4 1.27.0 1.31.1
.venv-ep/installed: pyproject.toml ort_lite/_version.py $(addprefix plugins/ort-lite-ep/,pyproject.toml hatch_build.py native/shim.c)
	$(PYTHON) -m venv .venv-ep
	.venv-ep/bin/python -m pip install --disable-pip-version-check --quiet -e . -e plugins/ort-lite-accelerator -e "./plugins/ort-lite-ep[test]"
	for version in $(EARLIER); do \
		.venv-ep/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --upgrade \
			--target .venv-ep/onnxruntime-$$version onnxruntime==$$version || exit 1; \
	done
	touch $@

# Models run through XLA inside onnxruntime, too.
BESIDE_xla := plugins/ort-lite-ep
.venv-%/installed: pyproject.toml ort_lite/_version.py plugins/ort-lite-%/pyproject.toml
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --disable-pip-version-check --quiet -e . $(BESIDE_$*:%=-e %) -e "./plugins/ort-lite-$*[test]"
	touch $@

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
