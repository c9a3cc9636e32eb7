// Widths of the numbers around a mini-block chunk; the only place where file versions 2.1 and 2.2
// differ.
//
// Chunk: u16 number of levels, u16 sizes of the level buffers, the sizes of the value buffers (u16
// in 2.1, u32 in 2.2), then the buffers; all padded to 8. Chunk word: (chunk bytes / 8 - 1) << 4 |
// log2(values), u16 in 2.1, u32 in 2.2.
#pragma once

#include <cstdint>

#include "lance/file/column_path.h"
#include "lance/file/file_version.h"
#include "lance/file/page_layouts.h"
#include "lance/file/page_values.h"

namespace sarissa::lance {

inline constexpr int64_t PadTo8(int64_t size) {
  return (size + 7) / 8 * 8;
}

class MiniBlockShape {
 public:
  MiniBlockShape(const ColumnPath& path, const PageValues& values, FileVersion version)
      : has_rep_(path.has_rep()),
        has_def_(path.has_def()),
        large_(version >= kFileV22),
        header_bytes_(PadTo8(2 + 2 * (has_rep_ ? 1 : 0) + 2 * (has_def_ ? 1 : 0) +
                             values.num_buffers() * size_bytes())) {}

  bool has_rep() const { return has_rep_; }
  bool has_def() const { return has_def_; }
  bool has_large_chunks() const { return large_; }
  int word_bytes() const { return large_ ? 4 : 2; }
  int size_bytes() const { return large_ ? 4 : 2; }
  int64_t header_bytes() const { return header_bytes_; }
  int64_t max_chunk_bytes() const { return (int64_t{1} << (word_bytes() * 8 - 4)) * 8; }

  int64_t ChunkBytes(const MiniBlockChunk& chunk, const PageValues& values) const {
    const int64_t level_bytes = PadTo8(chunk.num_levels * 2);
    int64_t bytes = header_bytes_ + (has_rep_ ? level_bytes : 0) + (has_def_ ? level_bytes : 0);
    for (int buffer = 0; buffer < values.num_buffers(); ++buffer) {
      bytes += PadTo8(values.ChunkBufferSize(buffer, chunk.first_value, chunk.num_values));
    }
    return bytes;
  }

 private:
  bool has_rep_;
  bool has_def_;
  bool large_;
  int64_t header_bytes_;
};

}  // namespace sarissa::lance
