// A directory of the test's own, gone at its end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace sarissa::test {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sarissa.XXXXXX").string();
    SARISSA_CHECK(::mkdtemp(pattern.data()) != nullptr, "no scratch directory at {}", pattern);
    path_ = pattern;
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace sarissa::test
