"""The examples of docs/scale.md, on the programs that they are for: a job array on Slurm, an actor of Ray Data."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit import Result

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
RAY = ROOT / "build" / "ray" / "bin" / "python"
DOCS = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
CPUS = 8  # that the cluster says it has: jobs ask for four
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
SlurmctldPort={first}
SlurmdPort={second}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus}
PartitionName=all Nodes=ALL Default=YES
"""


def example(word: str) -> str:
    """The code block of the page that has a word in it."""
    [found] = [block for block in re.findall(r"^```\w*\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL) if word in block]
    return found


@pytest.fixture
def work(tmp_path: Path, model: Path) -> Path:
    """A folder as the examples expect it: `model` and 500 lines of `big.en`."""
    (tmp_path / "model").symlink_to(model)
    lines = [" ".join(str(number).rjust(3, "0")) for number in range(500)]
    (tmp_path / "big.en").write_text("\n".join(lines) + "\n")
    return tmp_path


def translated(work: Path, environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "qkv", "translate", "big.en", "--model", "model"]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, check=True, timeout=300)
    return done.stdout.decode()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Slurm of one host, this one; what must be in the environment of who uses it."""
    if os.geteuid() or not all(map(shutil.which, PROGRAMS)):
        pytest.skip("needs Slurm (Debian's slurm-wlm and munge) and root")
    place = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (place / name).mkdir()
    (place / "key").write_bytes(os.urandom(1024))
    (place / "key").chmod(0o600)
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        first, second = one.getsockname()[1], other.getsockname()[1]
    host = socket.gethostname().partition(".")[0]
    config = place / "slurm.conf"
    config.write_text(CONFIG.format(host=host, place=place, first=first, second=second, cpus=CPUS))
    environment = {**os.environ, "SLURM_CONF": str(config)}
    files = {"socket": "munge.socket", "key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
    daemons = [
        ["munged", "--foreground", "--force", *(f"--{flag}={place / name}" for flag, name in files.items())],
        ["slurmctld", "-D"],
        ["slurmd", "-D"],
    ]
    running = []
    try:
        for command in daemons:
            running.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
            time.sleep(2)
        yield environment
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(60)


def test_a_job_array_of_slurm(work: Path, cluster: dict[str, str], environment: dict[str, str]) -> None:
    script = example("--array=1-64")
    (work / "parts.sh").write_text(script)
    paths = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["sbatch", "--wait", "--output", "job.%a.log", "parts.sh"]
    done = subprocess.run(command, cwd=work, env={**cluster, **paths}, capture_output=True, text=True, timeout=550)
    result = Result(done.returncode, done.stdout, done.stderr)
    logs = "".join(path.read_text() for path in work.glob("job.*.log"))
    assert result.code == 0, result.err + logs
    parts = [(work / "out" / f"big.de.{number}").read_text() for number in range(1, 65)]
    assert "".join(parts) == translated(work, environment)


def test_an_actor_of_ray_data(work: Path, environment: dict[str, str]) -> None:
    if not RAY.exists():
        pytest.skip("needs ray in an environment of its own: make build/ray/ready")
    [packages] = RAY.parents[1].glob("lib/python*/site-packages")
    found = [sysconfig.get_path("purelib"), str(ROOT / "src")]
    (packages / "qkv_of_this_checkout.pth").write_text("\n".join(found) + "\n")
    code = example("import qkv, ray").replace("concurrency=8", "concurrency=1")
    done = subprocess.run(
        [RAY, "-c", code],
        cwd=work,
        env={**environment, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    rows = [json.loads(line) for path in (work / "big.de").glob("*.json") for line in path.read_text().splitlines()]
    lines = (work / "big.en").read_text().splitlines()
    expected = dict(zip(lines, translated(work, environment).splitlines(), strict=True))
    assert {row["text"]: row["translation"] for row in rows} == expected
