# Every target sets up what it needs; repeating one is cheap. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= bench-quick
FUZZ_SECONDS ?= 30
# For which processor torch is built: cpu, auto, or as `uv pip install --torch-backend` has it.
TORCH ?= cpu
ALL := .[cluster,rllib,sb3,marl,minari,tensorboard,video,dev,docs]
APT := mininet openvswitch-switch ccache clang llvm libbpf-dev bpftool libelf-dev zlib1g-dev \
	libasio-dev libboost-dev libmnl-dev libseccomp-dev linux-libc-dev gcc-multilib g++ python3-dev python3-venv iperf3 tcpdump \
	ethtool iproute2 iputils-ping curl wrk nginx nghttp2-client openssl
NO_DAEMONS := /usr/sbin/policy-rc.d
# Emulators, trainings and tests are many processes of Python. Where the environment forbids bytecode
# files, each compiles the libraries anew: half of the time of all tests.
unexport PYTHONDONTWRITEBYTECODE
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
export MYPY_CACHE_DIR ?= $(CACHE)/mypy
BUILD_TOOLS := 'setuptools>=77' wheel 'pybind11>=2.13' uv
WHEELS := --no-index --find-links $(CACHE)/dcgym/wheels
NATIVE := $(shell find dcgym/native -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.c')
BUILT := $(addprefix dcgym/native/,_native.digest _simulation.digest _packets.digest _workload.digest _measure.digest _placement.digest bin/dcgym-generator bin/dcgym-relay bin/dcgym-host obj/fabric.bpf.o)
SANITIZED := $(addprefix sanitize-,twin kernel emulator generator)
FUZZ := $(shell find tests/native/fuzz -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.c')

.PHONY: help setup apt native bench check collect test test-timing soak kills sanitize $(SANITIZED) levels fuzz lint format type docs docs-check benchmarks clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: apt $(VENV)/.stamp-venv ## apt packages, virtual environment, native build
	@$(MAKE) --no-print-directory -j2 $(VENV)/.stamp-install $(VENV)/.stamp-native

# Packages bring programs, not daemons: without a policy of the machine's own, ours forbids their
# start while they are installed, and nginx does not start with the machine either.
apt:
	@missing=""; \
	for name in $(APT); do dpkg -s $$name >/dev/null 2>&1 || missing="$$missing $$name"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "setup: emulation needs these packages, install them as root:$$missing"; exit 0; fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	if [ ! -e $(NO_DAEMONS) ]; then \
		trap 'rm -f $(NO_DAEMONS)' EXIT; \
		printf '#!/bin/sh\nexit 101\n' >$(NO_DAEMONS); chmod 755 $(NO_DAEMONS); fi; \
	apt-get update -qq || echo "setup: apt-get update failed, trying with the lists at hand"; \
	apt-get install -y -qq --no-install-recommends $$missing || for name in $$missing; do \
		apt-get install -y -qq --no-install-recommends $$name || echo "setup: no package $$name"; done; \
	case " $$missing " in *" nginx "*) update-rc.d nginx disable >/dev/null 2>&1 || true;; esac

# A half-made environment has no stamp and is made again. What is fetched once is kept for other clones:
# pip keeps nothing of an index that allows no caching.
$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit("dcgym needs Python 3.10 or newer: make PYTHON=python3.10 ...") \
		if sys.version_info < (3, 10) else None'
	$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install -q $(WHEELS) $(BUILD_TOOLS) 2>/dev/null || { \
		$(BIN)/pip download -q -d $(CACHE)/dcgym/wheels $(BUILD_TOOLS); \
		$(BIN)/pip install -q $(WHEELS) $(BUILD_TOOLS); }
	@touch $@

# The common index has torch with 4 GB of CUDA only; uv knows where the others are. What its cache has
# comes first: asking the index costs 60 MB where that forbids to keep its pages.
$(VENV)/.stamp-install: export VIRTUAL_ENV = $(VENV)
$(VENV)/.stamp-install: export DCGYM_SKIP_BUILD = 1
$(VENV)/.stamp-install: $(VENV)/.stamp-venv pyproject.toml setup.py
	@torch() { UV_HTTP_RETRIES=0 $(BIN)/uv pip install -q --torch-backend=$(TORCH) "$$@" 'torch>=2.2' torchvision; }; \
	torch --offline 2>/dev/null || torch 2>/dev/null || \
		echo "setup: torch for $(TORCH) is out of reach, taking the index's"
	@all() { $(BIN)/uv pip install -q --no-build-isolation "$$@" -e '$(ALL)'; }; \
	all --offline 2>/dev/null || all || { \
		echo "setup: uv failed, trying pip, which may know another index"; \
		$(BIN)/pip install -q --no-compile --no-build-isolation -e '$(ALL)'; }
	@touch $@

# What could not be built is tried again: its packages may have come meanwhile.
$(VENV)/.stamp-native: $(VENV)/.stamp-venv setup.py $(NATIVE)
	$(BIN)/python setup.py -q build_ext --inplace --parallel 2
	@ls $(BUILT) >/dev/null 2>&1 && touch $@ || echo "setup: not all native parts are built; dcgym doctor says why"

# Workers of the tests that begin together would each compile what they import.
$(VENV)/.stamp-collected: $(VENV)/.stamp-install
	@$(MAKE) --no-print-directory collect

native: apt $(VENV)/.stamp-native ## build the native parts only

bench: setup ## the quick benchmark and its report, in $(OUT)
	$(BIN)/dcgym doctor
	$(BIN)/dcgym bench quick --out $(OUT)

test: setup ## tests whose verdict no machine's speed changes; without root, those that need none
	@$(MAKE) --no-print-directory $(VENV)/.stamp-collected
	@$(BIN)/python -m tests.run

test-timing: setup ## rates, delays and shares on the real kernel, judged where the machine keeps up (root)
	@$(BIN)/python -m tests.run timing

check: lint collect type ## what fails within minutes: lint, imports, collection of all tests, types

collect: setup ## import every module, and collect every test
	@$(BIN)/python -m tests.run collect
	@touch $(VENV)/.stamp-collected

soak: setup ## a billion decisions, real clients, broken packets, killed sweeps of a cluster (minutes)
	@$(MAKE) --no-print-directory apt APT='apache2-utils curl hey nghttp2-client siege wrk'
	DCGYM_SOAK_READS=1000000000 DCGYM_SOAK_MUTANTS=100000 $(BIN)/python -m pytest --timeout=0 \
		tests/native/test_l4lb_soak.py tests/backends/emulation/test_pod_soak.py
	DCGYM_SOAK_MOVES=1000 $(BIN)/python -m pytest --timeout=0 tests/backends/emulation/test_muxes.py -k moves
	$(BIN)/python -m pytest -m soak tests/suites/test_sweep_kills.py tests/policies/test_remote_runners.py

kills: setup ## DCGYM_KILLS (500) kills in all that runs, and what is left afterwards (root, an hour)
	$(BIN)/python -m tests.storm

sanitize: $(SANITIZED) ## tests of the C++ parts under ASan and UBSan, in build/sanitize

$(SANITIZED): sanitize-%: setup
	tests/native/sanitize.sh $(BIN)/python $*

levels: setup ## the packet twin at several levels of optimisation computes the same bits
	tests/native/levels.sh $(BIN)/python

fuzz: setup ## each parser under a fuzzer for FUZZ_SECONDS (30), in build/fuzz; then configurations and commands
	@$(MAKE) --no-print-directory apt APT='clang libclang-rt-dev libasio-dev libboost-dev g++'
	tests/native/fuzz/run.sh $(FUZZ_SECONDS)
	DCGYM_FUZZ_EXAMPLES=$$(($(FUZZ_SECONDS) * 200)) $(BIN)/python -m pytest -q --timeout=0 \
		tests/core/test_fuzz.py

lint: setup ## ruff, clang-format, and that the fuzzers of BPF programs still link; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/clang-format --dry-run -Werror $(NATIVE) $(FUZZ)
	@if command -v clang >/dev/null; then tests/native/fuzz/run.sh 0 fabric l4lb; fi

format: setup ## rewrite the sources in the house format
	$(BIN)/ruff check --fix-only --select I .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(NATIVE) $(FUZZ)

# The newest Python and the oldest. Where the installed numpy is typed for newer ones, some of its results
# are Any to the second check. Clones share the cache, which goes by content, one at a time.
type: setup ## strict type check
	@mkdir -p $(MYPY_CACHE_DIR)
	flock $(MYPY_CACHE_DIR) $(BIN)/mypy -n 2 --python-version 3.13 -p dcgym
	flock $(MYPY_CACHE_DIR) $(BIN)/mypy -n 2 --python-version 3.10 --no-warn-return-any \
		--no-warn-unused-ignores -p dcgym

# Not -q: it also hides warnings from --strict.
docs: setup ## generate pages from the code and build the site, in site/
	$(BIN)/python docs/_scripts/environment_pages.py
	$(BIN)/python docs/_scripts/preset_page.py
	$(BIN)/python docs/_scripts/reached_table.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-check: docs ## the site, then every command and Python block that it and README print (root)
	$(BIN)/python -m pytest -m docs
	$(BIN)/python docs/_scripts/check_commands.py

benchmarks: setup ## speed ratios, side by side in one run
	$(BIN)/python -m experiments.speed

clean: ## remove what builds made, not the environment
	rm -rf build dist site dcgym/native/bin dcgym/native/obj dcgym/native/*.so \
		dcgym/native/*.digest $(VENV)/.stamp-native
