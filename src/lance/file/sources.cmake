list(APPEND lance_sources
  file/column_path.cc
  file/column_writer.cc
  file/constant_page_writer.cc
  file/container_writer.cc
  file/dictionary_values.cc
  file/file_version.cc
  file/file_writer.cc
  file/fixed_values.cc
  file/full_zip_writer.cc
  file/logical_type.cc
  file/mini_block_plan.cc
  file/mini_block_writer.cc
  file/page_values.cc
  file/rep_def_builder.cc
  file/schema.cc
  file/variable_values.cc)
