"""Models by name or file: fetched, looked into, given inputs."""
