"""The benchmark: what the operator costs, in time, CPU, memory and API writes, on a real control plane.

    python -m tests.bench                       all scenarios, once each
    python -m tests.bench --scenario 100x2      one of them; may be given several times
    python -m tests.bench --repeat 3            the table shows medians and minimums
    python -m tests.bench --bare                also let a bare loop send the same writes, see `bare.py`
    python -m tests.bench --profile prof        also write the operator's cProfile data there (slows it down)

Every run has a cluster of its own (etcd, API server, controller manager, scheduler, KWOK as kubelets) and a fresh
operator process. A run is a life of one PodCliqueSet: deploy, touch (an annotation changes, which means nothing), idle,
scale or update where the scenario has it, delete. It ends when nothing of the set is left.

How the numbers come about:

- Seconds count from the request that causes a phase, as seen by one watch per kind in this process.
- CPU and memory are those of /proc: utime + stime, VmRSS, and VmHWM for the peak. A phase's CPU runs until the operator
  has written nothing for three seconds, so that late work is not left out.
- Writes are what the operator counts itself, checked against what the API server counted for kinds that nobody else
  writes (PodCliques, scaling groups, PodGangs, Services; the garbage collector's part in the end left out).
- `others` is the CPU that processes outside the benchmark took meanwhile. Where it is high, times say little, and CPU
  is too high by half, since caches are shared.

The budgets come from measurements of Grove's Go operator of the same shapes on two cores, see `budgets.py`. Linux only.
"""
