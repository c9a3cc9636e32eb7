// Cuts a page into mini-block chunks.
#include <algorithm>
#include <optional>

#include "lance/file/mini_block_shape.h"
#include "lance/file/page_layouts.h"

namespace sarissa::lance {
namespace {

// Where to stop growing a chunk: a reader decodes whole chunks to get at one value.
constexpr int64_t kMaxChunkValues = 4096;
constexpr int64_t kTargetValueBytes = 8 << 10;
// The level buffers' sizes are u16.
constexpr int64_t kMaxChunkLevels = 65535 / 2;

// Walks the items of a page from one visible item to the next.
class LevelCursor {
 public:
  LevelCursor(const ColumnPath& path, const PageLevels& levels)
      : def_(levels.num_invisible() == 0 ? nullptr : levels.def.data()),
        max_visible_def_(path.max_visible_def) {}

  // Steps behind the next `count` visible items.
  void Advance(int64_t count) {
    if (def_ == nullptr) {
      position_ += count;
      return;
    }
    while (count > 0) count -= def_[position_++] <= max_visible_def_ ? 1 : 0;
  }
  int64_t position() const { return position_; }

 private:
  const uint16_t* def_;
  uint16_t max_visible_def_;
  int64_t position_ = 0;
};

class Planner {
 public:
  Planner(const ColumnPath& path, const PageLevels& levels, const PageValues& values,
          FileVersion version)
      : levels_(levels), values_(values), shape_(path, values, version), cursor_(path, levels) {}

  std::vector<MiniBlockChunk> Plan() {
    std::vector<MiniBlockChunk> chunks;
    MiniBlockChunk at;
    while (true) {
      const auto last = LastChunk(at);
      if (last) {
        chunks.push_back(*last);
        return chunks;
      }
      const auto next = NextChunk(at);
      if (!next) return {};
      chunks.push_back(*next);
      at.first_value = next->first_value + next->num_values;
      at.first_level = next->first_level + next->num_levels;
    }
  }

 private:
  int64_t ValueBytes(int64_t first, int64_t count) const {
    int64_t bytes = 0;
    for (int buffer = 0; buffer < values_.num_buffers(); ++buffer) {
      bytes += values_.ChunkBufferSize(buffer, first, count);
    }
    return bytes;
  }

  bool Fits(MiniBlockChunk* chunk) const {
    chunk->bytes = shape_.ChunkBytes(*chunk, values_);
    return chunk->num_levels <= kMaxChunkLevels && chunk->bytes <= shape_.max_chunk_bytes();
  }

  // The rest of the page as one chunk, if it is small enough.
  std::optional<MiniBlockChunk> LastChunk(const MiniBlockChunk& at) const {
    MiniBlockChunk chunk = at;
    chunk.num_values = levels_.num_slots - at.first_value;
    chunk.num_levels = levels_.num_levels - at.first_level;
    if (chunk.num_values > kMaxChunkValues) return std::nullopt;
    // Up to two values the rest cannot be cut any more: another chunk holds two at least and leaves
    // one.
    if (chunk.num_values > 2 && ValueBytes(chunk.first_value, chunk.num_values) > kTargetValueBytes)
      return std::nullopt;
    if (!Fits(&chunk)) return std::nullopt;
    return chunk;
  }

  // The largest chunk of 2, 4, 8 ... values that leaves at least one value behind it.
  std::optional<MiniBlockChunk> NextChunk(const MiniBlockChunk& at) {
    const int64_t rest = levels_.num_slots - at.first_value;
    std::optional<MiniBlockChunk> best;
    LevelCursor behind_best = cursor_;
    MiniBlockChunk chunk = at;
    for (chunk.log2_values = 1; (1 << chunk.log2_values) <= kMaxChunkValues; ++chunk.log2_values) {
      const int64_t count = int64_t{1} << chunk.log2_values;
      if (count >= rest) break;
      if (count > 2 && ValueBytes(at.first_value, count) > kTargetValueBytes) break;
      cursor_.Advance(count - chunk.num_values);
      chunk.num_values = count;
      chunk.num_levels = cursor_.position() - at.first_level;
      if (!Fits(&chunk)) break;
      best = chunk;
      behind_best = cursor_;
    }
    cursor_ = behind_best;
    return best;
  }

  const PageLevels& levels_;
  const PageValues& values_;
  const MiniBlockShape shape_;
  LevelCursor cursor_;
};

}  // namespace

std::vector<MiniBlockChunk> PlanMiniBlockChunks(const ColumnPath& path, const PageLevels& levels,
                                                const PageValues& values, FileVersion version) {
  return Planner(path, levels, values, version).Plan();
}

}  // namespace sarissa::lance
