# SPDX-License-Identifier: Apache-2.0
"""Run commands as subprocess and asyncio do, and end everything that they started.

    import lineage_run

    with lineage_run.Popen(["claude", "-p", "run the tests"]) as p:
        p.wait(timeout=600)         # returns when nothing that claude started is alive

    p = await lineage_run.create_subprocess_exec("npm", "test", stdout=PIPE)
    out, _ = await p.communicate()

What differs from subprocess and asyncio:

- wait() and communicate() return when the command has exited and nothing that it
  started is alive. A grandchild that holds a pipe cannot delay them.
- kill() and the end of a `with` block end everything that the command started.
  end() does the same with SIGTERM first.
- pid is that of "lineage run" or "lineage init", which forwards signals to the
  command. returncode is 128 + N if the command died of signal N.
- report says how each process ended, guarantee how far that can be trusted.
- a command that is not there, or may not be run, raises what subprocess raises. What
  only exec finds, such as a missing interpreter of a script, is returncode 126 or 127.

One file, standard library only, Python 3.9 or newer, Linux. Copy it. It needs the
lineage program.
"""

import asyncio
import contextlib
import enum
import errno
import http.client
import json
import os
import shutil
import signal
import socket as sockets
import stat
import subprocess
import tempfile
import threading
import time

__all__ = ["Guarantee", "GuaranteeError", "NotInstalledError", "Popen", "Process", "create_subprocess_exec", "create_subprocess_shell", "run"]

ASK_TIME = 2  # seconds that the daemon may take to answer
CREATE_TIME = 30  # seconds until "lineage run" gives up
DEFAULT_GRACE = 5  # seconds, of "lineage init"
WAIT_DELAY = 5  # seconds that an outsider may hold a pipe when all is over


class Guarantee(enum.IntEnum):
    """What ends the processes that a command started; a greater one is stronger."""

    SUBREAPER = 1  # "lineage init", which finds the descendants in /proc
    SESSION = 2  # a session of the daemon, whose document has the guarantee level


class GuaranteeError(RuntimeError):
    """The host offers less than is required. Nothing was started."""


