/**
 * A training script that attempts a stranger's attacks: reading the control plane's files, reaching its port, ending
 * it, filling the computer, and staying. Real Python, for a real svc-cloud; it harms only what its arguments name, and
 * every attempt is bounded.
 *
 * `python3 -m model.training --attempt=NAME,NAME …`; its setup.py is hostile code as well.
 */

/** The facts about its surroundings, as the arguments of its job. */
export interface Surroundings {
  /** Where svc-cloud keeps everything. */
  readonly data: string;
  readonly server_pid: string;
  readonly port: string;
  /** A word in the command lines of processes that outlive the job. */
  readonly mark: string;
}

/** Attempts that print `LEAK …` for all their loot, and then end with a model: there must be no leak. */
export const QUIET_ATTEMPTS = ["read", "reach", "signal", "link", "daemon", "privileges"] as const;

/** Attempts that use more than the job's share; the job is to fail, for this reason. */
export const LOUD_ATTEMPTS = {
  fork: /./,
  memory: /of memory|MemoryError|was ended/,
  memory_of_many: /of memory/,
  disk: /to its folder|File too large/,
  files: /files, wanted/,
  cpu: /of processor time/,
} as const;

export type Attempt = typeof QUIET_ATTEMPTS[number] | keyof typeof LOUD_ATTEMPTS;

