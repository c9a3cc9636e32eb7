#include "server/append_body.h"

#include <algorithm>
#include <array>
#include <optional>

#include "rollout/arrow_batch_decoder.h"
#include "rollout/json_escape.h"
#include "rollout/record_decoder.h"
#include "server/batch_memory.h"
#include "server/json_body.h"
#include "server/multipart_parser.h"
#include "server/multipart_upload.h"
#include "server/request_memory.h"

namespace sarissa::server {
namespace {

using BodyPtr = std::shared_ptr<AppendBody>;

// What is read of the socket, and given to the spool, at a time.
constexpr size_t kPieceBytes = 256 << 10;
// Until a memtable takes the rows with their charge.
constexpr env::MemoryUse kUse = env::MemoryUse::kBodies;

// What the route needs of the decoded rows, with the charge brought down to what they pin.
Result<BodyPtr> MakeBody(const env::Env& env, rollout::DecodedAppend decoded,
                         env::Reservation charge) {
  if (decoded.ids.empty()) return Error(ErrorKind::kInvalid, "records: must not be empty");
  const int64_t pinned = MemoryOf(decoded.batches);
  if (pinned > charge.bytes()) {
    ARROW_ASSIGN_OR_RAISE(env::Reservation more,
                          env.budget->Reserve(pinned - charge.bytes(), kUse, "append"));
    charge.Merge(std::move(more));
  }
  charge.ShrinkTo(pinned);
  auto body = std::make_shared<AppendBody>();
  body->batches = std::move(decoded.batches);
  body->count = decoded.ids.size();
  body->payload_bytes = decoded.payload_bytes;
  body->charge = std::move(charge);
  body->ids_json = "[";
  for (const std::string& id : decoded.ids) {
    if (body->ids_json.size() > 1) body->ids_json += ',';
    rollout::AppendJsonString(id, body->ids_json);
  }
  body->ids_json += ']';
  return body;
}

Result<BodyPtr> DecodeJson(const env::Env& env, std::string_view json,
                           const rollout::PayloadParts& parts,
                           const rollout::DecodeOptions& options, env::Reservation charge) {
  ARROW_ASSIGN_OR_RAISE(rollout::DecodedAppend decoded,
                        rollout::DecodeAppend(json, parts, options));
  return MakeBody(env, std::move(decoded), std::move(charge));
}

// The charge covers the body twice already; what the rows take beyond that is charged as they grow.
Result<BodyPtr> DecodeArrow(const env::Env& env, const std::shared_ptr<arrow::Buffer>& bytes,
                            rollout::ArrowDecodeOptions options, env::Reservation charge) {
  int64_t free = charge.bytes() - bytes->size();
  options.charge = [&env, &charge, &free](int64_t needed) -> Status {
    free -= needed;
    if (free >= 0) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(env::Reservation more, env.budget->Reserve(-free, kUse, "append"));
    charge.Merge(std::move(more));
    free = 0;
    return Status::OK();
  };
  ARROW_ASSIGN_OR_RAISE(rollout::DecodedAppend decoded, rollout::DecodeArrowAppend(bytes, options));
  return MakeBody(env, std::move(decoded), std::move(charge));
}

// The body as text, charged twice its size: once for the text, once for the rows that are made of
// it.
Awaitable<Result<std::shared_ptr<std::string>>> ReadCharged(RouteContext& context, BodyReader& body,
                                                            env::Reservation& charge) {
  auto text = std::make_shared<std::string>();
  const std::optional<uint64_t> length = body.length();
  if (length.has_value() && *length > context.options.append_body_limit) {
    // The first read says so; nothing is charged for it.
    std::array<uint8_t, 1> nothing{};
    const Result<size_t> refused = co_await body.Read(nothing);
    co_return refused.ok() ? Error(ErrorKind::kInvalid, "the body is too large") : refused.status();
  }
  Result<env::Reservation> whole =
      co_await ReserveMemory(context, static_cast<int64_t>(length.value_or(0) * 2), kUse, "append");
  if (!whole.ok()) co_return whole.status();
  charge = std::move(*whole);
  for (;;) {
    const size_t have = text->size();
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(
        length.has_value() ? *length - std::min<uint64_t>(*length, have) + 1 : kPieceBytes,
        kPieceBytes));
    if (!length.has_value()) {
      Result<env::Reservation> more =
          co_await ReserveMemory(context, static_cast<int64_t>(piece * 2), kUse, "append");
      if (!more.ok()) co_return more.status();
      charge.Merge(std::move(*more));
    }
    text->resize(have + piece);
    size_t filled = have;
    while (filled < text->size()) {
      const std::span<uint8_t> into(reinterpret_cast<uint8_t*>(text->data()) + filled,
                                    text->size() - filled);
      const Result<size_t> got = co_await body.Read(into);
      if (!got.ok()) co_return got.status();
      if (*got == 0) {
        text->resize(filled);
        co_return text;
      }
      filled += *got;
    }
  }
}

Awaitable<Result<BodyPtr>> ReadJsonBody(RouteContext& context, Request& request,
                                        env::WallTime now) {
  auto charge = std::make_shared<env::Reservation>();
  Result<std::shared_ptr<std::string>> text = co_await ReadCharged(context, *request.body, *charge);
  if (!text.ok()) co_return text.status();
  auto decode = [&context, text = std::move(*text), charge, now] {
    const rollout::DecodeOptions options{.now = now, .multipart = false};
    return DecodeJson(context.env, *text, {}, options, std::move(*charge));
  };
  co_return co_await RunOn(context.io, *context.env.cpu, decode);
}

Awaitable<Result<BodyPtr>> ReadArrowBody(RouteContext& context, Request& request,
                                         env::WallTime now) {
  auto charge = std::make_shared<env::Reservation>();
  Result<std::shared_ptr<std::string>> text = co_await ReadCharged(context, *request.body, *charge);
  if (!text.ok()) co_return text.status();
  auto decode = [&context, text = std::move(*text), charge, now] {
    rollout::ArrowDecodeOptions options;
    options.now = now;
    options.max_bytes = static_cast<int64_t>(context.options.append_body_limit);
    return DecodeArrow(context.env, arrow::Buffer::FromString(std::move(*text)), std::move(options),
                       std::move(*charge));
  };
  co_return co_await RunOn(context.io, *context.env.cpu, decode);
}

// Reads until `into` is full or the body ends.
Awaitable<Result<size_t>> Fill(BodyReader& body, std::span<uint8_t> into) {
  size_t filled = 0;
  while (filled < into.size()) {
    const Result<size_t> got = co_await body.Read(into.subspan(filled));
    if (!got.ok()) co_return got.status();
    if (*got == 0) break;
    filled += *got;
  }
  co_return filled;
}

// Feeds the body to `upload`. One piece is read while the one before is parsed and spooled, and no
// more.
Awaitable<Result<env::Unit>> Receive(RouteContext& context, BodyReader& body,
                                     std::shared_ptr<MultipartUpload> upload) {
  std::array<std::shared_ptr<uint8_t[]>, 2> buffers;
  size_t turn = 0;
  env::Future<env::Unit> consumed = env::Future<env::Unit>::Ready(env::Unit{});
  for (bool ended = false; !ended; turn = 1 - turn) {
    std::shared_ptr<uint8_t[]>& buffer = buffers[turn];
    if (buffer == nullptr) buffer = std::make_shared_for_overwrite<uint8_t[]>(kPieceBytes);
    const Result<size_t> filled = co_await Fill(body, std::span(buffer.get(), kPieceBytes));
    const Result<env::Unit> before = co_await Await(context.io, consumed);
    if (!before.ok()) co_return before.status();
    if (!filled.ok()) co_return filled.status();
    ended = *filled < kPieceBytes;
    auto consume = [upload, buffer, size = *filled, ended]() -> Status {
      ARROW_RETURN_NOT_OK(upload->Consume(std::span<const uint8_t>(buffer.get(), size)));
      return ended ? upload->Finish() : Status::OK();
    };
    consumed = StartOn(*context.env.storage, std::move(consume));
  }
  co_return co_await Await(context.io, consumed);
}

Awaitable<Result<BodyPtr>> ReadMultipartBody(RouteContext& context, Request& request,
                                             std::string boundary, env::WallTime now) {
  Result<env::Reservation> buffers =
      co_await ReserveMemory(context, 2 * kPieceBytes, kUse, "multipart append");
  if (!buffers.ok()) co_return buffers.status();
  auto upload = std::make_shared<MultipartUpload>(context.env, context.options.spool_directory,
                                                  boundary, std::move(*buffers));
  const Result<env::Unit> received = co_await Receive(context, *request.body, upload);
  if (!received.ok()) co_return received.status();
  auto decode = [&context, upload, now] {
    const rollout::DecodeOptions options{.now = now, .multipart = true};
    return DecodeJson(context.env, upload->metadata(), upload->parts(), options,
                      upload->TakeCharge());
  };
  co_return co_await RunOn(context.io, *context.env.cpu, decode);
}

}  // namespace

Awaitable<Result<BodyPtr>> ReadAppendBody(RouteContext& context, Request& request) {
  const env::WallTime now = context.env.clock->WallNow();
  const std::string* header = request.Header("content-type");
  const std::string type = header == nullptr ? "" : MediaType(*header);
  request.body->set_limit(context.options.append_body_limit);
  if (type == "application/json") co_return co_await ReadJsonBody(context, request, now);
  if (type == "application/vnd.apache.arrow.stream") {
    co_return co_await ReadArrowBody(context, request, now);
  }
  if (type != "multipart/form-data") {
    co_return Error(ErrorKind::kInvalid,
                    "the content type must be application/json, multipart/form-data or "
                    "application/vnd.apache.arrow.stream");
  }
  Result<std::string> boundary = MultipartBoundary(*header);
  if (!boundary.ok()) co_return boundary.status();
  co_return co_await ReadMultipartBody(context, request, std::move(*boundary), now);
}

}  // namespace sarissa::server