class NotInstalledError(RuntimeError):
    """The host has no lineage program. Nothing was started."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("lineage", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Run:
    """One command: how it is started, its session and its report."""

    def __init__(self, argv, env=None, cwd=None, name=None, grace=None, require=None, lineage=None, socket=None):
        self.name, self.grace = name, grace
        self.socket = socket or os.environ.get("LINEAGE_SOCKET") or "/run/lineage/lineage.sock"
        lineage = lineage or "lineage"
        program = shutil.which(lineage)
        if program is None:
            raise NotInstalledError(
                f"the lineage program is not installed: install the package lineage (https://github.com/lineage-ebpf/lineage), or name its path: {lineage} not found"
            )
        program = os.path.abspath(program)  # cwd may be another one
        why = self._no_session(program)
        self.guarantee = Guarantee.SUBREAPER if why else Guarantee.SESSION
        if require is not None and self.guarantee < require:
            raise GuaranteeError(f"guarantee {Guarantee(require).name} is required, this host has {self.guarantee.name}: {why}")
        self.report = None
        self.pid = None
        argv = [os.fsdecode(a) for a in argv]
        _check(argv[0], env, cwd)
        self._dir = tempfile.mkdtemp(prefix="lineage-run-")
        words = [program, "init" if why else "run", "--quiet", "--report=" + self._receipt()]
        if grace is not None:
            words.append(f"--grace={int(grace * 1000)}ms")
        if name and not why:
            words.append("--name=" + name)
        self.argv = words + ["--"] + argv

    def _receipt(self):
        return os.path.join(self._dir, "receipt.json")

    def _no_session(self, program):
        """Why "lineage run" could not make a session; None: it can.

        It is decided before the command starts: its standard input can be read once."""
        try:
            self._ask("GET", "/v1/version")["api"]
        except (FileNotFoundError, ConnectionRefusedError) as e:
            if os.geteuid() != 0:
                return str(e)
            return self._doctor(program)  # "lineage run" would start the daemon
        except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
            return repr(e)
        return None

    @staticmethod
    def _doctor(program):
        try:
            subprocess.run([program, "doctor"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError) as e:
            return f"lineage doctor: no sessions here: {e}"
        return None

    def _ask(self, method, path, body=None):
        """One request to the daemon; an error of its own is an OSError."""
        connection = _UnixConnection(self.socket, ASK_TIME)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            reply = connection.getresponse()
            document = json.loads(reply.read())
        finally:
            connection.close()
        if reply.status >= 300:
            raise OSError(document.get("error", {}).get("message", f"status {reply.status}"))
        return document

    def session(self):
        """The session's document; waits until there is a session. None: there is none."""
        if self.guarantee == Guarantee.SUBREAPER:
            return None
        if self.report is not None:
            return self._ask("GET", "/v1/sessions/" + self.report["session"])
        until = time.monotonic() + CREATE_TIME
        while time.monotonic() < until and self._alive():
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):  # it is being started
                for s in self._ask("GET", "/v1/sessions")["items"]:
                    if s.get("owner", {}).get("pid") == self.pid:
                        return s
            time.sleep(0.005)
        return None

    def _alive(self):
        return _stat(self.pid)[:1] not in ([], ["Z"])

    def end(self, now=False):
        """Begin the end; it may block for the grace, so threads call it."""
        if self.guarantee == Guarantee.SUBREAPER:
            return self._end_init(now)
        try:
            s = self.session()
            if s is not None:
                self._ask("POST", f"/v1/sessions/{s['id']}/end", {"now": True} if now else {})
        except (OSError, http.client.HTTPException, ValueError):
            # The session of a dead owner ends in the kernel.
            self._signal(signal.SIGKILL)

    def _signal(self, sig):
        # While it is our child and not waited for, the PID is its own.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, sig)

    def _end_init(self, now):
        """SIGTERM is forwarded; then the command is killed, and a SIGTERM ends the
        grace of what it leaves."""
        self._signal(signal.SIGTERM)
        if self._gone(0 if now else DEFAULT_GRACE if self.grace is None else self.grace):
            return
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if not self._is_child(pid):
                continue
            with contextlib.suppress(OSError):
                fd = os.pidfd_open(int(pid))  # before the second look: then its PID is its own
                try:
                    if self._is_child(pid):
                        signal.pidfd_send_signal(fd, signal.SIGKILL)
                finally:
                    os.close(fd)
        if not self._gone(0.1):
            self._signal(signal.SIGTERM)

    def _is_child(self, pid):
        return _stat(pid)[1:2] == [str(self.pid)]

    def _gone(self, seconds):
        until = time.monotonic() + seconds
        while self._alive():
            if time.monotonic() >= until:
                return False
            time.sleep(0.01)
        return True

    def abandon(self):
        """The process could not be started."""
        shutil.rmtree(self._dir, ignore_errors=True)

    def finish(self):
        """Read the report, once the process was waited for."""
        if self.report is not None:
            return
        with contextlib.suppress(OSError, ValueError):
            with open(self._receipt(), encoding="utf-8") as f:
                self.report = json.load(f)
        shutil.rmtree(self._dir, ignore_errors=True)


def _stat(pid):
    """The fields of /proc/PID/stat from the state on; none of a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def _check(command, env, cwd):
    """Raise what exec would raise: the program that is started is lineage."""
    code = errno.ENOENT
    folders = [""] if os.sep in command else map(os.fsdecode, os.get_exec_path(env))
    for folder in folders:
        path = os.path.join(os.fsdecode(cwd or ""), folder, command)
        try:
            mode = os.stat(path).st_mode
        except PermissionError:
            code = errno.EACCES
            continue
        except OSError:
            continue
        if stat.S_ISREG(mode) and os.access(path, os.X_OK):
            return
        code = errno.EACCES
    raise OSError(code, os.strerror(code), command)


def _options(kwargs):
    ours = {k: kwargs.pop(k) for k in ("name", "grace", "require", "lineage", "socket") if k in kwargs}
    return {**ours, "env": kwargs.get("env"), "cwd": kwargs.get("cwd")}


def _surroundings(run, kwargs):
    """What the process needs besides what the caller gave."""
    env = os.environ if kwargs.get("env") is None else kwargs["env"]
    return {**kwargs, "env": {**env, "LINEAGE_SOCKET": run.socket}}


class Popen(subprocess.Popen):
    """subprocess.Popen, and five options: name, grace (seconds), require (a
    Guarantee), lineage (path of the program) and socket (of the daemon)."""

    def __init__(self, args, **kwargs):
        argv = args
        if kwargs.pop("shell", False):
            argv = ["/bin/sh", "-c", args]
        elif isinstance(args, (str, bytes, os.PathLike)):
            argv = [args]
        if kwargs.get("executable"):
            raise ValueError("executable is not supported: lineage is what is executed")
        self._run = _Run(argv, **_options(kwargs))
        try:
            super().__init__(self._run.argv, **_surroundings(self._run, kwargs))
        except BaseException:
            self._run.abandon()
            raise
        self.args = args  # errors name the caller's command
        self._run.pid = self.pid

    @property
    def guarantee(self):
        return self._run.guarantee

    @property
    def report(self):
        """The receipt: how each process ended. None before wait() has returned."""
        return self._run.report

    def session(self):
        """The session's document, from the daemon. None: the guarantee is SUBREAPER."""
        return self._run.session()

    def end(self):
        """Begin the end of all: SIGTERM, and SIGKILL when the grace is over."""
        if self.returncode is None:
            threading.Thread(target=self._run.end, daemon=True).start()

    def kill(self):
        """Begin the end of all, without a grace."""
        if self.returncode is None:
            threading.Thread(target=self._run.end, args=(True,), daemon=True).start()

    def wait(self, timeout=None):
        code = super().wait(timeout)
        self._run.finish()
        return code

    def communicate(self, input=None, timeout=None):
        try:
            return super().communicate(input, timeout)
        finally:
            if self.returncode is not None:
                self._run.finish()

    def __exit__(self, *exception):
        if self.poll() is None:
            self.end()
        super().__exit__(*exception)
        self._run.finish()


