#include "object_store/verified_store.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "env/mapped_range.h"

namespace sarissa::object_store {
namespace {

// How much of a mapped range is resident at a time while it is verified.
constexpr uint64_t kMappedSliceBytes = 4 << 20;

std::span<const uint8_t> BytesOf(const arrow::Buffer& buffer) {
  return {buffer.data(), static_cast<size_t>(buffer.size())};
}

// Set bits only grow, and a bit set late costs one more verification: relaxed order is enough.
class VerifiedBlocks {
 public:
  explicit VerifiedBlocks(size_t blocks) : words_((blocks + 63) / 64) {}

  bool Has(uint64_t block) const {
    return (words_[block / 64].load(std::memory_order_relaxed) >> (block % 64) & 1) != 0;
  }
  void Add(uint64_t block) {
    words_[block / 64].fetch_or(uint64_t{1} << (block % 64), std::memory_order_relaxed);
  }

 private:
  std::vector<std::atomic<uint64_t>> words_;
};

class VerifiedReader final : public ObjectReader {
 public:
  VerifiedReader(std::shared_ptr<ObjectReader> inner, std::shared_ptr<const FileChecksums> file,
                 env::Counter& failures)
      : inner_(std::move(inner)),
        file_(std::move(file)),
        failures_(failures),
        verified_(file_->blocks.size()) {}

  uint64_t size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }

  Result<std::shared_ptr<arrow::Buffer>> ReadRange(uint64_t offset,
                                                   uint64_t length) const override {
    const bool outside = offset > size() || length > size() - offset;
    if (outside || length == 0) return inner_->ReadRange(offset, length);
    const uint64_t first = offset / file_->block_bytes;
    const uint64_t last = (offset + length - 1) / file_->block_bytes;
    uint64_t begin = offset;
    uint64_t end = offset + length;
    // One read of whole blocks; a range that comes back as a mapping stays as it is, what its edges
    // lack is read besides.
    if (length < static_cast<uint64_t>(env::kMapThresholdBytes)) {
      if (!verified_.Has(first)) begin = BlockBegin(first);
      if (!verified_.Has(last)) end = BlockEnd(last);
    }
    ARROW_ASSIGN_OR_RAISE(auto bytes, inner_->ReadRange(begin, end - begin));
    ARROW_RETURN_NOT_OK(Verify(first, last, *bytes, begin));
    if (end - begin == length) return bytes;
    // A slice would pin the rest of the blocks.
    return bytes->CopySlice(static_cast<int64_t>(offset - begin), static_cast<int64_t>(length));
  }

 private:
  uint64_t BlockBegin(uint64_t block) const { return block * file_->block_bytes; }
  uint64_t BlockEnd(uint64_t block) const {
    return BlockBegin(block) + std::min<uint64_t>(file_->block_bytes, size() - BlockBegin(block));
  }

  // `bytes` lie at `offset` and touch all of the blocks.
  Status Verify(uint64_t first, uint64_t last, const arrow::Buffer& bytes, uint64_t offset) const {
    uint64_t released = 0;
    uint64_t passed = 0;
    const auto release = [&] {
      env::ReleaseMappedPages(bytes, static_cast<int64_t>(released),
                              static_cast<int64_t>(passed - released));
      released = passed;
    };
    for (uint64_t block = first; block <= last; ++block) {
      if (!verified_.Has(block)) ARROW_RETURN_NOT_OK(VerifyBlock(block, bytes, offset));
      passed = std::min(BlockEnd(block) - offset, static_cast<uint64_t>(bytes.size()));
      if (passed - released >= kMappedSliceBytes) release();
    }
    release();
    return Status::OK();
  }

