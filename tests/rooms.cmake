# One line per test binary.
sarissa_test(NAME base_test SOURCES base/base_test.cc ROOMS base)
sarissa_test(NAME env_test ROOMS env
  SOURCES env/future_test.cc env/thread_pool_test.cc env/memory_budget_test.cc env/file_system_test.cc
          env/sim_scheduler_test.cc env/sim_disk_test.cc)
sarissa_test(NAME object_store_test ROOMS object_store
  SOURCES object_store/store_contract_test.cc object_store/local_store_test.cc object_store/fault_store_test.cc
          object_store/checksums_test.cc)
sarissa_test(NAME memwal_test ROOMS memwal
  SOURCES memwal/formats_test.cc memwal/format_property_test.cc memwal/memtable_test.cc memwal/shard_writer_test.cc
          memwal/seal_fence_test.cc memwal/claim_and_replay_test.cc memwal/writer_failure_test.cc)
sarissa_test(NAME clean_up_test ROOMS memwal SOURCES memwal/clean_up_test.cc memwal/stale_writer_test.cc)
if(TARGET sarissa_memwal)
  add_executable(memwal_tool memwal/memwal_tool.cc)
  target_include_directories(memwal_tool PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/..")
  target_link_libraries(memwal_tool PRIVATE sarissa_memwal sarissa_flags)
endif()
sarissa_test(NAME merge_test ROOMS memwal SOURCES memwal/merge_test.cc memwal/merge_history_test.cc)
if(TARGET sarissa_memwal)
  add_executable(merge_tool memwal/merge_tool.cc)
  target_include_directories(merge_tool PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/..")
  target_link_libraries(merge_tool PRIVATE sarissa_memwal sarissa_flags)
endif()
sarissa_test(NAME generation_damage_test ROOMS engine SOURCES memwal/generation_damage_test.cc)
sarissa_test(NAME store_simulation_test ROOMS engine LABEL simulation
  SOURCES simulation/store_simulation_test.cc simulation/store_world.cc simulation/shard_audit.cc)
sarissa_test(NAME crash_points_test ROOMS engine LABEL simulation
  SOURCES crash/crash_points_test.cc simulation/shard_audit.cc)
sarissa_test(NAME engine_test ROOMS engine
  SOURCES engine/catalog_test.cc engine/dictionary_limit_test.cc engine/merge_reads_test.cc engine/table_cache_test.cc
          engine/dirty_set_test.cc engine/sweeper_test.cc engine/registry_test.cc engine/reconciliation_test.cc)
sarissa_test(NAME lance_table_test ROOMS lance
  SOURCES lance/manifest_test.cc lance/table_test.cc lance/deletion_vector_test.cc lance/btree_test.cc
          lance/bloom_filter_test.cc lance/commit_test.cc lance/upsert_test.cc)
if(TARGET sarissa_lance)
  add_executable(lance_table_tool lance/lance_table_tool.cc)
  target_include_directories(lance_table_tool PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/..")
  target_link_libraries(lance_table_tool PRIVATE sarissa_lance sarissa_flags)
endif()
sarissa_test(NAME rollout_test ROOMS rollout
  SOURCES rollout/arrow_batch_decoder_test.cc rollout/store_name_test.cc rollout/timestamp_test.cc rollout/text_codecs_test.cc rollout/record_schema_test.cc
          rollout/record_decoder_test.cc rollout/record_encoder_test.cc rollout/record_filter_test.cc
          rollout/record_property_test.cc)
sarissa_test(NAME lance_file_reader_test ROOMS lance SOURCES lance/file_reader_test.cc)
if(TARGET sarissa_lance)
  add_executable(lance_read_tool lance/lance_read_tool.cc)
  target_include_directories(lance_read_tool PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/..")
  target_link_libraries(lance_read_tool PRIVATE sarissa_lance sarissa_flags)
endif()
sarissa_test(NAME lance_file_writer_test ROOMS lance SOURCES lance/file_writer_test.cc lance/schema_test.cc)
if(TARGET sarissa_lance)
  add_executable(lance_file_tool lance/lance_file_tool.cc)
  target_include_directories(lance_file_tool PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/..")
  target_link_libraries(lance_file_tool PRIVATE sarissa_lance sarissa_flags)
endif()
sarissa_test(NAME server_test ROOMS server cli
  SOURCES server/multipart_parser_test.cc server/routing_test.cc server/error_envelope_test.cc
          server/live_routes_test.cc server/live_protocol_test.cc server/memory_uses_test.cc
          cli/serve_flags_test.cc)
sarissa_test(NAME protocol_model_test ROOMS memwal LABEL simulation
  SOURCES model/protocol_model.cc model/protocol_model_test.cc)
sarissa_test(NAME fencing_duel_test ROOMS memwal LABEL simulation
  SOURCES crash/duel_schedule.cc crash/duel_world.cc crash/fencing_duel_test.cc)
