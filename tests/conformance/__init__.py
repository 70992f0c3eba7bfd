"""Other terminals' own test suites, run on our emulator: `nox -s conformance`."""
