// Writes constant pages: no item has a value, the levels alone say what the rows are.
#include "lance/file/page_layouts.h"

namespace sarissa::lance {

Result<EncodedPage> WriteConstantPage(const ColumnPath& path, const PageLevels& levels,
                                      ContainerWriter* out) {
  EncodedPage page;
  pb::encodings::ConstantLayout* layout = page.layout.mutable_constant();
  for (auto layer : path.declared) layout->add_layers(layer);
  // A nullable leaf at the top level: every row is null, nothing is left to say.
  if (path.layers.size() == 1) return page;
  for (const std::vector<uint16_t>* stream : {&levels.rep, &levels.def}) {
    ARROW_ASSIGN_OR_RAISE(BufferPlace place,
                          out->WriteBuffer(stream->data(), stream->size() * sizeof(uint16_t)));
    page.buffers.push_back(place);
  }
  return page;
}

}  // namespace sarissa::lance
