"""The operator's container image, made of files of this machine without an engine, a registry or root."""
