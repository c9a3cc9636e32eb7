#include "lance/table/manifest.h"
#include "lance/file/stable_bytes.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>

namespace sarissa::lance {
namespace {

constexpr uint64_t kFooterBytes = 16;
constexpr char kMagic[] = {'L', 'A', 'N', 'C'};

template <typename T>
T LoadLe(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void AppendLe(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

Status Corrupt(const std::string& name, const std::string& what) {
  return Error(ErrorKind::kCorrupt, "manifest {}: {}", name, what);
}

// Parses the length-prefixed message at `position` of `body`, the file without its footer.
template <typename Message>
Status ParseSection(const std::string& name, std::span<const uint8_t> body, uint64_t position,
                    const char* what, Message& out) {
  if (position > body.size() || body.size() - position < 4) {
    return Corrupt(name, fmt::format("{} at {} lies outside the file of {} bytes", what, position,
                                     body.size()));
  }
  const uint32_t length = LoadLe<uint32_t>(body.data() + position);
  if (length > body.size() - position - 4 || length > std::numeric_limits<int>::max()) {
    return Corrupt(name, fmt::format("{} at {} says {} bytes, {} are there", what, position, length,
                                     body.size() - position - 4));
  }
  if (!out.ParseFromArray(body.data() + position + 4, static_cast<int>(length))) {
    return Corrupt(
        name, fmt::format("{} at {} ({} bytes) is not a valid message", what, position, length));
  }
  return Status::OK();
}

template <typename Message>
Result<uint64_t> AppendSection(std::string& out, const Message& message, const char* what) {
  const uint64_t position = out.size();
  const size_t length = message.ByteSizeLong();
  if (length > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return Error(ErrorKind::kInvalid, "{} of {} bytes is too large for a manifest", what, length);
  }
  AppendLe<uint32_t>(out, static_cast<uint32_t>(length));
  out += StableBytes(message);
  return position;
}

}  // namespace

Status CheckFeatureFlags(uint64_t flags, const std::string& what) {
  const uint64_t unknown = flags & ~kSupportedFlags;
  if (unknown == 0) return Status::OK();
  std::string bits;
  for (int bit = 0; bit < 64; ++bit) {
    if ((unknown >> bit & 1) == 0) continue;
    if (!bits.empty()) bits += ", ";
    bits += fmt::format("{}", uint64_t{1} << bit);
  }
  return Error(ErrorKind::kUnsupported, "{} has feature flags that are not supported: {}", what,
               bits);
}

const pb::table::DataFragment* FindFragment(const pb::table::Manifest& manifest, uint64_t id) {
  for (const auto& fragment : manifest.fragments()) {
    if (fragment.id() == id) return &fragment;
  }
  return nullptr;
}

Result<LoadedManifest> ParseManifest(const std::string& name, const arrow::Buffer& bytes) {
  const auto size = static_cast<uint64_t>(bytes.size());
  if (size < kFooterBytes)
    return Corrupt(name, fmt::format("{} bytes are less than a footer", size));
  const uint8_t* footer = bytes.data() + size - kFooterBytes;
  if (std::memcmp(footer + 12, kMagic, sizeof(kMagic)) != 0)
    return Corrupt(name, "the footer's magic is missing");
  const std::span<const uint8_t> body(bytes.data(), size - kFooterBytes);

  LoadedManifest out;
  ARROW_RETURN_NOT_OK(
      ParseSection(name, body, LoadLe<uint64_t>(footer), "the manifest message", out.manifest));
  ARROW_RETURN_NOT_OK(
      CheckFeatureFlags(out.manifest.reader_feature_flags(), fmt::format("manifest {}", name)));
  if (out.manifest.has_index_section()) {
    ARROW_RETURN_NOT_OK(
        ParseSection(name, body, out.manifest.index_section(), "the index section", out.indices));
  }
  if (out.manifest.has_transaction_section() || out.manifest.has_transaction_section_old()) {
    const uint64_t position = out.manifest.has_transaction_section()
                                  ? out.manifest.transaction_section()
                                  : out.manifest.transaction_section_old();
    ARROW_RETURN_NOT_OK(
        ParseSection(name, body, position, "the transaction", out.transaction.emplace()));
  }
  return out;
}

Result<std::string> SerializeManifest(LoadedManifest manifest) {
  std::string out;
  pb::table::Manifest& message = manifest.manifest;
  message.clear_index_section();
  message.clear_transaction_section();
  message.clear_transaction_section_old();
  if (manifest.indices.ByteSizeLong() > 0) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t position,
                          AppendSection(out, manifest.indices, "the index section"));
    message.set_index_section(position);
  }
  if (manifest.transaction) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t position,
                          AppendSection(out, *manifest.transaction, "the transaction"));
    message.set_transaction_section(position);
    message.set_transaction_section_old(position);
  }
  ARROW_ASSIGN_OR_RAISE(const uint64_t position,
                        AppendSection(out, message, "the manifest message"));
  AppendLe<uint64_t>(out, position);
  AppendLe<uint16_t>(out, 0);
  AppendLe<uint16_t>(out, 2);
  out.append(kMagic, sizeof(kMagic));
  return out;
}

bool IsTornManifest(const arrow::Buffer& bytes) {
  const auto size = static_cast<uint64_t>(bytes.size());
  // Some file systems leave zeros where data was not written before a power loss.
  if (std::all_of(bytes.data(), bytes.data() + size, [](uint8_t byte) { return byte == 0; }))
    return true;
  uint64_t position = 0;
  uint64_t last_message = size;
  while (size - position > kFooterBytes) {
    const uint64_t length = LoadLe<uint32_t>(bytes.data() + position);
    if (length > size - position - 4) return true;
    last_message = position;
    position += 4 + length;
  }
  if (size - position != kFooterBytes) return true;
  // A cut may leave just as many bytes as a footer has; a damaged footer is still right in part.
  const uint8_t* footer = bytes.data() + position;
  return LoadLe<uint64_t>(footer) != last_message &&
         std::memcmp(footer + 12, kMagic, sizeof(kMagic)) != 0;
}

}  // namespace sarissa::lance
