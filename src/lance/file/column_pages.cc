#include "lance/file/column_pages.h"

#include "proto/lance_file.pb.h"

namespace sarissa::lance {
namespace {

constexpr char kPageLayoutUrl[] = "/lance.encodings21.PageLayout";
// Row numbers stay far from overflow in all that is computed from them.
constexpr uint64_t kMaxRows = uint64_t{1} << 48;

Result<std::string> LayoutOf(const pb::file::ColumnMetadata::Page& page) {
  if (!page.encoding().has_direct()) {
    if (page.encoding().has_indirect()) {
      return Error(ErrorKind::kUnsupported,
                   "a page layout in a buffer of its own is not read here");
    }
    return Error(ErrorKind::kCorrupt, "the page has no layout");
  }
  pb::file::Any any;
  if (!any.ParseFromString(page.encoding().direct().encoding())) {
    return Error(ErrorKind::kCorrupt, "the page's layout does not parse");
  }
  if (any.type_url() != kPageLayoutUrl) {
    return Error(ErrorKind::kUnsupported, "page layouts of type '{}' are not read here",
                 any.type_url());
  }
  return std::move(*any.mutable_value());
}

Result<PageInfo> ParsePage(const pb::file::ColumnMetadata::Page& page, uint64_t file_size) {
  PageInfo info;
  info.rows = page.length();
  if (page.buffer_offsets_size() != page.buffer_sizes_size()) {
    return Error(ErrorKind::kCorrupt, "{} buffer offsets and {} sizes", page.buffer_offsets_size(),
                 page.buffer_sizes_size());
  }
  for (int i = 0; i < page.buffer_offsets_size(); ++i) {
    const FileRange range{page.buffer_offsets(i), page.buffer_sizes(i)};
    if (range.offset > file_size || range.size > file_size - range.offset) {
      return Error(ErrorKind::kCorrupt,
                   "buffer {} at {} of {} bytes lies outside the file of {} bytes", i, range.offset,
                   range.size, file_size);
    }
    info.buffers.push_back(range);
  }
  ARROW_ASSIGN_OR_RAISE(info.layout, LayoutOf(page));
  return info;
}

}  // namespace

Result<ColumnPages> ParseColumnPages(std::string_view metadata, uint64_t file_size) {
  pb::file::ColumnMetadata message;
  if (metadata.size() > INT32_MAX ||
      !message.ParseFromArray(metadata.data(), static_cast<int>(metadata.size()))) {
    return Error(ErrorKind::kCorrupt, "the column metadata does not parse");
  }
  if (!message.has_encoding()) {
    return Error(ErrorKind::kCorrupt, "the column metadata has no encoding");
  }
  ColumnPages column;
  column.pages.reserve(static_cast<size_t>(message.pages_size()));
  for (const auto& page : message.pages()) {
    auto info = ParsePage(page, file_size);
    if (!info.ok()) {
      return Annotate(info.status(), fmt::format("page {}", column.pages.size()));
    }
    info->first_row = column.rows;
    if (info->rows > kMaxRows || column.rows + info->rows > kMaxRows) {
      return Error(ErrorKind::kCorrupt, "page {}: {} rows", column.pages.size(), info->rows);
    }
    column.rows += info->rows;
    for (const FileRange& range : info->buffers) column.bytes += range.size;
    column.pages.push_back(std::move(*info));
  }
  return column;
}

}  // namespace sarissa::lance
