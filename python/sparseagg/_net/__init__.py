"""The connection to a server: addresses, channels, retries, streams, and who answered in place of a server."""
