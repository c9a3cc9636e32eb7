#include "lance/file/rep_def_unraveler.h"

#include <arrow/buffer.h>
#include <arrow/util/checked_cast.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "lance/file/encoding/load.h"

namespace sarissa::lance {
namespace {

template <typename... Args>
Status Corrupt(const arrow::Field& field, fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorKind::kCorrupt, fmt::format("field '{}': ", field.name()) +
                                            fmt::format(format, std::forward<Args>(args)...));
}

// The levels of a leaf, of which the layers below `layer` have been peeled off.
struct Cursor {
  const LeafShape* shape = nullptr;
  size_t layer = 0;
  uint64_t entries = 0;
  std::vector<uint16_t> rep{};  // empty without lists
  std::vector<uint16_t> def{};  // empty when all are 0

  const LevelLayer& Next() { return shape->layers[layer++]; }
};

struct Peeled {
  uint64_t slots = 0;
  uint64_t nulls = 0;
  std::shared_ptr<arrow::Buffer> validity{};  // null when there are no nulls
};

// Entries with def <= most have a slot; it is valid below `null_level`.
Result<Peeled> PeelValidity(const std::vector<uint16_t>& def, uint64_t entries, uint16_t null_level,
                            uint16_t most) {
  Peeled peeled{.slots = entries};
  if (def.empty() || MaxLevel(def) < null_level) return peeled;
  ARROW_ASSIGN_OR_RAISE(auto bits, arrow::AllocateBuffer(static_cast<int64_t>((entries + 7) / 8)));
  uint8_t* out = bits->mutable_data();
  std::memset(out, 0, static_cast<size_t>(bits->size()));
  uint64_t slot = 0;
  uint64_t valid = 0;
  for (const uint16_t level : def) {
    if (level > most) continue;
    const unsigned bit = level < null_level ? 1 : 0;
    out[slot / 8] = static_cast<uint8_t>(out[slot / 8] | (bit << (slot % 8)));
    valid += bit;
    ++slot;
  }
  peeled.slots = slot;
  peeled.nulls = slot - valid;
  if (peeled.nulls > 0) peeled.validity = std::move(bits);
  return peeled;
}

// A null of the field itself; nulls from further out do not count.
bool HasOwnNull(const Cursor& cursor, const LevelLayer& layer) {
  for (const uint16_t level : cursor.def) {
    if (level == layer.null_level) return true;
  }
  return false;
}

Result<Peeled> PeelItem(const arrow::Field& field, Cursor* cursor) {
  const LevelLayer& layer = cursor->Next();
  ARROW_ASSIGN_OR_RAISE(Peeled peeled, PeelValidity(cursor->def, cursor->entries, layer.null_level,
                                                    layer.max_slot_def));
  if (!field.nullable() && peeled.nulls > 0) {
    if (HasOwnNull(*cursor, layer)) return Corrupt(field, "a null in a field without nulls");
    peeled.nulls = 0;
    peeled.validity = nullptr;
  }
  return peeled;
}

// Folds each list of the cursor's entries into one entry; `offsets` gets a start per list that has
// a slot, and the end.
template <typename Offset>
Status FoldLists(const arrow::Field& field, const LevelLayer& layer, Cursor* cursor,
                 std::vector<Offset>* offsets) {
  uint64_t items = 0;
  uint64_t lists = 0;
  const bool has_def = !cursor->def.empty();
  for (uint64_t i = 0; i < cursor->entries; ++i) {
    const uint16_t rep = cursor->rep[i];
    uint16_t def = has_def ? cursor->def[i] : uint16_t{0};
    const bool item = def < layer.null_level;
    if (rep < layer.repetition) {
      if (lists == 0 || !item) return Corrupt(field, "entry {} continues no list", i);
      uint64_t run = rep == 0 && def == 0 ? ZeroRun(cursor->rep, i) : 1;
      if (has_def && run > 1) run = std::min(run, ZeroRun(cursor->def, i));
      items += run;
      i += run - 1;
      continue;
    }
    if (item || def == layer.empty_level) def = 0;
    if (def <= layer.max_slot_def) offsets->push_back(static_cast<Offset>(items));
    items += item;
    cursor->rep[lists] = rep;
    if (has_def) cursor->def[lists] = def;
    ++lists;
  }
  if (items > static_cast<uint64_t>(std::numeric_limits<Offset>::max())) {
    return Error(ErrorKind::kInvalid, "field '{}': {} items are too many for one read",
                 field.name(), items);
  }
  offsets->push_back(static_cast<Offset>(items));
  cursor->entries = lists;
  cursor->rep.resize(lists);
  if (has_def) cursor->def.resize(lists);
  return Status::OK();
}

struct Assembled {
  std::shared_ptr<arrow::ArrayData> data;
  Cursor cursor;
};

class Assembler {
 public:
  explicit Assembler(std::span<LeafValues> leaves) : leaves_(leaves) {}

