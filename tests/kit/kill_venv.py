"""An interpreter that is this one, with ``kill_point`` in every process that it starts."""

from __future__ import annotations

import site
import sys
import sysconfig
from pathlib import Path


def make_interpreter(folder: Path) -> Path:
    """A virtual environment in a folder that sees everything that this interpreter sees; gives its python."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    base = Path(sys.base_exec_prefix) / "bin" / version
    python = folder / "bin" / "python"
    python.symlink_to(base if base.exists() else Path(sys.executable).resolve())
    (folder / "pyvenv.cfg").write_text(f"home = {python.readlink().parent}\n", "utf-8")
    # Folders added in this way have their own .pth files read: an editable installation stays one.
    seen = dict.fromkeys([*site.getsitepackages(), sysconfig.get_path("purelib")])
    lines = [f"import site; site.addsitedir({place!r})" for place in seen]
    kit = str(Path(__file__).parent)
    lines.append(f"import sys; sys.path.append({kit!r}); import kill_point")
    (packages / "kill.pth").write_text("\n".join(lines) + "\n", "utf-8")
    return python
