// Makers of the decoder of each encoding node; each is defined in the file named after the node.
// `path` names the node itself.
#pragma once

#include <memory>
#include <string>

#include "lance/file/encoding/decoder.h"

namespace sarissa::lance {

using DecoderResult = Result<std::unique_ptr<ValueDecoder>>;
using ItemDecoderResult = Result<std::unique_ptr<ItemDecoder>>;

// `path` names the node above.
DecoderResult MakeFlat(const Encoding& encoding, const std::string& path);
// Items without bytes, all zero: below a fixed-size list whose items are all null.
DecoderResult MakeZeros(const std::string& path);
DecoderResult MakeMiniBlockVariable(const pb::encodings::Variable& node, const std::string& path);
DecoderResult MakeBlockVariable(const pb::encodings::Variable& node, const std::string& path);
DecoderResult MakeOutOfLineBitpacking(const pb::encodings::OutOfLineBitpacking& node,
                                      const std::string& path);
DecoderResult MakeInlineBitpacking(const pb::encodings::InlineBitpacking& node,
                                   const std::string& path);
DecoderResult MakeMiniBlockRle(const pb::encodings::Rle& node, const std::string& path);
DecoderResult MakeBlockRle(const pb::encodings::Rle& node, const std::string& path);
DecoderResult MakeByteStreamSplit(const pb::encodings::ByteStreamSplit& node,
                                  const std::string& path);
DecoderResult MakeFsst(const pb::encodings::Fsst& node, std::unique_ptr<ValueDecoder> values,
                       const std::string& path);
DecoderResult MakeGeneral(const pb::encodings::General& node, std::unique_ptr<ValueDecoder> values,
                          const std::string& path);
DecoderResult MakeFixedSizeList(const pb::encodings::FixedSizeList& node,
                                std::unique_ptr<ValueDecoder> values, const std::string& path);

ItemDecoderResult MakeVerbatimItem(const pb::encodings::Variable& node, const std::string& path);
ItemDecoderResult MakeFsstItem(const pb::encodings::Fsst& node, std::unique_ptr<ItemDecoder> values,
                               const std::string& path);
ItemDecoderResult MakeGeneralItem(const pb::encodings::General& node,
                                  std::unique_ptr<ItemDecoder> values, const std::string& path);

}  // namespace sarissa::lance
