"""The shell of an operator: client, cache, informer, queue, writes, events, metrics. It knows nothing of what it serves."""
