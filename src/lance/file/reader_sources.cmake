list(APPEND lance_sources)
