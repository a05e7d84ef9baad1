"""What operators begin with fits the server: its flags are known, its files are there, nothing in it is root."""

import re
import tomllib
from pathlib import Path

import yaml

from qkv.cli.serve import settings_in

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def test_the_flags_are_known() -> None:
    assert settings_in(DEPLOY / "serve.toml")["keep"] == "30m"


def test_the_image_has_what_it_copies_and_is_not_root() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    copied = {name for some in copies for name in some}
    for name in copied:
        assert (ROOT / name).exists(), name
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    needed = [*wheel["force-include"], *wheel["packages"], wheel["hooks"]["custom"]["path"]]
    assert {Path(name).parts[0] for name in needed} <= copied, "the wheel could not be built"
    (user,) = (line.split()[1] for line in lines if line.startswith("USER"))
    assert int(user) > 0
    asked = next(line for line in lines if "urlopen" in line)
    (port,) = re.findall(r"127\.0\.0\.1:(\d+)/health", asked)
    assert [line for line in lines if line.startswith("EXPOSE")] == [f"EXPOSE {port}"]
    assert settings_in(DEPLOY / "serve.toml")["port"] == int(port)


def test_the_service_is_read_only_and_finds_its_files() -> None:
    (service,) = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"].values()
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    file, inside, _ = service["volumes"][0].split(":")
    assert (DEPLOY / file).exists()
    last = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").strip().splitlines()[-1]
    assert inside in last
    assert inside in (DEPLOY / "qkv.service").read_text(encoding="utf-8")
