"""The shell of an operator: client, cache, informer, queue, writes, events, metrics. It knows nothing of what it
serves.

Lowest first: ``resources`` and ``writes`` (pure data), ``errors``, ``credentials``, ``kubeconfig``, ``transport``,
``limiter``, ``client``, ``cache``, ``informer``, ``queue``, ``apply``, ``events``, ``health``, ``metrics``.
"""