  Status VerifyBlock(uint64_t block, const arrow::Buffer& bytes, uint64_t offset) const {
    const uint64_t begin = BlockBegin(block);
    const uint64_t end = BlockEnd(block);
    const uint64_t inner_begin = std::max(begin, offset);
    const uint64_t inner_end = std::min(end, offset + static_cast<uint64_t>(bytes.size()));
    uint32_t crc = 0;
    if (begin < inner_begin) {
      ARROW_ASSIGN_OR_RAISE(const auto head, inner_->ReadRange(begin, inner_begin - begin));
      crc = Crc32c(BytesOf(*head), crc);
    }
    crc = Crc32c(BytesOf(bytes).subspan(inner_begin - offset, inner_end - inner_begin), crc);
    if (inner_end < end) {
      ARROW_ASSIGN_OR_RAISE(const auto tail, inner_->ReadRange(inner_end, end - inner_end));
      crc = Crc32c(BytesOf(*tail), crc);
    }
    if (crc != file_->blocks[block]) {
      failures_.Add();
      return Error(ErrorKind::kCorrupt,
                   "{}: the {} bytes at offset {} have checksum {:08x}, written was {:08x}", name(),
                   end - begin, begin, crc, file_->blocks[block]);
    }
    verified_.Add(block);
    return Status::OK();
  }

  const std::shared_ptr<ObjectReader> inner_;
  const std::shared_ptr<const FileChecksums> file_;
  env::Counter& failures_;
  mutable VerifiedBlocks verified_;
};

void CountIgnored(env::MetricsSink& metrics, const char* reason) {
  metrics
      .GetCounter("object_store_checksum_sidecars_ignored_total",
                  "Checksum sidecars that could not be used: their files are read unverified.",
                  {{"reason", reason}})
      .Add();
}

}  // namespace

Result<std::unique_ptr<VerifiedStore>> VerifiedStore::Open(ObjectStore& inner, std::string prefix,
                                                           env::MetricsSink& metrics) {
  ChecksumTable checksums;
  const auto bytes = inner.Get(prefix + kChecksumSidecarName);
  if (bytes.ok()) {
    auto decoded = DecodeChecksumTable(BytesOf(**bytes));
    if (decoded.ok()) {
      checksums = *std::move(decoded);
    } else {
      CountIgnored(metrics, Is(decoded.status(), ErrorKind::kUnsupported) ? "version" : "corrupt");
    }
  } else if (Is(bytes.status(), ErrorKind::kIo)) {
    // The rows do not depend on a bad sector here.
    CountIgnored(metrics, "unreadable");
  } else if (!Is(bytes.status(), ErrorKind::kNotFound)) {
    return bytes.status();
  }
  return std::make_unique<VerifiedStore>(inner, std::move(prefix), std::move(checksums), metrics);
}

VerifiedStore::VerifiedStore(ObjectStore& inner, std::string prefix, ChecksumTable checksums,
                             env::MetricsSink& metrics)
    : inner_(inner),
      prefix_(std::move(prefix)),
      checksums_(std::make_shared<const ChecksumTable>(std::move(checksums))),
      failures_(metrics.GetCounter("object_store_checksum_failures_total",
                                   "Reads that met bytes which are not what was written.")) {}

Result<std::unique_ptr<ObjectWriter>> VerifiedStore::Create(const std::string& name) {
  return inner_.Create(name);
}

Result<std::shared_ptr<ObjectReader>> VerifiedStore::Open(const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<ObjectReader> reader, inner_.Open(name));
  if (!name.starts_with(prefix_)) return reader;
  const auto found = checksums_->find(std::string_view(name).substr(prefix_.size()));
  if (found == checksums_->end()) return reader;
  const FileChecksums& file = found->second;
  if (reader->size() != file.size) {
    failures_.Add();
    return Error(ErrorKind::kCorrupt, "{}: {} bytes, written were {}", name, reader->size(),
                 file.size);
  }
  return std::make_shared<VerifiedReader>(
      std::move(reader), std::shared_ptr<const FileChecksums>(checksums_, &file), failures_);
}

Result<ObjectInfo> VerifiedStore::Head(const std::string& name) {
  return inner_.Head(name);
}

Result<Listing> VerifiedStore::List(const std::string& prefix, const ListOptions& options) {
  return inner_.List(prefix, options);
}

Status VerifiedStore::Delete(const std::string& name) {
  return inner_.Delete(name);
}

Status VerifiedStore::DeletePrefix(const std::string& prefix) {
  return inner_.DeletePrefix(prefix);
}

}  // namespace sarissa::object_store
