"""Messages of the protocol, generated from proto/sparseagg/v1 by python/generate."""
