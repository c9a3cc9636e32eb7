#include "object_store/metered_store.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "object_store/store_operation.h"

namespace sarissa::object_store {

class MeteredStore::Meters {
 public:
  explicit Meters(env::MetricsSink& metrics)
      : metrics_(metrics), read_(BytesCounter("read")), written_(BytesCounter("write")) {}

  // Counts the call by its outcome and passes the outcome on.
  template <typename T>
  T Count(StoreOperation operation, T result) {
    OperationCounter(operation, StatusOf(result)).Add();
    return result;
  }

  void CountRead(int64_t bytes) { read_.Add(static_cast<double>(bytes)); }
  void CountWritten(size_t bytes) { written_.Add(static_cast<double>(bytes)); }

 private:
  static constexpr size_t kResults = static_cast<size_t>(ErrorKind::kInternal) + 2;

  static const Status& StatusOf(const Status& status) { return status; }
  template <typename T>
  static const Status& StatusOf(const Result<T>& result) {
    return result.status();
  }

  env::Counter& BytesCounter(const char* direction) {
    return metrics_.GetCounter("object_store_bytes_total",
                               "Bytes moved to and from the object store.",
                               {{"direction", direction}});
  }

  // The sink gives the same object for the same labels, so two threads that ask at once store the
  // same pointer.
  env::Counter& OperationCounter(StoreOperation operation, const Status& status) {
    const size_t result = status.ok() ? 0 : static_cast<size_t>(KindOf(status)) + 1;
    std::atomic<env::Counter*>& slot = operations_[static_cast<size_t>(operation)][result];
    env::Counter* counter = slot.load(std::memory_order_acquire);
    if (counter == nullptr) {
      const std::string_view label = status.ok() ? "ok" : ErrorKindName(KindOf(status));
      counter = &metrics_.GetCounter("object_store_operations_total",
                                     "Object store calls by operation and outcome.",
                                     {{"operation", std::string(StoreOperationName(operation))},
                                      {"result", std::string(label)}});
      slot.store(counter, std::memory_order_release);
    }
    return *counter;
  }

  env::MetricsSink& metrics_;
  env::Counter& read_;
  env::Counter& written_;
  // Pairs acquire and release so that the counter behind the pointer is seen whole.
  std::array<std::array<std::atomic<env::Counter*>, kResults>, kStoreOperations> operations_{};
};

class MeteredWriter final : public ObjectWriter {
 public:
  MeteredWriter(std::shared_ptr<MeteredStore::Meters> meters, std::unique_ptr<ObjectWriter> inner)
      : meters_(std::move(meters)), inner_(std::move(inner)) {}

  Status Append(std::span<const uint8_t> data) override {
    ARROW_RETURN_NOT_OK(inner_->Append(data));
    meters_->CountWritten(data.size());
    return Status::OK();
  }
  uint64_t size() const override { return inner_->size(); }
  Status Finish(PutMode mode) override {
    return meters_->Count(StoreOperation::kFinish, inner_->Finish(mode));
  }

 private:
  const std::shared_ptr<MeteredStore::Meters> meters_;
  const std::unique_ptr<ObjectWriter> inner_;
};

class MeteredReader final : public ObjectReader {
 public:
  MeteredReader(std::shared_ptr<MeteredStore::Meters> meters, std::shared_ptr<ObjectReader> inner)
      : meters_(std::move(meters)), inner_(std::move(inner)) {}

  uint64_t size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  Result<std::shared_ptr<arrow::Buffer>> ReadRange(uint64_t offset,
                                                   uint64_t length) const override {
    Result<std::shared_ptr<arrow::Buffer>> read =
        meters_->Count(StoreOperation::kRead, inner_->ReadRange(offset, length));
    if (read.ok()) meters_->CountRead((*read)->size());
    return read;
  }

 private:
  const std::shared_ptr<MeteredStore::Meters> meters_;
  const std::shared_ptr<ObjectReader> inner_;
};

MeteredStore::MeteredStore(ObjectStore& inner, env::MetricsSink& metrics)
    : inner_(inner), meters_(std::make_shared<Meters>(metrics)) {}

Result<std::unique_ptr<ObjectWriter>> MeteredStore::Create(const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(std::unique_ptr<ObjectWriter> writer,
                        meters_->Count(StoreOperation::kCreate, inner_.Create(name)));
  return std::make_unique<MeteredWriter>(meters_, std::move(writer));
}

Result<std::shared_ptr<ObjectReader>> MeteredStore::Open(const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<ObjectReader> reader,
                        meters_->Count(StoreOperation::kOpen, inner_.Open(name)));
  return std::make_shared<MeteredReader>(meters_, std::move(reader));
}

Result<ObjectInfo> MeteredStore::Head(const std::string& name) {
  return meters_->Count(StoreOperation::kHead, inner_.Head(name));
}

Result<Listing> MeteredStore::List(const std::string& prefix, const ListOptions& options) {
  return meters_->Count(StoreOperation::kList, inner_.List(prefix, options));
}

Status MeteredStore::Delete(const std::string& name) {
  return meters_->Count(StoreOperation::kDelete, inner_.Delete(name));
}

Status MeteredStore::DeletePrefix(const std::string& prefix) {
  return meters_->Count(StoreOperation::kDeletePrefix, inner_.DeletePrefix(prefix));
}

}  // namespace sarissa::object_store
