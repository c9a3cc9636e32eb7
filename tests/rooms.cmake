# One line per test binary.
sarissa_test(NAME base_test SOURCES base/base_test.cc ROOMS base)
