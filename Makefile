# `make run` on an empty machine: installs what is missing, builds, and serves on port 3000 over ./sarissa-data.

JOBS ?= 2
PORT ?= 3000
DATA_DIR ?= ./sarissa-data
SOURCES = find src tests bench -name '*.h' -o -name '*.cc'

.PHONY: build run test bench bench-group-commit bench-fleet format lint tidy soak mutants bootstrap clean

build: bootstrap build/release/build.ninja
	cmake --build --preset release --target sarissa -j $(JOBS)
	@ls -la build/release/sarissa

run: build
	build/release/sarissa serve --host 0.0.0.0 --port $(PORT) --data-dir $(DATA_DIR)

test:
	scripts/test

bench: build
	cmake --build --preset release --target load_generator -j $(JOBS)
	scripts/bootstrap --test
	.venv/bin/python bench/run.py $(BENCH_FLAGS)

bench-group-commit: bootstrap build/release/build.ninja
	cmake --build --preset release --target group_commit -j $(JOBS)
	scripts/bootstrap --test
	.venv/bin/python bench/group_commit.py $(BENCH_FLAGS)

bench-fleet: build
	scripts/bootstrap --test
	.venv/bin/python bench/fleet.py $(BENCH_FLAGS)

format:
	$(SOURCES) | xargs -r clang-format-19 -i

lint:
	scripts/lint

tidy:
	LINT_TIDY=all scripts/lint

soak:
	SARISSA_COUNTS=soak STAGES="release unit python e2e" scripts/test

mutants: bootstrap
	scripts/mutants --jobs $(JOBS) $(MUTANT_FLAGS)

bootstrap:
	@scripts/bootstrap

build/release/build.ninja:
	cmake --preset release

clean:
	rm -rf build
