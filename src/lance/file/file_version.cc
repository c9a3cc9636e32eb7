#include "lance/file/file_version.h"

namespace sarissa::lance {

Result<FileVersion> FileVersion::Parse(std::string_view text) {
  for (FileVersion version : {kFileV20, kFileV21, kFileV22}) {
    if (version.ToString() == text) return version;
  }
  return Error(ErrorKind::kUnsupported,
               "data file version '{}' is not supported (2.0, 2.1 and 2.2 are)", text);
}

}  // namespace sarissa::lance
