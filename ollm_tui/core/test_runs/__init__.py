"""Running a project's tests: which runner it has, and what its reports say (003)."""
