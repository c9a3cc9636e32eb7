"""What the Python tests share: the server as a process, raw HTTP, expected rows, and readers of what is on disk."""