/** The module `model.training`. */
export const HOSTILE_SCRIPT = `
import argparse, ctypes, glob, json, os, signal, socket, stat, subprocess, sys, time

parser = argparse.ArgumentParser()
for name in ("dataset_file", "model_output_directory", "attempt", "data", "server_pid", "port", "mark"):
    parser.add_argument("--" + name, default="")
a = parser.parse_args()

def leak(*words):
    print("LEAK", *words, flush=True)

def tried(what, run):
    try:
        found = run()
        if found:
            leak(what, str(found)[:200])
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        print("refused", what, error, flush=True)

def head(path):
    with open(path, "rb") as file:
        return file.read(60)

def write(path):
    with open(path, "wb") as file:
        return file.write(b"hostile")

def read():
    tried("the list of the data folder", lambda: os.listdir(a.data))
    for name in ("cloud.db", "cloud.db-wal", "signing.key", "token.key", "keys.json", "files", "training"):
        path = os.path.join(a.data, name)
        tried(path, lambda: os.listdir(path) if os.path.isdir(path) else head(path))
    for pid in {a.server_pid, str(os.getppid()), "1", *(os.path.basename(p) for p in glob.glob("/proc/[0-9]*"))}:
        if int(pid) == os.getpid():
            continue
        for what in ("environ", "root", "cwd", "fd", "mem"):
            path = "/proc/%s/%s" % (pid, what)
            def look():
                found = os.listdir(path + "/") if os.path.isdir(path) else head(path)
                own = os.listdir("/") if what == "root" else os.listdir(".") if what == "cwd" else None
                if what == "fd":
                    found = [os.readlink(os.path.join(path, fd)) for fd in found]
                    return [at for at in found if "cloud" in at]
                if what == "environ":
                    return found if b"SVC_" in found or b"SSH_" in found else None
                return None if found == own else found
            tried(path, look)
    for path in ("/etc/shadow", "/etc/passwd", "/home", "/root/.ssh", "/root/.bash_history", "/var/log"):
        tried(path, lambda: os.listdir(path) if os.path.isdir(path) else head(path))
    for path in ("/usr/x", "/etc/x", "/dev/x", "/x", "/proc/sys/kernel/core_pattern", os.path.join(a.data, "x"),
                 "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
        tried("write " + path, lambda: write(path))

def reach():
    def connect(host):
        socket.create_connection((host, int(a.port)), timeout=3).close()
        return "connected to port " + a.port
    for host in ("127.0.0.1", "::1", "localhost", socket.gethostname()):
        tried(host, lambda: connect(host))
    tried("the names of hosts", lambda: socket.getaddrinfo("example.com", 80))
    tried("other interfaces", lambda: [n for _, n in socket.if_nameindex() if n != "lo"])

def signals():
    # Its own parent would only be the end of this job.
    for pid in (1, int(a.server_pid)):
        for number in (signal.SIGTERM, signal.SIGKILL):
            def send():
                os.kill(pid, number)
                return "sent"
            tried("signal %d to %d" % (number, pid), send)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, int(a.server_pid), None, None) == 0:
        leak("traces the server")

def link():
    output = a.model_output_directory
    os.symlink(os.path.join(a.data, "cloud.db"), os.path.join(output, "database"))
    os.symlink(a.data, os.path.join(output, "folder"))
    os.symlink("/", os.path.join(output, "root"))
    tried("a hard link", lambda: os.link("/usr/bin/env", os.path.join(output, "hard")))
    tried("a device", lambda: os.mknod(os.path.join(output, "device"), 0o600 | stat.S_IFBLK, os.makedev(8, 0)))
    tried("through a link", lambda: head(os.path.join(output, "database")))

def daemon():
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                null = os.open("/dev/null", os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(null, fd)
                os.execvp("sleep", ["sleep", a.mark])
            os._exit(0)
    time.sleep(0.2)

def privileges():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) == 0:
        leak("makes a user namespace")
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
        leak("mounts")
    if libc.mount(b"none", b"/", None, 32, None) == 0:
        leak("mounts / anew")
    if os.getuid() == 0:
        leak("is root")
    for line in open("/proc/self/status"):
        if line.startswith("Cap") and not line.startswith("CapInh") and int(line.split()[1], 16) != 0:
            leak(line.strip())
        if line.startswith("NoNewPrivs") and line.split()[1] != "1":
            leak(line.strip())
    for path in glob.glob("/usr/bin/*") + glob.glob("/bin/*"):
        if os.path.basename(path) in ("su", "mount", "passwd"):
            tried("uid by " + path, lambda: subprocess.run(
                [path, "-c", "id"], stdin=subprocess.DEVNULL, capture_output=True, timeout=5).returncode == 0)

def fork():
    children = 0
    try:
        while children < 20000:
            if os.fork() == 0:
                signal.pause()
            children += 1
    except OSError as error:
        print("forked", children, error, flush=True)
    if children >= 20000:
        leak("made", children, "processes")
    sys.exit(7)

def memory():
    held = []
    for _ in range(200):
        held.append(bytearray(os.urandom(1) * (64 << 20)))
    leak("took", len(held) * 64, "MiB")

def memory_of_many():
    for _ in range(8):
        if os.fork() == 0:
            # Less than one process may have; a copy of it would be more.
            held = bytearray(100 << 20)
            for at in range(0, len(held), 4096):
                held[at] = 1
            time.sleep(60)
            os._exit(0)
    time.sleep(60)
    leak("took", 8 * 100, "MiB")

def disk():
    block = os.urandom(1 << 20)
    for number in range(40):
        with open("file%d" % number, "wb") as file:
            for _ in range(50):
                file.write(block)
        time.sleep(0.1)
    time.sleep(10)
    leak("wrote 2000 MiB")

def files():
    for number in range(40000):
        os.close(os.open("f%d" % number, os.O_CREAT))
    time.sleep(10)
    leak("made 40000 files")

def cpu():
    for _ in range(4):
        if os.fork() == 0:
            while True:
                pass
    time.sleep(120)
    leak("used 120 s of four processors")

attempts = {"read": read, "reach": reach, "signal": signals, "link": link, "daemon": daemon,
            "privileges": privileges, "fork": fork, "memory": memory, "memory_of_many": memory_of_many,
            "disk": disk, "files": files, "cpu": cpu}
for name in a.attempt.split(",") if a.attempt else []:
    attempts[name]()
with open(os.path.join(a.model_output_directory, "model.txt"), "w") as file:
    file.write("a model")
print("done", a.attempt, flush=True)
`;

/** A setup.py that tries to read the database and to stay while the script is installed. */
export function hostileSetup(data: string, mark: string): string {
  return `
import os, subprocess, sys
from glob import glob
try:
    print("LEAK", os.listdir(${JSON.stringify(data)}), file=sys.stderr, flush=True)
except OSError as error:
    print("refused", error, file=sys.stderr, flush=True)
null = open(os.devnull, "r+")
subprocess.Popen(["sleep", ${
    JSON.stringify(mark)
  }], start_new_session=True, stdin=null, stdout=null, stderr=null)
from setuptools import setup
setup(name="script", version="1", packages=["model"])
`;
}
