// Dictionary columns: each page holds the distinct values of its rows in a dictionary buffer, and
// their numbers as values.
//
// Batches bring dictionaries of their own; their indices are renumbered into the page's. Only
// values that occur are kept.
#pragma once

#include <arrow/type.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lance/file/page_values.h"

namespace sarissa::lance {

class DictionaryValues : public PageValues {
 public:
  // kUnsupported for value types that are neither strings, binary, nor of a fixed number of bytes.
  static Result<std::unique_ptr<DictionaryValues>> Make(const arrow::DictionaryType& type);

  int64_t EstimateBytes(const arrow::ArrayData& leaf, SlotRange range) const override;
  // kInvalid when the page's distinct values exceed the index type.
  Status Append(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                const uint8_t* valid) override;
  int64_t bytes() const override;
  void Clear() override;

  bool needs_full_zip() const override { return false; }
  bool can_full_zip() const override { return false; }

  int64_t ChunkBufferSize(int buffer, int64_t first, int64_t count) const override;
  void FillChunkBuffer(int buffer, int64_t first, int64_t count, uint8_t* out) const override;
  void DescribeMiniBlock(pb::encodings::CompressiveEncoding* encoding) const override;
  std::optional<PageDictionary> dictionary() const override;

 private:
  DictionaryValues(std::shared_ptr<arrow::DataType> index_type, int offset_width, int value_width);

  template <typename Index>
  Status AppendAs(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                  const uint8_t* valid);
  Result<int64_t> Intern(const arrow::ArrayData& dictionary, int64_t position);
  std::string_view ValueAt(const arrow::ArrayData& dictionary, int64_t position) const;
  template <typename Offset>
  void FillVariable(PageDictionary* out) const;

  const std::shared_ptr<arrow::DataType> index_type_;
  const int index_width_;
  const int64_t max_items_;
  const int offset_width_;  // of the values; 0 when they have a fixed width
  const int value_width_;   // 0 when they have not

  std::vector<uint8_t> indices_;
  std::unordered_map<std::string, int64_t> numbers_;
  std::vector<const std::string*> items_;  // keys of numbers_, by number
  int64_t item_bytes_ = 0;
  // Numbers of the values of the batch dictionary seen last, -1 where not yet known.
  std::shared_ptr<arrow::ArrayData> source_;
  std::vector<int64_t> renumbered_;
};

}  // namespace sarissa::lance
