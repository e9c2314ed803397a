"""A queue over RESP: a Redis connection, the bundle of scripts, and the moves of a consumer.

It needs only the standard library and the files in lua/. A connection and its queue belong to one thread.
"""

import hashlib
import json
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional
from urllib.parse import unquote, urlsplit

ANSWER_WITHIN_S = 10
# When the connection breaks, a repeatable script is sent this often, within about six seconds.
MAX_SENDS = 6
FIRST_PAUSE_S = 0.2
# The length at which a stored error text is cut.
MAX_ERROR_BYTES = 2048
PUMP_LIMIT = 100


class RedisError(Exception):
    """An error reply of Redis. Its first word is its class."""


def is_refusal(error: Exception, kind: str) -> bool:
    return isinstance(error, RedisError) and str(error).startswith(kind)


class ConnectionLost(Exception):
    """The connection broke. The command may or may not have run."""


class Connection:
    """One Redis connection. It connects at first use, and again after it broke."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._socket: Optional[socket.socket] = None
        self._reader: Any = None

    def do(self, *command: Any) -> Any:
        """Sends a command and returns its reply: bytes, int, list or None."""
        try:
            if self._socket is None:
                self._dial()
            reply = self._exchange(command)
        except (OSError, ValueError) as error:
            self.close()
            raise ConnectionLost(f"redis: {error}") from error
        if isinstance(reply, RedisError):
            raise reply
        return reply

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _dial(self) -> None:
        host, port = self._url.hostname or "127.0.0.1", self._url.port or 6379
        connected = socket.create_connection((host, port), timeout=ANSWER_WITHIN_S)
        if self._url.scheme == "rediss":
            connected = ssl.create_default_context().wrap_socket(connected, server_hostname=host)
        self._socket = connected
        self._reader = connected.makefile("rb")
        if self._url.password:
            user = [unquote(self._url.username)] if self._url.username else []
            refusal = self._exchange(["AUTH", *user, unquote(self._url.password)])
            if isinstance(refusal, RedisError):
                raise ValueError(str(refusal))

    def _exchange(self, command: Any) -> Any:
        words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
        self._socket.sendall(
            b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        )
        return self._read()

    def _read(self) -> Any:
        """Reads one value. It returns an error reply as a value, because an array can contain one."""
        line = self._reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            return RedisError(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        length = int(rest)
        if length < 0:
            return None
        if kind == b"$":
            value = self._reader.read(length + 2)
            if len(value) < length + 2:
                raise ConnectionResetError("the connection was closed")
            return value[:-2]
        if kind == b"*":
            return [self._read() for _ in range(length)]
        raise ValueError(f"a reply of an unknown kind, {kind!r}")


class Bundle:
    """The core scripts, as lua/manifest.json describes them.

    It rejects a script whose SHA-1 differs from the manifest, because all clients of a queue must run the same scripts.
    """

    def __init__(self, folder: Path) -> None:
        self._scripts = {}
        for script in json.loads((folder / "manifest.json").read_text())["core"]:
            source = (folder / script["file"]).read_bytes()
            sha1 = hashlib.sha1(source).hexdigest()
            if sha1 != script["sha1"]:
                raise ValueError(f"{script['file']} has the SHA-1 {sha1}, not the manifest's {script['sha1']}")
            self._scripts[script["name"]] = {**script, "source": source}

    def run(self, connection: Connection, queue: str, name: str, **args: Any) -> Any:
        """Runs a script, with its arguments by their names in the manifest. If the reply is lost, it repeats a
        repeatable script."""
        script = self._scripts[name]
        keys = [
            key.replace("{q}", "{" + queue + "}").replace("<id>", args.get("id", ""))
            for key in [*script["keys"], *script.get("optionalKeys", [])]
        ]
        # Optional arguments come last. This client does not use them.
        words = [args[word] for word in script["args"] if not word.endswith("?")]
        command = ["EVALSHA", script["sha1"], len(keys), *keys, *words]
        for sends in range(1, MAX_SENDS + 1):
            try:
                return self._evalsha(connection, command, script["source"])
            except ConnectionLost:
                if not script["repeatable"] or sends == MAX_SENDS:
                    raise
                time.sleep(FIRST_PAUSE_S * 2 ** (sends - 1))

    @staticmethod
    def _evalsha(connection: Connection, command: list, source: bytes) -> Any:
        """Loads the script only if Redis does not have it."""
        try:
            return connection.do(*command)
        except RedisError as error:
            if not is_refusal(error, "NOSCRIPT"):
                raise
        connection.do("SCRIPT", "LOAD", source)
        return connection.do(*command)


@dataclass(frozen=True)
class Job:
    """A claimed job. Only the newest token moves it. The token is also the number of the attempt."""

    id: str
    token: int
    payload: bytes = b""


class Queue:
    """One queue, over one connection."""

    def __init__(self, name: str, bundle: Bundle, connection: Connection) -> None:
        self._name = name
        self._bundle = bundle
        self._connection = connection

    def check_version(self) -> None:
        """Rejects a database with a wire version that this client does not know."""
        version = self._connection.do("GET", "{emq}:version")
        if version is not None and not version.startswith((b"echomq:2.", b"echomq:3.")):
            raise ValueError(f"wire version not accepted: {version.decode(errors='replace')}")

    def claim(self, lease_s: float) -> Optional[Job]:
        """Returns the oldest job, or None if there is none or the queue is paused. The client must check for a pause: the
        scripts do not."""
        while not self._connection.do("HEXISTS", self._key("meta"), "paused"):
            fields = self._run("claim", jobPrefix=self._key("job:"), leaseMs=round(lease_s * 1000))
            if not fields:
                return None
            job_id, payload, token = fields
            if payload is not None:
                return Job(job_id.decode(), token, payload)
            # A ghost: an id without a row. To complete it removes the half row that the claim created, and counts it.
            self.complete(Job(job_id.decode(), token))
        return None

    def complete(self, job: Job) -> bool:
        """Deletes a finished job. Returns False if the job did not exist."""
        return self._run("complete", id=job.id, token=job.token) == 1

    def retry(self, job: Job, delay_s: float, reason: str) -> str:
        """Reports a failure. Returns "scheduled", or "dead" if the job has used its budget."""
        error = reason.encode()[:MAX_ERROR_BYTES].decode(errors="ignore")
        delay_ms = round(delay_s * 1000)
        return self._run(
            "retry", id=job.id, token=job.token, delayMs=delay_ms, maxAttempts="", error=error
        ).decode()

    def pump(self) -> None:
        """Promotes due jobs and reaps lapsed ones, in bounded steps, until none is left."""
        for name in ("promote", "reap"):
            while self._run(name, jobPrefix=self._key("job:"), limit=PUMP_LIMIT) == PUMP_LIMIT:
                pass

    def _key(self, kind: str) -> str:
        return "emq:{" + self._name + "}:" + kind

    def _run(self, name: str, **args: Any) -> Any:
        return self._bundle.run(self._connection, self._name, name, **args)
