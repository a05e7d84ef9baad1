"""What pip runs when it installs qkv: the native engine is built where a C++ compiler is, and left out elsewhere."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeHook(BuildHookInterface):
    """An editable install finds the library beside the Python files; a wheel carries it, for every Python 3."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(Path(__file__).parent))
        from build import OUT, build  # native/build.py

        sys.path.pop(0)
        try:
            build()
        except OSError as error:
            self.app.display_warning(f"the native engine is left out, and slower ones will be used: {error}")
            return
        from packaging.tags import platform_tags

        build_data["artifacts"].append(str(OUT.relative_to(self.root)))
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{next(iter(platform_tags()))}"
