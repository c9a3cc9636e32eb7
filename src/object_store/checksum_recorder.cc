#include "object_store/checksum_recorder.h"

#include <mutex>
#include <utility>

namespace sarissa::object_store {

class ChecksumRecorder::Record {
 public:
  void Finished(const std::string& name, FileChecksums file, PutMode mode, const Status& outcome) {
    const bool unknown = Is(outcome, ErrorKind::kOutcomeUnknown);
    const std::scoped_lock lock(mutex_);
    if (outcome.ok()) {
      files_.insert_or_assign(name, std::move(file));
    } else if (mode == PutMode::kOverwrite) {
      if (unknown) files_.erase(name);
    } else if (unknown || Is(outcome, ErrorKind::kAlreadyExists)) {
      files_.try_emplace(name, std::move(file));
    }
  }

  // Names that start with `prefix`.
  void Forget(std::string_view prefix) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(files_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
  }
  void ForgetOne(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = files_.find(name); found != files_.end()) files_.erase(found);
  }

  ChecksumTable files() const {
    const std::scoped_lock lock(mutex_);
    return files_;
  }

 private:
  mutable std::mutex mutex_;  // leaf
  ChecksumTable files_;
};

class RecordingWriter final : public ObjectWriter {
 public:
  RecordingWriter(std::shared_ptr<ChecksumRecorder::Record> record, std::string relative_name,
                  std::unique_ptr<ObjectWriter> inner)
      : record_(std::move(record)), name_(std::move(relative_name)), inner_(std::move(inner)) {}

  Status Append(std::span<const uint8_t> data) override {
    ARROW_RETURN_NOT_OK(inner_->Append(data));
    checksummer_.Append(data);
    return Status::OK();
  }
  uint64_t size() const override { return inner_->size(); }
  Status Finish(PutMode mode) override {
    Status outcome = inner_->Finish(mode);
    record_->Finished(name_, checksummer_.Current(), mode, outcome);
    return outcome;
  }

 private:
  const std::shared_ptr<ChecksumRecorder::Record> record_;
  const std::string name_;
  const std::unique_ptr<ObjectWriter> inner_;
  BlockChecksummer checksummer_;
};

ChecksumRecorder::ChecksumRecorder(ObjectStore& inner, std::string prefix)
    : inner_(inner), prefix_(std::move(prefix)), record_(std::make_shared<Record>()) {}

ChecksumTable ChecksumRecorder::checksums() const {
  return record_->files();
}

Status ChecksumRecorder::PutSidecar() {
  ARROW_ASSIGN_OR_RAISE(const std::string bytes, EncodeChecksumTable(record_->files()));
  return inner_.Put(prefix_ + kChecksumSidecarName,
                    {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                    PutMode::kIfAbsent);
}

Result<std::unique_ptr<ObjectWriter>> ChecksumRecorder::Create(const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(std::unique_ptr<ObjectWriter> writer, inner_.Create(name));
  if (!name.starts_with(prefix_)) return writer;
  return std::make_unique<RecordingWriter>(record_, name.substr(prefix_.size()), std::move(writer));
}

Result<std::shared_ptr<ObjectReader>> ChecksumRecorder::Open(const std::string& name) {
  return inner_.Open(name);
}

Result<ObjectInfo> ChecksumRecorder::Head(const std::string& name) {
  return inner_.Head(name);
}

Result<Listing> ChecksumRecorder::List(const std::string& prefix, const ListOptions& options) {
  return inner_.List(prefix, options);
}

Status ChecksumRecorder::Delete(const std::string& name) {
  if (name.starts_with(prefix_)) record_->ForgetOne(std::string_view(name).substr(prefix_.size()));
  return inner_.Delete(name);
}

Status ChecksumRecorder::DeletePrefix(const std::string& prefix) {
  if (prefix.starts_with(prefix_)) {
    record_->Forget(std::string_view(prefix).substr(prefix_.size()));
  } else if (prefix_.starts_with(prefix)) {
    record_->Forget("");
  }
  return inner_.DeletePrefix(prefix);
}

}  // namespace sarissa::object_store
