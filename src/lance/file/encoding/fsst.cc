#include <array>
#include <cstring>
#include <vector>

#include "lance/file/encoding/load.h"
#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

constexpr uint64_t kMagic = 0x46535354;  // in the upper half of the table's head
constexpr uint64_t kOnBit = uint64_t{1} << 24;
constexpr uint8_t kEscape = 255;

// Up to 255 symbols of 1 to 8 bytes; code 255 says that the next byte stands for itself.
class SymbolTable {
 public:
  static Result<SymbolTable> Parse(const std::string& bytes, const std::string& path) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    if (bytes.size() < 8) {
      return Error(ErrorKind::kCorrupt, "{}: a symbol table of {} bytes", path, bytes.size());
    }
    const uint64_t head = Load<uint64_t>(data);
    if (head >> 32 != kMagic) {
      return Error(ErrorKind::kCorrupt, "{}: no symbol table but {:#x}", path, head);
    }
    SymbolTable table;
    table.on_ = (head & kOnBit) != 0;
    const uint64_t count = head & 0xff;
    if (bytes.size() < 8 + 9 * count) {
      return Error(ErrorKind::kCorrupt, "{}: {} symbols in a table of {} bytes", path, count,
                   bytes.size());
    }
    for (uint64_t i = 0; i < count; ++i) {
      table.symbols_[i] = Load<uint64_t>(data + 8 + 8 * i);
      table.lengths_[i] = data[8 + 8 * count + i];
      if (table.lengths_[i] == 0 || table.lengths_[i] > 8) {
        return Error(ErrorKind::kCorrupt, "{}: symbol {} of {} bytes", path, i, table.lengths_[i]);
      }
    }
    return table;
  }

  bool on() const { return on_; }

  // `to` needs room for 8 bytes a code and 8 more. Returns the end, or nullptr for a code without a
  // symbol.
  uint8_t* Decode(Bytes from, uint8_t* to) const {
    const uint8_t* at = from.data();
    const uint8_t* end = at + from.size();
    while (at < end) {
      const uint8_t code = *at++;
      if (code == kEscape) {
        if (at == end) return nullptr;
        *to++ = *at++;
        continue;
      }
      if (lengths_[code] == 0) return nullptr;
      Store<uint64_t>(to, symbols_[code]);
      to += lengths_[code];
    }
    return to;
  }

 private:
  bool on_ = false;
  std::array<uint64_t, 256> symbols_{};
  std::array<uint8_t, 256> lengths_{};
};

class FsstDecoder final : public ValueDecoder {
 public:
  FsstDecoder(SymbolTable table, std::unique_ptr<ValueDecoder> values, std::string path)
      : ValueDecoder(std::move(path)), table_(table), values_(std::move(values)) {}

  uint64_t num_buffers() const override { return values_->num_buffers(); }

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    ValueBlock coded;
    ARROW_RETURN_NOT_OK(values_->Decode(buffers, count, &coded));
    if (coded.offset_bytes == 0) return Corrupt("the coded values have a fixed width");
    if (!table_.on()) {
      *out = coded;
      return Status::OK();
    }
    ARROW_RETURN_NOT_OK(Annotate(coded.CheckOffsets(0, count), path()));
    const uint64_t first = coded.Offset(0);
    bytes_.resize((coded.Offset(count) - first) * 8 + 8);
    offsets_.resize(count + 1);
    uint8_t* to = bytes_.data();
    for (uint64_t i = 0; i < count; ++i) {
      offsets_[i] = static_cast<uint64_t>(to - bytes_.data());
      to = table_.Decode(coded.Variable(i), to);
      if (to == nullptr) return Corrupt("value {} of the chunk has an unknown code", i);
    }
    offsets_[count] = static_cast<uint64_t>(to - bytes_.data());
    *out = ValueBlock{
        .count = count,
        .data = Bytes(bytes_).first(offsets_[count]),
        .offsets = Bytes(reinterpret_cast<const uint8_t*>(offsets_.data()), 8 * (count + 1)),
        .offset_bytes = 8};
    return Status::OK();
  }

 private:
  SymbolTable table_;
  std::unique_ptr<ValueDecoder> values_;
  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> offsets_;
};

class FsstItem final : public ItemDecoder {
 public:
  FsstItem(SymbolTable table, std::unique_ptr<ItemDecoder> values, std::string path)
      : table_(table), values_(std::move(values)), path_(std::move(path)) {}

  bool verbatim() const override { return !table_.on() && values_->verbatim(); }

  Result<Bytes> Decode(Bytes stored) override {
    ARROW_ASSIGN_OR_RAISE(const Bytes coded, values_->Decode(stored));
    if (!table_.on()) return coded;
    bytes_.resize(coded.size() * 8 + 8);
    const uint8_t* end = table_.Decode(coded, bytes_.data());
    if (end == nullptr) return Error(ErrorKind::kCorrupt, "{}: an unknown code", path_);
    return Bytes(bytes_.data(), end);
  }

 private:
  SymbolTable table_;
  std::unique_ptr<ItemDecoder> values_;
  std::string path_;
  std::vector<uint8_t> bytes_;
};

}  // namespace

DecoderResult MakeFsst(const pb::encodings::Fsst& node, std::unique_ptr<ValueDecoder> values,
                       const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto table, SymbolTable::Parse(node.symbol_table(), path));
  return std::make_unique<FsstDecoder>(table, std::move(values), path);
}

ItemDecoderResult MakeFsstItem(const pb::encodings::Fsst& node, std::unique_ptr<ItemDecoder> values,
                               const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto table, SymbolTable::Parse(node.symbol_table(), path));
  return std::make_unique<FsstItem>(table, std::move(values), path);
}

}  // namespace sarissa::lance
