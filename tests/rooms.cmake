# One line per test binary.
sarissa_test(NAME base_test SOURCES base/base_test.cc ROOMS base)
sarissa_test(NAME env_test ROOMS env
  SOURCES env/future_test.cc env/thread_pool_test.cc env/memory_budget_test.cc env/file_system_test.cc
          env/sim_scheduler_test.cc env/sim_disk_test.cc)
sarissa_test(NAME object_store_test ROOMS object_store
  SOURCES object_store/store_contract_test.cc object_store/local_store_test.cc object_store/fault_store_test.cc)
sarissa_test(NAME memwal_test ROOMS memwal
  SOURCES memwal/formats_test.cc memwal/memtable_test.cc memwal/shard_writer_test.cc)
sarissa_test(NAME store_simulation_test ROOMS engine LABEL simulation SOURCES simulation/store_simulation_test.cc)
sarissa_test(NAME engine_test ROOMS engine SOURCES engine/catalog_test.cc engine/dictionary_limit_test.cc)
