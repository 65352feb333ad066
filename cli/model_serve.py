"""``duly model serve``: a model file as a server of this machine, set for planner and critic for as long as it runs."""

from __future__ import annotations

import os
from pathlib import Path

from duly.storage.home import Home

from . import exit_codes, model_file, model_setting
from .end_signals import EndSignals
from .layout import labelled
from .local_server import LocalServer, check_library, check_port
from .output import emit, note, say

PROVIDER = "openai"  # what the server speaks, not whose it is
OUTRANKING = ("DULY_MODEL_PLANNER", "DULY_MODEL_CRITIC", "DULY_MODEL_BASE_URL")


def serve(home: Home, named: str, *, port: int, context: int, threads: int, json: bool = False) -> int:
    """Serves in the foreground until Ctrl-C, SIGTERM or the end of the terminal; then status 0.

    Raises ``RequestError`` (``request.model_file``, ``request.model_format``) and ``ModelError`` (``model.extra_missing``,
    ``model.port_taken``, ``model.served``, ``model.setting_kept``, ``model.load_failed``, ``model.server_ended``).
    """
    check_library()
    file = model_file.checked(named)
    name = model_file.name_of(file)
    check_port(port)
    home.prepare()
    with model_setting.serving(home), EndSignals() as wishes:
        note(f"Loading {file.name} ({file.stat().st_size >> 20:,} MiB).")
        server = LocalServer(
            file,
            name,
            port=port,
            context=context,
            threads=threads,
            log=home.run / "model_server.log",
        )
        try:
            ended = not server.wait_ready(wishes)
            if not ended:
                base_url = f"{server.address}/v1"
                with model_setting.written(home, f"{PROVIDER}:{name}", base_url) as setting:
                    _said(server, f"{PROVIDER}:{name}", base_url, setting, json=json)
                    ended = server.wait_end(wishes)
            if not ended:
                raise server.lost()
        finally:
            server.end()
    note("The model server has ended, and its setting is removed.")
    return exit_codes.DONE


def _said(server: LocalServer, model: str, base_url: str, setting: Path, *, json: bool) -> None:
    above = [name for name in OUTRANKING if os.environ.get(name)]
    if json:
        emit(
            {
                "ready": True,
                "base_url": base_url,
                "planner": model,
                "critic": model,
                "setting": str(setting),
                "context": server.context,
                "pid": server.pid,
                "outranked_by": above,
            }
        )
        return
    say(
        [
            *labelled("ready", base_url),
            *labelled("model", f"{model}, for planner and critic, context {server.context:,} tokens"),
            *labelled("setting", f"{setting}; removed when this ends"),
        ]
    )
    if above:
        note(f"{', '.join(above)} is set: a runtime started from such an environment goes by that instead.")
    note("A critic that is the planner's own model sees less; set another where you can. Ctrl-C ends it.")
