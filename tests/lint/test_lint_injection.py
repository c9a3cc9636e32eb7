"""The linter of the injection rule finds what it is for, and nothing in honest code."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("lint_injection", ROOT / "scripts" / "lint_injection.py")
lint = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lint)


def breaches(text: str, path: str = "src/memwal/seal_fence.cc") -> list:
    return lint.check_file(pathlib.PurePosixPath(path), text)


BAD = [
    ("std::thread t([] {});", "threads"),
    ("std::jthread t;", "threads"),
    ("auto f = std::async(Run);", "threads"),
    ("auto t = std::chrono::steady_clock::now();", "time"),
    ("auto t = system_clock::now ();", "time"),
    ("auto t = ::time(nullptr);", "time"),
    ("auto t = time(nullptr);", "time"),
    ("int r = rand();", "randomness"),
    ("int r = std::rand();", "randomness"),
    ("std::random_device seed;", "randomness"),
    ("int fd = open(path, O_RDONLY);", "files"),
    ("int fd = ::open(path, O_RDONLY);", "files"),
    ("FILE* f = fopen(path, mode);", "files"),
    ("std::ifstream in(path);", "files"),
    ("std::fstream in(path);", "files"),
    ("std::filesystem::remove(p);", "files"),
    ("int s = ::socket(AF_INET, SOCK_STREAM, 0);", "sockets"),
    ("const char* v = std::getenv(name);", "environment"),
    ('#include "../env/clock.h"', "without .."),
    ('#include "engine/table.h"', "above it"),
    ('#include "clock.h"', "does not start with a room"),
    ("#include <thread>", "belongs to env/"),
    ("#include <fstream>", "belongs to env/"),
    ("class SegmentManager {", "says nothing"),
    ("namespace utils {", "says nothing"),
    ("// TO" + "DO: later", "finish it"),
    ("// FIX" + "ME", "finish it"),
    ("/* X" + "XX */", "finish it"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=lambda value: str(value)[:40])
def test_a_breach_is_found_on_its_line(text, message):
    found = breaches(f"int before;\n{text}\nint after;\n")
    assert [number for number, _ in found] == [2], found
    assert message in found[0][1]


@pytest.mark.parametrize("text", [
    'const char* s = "open( std::thread rand()";',
    "// std::thread is not used here, nor open(path)",
    "/* steady_clock::now() */",
    'auto s = R"(fopen(x))";',
    "file->open(path);",
    "stream.open(path);",
    "auto f = boost::asio::ip::tcp::socket(context);",
    "const auto now = env.clock().Now();",
    "int reopen(int x);",
    "writer.time(3);",
    "uint64_t x = 1'000'000; Random& random = env.random();",
    '#include "proto/lance_table.pb.h"',
    '#include "base/error.h"\n#include "memwal/names.h"\n#include <vector>',
    "std::filesystem::path p;",
    "class ManagerialStyle;",
])
def test_honest_code_passes(text):
    assert breaches(text) == []


def test_env_is_the_door():
    assert breaches("#include <thread>\nstd::thread t; auto n = std::chrono::steady_clock::now(); int f = ::open(p, 0);",
                    "src/env/posix/posix_file.cc") == []


def test_the_command_line_may_read_the_environment_but_not_the_clock():
    assert breaches("auto v = std::getenv(n);", "src/cli/serve.cc") == []
    assert breaches("auto v = steady_clock::now();", "src/cli/serve.cc")
    assert breaches("auto v = std::getenv(n);", "src/server/routes.cc")


@pytest.mark.parametrize("path", ["src/base/utils.h", "src/lance/common/x.cc", "src/engine/table_manager.h", "tests/lance/file_helper.cc"])
def test_a_name_that_says_nothing_is_refused(path):
    assert any("says nothing" in message for _, message in breaches("#pragma once\n", path))


def test_a_test_is_not_switched_off_and_does_not_sleep():
    assert breaches("TEST(A, B) { GTEST_" + "SKIP(); }", "tests/env/future_test.cc")
    assert breaches("TEST(A, DISABLED" + "_B) {}", "tests/env/future_test.cc")
    assert breaches("std::this_thread::sleep_for(1ms);", "tests/env/future_test.cc")
    assert breaches("@pytest.mark." + "skip", "tests/e2e/test_x.py")


def test_a_header_without_pragma_once_is_found():
    assert breaches("int x;", "src/base/x.h")


def test_the_tree_itself_passes(capsys):
    status = lint.main(ROOT)
    assert status == 0, capsys.readouterr().out
