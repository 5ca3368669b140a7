"""The HTTP service: documents in by POST, structure out."""