  Result<Assembled> Assemble(const arrow::Field& field) {
    switch (field.type()->id()) {
      case arrow::Type::STRUCT:
        return Struct(field);
      case arrow::Type::LIST:
      case arrow::Type::MAP:
        return List<int32_t>(field);
      case arrow::Type::LARGE_LIST:
        return List<int64_t>(field);
      default:
        return Leaf(field);
    }
  }

 private:
  Result<Assembled> Leaf(const arrow::Field& field) {
    LeafValues& leaf = leaves_[next_++];
    Cursor cursor{.shape = leaf.shape, .entries = leaf.sink.levels.entries()};
    leaf.sink.levels.Take(&cursor.rep, &cursor.def);
    if (cursor.shape->max_rep > 0 && cursor.rep.size() != cursor.entries) {
      return Corrupt(field, "{} repetition levels for {} entries", cursor.rep.size(),
                     cursor.entries);
    }
    ARROW_ASSIGN_OR_RAISE(auto data, leaf.sink.slots->Finish());
    if (field.type()->id() == arrow::Type::NA) {
      // Every slot of a null column is null, whatever the levels say.
      const LevelLayer& layer = cursor.Next();
      ARROW_ASSIGN_OR_RAISE(const Peeled peeled,
                            PeelValidity(cursor.def, cursor.entries, 1, layer.max_slot_def));
      if (static_cast<uint64_t>(data->length) != peeled.slots) {
        return Corrupt(field, "{} values for {} slots", data->length, peeled.slots);
      }
      return Assembled{std::move(data), std::move(cursor)};
    }
    return WithValidity(field, std::move(data), std::move(cursor));
  }

  Result<Assembled> WithValidity(const arrow::Field& field, std::shared_ptr<arrow::ArrayData> data,
                                 Cursor cursor) {
    ARROW_ASSIGN_OR_RAISE(Peeled peeled, PeelItem(field, &cursor));
    if (static_cast<uint64_t>(data->length) != peeled.slots) {
      return Corrupt(field, "{} values for {} slots", data->length, peeled.slots);
    }
    data->buffers[0] = std::move(peeled.validity);
    data->null_count = static_cast<int64_t>(peeled.nulls);
    return Assembled{std::move(data), std::move(cursor)};
  }

  Result<Assembled> Struct(const arrow::Field& field) {
    std::vector<std::shared_ptr<arrow::ArrayData>> children;
    Cursor cursor;
    for (const auto& child : field.type()->fields()) {
      ARROW_ASSIGN_OR_RAISE(Assembled assembled, Assemble(*child));
      if (children.empty()) {
        cursor = std::move(assembled.cursor);
      } else if (assembled.data->length != children[0]->length) {
        return Corrupt(*child, "{} values beside {}", assembled.data->length, children[0]->length);
      }
      children.push_back(std::move(assembled.data));
    }
    const int64_t length = children[0]->length;
    auto data = arrow::ArrayData::Make(field.type(), length, {nullptr}, std::move(children), 0);
    return WithValidity(field, std::move(data), std::move(cursor));
  }

  template <typename Offset>
  Result<Assembled> List(const arrow::Field& field) {
    ARROW_ASSIGN_OR_RAISE(Assembled child, Assemble(*field.type()->field(0)));
    Cursor cursor = std::move(child.cursor);
    const LevelLayer& layer = cursor.Next();
    std::vector<Offset> offsets;
    ARROW_RETURN_NOT_OK(FoldLists(field, layer, &cursor, &offsets));
    if (static_cast<int64_t>(offsets.back()) != child.data->length) {
      return Corrupt(field, "{} items in lists, {} values", offsets.back(), child.data->length);
    }
    --cursor.layer;
    ARROW_ASSIGN_OR_RAISE(Peeled peeled, PeelItem(field, &cursor));
    if (peeled.slots + 1 != offsets.size()) {
      return Corrupt(field, "{} lists for {} slots", offsets.size() - 1, peeled.slots);
    }
    auto data = arrow::ArrayData::Make(
        field.type(), static_cast<int64_t>(peeled.slots),
        {std::move(peeled.validity), arrow::Buffer::FromVector(std::move(offsets))},
        {std::move(child.data)}, static_cast<int64_t>(peeled.nulls));
    return Assembled{std::move(data), std::move(cursor)};
  }

  std::span<LeafValues> leaves_;
  size_t next_ = 0;
};

}  // namespace

Result<std::shared_ptr<arrow::Array>> Unravel(const arrow::Field& field,
                                              std::span<LeafValues> leaves, uint64_t rows) {
  ARROW_ASSIGN_OR_RAISE(Assembled assembled, Assembler(leaves).Assemble(field));
  if (static_cast<uint64_t>(assembled.data->length) != rows) {
    return Corrupt(field, "{} values for {} rows", assembled.data->length, rows);
  }
  return arrow::MakeArray(std::move(assembled.data));
}

}  // namespace sarissa::lance
