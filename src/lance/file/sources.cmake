list(APPEND lance_sources
  file/file_version.cc
  file/logical_type.cc
  file/schema.cc)
