"""`regard serve` as a process of its own: it says where it is, answers, and leaves in good order."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2

from export.tiny_runs import language_model

ASKED = dict(prompts="the animal", max_new_tokens=400, num_beams=1, stream=True)


def test_on_sigterm_running_requests_finish_new_ones_hear_503_and_the_exit_code_is_0(tmp_path: Path) -> None:
    language_model(tmp_path / "tiny")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", "serve", str(tmp_path / "tiny"), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        told = server.stdout.readline()
        assert told.startswith("serving tiny on http://127.0.0.1:"), told
        port = int(told.split(":")[2].split(";")[0])
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            assert client.get("/v1/models").json()["models"][0]["name"] == "tiny"
            with client.stream("POST", "/v1/generate", json=ASKED) as running:
                lines = running.iter_lines()
                first = next(lines)
                server.send_signal(signal.SIGTERM)
                refused = client.post("/v1/generate", json=ASKED)
                parts = [line for line in (first, *lines) if line]
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert "about to stop" in refused.json()["error"]["message"]
        assert len(parts) > 100
        assert "result" in json.loads(parts[-1].removeprefix("data: "))
        _, errors = server.communicate(timeout=60)
        assert (server.returncode, errors) == (0, "")
    finally:
        server.kill()
        server.wait(60)
