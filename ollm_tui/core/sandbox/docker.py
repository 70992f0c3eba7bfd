"""docker: a command in a container of an image, by a local engine; the last choice, as its programs are the image's."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

from pydantic import JsonValue

from ollm_tui.core.sandbox import docker_client
from ollm_tui.core.sandbox.docker_client import Engine, EngineError
from ollm_tui.core.sandbox.layout import Mount, MountKind, WorkGrant, mounts
from ollm_tui.core.sandbox.private_folder import is_left
from ollm_tui.core.sandbox.work import Enforcement, WorkCage

_LABEL = "ollm-tui.folder"
"""Names the private directory whose lock tells whether the container is still somebody's."""

_PASSED = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "NO_COLOR")
_HOME = "/home/ollm"


class DockerCage(WorkCage):
    """Runs a helper that makes, follows and removes the container."""

    name = "docker"
    dishonours = frozenset[str]()

    def __init__(self, program: str, grant: WorkGrant) -> None:
        """`program` is the engine's socket."""
        super().__init__(program, grant)
        self._container = f"ollm-{secrets.token_hex(8)}"

    @classmethod
    def locate(cls) -> str:
        """Return the socket of a local engine; a remote one does not see the workspace."""
        given = os.environ.get("DOCKER_HOST", "")
        if given:
            found = [urlsplit(given).path] if given.startswith("unix://") else []
        else:
            runtime = os.environ.get("XDG_RUNTIME_DIR", "/nonexistent")
            found = ["/var/run/docker.sock", f"{runtime}/docker.sock", os.path.expanduser("~/.docker/run/docker.sock")]
        return next((path for path in found if Path(path).is_socket()), "")

    @classmethod
    def missing(cls) -> str:
        """Return why there is none."""
        return "no local docker engine was found"

    @classmethod
    def limits(cls) -> dict[str, Enforcement]:
        """Return how well it holds each limit: by cgroups, memory and processors as well."""
        held = ("files", "metadata", "network", "sockets", "signals", "processes", "tmp", "file size", "memory", "pids")
        return dict.fromkeys((*held, "cpu"), Enforcement.ENFORCED)

    @classmethod
    def version(cls, program: str) -> str:
        """Return the engine's version."""
        with suppress(EngineError, OSError, KeyError, TypeError):
            return str(Engine(program).call("GET", "/version")["Version"])
        return ""

    def python(self, path: str) -> str:
        """Return the image's interpreter."""
        return "python3"

    def close(self) -> None:
        """End the container too: its helper may have been killed."""
        if self._started:
            docker_client.remove(Engine(self.program), self._container)
        super().close()

    _started = False

    def _command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        self._sweep()
        self._started = True
        order: dict[str, JsonValue] = {
            "socket": self.program,
            "name": self._container,
            "container": self._request(argv, environment),
        }
        descriptor = self.pass_on(json.dumps(order).encode())
        return [sys.executable, "-I", docker_client.__file__, str(descriptor)]

    def _request(self, argv: Sequence[str], environment: Mapping[str, str]) -> dict[str, JsonValue]:
        limits, megabyte = self.grant.limits, 1 << 20
        variables = {name: environment[name] for name in _PASSED if name in environment}
        variables |= {"HOME": _HOME, "TMPDIR": "/tmp", **self.grant.variables}
        layout = list(self._layout(environment))
        private = f"rw,exec,mode=1777,size={limits.tmp_mb * megabyte}"
        folders = [mount.path for mount in layout if mount.kind is MountKind.EMPTY_FOLDER]
        return {
            "Image": self.grant.image,
            "Cmd": list(argv),
            "Entrypoint": [],
            "Env": [f"{name}={value}" for name, value in variables.items()],
            "User": f"{os.getuid()}:{os.getgid()}",
            "WorkingDir": str(self.grant.writable[0]),
            "Labels": {_LABEL: str(self.private)},
            "HostConfig": {
                "ReadonlyRootfs": True,
                "NetworkMode": "host" if self.grant.network else "none",
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "Init": True,
                "Memory": limits.memory_mb * megabyte,
                "MemorySwap": limits.memory_mb * megabyte,
                "NanoCpus": limits.cpu_percent * 10_000_000,
                "PidsLimit": limits.pids,
                "ShmSize": limits.tmp_mb * megabyte,
                "Ulimits": [
                    {"Name": "core", "Soft": 0, "Hard": 0},
                    {"Name": "fsize", "Soft": limits.file_mb * megabyte, "Hard": limits.file_mb * megabyte},
                ],
                "Tmpfs": {
                    **dict.fromkeys(("/tmp", "/var/tmp", _HOME), private),
                    **dict.fromkeys(folders, "ro,size=4096"),
                },
                "Mounts": [bound for mount in layout if (bound := self._bound(mount)) is not None],
            },
        }

    def _layout(self, environment: Mapping[str, str]) -> Iterator[Mount]:
        """Yield what of this machine is there: the system and its programs are the image's."""
        kept = [str(path) for path in (*self.grant.writable, *self.grant.readable)]
        for mount in mounts(self.grant, environment):
            within = any(mount.path == path or mount.path.startswith(f"{path}/") for path in kept)
            if mount.kind is MountKind.DATA or (within and mount.kind is not MountKind.PRIVATE):
                yield mount

    def _bound(self, mount: Mount) -> JsonValue:
        source = mount.source
        match mount.kind:
            case MountKind.DATA:
                source = str(self.keep(mount.content))
            case MountKind.EMPTY_FOLDER | MountKind.LINK | MountKind.PRIVATE:
                return None
            case _:
                pass
        read_only = mount.kind is not MountKind.WRITE
        return {"Type": "bind", "Source": source, "Target": mount.path, "ReadOnly": read_only}

    def _sweep(self) -> None:
        """Remove containers whose program was killed."""
        engine = Engine(self.program)
        with suppress(EngineError, OSError, KeyError, TypeError):
            wanted = quote(json.dumps({"label": [_LABEL]}))
            for found in engine.call("GET", f"/containers/json?all=1&filters={wanted}"):
                if is_left(found["Labels"][_LABEL]):
                    docker_client.remove(engine, found["Id"])
