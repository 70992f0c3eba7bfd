"""Running commands: processes, terminals, output, jobs."""
