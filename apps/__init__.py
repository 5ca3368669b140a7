"""What people start: the command line, batches of files, benchmarks."""
