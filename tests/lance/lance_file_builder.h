// Puts a Lance data file together from page buffers and layouts, for tests of the reader.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lance/file/encoding/load.h"
#include "lance/file/file_version.h"
#include "lance/file/schema.h"
#include "proto/lance_encodings.pb.h"
#include "proto/lance_file.pb.h"

namespace sarissa::lance {

using ByteVector = std::vector<uint8_t>;

class LanceFileBuilder {
 public:
  LanceFileBuilder(const Schema& schema, FileVersion version) : version_(version) {
    schema.ToProto(descriptor_.mutable_schema()->mutable_fields());
  }

  void BeginColumn() {
    columns_.emplace_back();
    columns_.back().mutable_encoding()->mutable_direct();
  }

  // Adds a page to the last column.
  void AddPage(uint64_t rows, const std::string& layout, const std::vector<ByteVector>& buffers) {
    auto* page = columns_.back().add_pages();
    page->set_length(rows);
    for (const ByteVector& buffer : buffers) {
      Align();
      page->add_buffer_offsets(bytes_.size());
      page->add_buffer_sizes(buffer.size());
      bytes_.insert(bytes_.end(), buffer.begin(), buffer.end());
    }
    pb::file::Any any;
    any.set_type_url("/lance.encodings21.PageLayout");
    any.set_value(layout);
    page->mutable_encoding()->mutable_direct()->set_encoding(any.SerializeAsString());
  }
  void AddPage(uint64_t rows, const pb::encodings::PageLayout& layout,
               const std::vector<ByteVector>& buffers) {
    AddPage(rows, layout.SerializeAsString(), buffers);
  }

  ByteVector Finish(uint64_t rows) {
    descriptor_.set_length(rows);
    Align();
    const Place descriptor = Append(descriptor_.SerializeAsString());
    std::vector<Place> places;
    for (const auto& column : columns_) places.push_back(Append(column.SerializeAsString()));
    const uint64_t first_column = places.empty() ? bytes_.size() : places[0].first;
    const uint64_t column_table = bytes_.size();
    for (const Place& place : places) AppendPlace(place);
    const uint64_t global_table = bytes_.size();
    AppendPlace(descriptor);
    AppendNumber<uint64_t>(first_column);
    AppendNumber<uint64_t>(column_table);
    AppendNumber<uint64_t>(global_table);
    AppendNumber<uint32_t>(1);
    AppendNumber<uint32_t>(static_cast<uint32_t>(columns_.size()));
    AppendNumber<uint16_t>(version_.major);
    AppendNumber<uint16_t>(version_.minor);
    Append("LANC");
    return bytes_;
  }

 private:
  using Place = std::pair<uint64_t, uint64_t>;

  void Align() { bytes_.resize((bytes_.size() + 63) / 64 * 64); }
  Place Append(const std::string& bytes) {
    const Place place{bytes_.size(), bytes.size()};
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return place;
  }
  template <typename T>
  void AppendNumber(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    Store<T>(bytes_.data() + bytes_.size() - sizeof(T), value);
  }
  void AppendPlace(const Place& place) {
    AppendNumber<uint64_t>(place.first);
    AppendNumber<uint64_t>(place.second);
  }

  FileVersion version_;
  pb::file::FileDescriptor descriptor_;
  std::vector<pb::file::ColumnMetadata> columns_;
  ByteVector bytes_;
};

// "01 ff | 00*3" to bytes: hex pairs, blanks and bars ignored, a pair may be repeated.
inline ByteVector Hex(const std::string& text) {
  ByteVector bytes;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '*') {
      size_t used = 0;
      const int times = std::stoi(text.substr(i + 1), &used);
      bytes.insert(bytes.end(), static_cast<size_t>(times - 1), uint8_t{bytes.back()});
      i += 1 + used;
    } else if (text[i] == ' ' || text[i] == '|' || text[i] == '\n') {
      ++i;
    } else {
      bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
      i += 2;
    }
  }
  return bytes;
}

inline std::string HexString(const std::string& text) {
  const ByteVector bytes = Hex(text);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace sarissa::lance