def run(args, *, input=None, capture_output=False, timeout=None, check=False, **kwargs):
    """subprocess.run with the options of Popen. When the time is over, everything
    that the command started is ended."""
    if input is not None:
        kwargs["stdin"] = subprocess.PIPE
    if capture_output:
        kwargs["stdout"] = kwargs["stderr"] = subprocess.PIPE
    with Popen(args, **kwargs) as p:
        try:
            out, err = p.communicate(input, timeout=timeout)
        except BaseException:
            p.kill()
            p.wait()
            raise
    done = subprocess.CompletedProcess(args, p.returncode, out, err)
    done.report = p.report
    if check:
        done.check_returncode()
    return done


class Process:
    """asyncio.subprocess.Process, whose wait() needs no end of file, with the
    methods of Popen. `async with` ends everything at its end."""

    def __init__(self, process, run):
        self._process, self._run = process, run
        self._over = None

    def __getattr__(self, name):  # stdin, stdout, stderr, pid, returncode, send_signal, terminate
        return getattr(self._process, name)

    guarantee = property(lambda self: self._run.guarantee)
    report = property(lambda self: self._run.report)

    async def session(self):
        return await asyncio.to_thread(self._run.session)

    def end(self):
        self._begin(False)

    def kill(self):
        self._begin(True)

    def _begin(self, now):
        if self.returncode is None:
            threading.Thread(target=self._run.end, args=(now,), daemon=True).start()

    async def wait(self):
        if self._over is None:
            self._over = asyncio.ensure_future(self._wait())
        return await asyncio.shield(self._over)

    async def _wait(self):
        """asyncio's own wait() also waits for the end of all pipes."""
        if self.returncode is None:
            loop, gone = asyncio.get_running_loop(), asyncio.Event()
            try:
                fd = os.pidfd_open(self.pid)
            except ProcessLookupError:  # waited for this moment
                fd = None
            if fd is not None:
                loop.add_reader(fd, gone.set)
                try:
                    await gone.wait()
                finally:
                    loop.remove_reader(fd)
                    os.close(fd)
        try:
            await asyncio.wait_for(self._process.wait(), WAIT_DELAY)
        except asyncio.TimeoutError:
            self._process._transport.close()
        await asyncio.to_thread(self._run.finish)
        return self.returncode

    async def communicate(self, input=None):
        out = asyncio.ensure_future(self._process.communicate(input))
        await self.wait()
        return await out

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exception):
        self.end()
        await self.wait()


async def create_subprocess_exec(program, *args, **kwargs):
    """asyncio.create_subprocess_exec with the options of Popen."""
    run = await asyncio.to_thread(lambda options: _Run([program, *args], **options), _options(kwargs))
    try:
        process = await asyncio.create_subprocess_exec(*run.argv, **_surroundings(run, kwargs))
    except BaseException:
        run.abandon()
        raise
    run.pid = process.pid
    return Process(process, run)


async def create_subprocess_shell(command, **kwargs):
    """asyncio.create_subprocess_shell with the options of Popen."""
    return await create_subprocess_exec("/bin/sh", "-c", command, **kwargs)
