#include "server/multipart_upload.h"

#include <arrow/result.h>

#include <algorithm>
#include <charconv>

#include "env/mapped_range.h"

namespace sarissa::server {
namespace {

// Charged in steps, so that many small pieces do not mean many calls.
constexpr int64_t kChargeStep = 64 << 10;

Result<uint64_t> ParseIndex(const std::string& name) {
  uint64_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (name.empty() || error != std::errc() || end != name.data() + name.size()) {
    return Error(ErrorKind::kInvalid,
                 "multipart: part name '{}' is not a zero-based index into records", name);
  }
  return index;
}

}  // namespace

MultipartUpload::MultipartUpload(const env::Env& env, std::string spool_directory,
                                 std::string_view boundary, env::Reservation charge)
    : env_(env),
      spool_directory_(std::move(spool_directory)),
      parser_(boundary, *this),
      charge_(std::move(charge)),
      held_(charge_.bytes()) {}

Status MultipartUpload::OnPart(const std::optional<std::string>& name) {
  if (!has_metadata_) {
    if (name != "metadata") {
      return Error(ErrorKind::kInvalid, "multipart: the first part must be named 'metadata'");
    }
    has_metadata_ = true;
    in_metadata_ = true;
    return Status::OK();
  }
  if (!name.has_value()) return Error(ErrorKind::kInvalid, "multipart: a part has no name");
  ARROW_ASSIGN_OR_RAISE(index_, ParseIndex(*name));
  if (!parts_.emplace(index_, nullptr).second) {
    return Error(ErrorKind::kInvalid, "multipart: part '{}' appears more than once", index_);
  }
  small_.clear();
  spool_offset_.reset();
  return Charge(kChargeStep);
}

Status MultipartUpload::OnData(std::span<const uint8_t> data) {
  const char* text = reinterpret_cast<const char*>(data.data());
  if (in_metadata_) {
    ARROW_RETURN_NOT_OK(Charge(metadata_.size() + data.size()));
    metadata_.append(text, data.size());
    return Status::OK();
  }
  if (!spool_offset_.has_value()) {
    if (small_.size() + data.size() < static_cast<size_t>(env::kMapThresholdBytes)) {
      ARROW_RETURN_NOT_OK(Charge(small_.size() + data.size()));
      small_.append(text, data.size());
      return Status::OK();
    }
    ARROW_RETURN_NOT_OK(MoveToSpool());
  }
  return spool_->Append(data);
}

Status MultipartUpload::OnPartEnd() {
  if (in_metadata_) {
    in_metadata_ = false;
    held_ += static_cast<int64_t>(metadata_.capacity());
    return Status::OK();
  }
  if (spool_offset_.has_value()) {
    spooled_.push_back({index_, *spool_offset_, spool_->size() - *spool_offset_});
    return Status::OK();
  }
  small_.shrink_to_fit();
  held_ += static_cast<int64_t>(small_.capacity());
  parts_[index_] = arrow::Buffer::FromString(std::move(small_));
  small_ = std::string();
  return Status::OK();
}

Status MultipartUpload::MoveToSpool() {
  if (spool_ == nullptr) {
    ARROW_ASSIGN_OR_RAISE(spool_, Spool::Create(*env_.file_system, spool_directory_));
  }
  spool_offset_ = spool_->size();
  ARROW_RETURN_NOT_OK(
      spool_->Append(std::span(reinterpret_cast<const uint8_t*>(small_.data()), small_.size())));
  small_ = std::string();
  return Status::OK();
}

Status MultipartUpload::Charge(size_t growing) {
  // A growing string may hold twice what is in it.
  const int64_t wanted = held_ + static_cast<int64_t>(growing) * 2;
  if (wanted <= charge_.bytes()) return Status::OK();
  const int64_t missing = std::max(wanted - charge_.bytes(), kChargeStep);
  ARROW_ASSIGN_OR_RAISE(env::Reservation more,
                        env_.budget->Reserve(missing, env::MemoryUse::kBodies, "multipart append"));
  charge_.Merge(std::move(more));
  return Status::OK();
}

Status MultipartUpload::Finish() {
  ARROW_RETURN_NOT_OK(parser_.Finish());
  if (spool_ == nullptr) return Status::OK();
  ARROW_RETURN_NOT_OK(spool_->Finish());
  for (const SpooledPart& part : spooled_) {
    ARROW_ASSIGN_OR_RAISE(parts_[part.index], spool_->Map(part.offset, part.length));
  }
  return Status::OK();
}

}  // namespace sarissa::server
