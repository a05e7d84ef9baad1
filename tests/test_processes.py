"""What outlives a test is found: by the guard in conftest.py, which looks when all are done."""

import subprocess
import time

import psutil

from processes import CONTEXT, running


def test_a_process_whose_parent_is_gone_is_found() -> None:
    said = subprocess.run(["sh", "-c", "sleep 600 > /dev/null & echo $!"], stdout=subprocess.PIPE, check=True)
    orphan = psutil.Process(int(said.stdout))
    try:
        assert orphan not in psutil.Process().children(recursive=True)
        assert running()[orphan] == "sleep 600"
    finally:
        orphan.kill()


def test_what_python_forks_is_found_and_the_server_that_forks_it_is_not() -> None:
    process = CONTEXT.Process(target=time.sleep, args=(600,))
    process.start()
    try:
        found = running()
        assert process.pid in {one.pid for one in found}
        assert psutil.Process(process.pid).parent() not in found
    finally:
        process.kill()
        process.join()
