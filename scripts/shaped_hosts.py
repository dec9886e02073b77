#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs MPI ranks on several hosts that are network namespaces of this machine, joined by links of a set rate.

Usage: shaped_hosts.py [--hosts N] [--ranks-per-host R] [--mbit RATE] COMMAND...     RATE 0: links are not shaped
       shaped_hosts.py --possible         exit code 0 when this machine allows it, with the reason on stderr otherwise

Example: shaped_hosts.py --mbit 200 build/release/bin/tessera bench comm --sizes 16MB --link-mbit 200

COMMAND runs under mpirun, ranks in the order of hosts, over TCP only: nothing crosses between hosts but what their
links carry. Host i has core i when there are as many cores as hosts. All of it lives in namespaces of its own (user,
mount, process, network): root is not needed where users may have them, and the kernel takes everything back when the
script ends, however it ends.
"""
import argparse
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

INSIDE = "TESSERA_SHAPED_HOSTS"  # in the environment of the part that runs inside the namespaces
NEEDED = ("unshare", "ip", "tc", "mpirun", "taskset")
NETWORK = "10.77.0"
# A token bucket has to hold what passes between two ticks of the kernel's clock; 64 KiB is one large TCP segment.
SHAPING = "tbf rate {mbit}mbit burst 256kb limit 4mb"


def address(host):
    return f"{NETWORK}.{host + 1}"


def sh(command):
    subprocess.run(command.split(), check=True)


def make_hosts(count, mbit):
    """Namespaces host0, host1, ... on one bridge; each host's link is shaped in both directions."""
    sh("mount -t tmpfs tmpfs /run")
    sh("ip link set lo up")
    sh("ip link add bridge type bridge")
    sh("ip link set bridge up")
    for host in range(count):
        sh(f"ip netns add host{host}")
        sh(f"ip link add port{host} type veth peer name eth0 netns host{host}")
        sh(f"ip link set port{host} master bridge up")
        sh(f"ip -n host{host} addr add {address(host)}/24 dev eth0")
        sh(f"ip -n host{host} link set lo up")
        sh(f"ip -n host{host} link set eth0 up")
        if mbit:
            sh(f"tc qdisc add dev port{host} root " + SHAPING.format(mbit=mbit))
            sh(f"tc -n host{host} qdisc add dev eth0 root " + SHAPING.format(mbit=mbit))


def enter(host, hosts):
    """The words before a command that put it on a host."""
    cores = sorted(os.sched_getaffinity(0))
    pin = f"taskset -c {cores[host]} " if len(cores) >= hosts else ""
    return f"ip netns exec host{host} unshare --uts {pin}".split() + ["sh", "-c", f'hostname host{host}; exec "$@"', "sh"]


def run_inside(arguments):
    make_hosts(arguments.hosts, arguments.mbit)
    with tempfile.TemporaryDirectory() as folder:
        # mpirun starts its daemons through this, as it would through ssh.
        agent = Path(folder) / "agent"
        cases = "\n".join(f"{address(host)}) exec {shlex.join(enter(host, arguments.hosts))} sh -c \"$*\" ;;"
                          for host in range(arguments.hosts))
        agent.write_text(f'#!/bin/sh\nhost=$1; shift\ncase "$host" in\n{cases}\nesac\nexit 1\n')
        agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
        hosts = ",".join(f"{address(host)}:{arguments.ranks_per_host}" for host in range(arguments.hosts))
        mpirun = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--host", hosts, "--map-by", "slot",
                  "-n", str(arguments.hosts * arguments.ranks_per_host)]
        for key, value in (("plm_rsh_agent", agent), ("btl", "tcp,self"), ("pml", "ob1"),
                           ("btl_tcp_if_include", f"{NETWORK}.0/24"), ("oob_tcp_if_include", f"{NETWORK}.0/24"),
                           ("orte_keep_fqdn_hostnames", "1")):
            mpirun += ["--mca", key, str(value)]
        return subprocess.run(enter(0, arguments.hosts) + mpirun + arguments.command).returncode


def start(words):
    """Goes on as this script with the words in namespaces of its own. This process becomes the one whose end, by
    whatever signal, ends everything inside."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child",
               "--mount-proc", sys.executable, __file__, *words]
    os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})


def why_not():
    """Why this machine cannot do it; empty when it can."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        return "needs " + ", ".join(missing)
    trial = subprocess.run([sys.executable, __file__, "--mbit", "200", "hostname"], capture_output=True, text=True,
                           timeout=60)
    if trial.returncode != 0 or sorted(trial.stdout.split()) != ["host0", "host1"]:
        return "needs network namespaces and tc tbf: " + " ".join(trial.stderr.split())[-200:]
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks-per-host", type=int, default=1)
    parser.add_argument("--mbit", type=float, default=200)
    parser.add_argument("--possible", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.possible:
        reason = why_not()
        print(reason, file=sys.stderr, end="\n" if reason else "")
        return 1 if reason else 0
    if not arguments.command:
        parser.error("no command to run")
    if os.environ.get(INSIDE):
        return run_inside(arguments)
    start(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
