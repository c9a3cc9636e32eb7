list(APPEND lance_sources
  index/bloom_filter.cc
  index/btree_reader.cc
  index/btree_writer.cc
  index/sort_key.cc)
