// The columns of an append while its records are read: one builder per column of RecordSchema(),
// cut into batches so that a large payload is a batch of its own and its bytes are never copied.
//
// A row is made of one Append per column, in any column order, then FinishRow. Owned by one decode;
// one thread at a time.
#pragma once

#include <arrow/array/builder_base.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rollout/record_schema.h"
#include "rollout/role_dictionary.h"

namespace sarissa::rollout {

class RecordColumns {
 public:
  Status AppendNull(Column column);
  Status AppendText(Column column, std::string_view value);
  Status AppendInt32(Column column, int32_t value);
  Status AppendInt64(Column column, int64_t value);
  Status AppendFloat(Column column, float value);
  Status AppendBool(Column column, bool value);
  Status AppendTimestamp(int64_t micros);
  Status AppendRole(std::string_view role);
  Status AppendList(Column column, std::span<const int32_t> items);
  Status AppendList(Column column, std::span<const int8_t> items);
  Status AppendList(Column column, std::span<const float> items);

  // A relationships value is begun once per row, then filled.
  Status BeginRelationships();
  Status AppendRelationship(std::string_view target_id, std::string_view relation,
                            std::optional<float> weight);

  Status AppendPayload(std::string_view bytes);
  // Gives the row a payload that stays where it is; the row becomes a batch of its own. A Cut()
  // before the row avoids that the batch is a slice.
  void SetLargePayload(std::shared_ptr<arrow::Buffer> payload) {
    large_payload_ = std::move(payload);
  }

  // The last value of a utf8 column.
  std::string_view LastText(Column column) const;

  // Closes the batch that is being filled. Must be called between rows.
  Status Cut();
  Status FinishRow();
  Result<std::vector<std::shared_ptr<arrow::RecordBatch>>> Finish();

 private:
  // Made when the column gets its first value: most records leave most columns null.
  template <typename Builder>
  Result<Builder*> At(Column column) {
    auto& builder = builders_[static_cast<size_t>(column)];
    if (builder == nullptr) ARROW_RETURN_NOT_OK(Begin(column));
    return static_cast<Builder*>(builder.get());
  }
  Status Begin(Column column);
  Result<std::shared_ptr<arrow::Array>> FinishColumn(Column column);
  Status CutLarge();
  Result<std::shared_ptr<arrow::RecordBatch>> FinishColumns();

  // Every column but role, which has a dictionary; null while the column has had nothing but nulls.
  std::array<std::unique_ptr<arrow::ArrayBuilder>, kColumnCount> builders_;
  RoleDictionary roles_;
  std::shared_ptr<arrow::Buffer> large_payload_;
  int64_t rows_ = 0;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
};

}  // namespace sarissa::rollout
