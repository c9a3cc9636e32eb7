#include "rollout/record_encoder.h"

#include <memory>
#include <utility>

#include "rollout/record_schema.h"
#include "rollout/value_writer.h"

namespace sarissa::rollout {
namespace {

struct Member {
  std::string key;  // with its quotes and colon
  bool required;
  std::unique_ptr<ValueWriter> writer;
};

// The members of a record in the order of the schema, for the columns that the batch has.
Result<std::vector<Member>> MakeMembers(const arrow::RecordBatch& batch) {
  std::vector<Member> members;
  for (int i = 0; i < kColumnCount; ++i) {
    if (i == kBinaryPayload) continue;
    const arrow::Field& field = *RecordSchema()->field(i);
    const std::shared_ptr<arrow::Array> array = batch.GetColumnByName(field.name());
    if (array == nullptr) continue;
    auto writer = MakeValueWriter(static_cast<Column>(i), array);
    if (!writer.ok()) return Annotate(writer.status(), field.name());
    members.push_back(Member{"\"" + field.name() + "\":", !field.nullable(), std::move(*writer)});
  }
  return members;
}

Status EncodeRow(const std::vector<Member>& members, int64_t row, std::string& out) {
  out.push_back('{');
  bool first = true;
  for (const Member& member : members) {
    if (!member.writer->Has(row)) {
      if (!member.required) continue;
      return Error(ErrorKind::kCorrupt, "{} null in row {}", member.key, row);
    }
    if (!first) out.push_back(',');
    first = false;
    out.append(member.key);
    ARROW_RETURN_NOT_OK(member.writer->Write(row, out));
  }
  out.push_back('}');
  return Status::OK();
}

std::vector<std::string> MakeJsonColumns() {
  std::vector<std::string> names;
  for (int i = 0; i < kColumnCount; ++i) {
    if (i != kBinaryPayload) names.push_back(RecordSchema()->field(i)->name());
  }
  return names;
}

}  // namespace

const std::vector<std::string>& JsonColumns() {
  static const std::vector<std::string> names = MakeJsonColumns();
  return names;
}

Status EncodeRecords(const arrow::RecordBatch& batch, int64_t first, int64_t count,
                     std::string& out) {
  if (first < 0 || count < 0 || first > batch.num_rows() || count > batch.num_rows() - first) {
    return Error(ErrorKind::kInternal, "rows {}+{} of a batch of {}", first, count,
                 batch.num_rows());
  }
  ARROW_ASSIGN_OR_RAISE(const auto members, MakeMembers(batch));
  for (int64_t row = first; row < first + count; ++row) {
    if (row != first) out.push_back(',');
    ARROW_RETURN_NOT_OK(EncodeRow(members, row, out));
  }
  return Status::OK();
}

}  // namespace sarissa::rollout
