"""A consumer in Python without dependencies. It runs the queue's Lua scripts over a plain Redis connection, and works
beside consumers over HTTPS.

It shows everything that a client with its own Redis connection must do. It claims a job under a lease, works, and
completes or retries the job with the token of the claim. It promotes due jobs, reaps lapsed ones, respects a pause and
removes ghosts. It reads the scripts, and the order of their keys and arguments, from lua/manifest.json. On SIGTERM it
stops claiming and finishes the running jobs.

A job is {"to": "..."}. The work is one request to a mail API. Every event is one line of JSON on stdout.

    REDIS_URL=redis://127.0.0.1:6379 MAIL_URL=https://mail.example.com/send python3 consumer.py --queue emails
"""

import argparse
import json
import logging
import os
import random
import signal
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from queue_over_resp import Bundle, Connection, ConnectionLost, Job, Queue, RedisError, is_refusal

LUA_FOLDER = Path(__file__).resolve().parents[2] / "lua"
MAX_BACKOFF_S = 600

stopping = threading.Event()
stdout_lock = threading.Lock()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Works a queue of emails.")
    parser.add_argument("--queue", default="emails", help="the queue to work")
    parser.add_argument("--lua", type=Path, default=LUA_FOLDER, help="the folder of manifest.json and the scripts")
    parser.add_argument("--concurrency", type=int, default=4, help="how many jobs run in parallel")
    parser.add_argument("--lease", type=float, default=30, help="lease of a job, seconds; the work may take two thirds")
    parser.add_argument("--idle", type=float, default=0.2, help="seconds to wait after an empty claim")
    parser.add_argument("--pump", type=float, default=1, help="seconds between two sweeps")
    parser.add_argument("--backoff", type=float, default=1, help="longest delay after the first failure, seconds")
    parser.add_argument("--grace", type=float, default=10, help="seconds that running jobs may take after SIGTERM")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    redis_url, mail_url = os.environ["REDIS_URL"], os.environ["MAIL_URL"]
    bundle = Bundle(options.lua)

    def connect() -> Queue:
        """A connection serves one command at a time, so each thread has its own."""
        return Queue(options.queue, bundle, Connection(redis_url))

    upkeep = connect()
    upkeep.check_version()
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)

    # Daemon threads do not keep the process alive after the grace period.
    workers = [
        threading.Thread(target=work, args=(connect(), mail_url, options), daemon=True)
        for _ in range(options.concurrency)
    ]
    for thread in [*workers, threading.Thread(target=maintain, args=(upkeep, options), daemon=True)]:
        thread.start()

    signal.sigwait(ends)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)  # A second signal ends the process at once.
    stopping.set()
    say(event="stopping")
    end = threading.Thread(target=lambda: [worker.join() for worker in workers], daemon=True)
    end.start()
    end.join(options.grace)
    if end.is_alive():
        sys.exit("some jobs are still running; they return when their leases lapse")


def work(queue: Queue, mail_url: str, options: argparse.Namespace) -> None:
    """Claims and works jobs, one after the other, until the process is to stop."""
    while not stopping.is_set():
        try:
            job = queue.claim(options.lease)
        except (ConnectionLost, RedisError) as error:
            # If only the answer was lost, a job is leased to nobody now; it comes back when that lapses.
            logging.error("%s", error)
            stopping.wait(1)
            continue
        if job is None:
            stopping.wait(options.idle)
            continue
        try:
            say(event=settle(queue, job, mail_url, options), id=job.id, token=job.token)
        except (ConnectionLost, RedisError) as error:
            if is_refusal(error, "EMQSTALE"):
                # Another consumer has claimed the job, or the reaper took it.
                say(event="leaseLost", id=job.id, token=job.token)
            else:
                logging.error("%s: %s", job.id, error)


def settle(queue: Queue, job: Job, mail_url: str, options: argparse.Namespace) -> str:
    """Works a job, then completes or retries it. Returns the event to report."""
    try:
        send(job, mail_url, timeout=options.lease * 2 / 3)
    except Exception as error:  # Any exception is a failed attempt.
        state = queue.retry(job, backoff(job.token, options.backoff), str(error))
        return "dead" if state == "dead" else "retried"
    return "completed" if queue.complete(job) else "gone"


def maintain(queue: Queue, options: argparse.Namespace) -> None:
    """Does the work of the cron, for queues without one."""
    while not stopping.is_set():
        try:
            queue.pump()
        except (ConnectionLost, RedisError) as error:
            logging.error("%s", error)
        stopping.wait(options.pump)


def backoff(attempt: int, first: float) -> float:
    """The delay after an attempt, in seconds: backoff with full jitter. The random delay keeps jobs that failed together
    from returning together."""
    return random.uniform(0, min(MAX_BACKOFF_S, first * 2 ** min(attempt - 1, 40)))


def send(job: Job, mail_url: str, timeout: float) -> None:
    """Sends an email through a mail API. It can run twice for one job, because delivery is at-least-once. With the job's
    id, the mail API can detect that."""
    request = urllib.request.Request(
        mail_url,
        data=job.payload,
        headers={"Content-Type": "application/json", "Idempotency-Key": job.id},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=timeout) as response:
        response.read()


def say(**line: Any) -> None:
    with stdout_lock:
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
