#include <arrow/array/array_binary.h>
#include <arrow/record_batch.h>

#include <string>

#include "env/mapped_range.h"
#include "rollout/record_encoder.h"
#include "rollout/record_filter.h"
#include "server/batch_memory.h"
#include "server/blob_stream.h"
#include "server/error_envelope.h"
#include "server/list_stream.h"
#include "server/query.h"
#include "server/request_memory.h"
#include "server/routes.h"

namespace sarissa::server {
namespace {

using TablePtr = std::shared_ptr<engine::Table>;

// The payload of the first row as a slice of the batch's own buffer; null when it is null.
Result<std::shared_ptr<arrow::Buffer>> PayloadOf(const arrow::RecordBatch& batch) {
  if (batch.num_columns() != 1 || batch.column(0)->type_id() != arrow::Type::LARGE_BINARY) {
    return Error(ErrorKind::kInternal, "the payload column has another type");
  }
  const auto& column = static_cast<const arrow::LargeBinaryArray&>(*batch.column(0));
  if (column.length() == 0 || column.IsNull(0)) return nullptr;
  const int64_t length = column.value_length(0);
  if (length == 0) return arrow::Buffer::FromString("");
  return arrow::SliceBuffer(column.value_data(), column.value_offset(0), length);
}

}  // namespace

Awaitable<Response> ListRecords(RouteContext& context, Request& request) {
  const Result<ListQuery> query = ParseListQuery(request.query);
  if (!query.ok()) co_return ErrorResponse(query.status());
  engine::ReadOptions options;
  options.columns = rollout::JsonColumns();
  options.limit = query->limit;
  options.offset = query->offset;
  options.batch_bytes = 1 << 20;
  if (query->filters.has_value()) {
    Result<std::shared_ptr<const engine::Predicate>> filter =
        rollout::ParseFilters(*query->filters);
    if (!filter.ok()) co_return ErrorResponse(filter.status());
    options.filter = std::move(*filter);
  }
  const Result<TablePtr> table = co_await FindStore(context, request.params[0]);
  if (!table.ok()) co_return ErrorResponse(table.status());
  if (query->limit == uint64_t{0}) co_return JsonResponse(200, R"({"records":[]})");

  Result<env::Reservation> charge = co_await ReserveMemory(context, ListStream::kChargeBytes,
                                                           env::MemoryUse::kScans, "record list");
  if (!charge.ok()) co_return ErrorResponse(charge.status());
  using Rows = std::shared_ptr<std::unique_ptr<lance::BatchStream>>;
  auto scan = [table = *table, options]() -> Result<Rows> {
    ARROW_ASSIGN_OR_RAISE(std::unique_ptr<lance::BatchStream> rows, table->Scan(options));
    return std::make_shared<std::unique_ptr<lance::BatchStream>>(std::move(rows));
  };
  const Result<Rows> rows = co_await RunOn(context.io, *context.env.storage, scan);
  if (!rows.ok()) co_return ErrorResponse(rows.status());

  auto stream = std::make_unique<ListStream>(context.env, context.io, *table, std::move(**rows),
                                             std::move(*charge));
  const Result<ListPiece> first = co_await stream->First();
  if (!first.ok()) co_return ErrorResponse(first.status());
  Response response;
  if (first->last) response.source_length = first->text->size();
  response.source = std::move(stream);
  co_return response;
}

Awaitable<Response> GetRecord(RouteContext& context, Request& request) {
  const Result<TablePtr> table = co_await FindStore(context, request.params[0]);
  if (!table.ok()) co_return ErrorResponse(table.status());
  auto get = [table = *table, id = request.params[1]] {
    return table->Get(id, rollout::JsonColumns());
  };
  const Result<std::shared_ptr<arrow::RecordBatch>> row =
      co_await RunOn(context.io, *context.env.storage, get);
  if (!row.ok()) co_return ErrorResponse(row.status());
  if (*row == nullptr) co_return JsonResponse(200, R"({"record":null})");
  auto encode = [row = *row]() -> Result<std::string> {
    std::string body = R"({"record":)";
    ARROW_RETURN_NOT_OK(rollout::EncodeRecords(*row, 0, 1, body));
    body += '}';
    ReleaseMappedPagesOf(*row);
    return body;
  };
  Result<std::string> body = co_await RunOn(context.io, *context.env.cpu, encode);
  if (!body.ok()) co_return ErrorResponse(body.status());
  co_return JsonResponse(200, std::move(*body));
}

Awaitable<Response> GetBlob(RouteContext& context, Request& request) {
  const Result<TablePtr> table = co_await FindStore(context, request.params[0]);
  if (!table.ok()) co_return ErrorResponse(table.status());
  auto get = [table = *table, id = request.params[1]]() -> Result<std::shared_ptr<arrow::Buffer>> {
    const std::vector<std::string> columns = {"binary_payload"};
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::RecordBatch> row, table->Get(id, columns));
    if (row == nullptr) return nullptr;
    return PayloadOf(*row);
  };
  Result<std::shared_ptr<arrow::Buffer>> payload =
      co_await RunOn(context.io, *context.env.storage, get);
  if (!payload.ok()) co_return ErrorResponse(payload.status());
  if (*payload == nullptr) {
    co_return ErrorResponse(404, "NOT_FOUND", "there is no such record, or it has no payload");
  }
  const int64_t size = (*payload)->size();
  const int64_t memory = env::IsMapped(**payload) ? BlobStream::kPieceBytes : size;
  Result<env::Reservation> charge =
      co_await ReserveMemory(context, memory, env::MemoryUse::kDownloads, "payload download");
  if (!charge.ok()) {
    context.metrics.budget_rejections.Add();
    co_return ErrorResponse(charge.status());
  }
  context.metrics.blob_bytes.Observe(static_cast<double>(size));
  Response response;
  response.content_type = "application/octet-stream";
  response.source_length = static_cast<uint64_t>(size);
  response.source = std::make_unique<BlobStream>(context.env, context.io, std::move(*payload),
                                                 std::move(*charge));
  co_return response;
}

}  // namespace sarissa::server
