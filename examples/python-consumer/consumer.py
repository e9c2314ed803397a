"""A consumer in Python's standard library: it runs the queue's Lua scripts over a plain connection to Redis, beside
consumers that come over HTTPS.

It shows the whole duty of a client that speaks to Redis itself. It claims a job under a lease, works, and completes it
or gives it back, with the token of the claim. It promotes what is due and reaps what has lapsed, leaves a paused queue
alone and takes ghosts away. Which scripts there are, and in which order they want their keys and arguments, it reads
from lua/manifest.json. On SIGTERM it ends what it has begun and claims nothing more.

The jobs are {"to": "..."}; the work is to hand them to a mail API. Every event is a line of JSON on stdout.

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
    parser.add_argument("--concurrency", type=int, default=4, help="how many jobs are worked at once")
    parser.add_argument("--lease", type=float, default=30, help="seconds for which a job is ours; the work may take two thirds")
    parser.add_argument("--idle", type=float, default=0.2, help="seconds to wait when there is nothing to do")
    parser.add_argument("--pump", type=float, default=1, help="seconds between promoting and reaping")
    parser.add_argument("--backoff", type=float, default=1, help="seconds a job waits after its first failure at the most")
    parser.add_argument("--grace", type=float, default=10, help="seconds for which jobs may go on after SIGTERM")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    redis_url, mail_url = os.environ["REDIS_URL"], os.environ["MAIL_URL"]
    bundle = Bundle(options.lua)

    def connect() -> Queue:
        """A connection has one reply after the other, so each thread has its own."""
        return Queue(options.queue, bundle, Connection(redis_url))

    upkeep = connect()
    upkeep.check_version()
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)

    # Daemons do not keep the process alive when the grace is over.
    workers = [
        threading.Thread(target=work, args=(connect(), mail_url, options), daemon=True)
        for _ in range(options.concurrency)
    ]
    for thread in [*workers, threading.Thread(target=maintain, args=(upkeep, options), daemon=True)]:
        thread.start()

    signal.sigwait(ends)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)  # The next one ends the process at once.
    stopping.set()
    say(event="stopping")
    end = threading.Thread(target=lambda: [worker.join() for worker in workers], daemon=True)
    end.start()
    end.join(options.grace)
    if end.is_alive():
        sys.exit("jobs were still at work; they come back when their leases lapse")


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
                # The job is somebody else's.
                say(event="leaseLost", id=job.id, token=job.token)
            else:
                logging.error("%s: %s", job.id, error)


def settle(queue: Queue, job: Job, mail_url: str, options: argparse.Namespace) -> str:
    """Works a job, then completes it or gives it back. Answers what became of it."""
    try:
        send(job, mail_url, timeout=options.lease * 2 / 3)
    except Exception as error:  # Whatever the work throws is a failed attempt.
        state = queue.retry(job, backoff(job.token, options.backoff), str(error))
        return "dead" if state == "dead" else "retried"
    return "completed" if queue.complete(job) else "gone"


def maintain(queue: Queue, options: argparse.Namespace) -> None:
    """Does what the cron of a deployment does, for queues that have no other."""
    while not stopping.is_set():
        try:
            queue.pump()
        except (ConnectionLost, RedisError) as error:
            logging.error("%s", error)
        stopping.wait(options.pump)


def backoff(attempt: int, first: float) -> float:
    """How many seconds a job waits after so many attempts: anything up to a bound that doubles, so that jobs which
    failed together do not come back together."""
    return random.uniform(0, min(MAX_BACKOFF_S, first * 2 ** min(attempt - 1, 40)))


def send(job: Job, mail_url: str, timeout: float) -> None:
    """Hands an email to a mail API. May run more than once for a job: queues deliver at least once. The job's id lets
    the mail API see that."""
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
